#!/bin/sh
# The server under load with a real model, as far as it holds by count and not by the clock. Loopback only, about 15 s.
#   FFWD the program, PYTHON one that has tools/requirements.txt, SMOLLM2 the model file; another tier as the argument
cd "$(dirname "$0")/../.." || exit 1
: "${FFWD:=build/ffwd}" "${PYTHON:=build/venv/bin/python}" "${SMOLLM2:=$HOME/.cache/ffwd/models/SmolLM2-135M-Instruct.Q4_1.gguf}"
export FFWD SMOLLM2
for f in "$FFWD" "$PYTHON" "$SMOLLM2"; do
    if ! [ -e "$f" ]; then
        echo "note: load tests skipped, there is no $f"
        echo "load: 0 passed, 0 failed, 1 skipped"
        exit 0
    fi
done
exec "$PYTHON" -B tests/load/load.py "${1:-short}"
