#!/bin/sh
# The web page in a real Chromium with a real model, and the vendored libraries beside their packages (npm). Loopback only,
# but for what pip and npm fetch.
#   FFWD the program, SMOLLM2 the model file, CHROMIUM the browser
cd "$(dirname "$0")/../.." || exit 1
: "${FFWD:=build/ffwd}" "${SMOLLM2:=$HOME/.cache/ffwd/models/SmolLM2-135M-Instruct.Q4_1.gguf}"
: "${CHROMIUM:=$(command -v chromium || command -v chromium-browser)}"
export FFWD SMOLLM2 CHROMIUM
for f in "$FFWD" "$CHROMIUM" "$SMOLLM2"; do
    if ! [ -e "$f" ]; then
        echo "web: there is no ${f:-chromium}"
        exit 1
    fi
done
packages=$(tests/clients/packages.sh npm web web) || exit 1
python=$(tests/clients/packages.sh python web tests/web/requirements.txt) || exit 1
NODE_MODULES=$packages/node_modules
export NODE_MODULES
exec "$python" -B -m pytest -q --maxfail=5 -p no:cacheprovider --rootdir tests/web tests/web "$@"
