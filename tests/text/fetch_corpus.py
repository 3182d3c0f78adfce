#!/usr/bin/env python3
"""Fetches the real vocabularies and chat templates the tests compare with, once, into the user's cache, and prints where.

They lie in the source package of llama-cpp-python, under vendor/llama.cpp/models. Nothing of it is part of ffwd.
"""
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"  # bench/peers.sh names the same
INSIDE = "/vendor/llama.cpp/models/"


def cache():
    root = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(root if root.startswith("/") else os.path.expanduser("~/.cache"), "ffwd")


def expected(path):
    """Whether the file is the package this test was written for."""
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest() == SHA256


def download(folder):
    """The package's archive; one that another script of the project fetched will do."""
    for path in glob.glob(f"{cache()}/*/llama_cpp_python-{VERSION}.tar.gz"):
        if expected(path):
            return path
    # pip prepares a source package's metadata even if it is only asked to download it; that needs its build backend.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", PACKAGE, "--dest", folder]
    for attempt in range(3):
        if subprocess.run(command + [f"{PACKAGE}=={VERSION}"]).returncode == 0:
            path = glob.glob(folder + "/*.tar.gz")[0]
            return path if expected(path) else sys.exit(f"{os.path.basename(path)}: not the expected file")
        time.sleep(2 * attempt)
    sys.exit(f"{PACKAGE} {VERSION} could not be fetched")


def main():
    target = os.path.join(cache(), f"corpus-{VERSION}")
    if not os.path.isdir(target):
        os.makedirs(cache(), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache()) as work:
            with tarfile.open(download(work)) as archive:
                for member in archive:
                    _, mark, name = member.name.partition(INSIDE)
                    if not mark or not member.isfile() or ".." in name or name.startswith("/"):
                        continue
                    path = os.path.join(work, "new", name)
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "wb") as out:
                        shutil.copyfileobj(archive.extractfile(member), out)
            if not os.path.isdir(target):
                os.rename(os.path.join(work, "new"), target)
    print(target)


if __name__ == "__main__":
    main()
