#!/bin/sh
# Random scenarios for the engine, a few hundred of them; tests/sim/long.sh runs 10,000.
exec "$BUILD/tests/sim" 300 1
