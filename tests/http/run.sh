#!/bin/sh
# The server over HTTP with a real model: official client, wrong requests, clients that misbehave. Loopback only.
#   FFWD the program, PYTHON one that has tools/requirements.txt, SMOLLM2 the model file
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/needs.sh
skip_without http "$FFWD" "$PYTHON" "$SMOLLM2"
exec "$PYTHON" -B -m pytest -q --maxfail=5 -p no:cacheprovider --rootdir tests/http tests/http "$@"
