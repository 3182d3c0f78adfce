#!/usr/bin/env python3
"""Runs every check of `make lint`. (Compiler warnings are errors already when the objects are built.)"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import docs  # noqa: E402
import headers  # noqa: E402
import layers  # noqa: E402
import sizes  # noqa: E402
import style  # noqa: E402
import symbols  # noqa: E402


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    warnings, failed = [], 0
    checks = (layers, headers, sizes, style, symbols, docs)
    for module in checks:
        found = module.check(warnings=warnings) if module is sizes else module.check()
        for problem in found:
            print(f"{module.__name__}: {problem}")
        failed += bool(found)
    for warning in warnings:
        print(f"warning: {warning}")
    print(f"lint: {len(checks) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
