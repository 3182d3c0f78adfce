#!/bin/sh
# Text cases of every API: request and reply, byte by byte, with a real model. Loopback only. See README.md.
#   FFWD the program, PYTHON one that has tools/requirements.txt, SMOLLM2 the model file
cd "$(dirname "$0")/../.." || exit 1
: "${FFWD:=build/ffwd}" "${PYTHON:=build/venv/bin/python}" "${SMOLLM2:=$HOME/.cache/ffwd/models/SmolLM2-135M-Instruct.Q4_1.gguf}"
export FFWD SMOLLM2
for f in "$FFWD" "$PYTHON" "$SMOLLM2"; do
    if ! [ -e "$f" ]; then
        echo "note: cases of the APIs skipped, there is no $f"
        echo "api: 0 passed, 0 failed, 1 skipped"
        exit 0
    fi
done
exec "$PYTHON" -B tests/api/run.py "$@"
