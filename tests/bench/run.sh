#!/bin/sh
# The comparison with other engines, against programs that only print what the real ones would. See compare.py.
python=${PYTHON:-build/venv/bin/python}
test -x "$python" || python=python3
exec "$python" -B "$(dirname "$0")/test_compare.py" "$@"
