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
venv=$BUILD/venv-openapi wants=tests/openapi/requirements.txt
if ! [ "$venv/made" -nt "$wants" ]; then
    python3 -m venv "$venv" && "$venv/bin/python" -m pip install --quiet -r "$wants" && touch "$venv/made" || exit 1
fi
"$PYTHON" -B tests/golden/tiny_gguf.py "$BUILD/tiny" || exit 1
exec "$venv/bin/python" -B tests/openapi/fuzz.py "$BUILD/tiny/smollm2.gguf" "$FFWD" "$ASAN_FFWD"
