#!/bin/sh
# Python clients, unmodified, against the server with a real model, loopback only; for `make test-clients`. Each has a file
# here; a suite with packages or a runner of its own is a folder with a clients.sh, as tests/ai-sdk is.
#   FFWD the program, SMOLLM2 the model file, BUILD where the clients' environment is made
cd "$(dirname "$0")/../.." || exit 1
: "${FFWD:=build/ffwd}" "${SMOLLM2:=$HOME/.cache/ffwd/models/SmolLM2-135M-Instruct.Q4_1.gguf}"
export FFWD SMOLLM2
for f in "$FFWD" "$SMOLLM2"; do
    if ! [ -e "$f" ]; then
        echo "clients: there is no $f"
        exit 1
    fi
done
python=$(tests/clients/packages.sh python clients tests/clients/requirements.txt) || exit 1
exec "$python" -B -m pytest -q --disable-warnings -p no:cacheprovider --rootdir tests/clients tests/clients "$@"
