#!/bin/sh
# Builds what ffwd is compared with, if it is not there yet, then measures and rewrites bench/RESULTS.md. See bars.py.
set -eu
here=$(dirname "$0")
"$here/peers.sh" >/dev/null
exec "${PYTHON:-python3}" "$here/bars.py" "$@"
