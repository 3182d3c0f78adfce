#!/bin/sh
# The real models against their recordings. Needs build/ffwd and the models in the user's cache; Python's library only.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/golden/real.py "${FFWD:-build/ffwd}"
