#!/usr/bin/env python3
"""Every header compiles alone. Those of kern/simd are bodies that each level compiles after its vec.h: they get one."""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import source

FLAGS = "-std=c11 -D_GNU_SOURCE -Isrc -Ishim -Iinclude -Itests/lib -Itests -O1 -Wall -Wextra -Werror -fsyntax-only"
CC = os.environ.get("CC", "gcc").split()
ISA = {"avx2": "-mavx2 -mfma -mf16c -mbmi2",
       "avx512": "-mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni",
       "neon": "-march=armv8.2-a+dotprod"}
LEVELS = {"x86_64": ("avx2", "avx512"), "aarch64": ("neon",)}


def compile_one(root, header, levels):
    isa = re.match(r"src/kern/(\w+)/", header)
    level = isa.group(1) if isa else ""
    flags = FLAGS.split() + ISA.get(levels[0] if level == "simd" else level, "").split()
    if header == "src/kern/avx512/emulate.h":
        flags.append("-DKERN_EMULATE_AVX512")
    if level == "simd":
        # chunk.h is the end of a linear.c, which defines what it needs
        before = "linear.c" if header.endswith("/chunk.h") else "vec.h"
        flags += ["-Wno-unused-function", "-include", f"kern/{levels[0]}/{before}"]
    run = subprocess.run([*CC, *flags, "-include", header, "-xc", "/dev/null"], cwd=root,
                         capture_output=True, text=True)
    if run.returncode:
        return f"{header}: does not compile alone: {run.stderr.strip().splitlines()[0]}"
    return None


def check(root=source.ROOT):
    machine = subprocess.run([*CC, "-dumpmachine"], capture_output=True, text=True, check=True).stdout.split("-")[0]
    levels = LEVELS.get(machine, ())
    skip = tuple(f"src/kern/{level}/" for level in ISA if level not in levels) + (() if levels else ("src/kern/simd/",))
    headers = [h for h in source.files(root, ".h") if not h.startswith(skip)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [p for p in pool.map(lambda h: compile_one(root, h, levels), headers) if p]


if __name__ == "__main__":
    found = check()
    print("\n".join(found))
    sys.exit(bool(found))
