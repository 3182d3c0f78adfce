#!/bin/sh
# 10,000 random scenarios for the engine.
exec "$BUILD/tests/sim" 10000 100000
