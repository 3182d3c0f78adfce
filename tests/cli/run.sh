#!/bin/sh
# The program as scripts see it: what each verb prints, how it ends, and that law L1 holds. See program.py.
python=${PYTHON:-build/venv/bin/python}
test -x "$python" || python=python3
exec "$python" -B "$(dirname "$0")/program.py" "$@"
