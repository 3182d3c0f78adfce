#!/usr/bin/env python3
"""Text rules: whitespace, line length, the form of C, banned calls, and words no committed file may hold.

The form of C is what this tree agrees on everywhere, in rules that need no tool. clang-format is no judge of it: it lays
out tables, aligned comments and short cases anew in most files, and each of its versions in another way.
"""
import re
import sys

import source

COLUMNS = 124  # wrap at 120; a last word may hang over
TEXT = (".c", ".h", ".py", ".js", ".css", ".html", ".sh", ".rs", ".toml", ".md", ".txt", ".in", "Makefile", "run")

# Unbounded or locale-dependent, or with a hidden state: each has a safe form in base/ or in libc.
LITERAL = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')

BANNED = """strcpy strcat strncpy strncat sprintf vsprintf gets atoi atol atoll atof strtok alloca setlocale uselocale
newlocale localeconv rand srand random drand48 system popen tmpnam mktemp ctime asctime localtime gmtime""".split()
# Editing a line needs to know UTF-8 characters; the file's head says why this changes nothing else.
ALLOWED = {("src/cli/line.c", "newlocale"), ("src/cli/line.c", "uselocale")}
BANNED_RE = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")

# On C without its comments and with empty literals.
FORM = [(re.compile(pattern, re.M), what) for pattern, what in (
    (r"\b(?:if|for|while|switch)\(", "no blank after the keyword"),
    (r",[^\s\\]", "no blank after a comma"),
    (r";[^\s\\);]", "two statements without a blank between"),
    (r"\}(?:else|while)\b", "no blank after the brace"),
    (r"^\s*\}\s*\n\s*else\b", "else on a line of its own"),
    (r"^[a-z].*\) \{$", "a function's brace belongs on a line of its own"),
    (r"\n\n\n", "two blank lines"),
    (r"\{\n\n", "a blank line after the brace"),
    (r"\n\n *\}", "a blank line before the brace"),
    (r"^ +(?:const )?(?:char|int|void|float|double|struct \w+|\w+_t)\* ", "the star belongs to the name"),
)]

# Spelled in two halves so that this file passes its own check.
WORDS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
HOSTS = re.compile("|".join(["pypi" + r"\.org", "python" + r"hosted", "deb" + r"\.debian", "npm" + r"js\.",
                             "crates" + r"\.io", "huggingface" + r"\.co/[\w-]+/[\w.-]+/resolve"]))
PATHS = re.compile(r"(?<![\w.])/(?:ro" + r"ot|ho" + r"me/\w+|wo" + r"rk)/")
# Written by other programs, or other people's licence texts.
FOREIGN = ("shim/Cargo.lock", "shim/ffwd_shim.h", "NOTICES.md", "LICENSE")


def whitespace(path, n, line):
    if line.rstrip() != line:
        yield f"{path}:{n}: trailing blanks"
    if "\t" in line and not path.endswith(("Makefile", ".mk", ".txt", ".json", ".jsonl")):
        yield f"{path}:{n}: tab"
    code = line if path.endswith((".c", ".h")) else LITERAL.sub('""', line)  # C can break a literal, these cannot
    is_data = path.startswith("tests/") and path.endswith(".py")             # texts to tokenize, templates to render
    if len(code) > COLUMNS and path.endswith((".c", ".h", ".py", ".sh", ".rs", ".js")) and not is_data:
        yield f"{path}:{n}: {len(line)} columns (limit {COLUMNS})"


def form(path, code):
    for pattern, what in FORM:
        for m in pattern.finditer(code):
            yield f"{path}:{code.count(chr(10), 0, m.start()) + 1}: {what}"


def words(path, n, line):
    for pattern, what in ((WORDS, "unfinished work"), (HOSTS, "registry host"), (PATHS, "machine path")):
        m = pattern.search(line)
        if m:
            yield f"{path}:{n}: {what}: {m.group()}"


def check(root=source.ROOT, paths=None):
    problems = []
    for path in source.committed(root) if paths is None else paths:
        if not path.endswith(TEXT) or path in FOREIGN or re.search("/(data|gen|vendor)/", path):
            continue
        text = source.read(root, path)
        for n, line in enumerate(text.split("\n"), 1):
            problems += whitespace(path, n, line)
            problems += words(path, n, line)
        if text and not text.endswith("\n"):
            problems.append(f"{path}: no newline at the end")
        if path.endswith((".c", ".h")):
            code = source.strip_c(text)
            problems += form(path, code)
            for n, line in enumerate(code.split("\n"), 1):
                m = BANNED_RE.search(line)
                if m and (path, m.group(1)) not in ALLOWED:
                    problems.append(f"{path}:{n}: {m.group(1)}() is banned")
    return problems


if __name__ == "__main__":
    found = check()
    print("\n".join(found))
    sys.exit(bool(found))
