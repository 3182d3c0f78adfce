#!/bin/sh
# Python clients, unmodified, against the server with a real model, loopback only; for `make test-clients`. Each has a file
# here; a suite with packages or a runner of its own is a folder with a clients.sh, as tests/ai-sdk is.
#   FFWD the program, SMOLLM2 the model file, BUILD where the clients' environment is made
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/needs.sh
fail_without clients "$FFWD" "$SMOLLM2"
python=$(tests/clients/packages.sh python clients tests/clients/requirements.txt) || exit 1
exec "$python" -B -m pytest -q --disable-warnings -p no:cacheprovider --rootdir tests/clients tests/clients "$@"
