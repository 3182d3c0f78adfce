#!/bin/sh
# The same for minutes, and what needs a clock: how long others wait while a long prompt arrives. See run.sh.
exec "$(dirname "$0")/run.sh" long
