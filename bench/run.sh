#!/bin/sh
# Builds what ffwd is compared with, if it is not there yet, then measures and rewrites bench/RESULTS.md. See peers.sh (the
# sources of the peers) and compare.py (all options). A peer that is not there is named, and no error here.
set -eu
here=$(dirname "$0")
"$here/peers.sh" >/dev/null
"${PYTHON:-python3}" "$here/compare.py" "$@" || test $? -eq 3
