#!/bin/sh
# Official clients, unmodified, against the server with a real model, loopback only; for `make test-clients`.
#   FFWD the program, SMOLLM2 the model file, BUILD where the clients' environment is made
cd "$(dirname "$0")/../.." || exit 1
: "${BUILD:=build}" "${FFWD:=build/ffwd}" "${SMOLLM2:=$HOME/.cache/ffwd/models/SmolLM2-135M-Instruct.Q4_1.gguf}"
export FFWD SMOLLM2
for f in "$FFWD" "$SMOLLM2"; do
    if ! [ -e "$f" ]; then
        echo "clients: there is no $f"
        exit 1
    fi
done
venv=$BUILD/venv-clients wants=tests/clients/requirements.txt
if ! [ "$venv/made" -nt "$wants" ]; then
    python3 -m venv "$venv" && "$venv/bin/python" -m pip install --quiet -r "$wants" && touch "$venv/made" || exit 1
fi
exec "$venv/bin/python" -B -m pytest -q -p no:cacheprovider --rootdir tests/clients tests/clients "$@"
