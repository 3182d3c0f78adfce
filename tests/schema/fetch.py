#!/usr/bin/env python3
"""Fetches what the schema tests compare with, once, into the user's cache. Nothing of it is part of ffwd.

    suite()  the folder of draft 2020-12 in the official JSON-Schema-Test-Suite, from the source package of jsonschema
    tools()  the data folder of bfcl-eval: functions as people describe them to models
"""
import glob
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile

SUITE = ("jsonschema", "4.26.0", "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326",
         "/json/tests/draft2020-12/")
TOOLS = ("bfcl-eval", "2026.3.23", None, "bfcl_eval/data/")


def cache():
    root = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(root if root.startswith("/") else os.path.expanduser("~/.cache"), "ffwd")


def fetched(what, source, names):
    """A folder with the files below the part of the package that was asked for."""
    package, version, digest, inside = what
    target = os.path.join(cache(), f"{package}-{version}")
    if os.path.isdir(target):
        return target
    os.makedirs(cache(), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache()) as work:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work]
        if source:
            command += ["--no-binary", package]
        subprocess.run(command + [f"{package}=={version}"], check=True)
        path = [p for p in glob.glob(work + "/*") if os.path.isfile(p)][0]
        with open(path, "rb") as f:
            if digest and hashlib.sha256(f.read()).hexdigest() != digest:
                sys.exit(f"{os.path.basename(path)}: not the expected file")
        for name, data in names(path):
            _, mark, rest = name.partition(inside)
            if not mark or not rest or ".." in rest or rest.endswith("/"):
                continue
            out = os.path.join(work, "new", rest)
            os.makedirs(os.path.dirname(out), exist_ok=True)
            with open(out, "wb") as f:
                f.write(data)
        if not os.path.isdir(target):
            os.rename(os.path.join(work, "new"), target)
    return target


def in_tar(path):
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile():
                yield member.name, archive.extractfile(member).read()


def in_zip(path):
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            yield name, archive.read(name)


def suite():
    return fetched(SUITE, True, in_tar)


def tools():
    return fetched(TOOLS, False, in_zip)


if __name__ == "__main__":
    print(suite())
    print(tools())
