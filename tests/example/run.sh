#!/bin/sh
# What an application sees: `make install` into a folder of its own, pkg-config, the example compiled and run.
set -u
cd "$(dirname "$0")/../.." || exit 1
top=$(mktemp -d) || exit 1
trap 'rm -rf "$top"' EXIT
passed=0 failed=0 skipped=0

check() { # what it shows, then a command
    what=$1
    shift
    if "$@" >"$top/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $what"
        cat "$top/out"
    fi
}

config() {
    PKG_CONFIG_PATH=$top/lib/pkgconfig pkg-config "$@" ffwd
}

compile() {
    # shellcheck disable=SC2046
    ${CC:-gcc} -std=c11 -Wall -Wextra -Werror "$1" $(config --cflags --libs) -o "$2"
}

check "make install" make install PREFIX="$top" BUILD="${BUILD:-build}"
check "only public names are global in the library" sh -c \
    "test -z \"\$(nm -g --defined-only '$top/lib/libffwd.a' | awk 'NF == 3 { print \$3 }' | grep -v '^ffwd_')\""
check "the installed program starts" "$top/bin/ffwd" --version
check "its version is pkg-config's" test "$("$top/bin/ffwd" --version)" = "ffwd $(config --modversion)"
check "the example has at most 60 lines" test "$(wc -l <examples/hello.c)" -le 60
check "the example compiles as an application would" compile examples/hello.c "$top/hello"
printf '#include <ffwd.h>\nint main(void) { return ffwd_version()[0] == 0; }\n' >"$top/small.c"
check "the header needs nothing before it" compile "$top/small.c" "$top/small"
check "a library call works" "$top/small"
sed -n 's/^ \*     //p' include/ffwd.h >"$top/fragment.inc"
check "the example in the header compiles" ${CC:-gcc} -std=c11 -Wall -Wextra -Werror -Iinclude -I"$top" \
    tests/example/fragment.c -o "$top/fragment"
check "and writes text that comes with the end" test "$("$top/fragment")" = onetwo
"$top/hello" "$top/nothing.gguf" x >"$top/said" 2>&1
check "a missing model is a failure" test $? -eq 1
check "that names the file" grep -q nothing.gguf "$top/said"
if [ -f "${SMOLLM2:-}" ]; then
    "$top/hello" "$SMOLLM2" "Why is the sky blue?" >"$top/said" 2>"$top/errors"
    check "the example answers" test $? -eq 0
    "$top/bin/ffwd" run -m "$SMOLLM2" -p "Why is the sky blue?" -n 32 >"$top/ran" 2>/dev/null
    check "with the words of ffwd run" test "$(head -n -1 "$top/said")" = "$(grep -v '^\[.* tok/s' "$top/ran")"
else
    skipped=$((skipped + 2))
fi
check "make uninstall leaves nothing" sh -c \
    "make uninstall PREFIX='$top' && test -z \"\$(find '$top/bin' '$top/lib' '$top/include' -type f)\""
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
