"""The library as an application gets it: installed header, archives and pkg-config file, and the example."""
import os
import shutil
import subprocess

from kit import any_model, ffwd, need, temp

BUILD = os.environ.get("BUILD", "build")
CC = os.environ.get("CC", "cc")


def installed():
    """A prefix laid out as `make install` does it."""
    prefix = temp("prefix")
    if not os.path.isdir(prefix):
        os.makedirs(prefix + "/include")
        os.makedirs(prefix + "/lib/pkgconfig")
        shutil.copy("include/ffwd.h", prefix + "/include")
        for archive in (BUILD + "/libffwd.a", "build/shim/release/libffwd_shim.a"):
            shutil.copy(archive, prefix + "/lib")
        with open("ffwd.pc.in", encoding="utf-8") as f:
            text = f.read().replace("@PREFIX@", prefix).replace("@VERSION@", "0.1.0")
        with open(prefix + "/lib/pkgconfig/ffwd.pc", "w", encoding="utf-8") as f:
            f.write(text)
    return prefix


def pkg_config(*args):
    need(shutil.which("pkg-config"), "pkg-config is not installed")
    env = dict(os.environ, PKG_CONFIG_PATH=installed() + "/lib/pkgconfig")
    return subprocess.run(["pkg-config", *args, "ffwd"], check=True, capture_output=True, text=True, env=env).stdout.split()


def test_the_example_answers():
    program = temp("hello")
    command = [CC, "-std=c11", "-Wall", "-Wextra", "-Werror", "examples/hello.c", "-o", program,
               *pkg_config("--cflags", "--libs")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    got = subprocess.run([program, any_model(), "the sea"], capture_output=True, timeout=60, check=False)
    assert got.returncode == 0, got
    assert b" tokens]\n" in got.stdout, got
    want = ffwd("run", "-m", any_model(), "-p", "the sea", "-n", "32", "--json").ok().json["text"].encode()
    assert got.stdout.startswith(want + b"\n["), (got.stdout, want)
    bad = subprocess.run([program, temp("absent.gguf"), "x"], capture_output=True, timeout=60, check=False)
    assert bad.returncode == 1 and b"absent.gguf" in bad.stderr, bad


def test_the_version_is_everywhere_the_same():
    assert ffwd("--version").ok().out == "ffwd " + pkg_config("--modversion")[0] + "\n"
    with open("Makefile", encoding="utf-8") as f:
        makefile = [line.split()[-1] for line in f if line.startswith("VERSION")]
    assert ffwd("--version").ok().out == f"ffwd {makefile[0]}\n"


def test_the_header_is_c_and_cxx():
    source = temp("use.c", b'#include <ffwd.h>\nint main(void) { return ffwd_version() == 0; }\n')
    flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Iinclude", "-fsyntax-only"]
    for compiler in ([CC, "-std=c99"], [CC, "-std=c11"], ["g++", "-xc++", "-std=c++98"], ["g++", "-xc++", "-std=c++17"]):
        if shutil.which(compiler[0]):
            made = subprocess.run([*compiler, *flags, source], capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stderr


def test_the_archive_exports_its_own_names_only():
    lines = subprocess.run(["nm", "-g", "--defined-only", BUILD + "/libffwd.a"], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    names = {line.split()[-1] for line in lines if len(line.split()) == 3}
    public = {name for name in names if name.startswith("ffwd_")}
    with open("include/ffwd.h", encoding="utf-8") as f:
        header = f.read()
    undeclared = sorted(name for name in public if name + "(" not in header)
    assert public and not undeclared, undeclared
