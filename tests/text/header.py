#!/usr/bin/env python3
"""Checks that shim/ffwd_shim.h is what cbindgen makes of shim/src, or, without cbindgen, that it names every function."""
import os
import re
import shutil
import subprocess
import sys
import glob

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
committed = open("shim/ffwd_shim.h").read()
failures = []
exported = set()
for path in glob.glob("shim/src/*.rs"):
    exported |= set(re.findall(r'extern "C" fn (\w+)', open(path).read()))
declared = set(re.findall(r"\b(ffwd_\w+)\(", committed))
if exported != declared:
    failures.append(f"shim/ffwd_shim.h and shim/src disagree about {sorted(exported ^ declared)}")
if shutil.which("cbindgen"):
    made = subprocess.run(["cbindgen", "-q", "--config", "shim/cbindgen.toml", "shim"], capture_output=True, text=True)
    # Versions of cbindgen differ in white space.
    if made.returncode == 0 and made.stdout.split() != committed.split():
        failures.append("shim/ffwd_shim.h is not what cbindgen makes of shim/src")
for f in failures:
    print(f)
print(f"{1 - bool(failures)} passed, {len(failures)} failed")
sys.exit(bool(failures))
