#!/bin/sh
# schemathesis against the server, loopback only: requests made of docs/openapi.json, good ones and bad ones; once the
# program and once the one with sanitizers. The model is a tiny one with random weights.
#   FFWD the program, ASAN_FFWD the other, PYTHON one that has tools/requirements.txt
cd "$(dirname "$0")/../.." || exit 1
: "${BUILD:=build}" "${FFWD:=build/ffwd}" "${ASAN_FFWD:=build/asan/ffwd}" "${PYTHON:=build/venv/bin/python}"
for f in "$FFWD" "$ASAN_FFWD" "$PYTHON"; do
    if ! [ -e "$f" ]; then
        echo "openapi: there is no $f"
        exit 1
    fi
done
with=$(BUILD=$BUILD tests/clients/packages.sh python openapi tests/openapi/requirements.txt) || exit 1
"$PYTHON" -B tests/golden/tiny_gguf.py "$BUILD/tiny" || exit 1
exec "$with" -B tests/openapi/fuzz.py "$BUILD/tiny/smollm2.gguf" "$FFWD" "$ASAN_FFWD"
