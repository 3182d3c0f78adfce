#!/bin/sh
# Law L1 through the engine (matrix.c): every combination for every model, ref included for the tiny ones. Pairwise as
# well: prompts that cross the edge of an attention partial (256 keys), and for Gemma that of its window (512).
set -eu
cd "$(dirname "$0")/../.."
. tests/matrix/both.sh
models=
[ -z "${SMOLLM2:-}" ] || models="--full --ref 8 $SMOLLM2 --pairwise --prompt 250 --ref 0 $SMOLLM2"
[ -z "${GEMMA:-}" ] || models="$models --full --prompt 58 --ref 8 $GEMMA --pairwise --prompt 506 --ref 0 $GEMMA"
both "--full tiny --pairwise --prompt 250 tiny" "$models"
