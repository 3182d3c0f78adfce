#!/bin/sh
# lm-eval, unmodified: a small task of its own data through /v1/completions. Loopback only, but for what pip fetches.
#   FFWD the program, SMOLLM2 the model file, BUILD where its environment is made
cd "$(dirname "$0")/../.." || exit 1
: "${FFWD:=build/ffwd}" "${SMOLLM2:=$HOME/.cache/ffwd/models/SmolLM2-135M-Instruct.Q4_1.gguf}"
export FFWD SMOLLM2
for f in "$FFWD" "$SMOLLM2"; do
    if ! [ -e "$f" ]; then
        echo "lm-eval: there is no $f"
        exit 1
    fi
done
python=$(tests/clients/packages.sh python lm-eval tests/lm-eval/requirements.txt) || exit 1
exec "$python" -B -m pytest -q -p no:cacheprovider --rootdir tests/lm-eval tests/lm-eval "$@"
