#!/usr/bin/env python3
"""Who may include whom: checks every #include under src/ against the tables of docs/architecture.md.

A file may include its own folder's headers, the public header `<folder>/<folder>.h` of the folders its row names (of
`base` every header), libc, and those outside headers whose row names its folder.
"""
import re
import sys

import source

DOC = "docs/architecture.md"


def words(cell):
    return set(re.findall(r"[a-z]+", cell))


def tables(text):
    """(folder -> allowed folders, (folder, file) -> allowed in addition, outside header pattern -> folders)."""
    allowed, extra, outside = {}, {}, {}
    for line in text.split("\n"):
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        name = re.fullmatch(r"`([\w./*]+)`", cells[0])
        if not line.startswith("|") or not name:
            continue
        if len(cells) == 3 and re.fullmatch(r"[a-z]+", name.group(1)):
            folder, cell = name.group(1), cells[2]
            for file, more in re.findall(r"`([\w.]+)` also ([a-z, ]+)", cell):
                extra[folder, file] = words(more)
            allowed[folder] = words(cell.split(";")[0]) - {"libc"}
        elif len(cells) == 2 and name.group(1).endswith(".h"):
            outside[name.group(1)] = words(cells[1])
    return allowed, extra, outside


def outside_owner(header, outside):
    for pattern, folders in outside.items():
        if re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), header):
            return folders
    return None


def check(root=source.ROOT):
    problems = []
    allowed, extra, outside = tables(source.read(root, DOC))
    for path in source.files(root, ".c", ".h"):
        if not path.startswith("src/"):
            continue
        folder, file = path.split("/")[1], path.split("/")[-1]
        if folder not in allowed:
            problems.append(f"{path}: folder `{folder}` has no row in {DOC}")
            continue
        may = allowed[folder] | extra.get((folder, file), set())
        for n, line in enumerate(source.read(root, path).split("\n"), 1):
            m = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not m:
                continue
            header = m.group(2)
            owners = outside_owner(header, outside)
            if owners is not None:
                if folder not in owners:
                    problems.append(f"{path}:{n}: {header} belongs to {', '.join(sorted(owners))}")
                continue
            if m.group(1) == "<":
                continue
            other, _, rest = header.partition("/")
            if other == folder:
                continue
            if not rest or other not in allowed:
                problems.append(f'{path}:{n}: "{header}" is not <folder>/<header> below src/')
            elif "any" not in may and other not in may:
                problems.append(f"{path}:{n}: {folder} may not include {other}")
            elif other != "base" and rest != other + ".h":
                problems.append(f"{path}:{n}: {header} is private to {other}; include {other}/{other}.h")
    return problems


if __name__ == "__main__":
    found = check()
    print("\n".join(found))
    sys.exit(bool(found))
