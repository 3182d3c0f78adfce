#!/usr/bin/env python3
"""Writes NOTICES.md: what ffwd is linked with and what its page holds, under which licences, with the texts.

The crates are those of shim/Cargo.lock, as `cargo metadata` describes them. Of a choice of licences the first of CHOICE
is taken. The C libraries are linked dynamically and come from the system's packages; the table names them.
"""
import json
import os
import re
import subprocess

import docs
import source

PLATFORM = "x86_64-unknown-linux-gnu"
CHOICE = ("MIT", "BSD-2-Clause", "BSD-3-Clause", "Zlib", "ISC", "Apache-2.0")
C_LIBRARIES = """
| glibc | the C library | LGPL-2.1-or-later |
| libgcc | compiler support | GPL-3.0-or-later WITH GCC-exception-3.1 |
| libmicrohttpd | HTTP | LGPL-2.1-or-later |
| jansson | JSON | MIT |
| libmd | SHA-256 | BSD-3-Clause AND BSD-2-Clause AND ISC AND Beerware |
| libedit | line editing | BSD-3-Clause |
| ncurses | terminals, for libedit | X11 |
| libbsd | for libedit | BSD-3-Clause AND BSD-2-Clause AND ISC |
| GnuTLS and what it stands on | HTTPS, with libmicrohttpd | LGPL-2.1-or-later |
| xxHash | hashes | BSD-2-Clause |
| libcurl | HTTP client of the load driver, opened at run time | curl |
| nghttp2, libpsl, brotli, MIT Kerberos | brought by Debian's libcurl | MIT |
| libssh2, zstd, Cyrus SASL | brought by Debian's libcurl | BSD-3-Clause |
| librtmp, keyutils | brought by Debian's libcurl | LGPL-2.1-or-later |
| OpenLDAP, OpenSSL, zlib | brought by Debian's libcurl | OLDAP-2.8, Apache-2.0, Zlib |
| Rust's standard library | in the shim, statically | MIT OR Apache-2.0 |
""".strip()
HEAD = """# Notices

ffwd itself is under the MIT licence, see [LICENSE](LICENSE). This page is written by `make notices`.

## Libraries of the system

| library | for | licence |
|---|---|---|
{c}

Each is under the terms in its package (`/usr/share/doc/*/copyright` on Debian).

## Crates

Everything in `shim/Cargo.lock`. "no" under *linked*: used only while building, or only on other systems.

| crate | version | licence | linked |
|---|---|---|---|
{table}

## The web page

The libraries in `web/vendor`, which are part of the program.

| library | version | licence |
|---|---|---|
{web}

## Texts
"""


def metadata():
    cargo = subprocess.run(["tools/setup.sh", "cargo"], capture_output=True, text=True, check=True).stdout.strip()
    base = [cargo, "metadata", "--locked", "--format-version", "1", "--manifest-path", "shim/Cargo.toml"]
    return (json.loads(subprocess.run(base + extra, capture_output=True, text=True, check=True).stdout)
            for extra in ([], ["--filter-platform", PLATFORM]))


def linked_ids(meta):
    """Ids of the crates that end up in the library: normal dependencies of the shim, macros and their like left out."""
    macros = {p["id"] for p in meta["packages"] if any("proc-macro" in t["kind"] for t in p["targets"])}
    nodes = {n["id"]: n for n in meta["resolve"]["nodes"]}
    seen, stack = set(), [meta["resolve"]["root"]]
    while stack:
        i = stack.pop()
        if i in seen or i in macros:
            continue
        seen.add(i)
        for dep in nodes[i]["deps"]:
            if any(k["kind"] is None for k in dep["dep_kinds"]):
                stack.append(dep["pkg"])
    return seen


def chosen(expression):
    """The licence we take of "MIT OR Apache-2.0"; the whole expression where there is no choice."""
    options = [o.strip(" ()") for o in re.split(r"\bOR\b|/", expression)]
    if " AND " in expression:
        return expression
    return next((c for c in CHOICE if c in options), expression)


def licence_text(package, licence):
    folder = os.path.dirname(package["manifest_path"])
    names = sorted(n for n in os.listdir(folder) if re.match(r"(?i)(licen[cs]e|copying|unlicense)", n)
                   and os.path.isfile(os.path.join(folder, n)))
    key = licence.split("-")[0].lower()
    plain = [n for n in names if re.fullmatch(r"(?i)licen[cs]e(\.\w+)?", n)]
    best = [n for n in names if key in n.lower()] or plain or names
    if not best:
        return None
    with open(os.path.join(folder, best[0]), encoding="utf-8", errors="replace") as f:
        return "\n".join(line.rstrip() for line in f.read().strip().split("\n"))


def web_rows():
    return "\n".join(f"| {name} | {version} | {licence} |" for name, version, licence in docs.web_packages(source.ROOT))


def web_texts():
    """(text, name) of the licences that lie beside the vendored files."""
    for file in sorted(os.listdir("web/vendor")):
        if file.endswith(".LICENSE.txt"):
            lines = source.read("web/vendor", file).strip().split("\n")
            yield "\n".join(line.rstrip() for line in lines), file.split(".")[0]


def main():
    os.chdir(source.ROOT)
    everything, here = metadata()
    linked = linked_ids(here)
    packages = {(p["name"], p["version"]): p for p in everything["packages"]}
    rows, texts, bare = [], {}, []
    for name, version in docs.crates(source.read(".", "shim/Cargo.lock")):
        p = packages.get((name, version))
        expression = (p and p["license"]) or "see its licence file"
        is_linked = bool(p) and p["id"] in linked
        rows.append(f"| {name} | {version} | {expression} | {'yes' if is_linked else 'no'} |")
        if is_linked:
            licence = chosen(expression)
            text = licence_text(p, licence)
            if text:
                texts.setdefault(text, []).append(f"{name} {version}")
            else:
                authors = ", ".join(re.sub(r"\s*<.*?>", "", a) for a in p["authors"])
                bare.append(f"- {name} {version}: {licence}{', by ' + authors if authors else ''}")
    for text, name in web_texts():
        texts.setdefault(text, []).append(name)
    with open("NOTICES.md", "w", encoding="utf-8") as f:
        f.write(HEAD.format(c=C_LIBRARIES, table="\n".join(rows), web=web_rows()))
        if bare:
            f.write("\nThese ship no licence file of their own and name their licence in their manifest:\n\n")
            f.write("\n".join(bare) + "\n")
        for text, names in texts.items():
            f.write(f"\n### {', '.join(names)}\n\n```text\n{text}\n```\n")


if __name__ == "__main__":
    main()
