#!/bin/sh
# The server under load with a real model, as far as it holds by count and not by the clock. Loopback only, about 15 s.
#   FFWD the program, PYTHON one that has tools/requirements.txt, SMOLLM2 the model file; another tier as the argument
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/needs.sh
skip_without load "$FFWD" "$PYTHON" "$SMOLLM2"
exec "$PYTHON" -B tests/load/load.py "${1:-short}"
