"""Runs the tests of the program, module by module. `program.py WORD ...` runs those whose name has it."""
import os
import sys
import time

import cache
import chat
import contracts
import costs
import fit
import invariance
import kit
import manuals
import packed
import pull
import quantize
import replay


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    if not os.access(kit.FFWD, os.X_OK):
        sys.exit(f"tests/cli: {kit.FFWD} is not built")
    modules = (contracts, chat, costs, packed, pull, cache, fit, quantize, replay, manuals)
    tests = [t for module in modules for t in kit.tests_of(module)] + invariance.tests()
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
