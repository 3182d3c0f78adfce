#!/bin/sh
# lm-eval, unmodified: a small task of its own data through /v1/completions. Loopback only, but for what pip fetches.
#   FFWD the program, SMOLLM2 the model file, BUILD where its environment is made
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/needs.sh
fail_without lm-eval "$FFWD" "$SMOLLM2"
python=$(tests/clients/packages.sh python lm-eval tests/lm-eval/requirements.txt) || exit 1
exec "$python" -B -m pytest -q -p no:cacheprovider --rootdir tests/lm-eval tests/lm-eval "$@"
