#!/bin/sh
# Every schema of the suite and of bfcl-eval, 20 texts each.
SCHEMA_TEST="--samples 20" exec "$(dirname "$0")/run.sh"
