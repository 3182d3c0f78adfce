#!/bin/sh
# The AI SDK (`ai`, from npm), unmodified, through three of its providers. Loopback only, but for what pip and npm fetch.
#   FFWD the program, SMOLLM2 the model file, BUILD where the packages are
cd "$(dirname "$0")/../.." || exit 1
: "${BUILD:=build}"
. tests/lib/needs.sh
fail_without ai-sdk "$FFWD" "$SMOLLM2"
node=$(tests/clients/packages.sh node) && packages=$(tests/clients/packages.sh npm ai-sdk tests/ai-sdk) || exit 1
FFWD=$(realpath "$FFWD") SMOLLM2=$(realpath "$SMOLLM2")
export FFWD SMOLLM2
# A module finds its packages in its own folder, or one above.
cp tests/ai-sdk/*.js "$packages/" && cd "$packages" || exit 1
exec "$node" --test --test-timeout=60000 --test-reporter=spec --test-reporter-destination=stdout \
    --test-reporter=./counts.js --test-reporter-destination=stdout "$@" ./ai.test.js
