#!/bin/sh
# schemathesis against the server, loopback only: requests made of docs/openapi.json, good ones and bad ones; once the
# program and once the one with sanitizers. The model is a tiny one with random weights.
#   FFWD the program, ASAN_FFWD the other, PYTHON one that has tools/requirements.txt
cd "$(dirname "$0")/../.." || exit 1
: "${BUILD:=build}" "${ASAN_FFWD:=build/asan/ffwd}"
. tests/lib/needs.sh
fail_without openapi "$FFWD" "$ASAN_FFWD" "$PYTHON"
with=$(BUILD=$BUILD tests/clients/packages.sh python openapi tests/openapi/requirements.txt) || exit 1
"$PYTHON" -B tests/golden/tiny_gguf.py "$BUILD/tiny" || exit 1
exec "$with" -B tests/openapi/fuzz.py "$BUILD/tiny/smollm2.gguf" "$FFWD" "$ASAN_FFWD"
