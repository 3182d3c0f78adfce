#!/bin/sh
# What is compiled for aarch64, on a machine that is none: built by a cross compiler, run by QEMU's user mode emulation.
#
#   1. Every C file of src/ compiles without a warning, and so does every header alone.
#   2. kern_check: NEON's kernels give the bytes of ref, and ref gives there what it gives here.
#   3. forward.c: the logits of the tiny models are the same bits there and here. A processor without dot products is
#      told apart, and there plain C gives the same bits, too.
#   4. The unit tests pass that need neither Rust nor other people's libraries.
set -eu
cd "$(dirname "$0")/../.."
CROSS=aarch64-linux-gnu
HERE=${BUILD:-build} THERE=${BUILD:-build}/aarch64
UNITS="base kv tree model weights weights_refuse sample sample_params"
passed=0 failed=0 skipped=0
unset FFWD_CPU MAKEFLAGS MAKELEVEL || true

end() {
    echo "$passed passed, $failed failed, $skipped skipped"
    exit $((failed > 0))
}

skip() {
    echo "note: skipped: aarch64, emulated: $1"
    skipped=1
    end
}

# ok WHAT COMMAND…: one test.
ok() {
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED: $what"; fi
}

# On an emulated processor of kind $1.
there() {
    cpu=$1
    shift
    qemu-aarch64 -cpu "$cpu" -L /usr/$CROSS "$@"
}

[ "$(uname -m)" != aarch64 ] || skip "this machine is one, and its own tests cover it"
for tool in $CROSS-gcc qemu-aarch64; do
    command -v $tool >/dev/null || skip "$tool is not there (on Debian and Ubuntu \`tools/setup.sh long\` installs it)"
done

# libcurl's headers, the same for all processors, lie among those of this machine.
CC="$CROSS-gcc -idirafter /usr/include/$(gcc -dumpmachine)"
units=
for u in $UNITS; do units="$units $THERE/tests/bare/test_$u"; done
# shellcheck disable=SC2086
make CC="$CC" BUILD="$THERE" CFLAGS="-Itests/cross/include -DXXH_INLINE_ALL=" LIBS_LIB="-lm -lpthread -ldl" objs "$THERE/tests/kern_check" "$THERE/tests/forward" $units || {
    failed=1
    end
}
passed=1
ok "headers that do not compile alone" env CC="$CC" tools/headers.py

out=$THERE/out
mkdir -p "$out"

"$HERE/tests/kern_check" >"$out/kern-here" || true # what is wrong with it, `make test` says
there max "$THERE/tests/kern_check" >"$out/kern" || true
grep -E '^(FAIL|note: kernels, level neon)' "$out/kern" || true
# shellcheck disable=SC2046
set -- $(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$out/kern") 0 1
passed=$((passed + $1)) failed=$((failed + $2))
ok "NEON's kernels are not compared" grep -q '^note: kernels, level neon: [1-9][0-9]* comparisons equal' "$out/kern"
# Of all levels but the emulated one, which takes fewer cases.
for place in kern kern-here; do
    sed -n 's/^digest [a-z0-9]* \([0-9a-f]*\)$/\1/p' "$out/$place" | sort -u >"$out/$place.digest"
done
if [ -s "$out/kern-here.digest" ]; then
    ok "ref gives other bytes there than here" cmp "$out/kern.digest" "$out/kern-here.digest"
else
    echo "note: skipped: ref's bytes there and here: this processor has no level to run kern_check on"
    skipped=1
fi

"$HERE/tests/forward" | sed 1d >"$out/want"
for level in neon ref; do
    cpu=max
    [ $level = neon ] || cpu=cortex-a57
    there $cpu "$THERE/tests/forward" >"$out/$level" || true
    ok "$cpu: $(head -1 "$out/$level"), not $level" grep -q "^$level.*, because the processor" "$out/$level"
    ok "$level: other logits than here" sh -c 'sed 1d "$1" | diff - "$2"' sh "$out/$level" "$out/want"
done
echo "note: aarch64, emulated: logits of $(wc -l <"$out/want") tiny models compared, on NEON and on ref, with those here"

for u in $UNITS; do
    there max "$THERE/tests/bare/test_$u" >"$out/$u" 2>&1 || cat "$out/$u"
    ok "test_$u" grep -q '^\[  PASSED  \]' "$out/$u"
done
end
