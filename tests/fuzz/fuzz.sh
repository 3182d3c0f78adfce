#!/bin/sh
# Runs fuzzers that were built for libFuzzer, those named or all of them: tests/fuzz/fuzz.sh [NAME...] (`make fuzz`).
#
# Each goes on from tests/fuzz/corpus/NAME and from what it found in earlier runs, $BUILD/corpus/NAME. An input that breaks
# something, takes too long or more memory than a gigabyte is kept as $BUILD/NAME-*; its log is $BUILD/NAME.log.
# Leaks are looked for at the end alone: what a server keeps would make libFuzzer look after each input.
set -u
BUILD=${BUILD:-build/fuzz}
passed=0 failed=0
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls ./*.c | sed 's,^./,,; s,\.c$,,')

for name in "$@"; do
    mkdir -p "$BUILD/corpus/$name"
    seconds=10
    case $name in template | grammar) seconds=30 ;; esac # their limits allow a second or two, unsanitized
    if "$BUILD/tests/fuzz_$name" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=$seconds -rss_limit_mb=1024 \
        -detect_leaks=0 -artifact_prefix="$BUILD/$name-" "$BUILD/corpus/$name" "tests/fuzz/corpus/$name" >"$BUILD/$name.log" 2>&1; then
        passed=$((passed + 1))
        echo "ok    $name: $(grep -a '^#.*cov:' "$BUILD/$name.log" | tail -1 | tr -s ' \t' ' ')"
    else
        failed=$((failed + 1))
        echo "FAIL  $name: $BUILD/$name.log"
        grep -a -A25 -m1 -E 'ERROR|runtime error|^tests/.*:[0-9]+: ' "$BUILD/$name.log"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
