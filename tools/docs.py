#!/usr/bin/env python3
"""The documents against the tree: functions named in docs/walk.md are defined, links between documents lead somewhere,
and NOTICES.md names every crate of shim/Cargo.lock and every library of web/package-lock.json that is shipped."""
import json
import os
import re
import sys

import source

WALK = "docs/walk.md"


def defined(root):
    """file -> names of the functions defined in it, for C (column 0, our style) and Rust."""
    names = {}
    for path in source.files(root, ".c", ".rs"):
        text = source.read(root, path)
        if path.endswith(".rs"):
            names[path] = set(re.findall(r"\bfn (\w+)", text))
        else:
            names[path] = {name for name, *_ in source.functions(source.strip_c(text))}
    return names


def check_walk(root):
    if not os.path.exists(os.path.join(root, WALK)):
        return [f"{WALK} is missing"]
    by_file, problems = defined(root), []
    everywhere = set().union(*by_file.values())
    for n, line in enumerate(source.read(root, WALK).split("\n"), 1):
        problems += [f"{WALK}:{n}: there is no function {name}()" for name in re.findall(r"`(\w+)\(\)`", line)
                     if name not in everywhere]
        stop = re.match(r"\|[^|]*\| `(\w+)\(\)` \| `(src/[\w./]+)` \|", line)
        if stop and stop.group(1) not in by_file.get(stop.group(2), ()):
            problems.append(f"{WALK}:{n}: {stop.group(1)}() is not in {stop.group(2)}")
    return problems


def check_links(root):
    problems = []
    for path in source.committed(root):
        if not path.endswith(".md") or path == "NOTICES.md":
            continue
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", source.read(root, path)):
            if "://" not in target and not os.path.exists(os.path.join(root, os.path.dirname(path), target)):
                problems.append(f"{path}: link to {target} leads nowhere")
    return problems


def crates(lock):
    """(name, version) of every package in a Cargo.lock that comes from a registry."""
    found = []
    for block in lock.split("[[package]]")[1:]:
        field = dict(re.findall(r'^(\w+) = "([^"]*)"', block, re.M))
        if "source" in field:
            found.append((field["name"], field["version"]))
    return found


def web_packages(root):
    """(name, version, licence) of the libraries that the page holds."""
    path = "web/package-lock.json"
    if not os.path.exists(os.path.join(root, path)):
        return []
    packages = json.loads(source.read(root, path))["packages"]
    shipped = sorted(packages[""]["dependencies"])
    entry = {name: packages["node_modules/" + name] for name in shipped}
    return [(name, entry[name]["version"], entry[name]["license"]) for name in shipped]


def check_notices(root):
    lock = "shim/Cargo.lock"
    if not os.path.exists(os.path.join(root, lock)):
        return []
    notices = source.read(root, "NOTICES.md") if os.path.exists(os.path.join(root, "NOTICES.md")) else ""
    listed = set(re.findall(r"^\| (\S+) \| (\S+) \|", notices, re.M))
    wanted = crates(source.read(root, lock)) + [p[:2] for p in web_packages(root)]
    missing = [" ".join(c) for c in wanted if c not in listed]
    return [f"NOTICES.md: without {', '.join(missing)}; run `make notices`"] if missing else []


def check(root=source.ROOT):
    return check_walk(root) + check_links(root) + check_notices(root)


if __name__ == "__main__":
    found = check()
    print("\n".join(found))
    sys.exit(bool(found))
