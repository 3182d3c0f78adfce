#!/usr/bin/env python3
"""Lets PyPI's torch run on a machine without CUDA when it was installed without its CUDA packages (`--no-deps`), which
saves some gigabytes. Needs gcc and readelf.

    torch_without_cuda.py SITE_PACKAGES/torch/lib

torch's libraries name CUDA's and refer to their functions. This builds one library that has all those functions, each of
which fails with "no device", and puts a link to it under every missing name.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

THEIRS = re.compile(r"^(_*cu|p?nccl|nv)")  # how names of CUDA functions begin
CUDA = re.compile(r"^lib(cu|nv|nccl)")
STAND_IN = "libno_cuda.so"


def readelf(flag, path):
    return subprocess.run(["readelf", "--wide", flag, path], check=True, capture_output=True, text=True).stdout


def symbols(path):
    """(name, version, defined) of the dynamic symbols; what may stay undefined is left out."""
    for line in readelf("--dyn-syms", path).splitlines():
        part = line.split()
        if len(part) >= 8 and part[0].rstrip(":").isdigit() and (part[4], part[6]) != ("WEAK", "UND"):
            name, _, version = part[7].partition("@")
            yield name, version.lstrip("@"), part[6] != "UND"


def function(name):
    if name.endswith(("String", "ErrorName")):
        return f'const char *{name}(void) {{ return "no CUDA"; }}\n'
    if name.startswith("__cuda"):  # registration of kernels when a library is loaded: returns a handle
        return f"void *{name}(void) {{ static void *handle[8]; return handle; }}\n"
    return f"int {name}(void) {{ return 100; }}\n"


def main():
    folder = sys.argv[1]
    libraries = [p for p in glob.glob(os.path.join(folder, "*.so*")) if not os.path.islink(p)]
    needed, wanted, defined = set(), {}, set()
    for path in libraries:
        needed |= set(re.findall(r"NEEDED\).*\[(.*?)\]", readelf("--dynamic", path)))
        for name, version, here in symbols(path):
            if here:
                defined.add(name)
            elif THEIRS.match(name):
                wanted[name] = version
    stubs = {n: v for n, v in sorted(wanted.items()) if n not in defined}
    missing = sorted(n for n in needed if CUDA.match(n) and not os.path.lexists(os.path.join(folder, n)))
    with tempfile.TemporaryDirectory() as work:
        source = os.path.join(work, "no_cuda.c")
        with open(source, "w") as out:
            out.writelines(function(n) for n in stubs)
        script = os.path.join(work, "versions")  # the loader insists on the versions that torch was linked with
        with open(script, "w") as out:
            for version in sorted(set(stubs.values()) - {""}):
                out.write(f"{version} {{ global: {' '.join(n + ';' for n, v in stubs.items() if v == version)} }};\n")
        subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", "-o", os.path.join(folder, STAND_IN), source,
                        f"-Wl,--version-script={script}"], check=True)
    for name in missing:
        os.symlink(STAND_IN, os.path.join(folder, name))
    print(f"{len(stubs)} functions, {len(missing)} libraries: {' '.join(missing)}")


if __name__ == "__main__":
    main()
