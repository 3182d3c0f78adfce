#!/usr/bin/env python3
"""Sizes of files and functions. tools/exceptions.txt names what may be larger, and why."""
import os
import re
import sys

import source

FILE_WARN, FILE_FAIL, HEADER_FAIL = 600, 800, 300
FUNC_WARN, FUNC_FAIL, COMPLEXITY_FAIL = 60, 100, 25


def exceptions(root):
    """Lines `path` or `path:function`, then the reason."""
    names = {}
    path = os.path.join(root, "tools/exceptions.txt")
    if os.path.exists(path):
        for line in open(path, encoding="utf-8"):
            name, _, reason = line.strip().partition(" ")
            if name and not name.startswith("#"):
                names[name] = reason.strip()
    return names


def complexity(body):
    return 1 + len(re.findall(r"\b(?:if|for|while|case)\b|&&|\|\||\?", body))


def check(root=source.ROOT, warnings=None):
    problems, excused = [], exceptions(root)
    used = set()
    warnings = [] if warnings is None else warnings

    def judge(name, text, fails):
        if not fails:
            warnings.append(text)
        elif name in excused:
            used.add(name)
        else:
            problems.append(text)

    for path in source.files(root, ".c", ".h"):
        if "/gen/" in path:
            continue
        text = source.read(root, path)
        lines = text.count("\n")
        is_header = path.endswith(".h") and not path.startswith("src/kern/simd/")  # those hold code
        limit = HEADER_FAIL if is_header else FILE_FAIL
        if lines > limit:
            judge(path, f"{path}: {lines} lines (limit {limit})", True)
        elif not is_header and lines > FILE_WARN:
            judge(path, f"{path}: {lines} lines (aim for under {FILE_WARN})", False)
        if not path.startswith(("src/", "include/", "examples/")):
            continue
        for name, first, last, body in source.functions(source.strip_c(text)):
            length, branches = last - first + 1, complexity(body)
            key = f"{path}:{name}"
            if length > FUNC_FAIL:
                judge(key, f"{path}:{first}: {name}() has {length} lines (limit {FUNC_FAIL})", True)
            elif length > FUNC_WARN:
                judge(key, f"{path}:{first}: {name}() has {length} lines (aim for under {FUNC_WARN})", False)
            if branches > COMPLEXITY_FAIL:
                judge(key, f"{path}:{first}: {name}() has complexity {branches} (limit {COMPLEXITY_FAIL})", True)
    for name, reason in excused.items():
        if not reason:
            problems.append(f"tools/exceptions.txt: {name} has no reason")
        if name not in used:
            problems.append(f"tools/exceptions.txt: {name} needs no exception any more")
    return problems


if __name__ == "__main__":
    warned = []
    found = check(warnings=warned)
    print("\n".join(["warning: " + w for w in warned] + found))
    sys.exit(bool(found))
