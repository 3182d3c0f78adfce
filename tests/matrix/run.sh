#!/bin/sh
# Law L1 through the engine (matrix.c): all models pairwise, the tiny ones on ref as well; eight tokens of SmolLM2 on ref.
# long.sh runs the products. The two groups share the machine.
set -eu
cd "$(dirname "$0")/../.."
. tests/matrix/both.sh
models=
[ -z "${SMOLLM2:-}" ] || models="--ref 8 $SMOLLM2"
[ -z "${GEMMA:-}" ] || models="$models --ref 0 $GEMMA"
both "--pairwise tiny" "${models:+--pairwise $models}"
