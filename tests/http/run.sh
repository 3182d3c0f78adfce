#!/bin/sh
# The server over HTTP with a real model: official client, wrong requests, clients that misbehave. Loopback only.
#   FFWD the program, PYTHON one that has tools/requirements.txt, SMOLLM2 the model file
cd "$(dirname "$0")/../.." || exit 1
: "${FFWD:=build/ffwd}" "${PYTHON:=build/venv/bin/python}" "${SMOLLM2:=$HOME/.cache/ffwd/models/SmolLM2-135M-Instruct.Q4_1.gguf}"
export FFWD SMOLLM2
for f in "$FFWD" "$PYTHON" "$SMOLLM2"; do
    if ! [ -e "$f" ]; then
        echo "note: http tests skipped, there is no $f"
        echo "http: 0 passed, 0 failed, 1 skipped"
        exit 0
    fi
done
exec "$PYTHON" -B -m pytest -q --maxfail=5 -p no:cacheprovider --rootdir tests/http tests/http "$@"
