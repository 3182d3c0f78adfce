"""What the lint scripts share: which files there are, and C text without its comments and strings."""
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def files(root, *suffixes):
    """Files below the source folders, relative to root, sorted. Build outputs are never looked at."""
    found = []
    for top in ("src", "include", "examples", "tests", "shim/src", "tools", "bench"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith(suffixes):
                    found.append(os.path.relpath(os.path.join(folder, name), root))
    return sorted(found)


def committed(root):
    """Files git knows or would take, relative to root."""
    out = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True)
    return sorted(f for f in out.stdout.decode().split("\0") if f and os.path.isfile(os.path.join(root, f)))


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
        return f.read()


_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def _blank(match):
    text = match.group()
    if text[0] == "/":
        return re.sub(r"[^\n]", " ", text)
    return text[0] + " " * (len(text) - 2) + text[0]


def strip_c(text):
    """The same lines with comments and the insides of strings blanked."""
    return _TOKEN.sub(_blank, text)


def functions(text):
    """(name, first line, last line, body) of each function definition in stripped C: `{` and `}` in column 0."""
    lines = text.split("\n")
    start = None
    for i, line in enumerate(lines):
        if line.startswith("{") and start is None:
            head = i - 1
            while head > 0 and lines[head - 1].strip() and not re.search(r"[;}#]\s*$|^#", lines[head - 1]):
                head -= 1
            name = re.search(r"(\w+)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)", "", " ".join(lines[head:i])))
            start = (name.group(1) if name else "?", head)
        elif line.startswith("}") and start is not None:
            yield start[0], start[1] + 1, i + 1, "\n".join(lines[start[1]:i + 1])
            start = None
