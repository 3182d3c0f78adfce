#!/bin/sh
# Text cases of every API: request and reply, byte by byte, with a real model. Loopback only. See README.md.
#   FFWD the program, PYTHON one that has tools/requirements.txt, SMOLLM2 the model file
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/needs.sh
skip_without api "$FFWD" "$PYTHON" "$SMOLLM2"
exec "$PYTHON" -B tests/api/run.py "$@"
