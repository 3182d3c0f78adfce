#!/bin/sh
# The web page in a real Chromium with a real model, and the vendored libraries beside their packages (npm). Loopback only,
# but for what pip and npm fetch.
#   FFWD the program, SMOLLM2 the model file, CHROMIUM the browser
cd "$(dirname "$0")/../.." || exit 1
: "${CHROMIUM:=$(command -v chromium || command -v chromium-browser)}"
export CHROMIUM
. tests/lib/needs.sh
fail_without web "$FFWD" "${CHROMIUM:-chromium}" "$SMOLLM2"
packages=$(tests/clients/packages.sh npm web web) || exit 1
python=$(tests/clients/packages.sh python web tests/web/requirements.txt) || exit 1
NODE_MODULES=$packages/node_modules
export NODE_MODULES
exec "$python" -B -m pytest -q --maxfail=5 -p no:cacheprovider --rootdir tests/web tests/web "$@"
