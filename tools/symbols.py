#!/usr/bin/env python3
"""Global symbols of each folder's objects start with one of the prefixes that tools/prefixes.txt gives the folder."""
import os
import subprocess
import sys

import source


def prefixes(root):
    """Lines `folder: prefix prefix …`."""
    table = {}
    for line in source.read(root, "tools/prefixes.txt").split("\n"):
        folder, _, names = line.partition(":")
        if folder and not folder.startswith("#"):
            table[folder.strip()] = tuple(names.split())
    return table


def check(root=source.ROOT, build=None):
    build = build or os.environ.get("BUILD", "build")
    table, problems = prefixes(root), []
    every = [p for names in table.values() for p in names]
    problems += [f"tools/prefixes.txt: {p} belongs to two folders" for p in sorted(set(every)) if every.count(p) > 1]
    top = os.path.join(root, build, "obj/src")
    for folder in sorted(os.listdir(top)) if os.path.isdir(top) else []:
        objects = [os.path.join(d, f) for d, _, names in os.walk(os.path.join(top, folder)) for f in names
                   if f.endswith(".o") and os.path.exists(os.path.join(
                       root, "src", os.path.relpath(os.path.join(d, f), top)[:-2] + ".c"))]
        if not objects:
            continue
        out = subprocess.run(["nm", "-A", "-g", "--defined-only", *objects], capture_output=True, text=True).stdout
        for line in out.splitlines():
            where, _, symbol = line.rpartition(" ")
            if not symbol.startswith(table.get(folder, ())):
                path = os.path.relpath(where.split(":")[0], os.path.join(root, build, "obj"))[:-2] + ".c"
                problems.append(f"{path}: global symbol {symbol} has none of the prefixes of {folder}: "
                                f"{' '.join(table.get(folder, ()))}")
    return problems


if __name__ == "__main__":
    found = check()
    print("\n".join(found))
    sys.exit(bool(found))
