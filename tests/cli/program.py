"""Runs the tests of the program: contracts.py, costs.py, packed.py, pull.py, cache.py, fit.py, quantize.py, replay.py,
then invariance.py.

`program.py WORD ...` runs those whose name has it.
"""
import os
import sys
import time

import cache
import contracts
import costs
import fit
import invariance
import kit
import packed
import pull
import quantize
import replay


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    if not os.access(kit.FFWD, os.X_OK):
        sys.exit(f"tests/cli: {kit.FFWD} is not built")
    modules = (contracts, costs, packed, pull, cache, fit, quantize, replay)
    tests = sum((kit.tests_of(m) for m in modules), []) + invariance.tests()
    words = sys.argv[1:]
    tests = [t for t in tests if not words or any(w in t.__name__ for w in words)]
    invariance.say_levels()
    for test in tests:
        start = time.monotonic()
        kit.run_all([test])
        print(f"{time.monotonic() - start:6.1f} s  {test.__name__}")
    kit.TEMP.cleanup()
    print("cli: {passed} passed, {failed} failed, {skipped} skipped".format(**kit.counts))
    return kit.counts["failed"] != 0


if __name__ == "__main__":
    sys.exit(main())
