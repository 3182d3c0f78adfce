#!/bin/sh
# How many instructions a step takes, against the budgets in budgets.txt; about 30 s. `run.sh --renew` writes them anew.
#   FFWD the program, PYTHON one that has numpy, SMOLLM2 the model file. See guard.py
cd "$(dirname "$0")/../.." || exit 1
: "${PYTHON:=build/venv/bin/python}" "${SMOLLM2:=$HOME/.cache/ffwd/models/SmolLM2-135M-Instruct.Q4_1.gguf}"
[ -e "$SMOLLM2" ] || SMOLLM2=
export SMOLLM2
[ -x "$PYTHON" ] || PYTHON=python3
exec "$PYTHON" -B tests/guard/guard.py "$@"
