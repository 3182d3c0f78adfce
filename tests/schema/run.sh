#!/bin/sh
# Schemas: what is written for them is valid (run.py). A part of them here; tests/schema/long.sh takes all.
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
if [ -z "${SMOLLM2:-}" ]; then
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
sample=$build/schema_sample
${CC:-gcc} -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Isrc -o "$sample" tests/schema/sample.c -Wl,--gc-sections \
    -Wl,--start-group "$build/libffwd.a" build/shim/release/libffwd_shim.a -Wl,--end-group \
    -lxxhash -lm -lpthread -ldl -ljansson
export PYTHONDONTWRITEBYTECODE=1
# shellcheck disable=SC2086
exec "${PYTHON:-python3}" tests/schema/run.py "$sample" "$SMOLLM2" ${SCHEMA_TEST:---samples 6 --tools 12}
