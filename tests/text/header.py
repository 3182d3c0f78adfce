#!/usr/bin/env python3
"""Checks that shim/ffwd_shim.h is what cbindgen makes of shim/src.

Without cbindgen: that functions, their arguments, the fields of structs and the constants agree in name, type and order.
"""
import os
import re
import shutil
import subprocess
import sys
import glob

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
committed = open("shim/ffwd_shim.h").read()
failures = []
source = "\n".join(re.sub(r"//[^\n]*", "", open(path).read()) for path in sorted(glob.glob("shim/src/*.rs")))
header = re.sub(r"/\*.*?\*/|^#(?!define).*?$", "", committed, flags=re.S | re.M)
PLAIN = {"usize": "size_t", "bool": "bool", "c_char": "char",
         **{f"{r}{n}": f"{c}{n}_t" for r, c in (("i", "int"), ("u", "uint")) for n in (8, 16, 32, 64)},
         "f32": "float", "f64": "double"}


def c_type(rust):
    """A Rust type as the header would write it, spaces left out."""
    rust = rust.strip().split("::")[-1] if "*" not in rust else rust.strip()
    for begin, const in (("*const ", "const"), ("*mut ", "")):
        if rust.startswith(begin):
            inner = c_type(rust[len(begin):])
            return const + inner + "*" if not inner.endswith("*") else inner + const + "*"
    return PLAIN.get(rust, "struct" + rust)


def rust_fields(body):
    for name, kind in re.findall(r"(?:pub )?(\w+): *([^,{}]+?)(?:,|$)", body.strip(), flags=re.M):
        array = re.fullmatch(r"\[(.+); *(\w+)\]", kind)
        yield f"{c_type(array[1])}{name}[{array[2]}]" if array else c_type(kind) + name


def c_fields(body, separator):
    return [re.sub(r"\s", "", f) for f in body.split(separator) if f.strip() not in ("", "void")]


def both(what, rust, c):
    """Two dicts of lists must be alike."""
    for name in sorted(set(rust) | set(c)):
        if rust.get(name) != c.get(name):
            failures.append(f"{what} {name}: shim/src has {rust.get(name)}, shim/ffwd_shim.h {c.get(name)}")
    if not rust:
        failures.append(f"no {what} was found")


both("struct", {m[1]: list(rust_fields(m[2])) for m in re.finditer(r"#\[repr\(C\)\]\s*(?:#\[[^\n]*\s*)*pub struct (\w+) \{(.*?)\}", source, re.S)},
     {m[1]: c_fields(m[2], ";") for m in re.finditer(r"struct (\w+) \{(.*?)\};", header, re.S)})
FUNCTION = r'extern "C" fn (\w+)\((.*?)\)(?: -> ([^{]+))? \{'
both("function", {m[1]: [c_type(m[3]) if m[3] else "void", *rust_fields(m[2].replace(", ", ",\n"))]
                  for m in re.finditer(FUNCTION, source, re.S)},
     {m[2]: [re.sub(r"\s", "", m[1]), *c_fields(m[3], ",")]
      for m in re.finditer(r"^(\w[\w *]*?)\b(ffwd_\w+)\((.*?)\);", header, re.S | re.M)})
both("constant", {m[1]: eval(m[2]) for m in re.finditer(r"pub const (FFWD_\w+): \w+ = ([\d_ <]+);", source)},
     {m[1]: eval(m[2]) for m in re.finditer(r"^#define (FFWD_\w+) (.+)$", header, re.M) if m[1] != "FFWD_SHIM_H"})
if shutil.which("cbindgen"):
    made = subprocess.run(["cbindgen", "-q", "--config", "shim/cbindgen.toml", "shim"], capture_output=True, text=True)
    # Versions of cbindgen differ in white space.
    if made.returncode == 0 and made.stdout.split() != committed.split():
        failures.append("shim/ffwd_shim.h is not what cbindgen makes of shim/src")
for f in failures:
    print(f)
print(f"{1 - bool(failures)} passed, {len(failures)} failed")
sys.exit(bool(failures))
