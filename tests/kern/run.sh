#!/bin/sh
# A cache in f16 costs no more instructions than one in f32, which is read without being converted: half the memory traffic
# is then a gain on every machine. Counted by callgrind over attention alone, at AVX2, which it can run.
set -eu
cd "$(dirname "$0")/../.."
command -v valgrind >/dev/null || {
    echo "note: f16 against f32 KV: valgrind is not here to count instructions"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
grep -q avx2 /proc/cpuinfo || {
    echo "note: f16 against f32 KV: this processor has no AVX2"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

instructions() {
    FFWD_CPU=avx2 valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=simd_attn \
        "${BUILD:-build}/tests/kern_check" "--once=$1" 2>&1 | sed -n 's/.*Collected : *//p'
}

f16=$(instructions f16) f32=$(instructions f32)
echo "attention of 3 heads over 2,048 keys: ${f16:-no count} instructions with f16, ${f32:-no count} with f32"
if [ "${f16:-0}" -gt 100000 ] && [ "${f32:-0}" -gt 100000 ] && [ "$f16" -le "$f32" ]; then
    echo "1 passed, 0 failed"
else
    echo "0 passed, 1 failed"
    exit 1
fi
