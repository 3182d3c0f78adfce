#!/bin/sh
# schemathesis against the server, loopback only: requests made of docs/openapi.json, good ones and bad ones; once the
# program and once the one with sanitizers. The model is a tiny one with random weights.
#   FFWD the program, ASAN_FFWD the other, PYTHON one that has tools/requirements.txt, SMOLLM2 whose vocabulary it is
cd "$(dirname "$0")/../.." || exit 1
: "${BUILD:=build}" "${FFWD:=build/ffwd}" "${ASAN_FFWD:=build/asan/ffwd}" "${PYTHON:=build/venv/bin/python}"
: "${SMOLLM2:=$HOME/.cache/ffwd/models/SmolLM2-135M-Instruct.Q4_1.gguf}"
for f in "$FFWD" "$ASAN_FFWD" "$PYTHON" "$SMOLLM2"; do
    if ! [ -e "$f" ]; then
        echo "openapi: there is no $f"
        exit 1
    fi
done
venv=$BUILD/venv-openapi wants=tests/openapi/requirements.txt model=$BUILD/openapi.gguf
if ! [ "$venv/made" -nt "$wants" ]; then
    python3 -m venv "$venv" && "$venv/bin/python" -m pip install --quiet -r "$wants" && touch "$venv/made" || exit 1
fi
"$PYTHON" tools/synth_model.py --like "$SMOLLM2" --out "$model" --types q8_0 --layers 1 --width 256 --heads 4 --kv-heads 2 \
    --ffn 256 --context 512 || exit 1
exec "$venv/bin/python" -B tests/openapi/fuzz.py "$model" "$FFWD" "$ASAN_FFWD"
