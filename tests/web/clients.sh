#!/bin/sh
# The web page in a real Chromium with a real model, and the vendored libraries beside their packages (npm). Loopback only,
# but for what pip and npm fetch.
#   FFWD the program, SMOLLM2 the model file, CHROMIUM the browser
cd "$(dirname "$0")/../.." || exit 1
: "${FFWD:=build/ffwd}" "${SMOLLM2:=$HOME/.cache/ffwd/models/SmolLM2-135M-Instruct.Q4_1.gguf}"
: "${CHROMIUM:=$(command -v chromium || command -v chromium-browser)}"
export FFWD SMOLLM2 CHROMIUM
for tool in "$CHROMIUM" "$(command -v npm)" "$SMOLLM2"; do
    if ! [ -e "$tool" ]; then
        echo "the page's tests need chromium, npm and the model SmolLM2"
        exit 1
    fi
done
venv=build/venv-web
if ! [ "$venv/done" -nt tests/web/requirements.txt ]; then
    python3 -m venv $venv && $venv/bin/python -m pip install --quiet -r tests/web/requirements.txt || exit 1
    touch $venv/done
fi
mkdir -p build/web-packages && cp web/package.json web/package-lock.json build/web-packages/ \
    && npm ci --prefix build/web-packages --ignore-scripts --no-audit --no-fund --silent || exit 1
exec $venv/bin/python -B -m pytest -q --maxfail=5 -p no:cacheprovider --rootdir tests/web tests/web "$@"
