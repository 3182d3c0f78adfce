#!/bin/sh
# The tests of src/text that need real vocabularies and templates. Prints one closing line for all of them.
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
python=${PYTHON:-python3}
# Templates tell the local time.
export BUILD PYTHON TZ=UTC
corpus=$("$python" tests/text/fetch_corpus.py)
probe=$build/text_probe rows=$build/rows_probe
for one in "$probe tests/text/probe.c" "$rows tests/text/rows.c"; do
    # shellcheck disable=SC2086
    ${CC:-gcc} -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Isrc -o $one -Wl,--gc-sections \
        -Wl,--start-group "$build/libffwd.a" build/shim/release/libffwd_shim.a -Wl,--end-group \
        -lxxhash -lm -lpthread -ldl -ljansson
done
export PYTHONDONTWRITEBYTECODE=1
passed=0 failed=0
for part in "vocabs.py $probe $corpus" "templates.py $probe $corpus" "marks.py $probe $corpus" "formats.py $probe $corpus" \
    "rows.py $rows $corpus" "header.py"; do
    out=$("$python" tests/text/$part) || true
    echo "$out"
    last=$(echo "$out" | grep -E '^[0-9]+ passed, [0-9]+ failed' | tail -1)
    passed=$((passed + $(echo "${last:-0 passed, 1 failed}" | cut -d' ' -f1)))
    failed=$((failed + $(echo "${last:-0 passed, 1 failed}" | cut -d' ' -f3)))
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
