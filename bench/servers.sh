#!/bin/sh
# Builds the server that ffwd's is compared with, if it is not there yet, then measures and rewrites bench/SERVERS.md.
# IK_SOURCE names the source of ik_llama.cpp (peers.sh); BENCH_QUICK=1 only tries whether everything works. See servers.py.
set -eu
here=$(dirname "$0")
"$here/peers.sh" >/dev/null
exec "${PYTHON:-python3}" "$here/servers.py" "$@"
