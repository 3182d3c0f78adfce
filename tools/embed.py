#!/usr/bin/env python3
"""Writes what the server shows as it is as one C file, so that the program needs nothing beside itself: the files of the
web page, and the description of the API.

    tools/embed.py FOLDER OPENAPI.json OUT.c

What is taken of the folder is decided by the ending; package.json and the like stay out. The description is taken without
the white space between its parts. The entity tag is made of the content, so a browser asks for nothing twice and never
keeps an old file.
"""
import hashlib
import json
import os
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
WIDTH = 24  # bytes of a file on each line


def served(folder):
    """Paths below the folder, with / between their parts, sorted."""
    found = []
    for top, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if f != "node_modules"]
        for name in names:
            if os.path.splitext(name)[1] in TYPES:
                found.append(os.path.relpath(os.path.join(top, name), folder).replace(os.sep, "/"))
    return sorted(found)


def array(number, data):
    rows = [",".join(map(str, data[i:i + WIDTH])) for i in range(0, len(data), WIDTH)]
    return f"static const unsigned char file{number}[] = {{\n" + ",\n".join(rows) + "\n};\n"


def http_file(number, data, kind):
    """The initialiser of a struct http_file whose data is that array."""
    tag = hashlib.sha256(data).hexdigest()[:16]
    return f'{{file{number}, sizeof file{number}, "{kind}", "\\"{tag}\\""}}'


def described(path):
    """The description as it is sent."""
    with open(path, encoding="utf-8") as f:
        return json.dumps(json.load(f), ensure_ascii=False, separators=(",", ":")).encode()


def source(folder, description):
    arrays, table = [], []
    for number, path in enumerate(served(folder)):
        with open(os.path.join(folder, path), "rb") as f:
            data = f.read()
        if not data:
            sys.exit(f"{folder}/{path} is empty")
        arrays.append(array(number, data))
        table.append(f'    {{"{path}", {http_file(number, data, TYPES[os.path.splitext(path)[1]])}}},\n')
    data = described(description)
    arrays.append(array(len(table), data))
    return ("/* What the server shows as it is. Made by tools/embed.py. */\n#include \"server/web.h\"\n\n"
            + "\n".join(arrays) + "\nconst struct server_web_file server_web_files[] = {\n" + "".join(table)
            + "    {NULL, {NULL, 0, NULL, NULL}},\n};\n\nconst struct http_file server_description_file = "
            + http_file(len(table), data, "application/json") + ";\n")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    text = source(sys.argv[1], sys.argv[2])
    with open(sys.argv[3], "w", encoding="ascii") as f:
        f.write(text)


if __name__ == "__main__":
    main()
