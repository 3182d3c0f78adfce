#!/usr/bin/env python3
"""The lint checks against small trees that break each rule once: a check that catches nothing protects nothing."""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))

import docs  # noqa: E402
import headers  # noqa: E402
import layers  # noqa: E402
import run_tests  # noqa: E402
import sizes  # noqa: E402
import source  # noqa: E402
import style  # noqa: E402

SCRATCH = tempfile.TemporaryDirectory(prefix="ffwd-lint-")
TABLE = """
| `src/` folder | holds | may include |
|---|---|---|
| `base` | x | libc |
| `kern` | x | base |
| `source` | x | base; `draft.c` also kern |
| `cli` | x | any |

| outside header | only in |
|---|---|
| `*intrin.h` | kern |
"""


def tree(files):
    root = tempfile.mkdtemp(dir=SCRATCH.name)
    for path, text in {"docs/architecture.md": TABLE, **files}.items():
        os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(root, path), "w", encoding="utf-8") as f:
            f.write(text)
    return root


def function(lines, line="    x++;"):
    return "int f(int x)\n{\n" + f"{line}\n" * lines + "    return x;\n}\n"


def found(check, files, **more):
    return check(tree(files), **more)


# what it shows, the check, the files, part of the message or None for "no complaint"
CASES = [
    ("own headers and base are fine", layers.check,
     {"src/kern/a.c": '#include "kern/b.h"\n#include "base/buf.h"\n#include <stdio.h>\n#include <immintrin.h>\n'}, None),
    ("upwards include", layers.check, {"src/base/a.c": '#include "kern/kern.h"\n'}, "base may not include kern"),
    ("private header", layers.check, {"src/cli/a.c": '#include "kern/b.h"\n'}, "private to kern"),
    ("one file's exception", layers.check, {"src/source/draft.c": '#include "kern/kern.h"\n'}, None),
    ("for that file alone", layers.check, {"src/source/echo.c": '#include "kern/kern.h"\n'}, "may not include kern"),
    ("outside header", layers.check, {"src/cli/a.c": "#include <immintrin.h>\n"}, "belongs to kern"),
    ("unknown folder", layers.check, {"src/misc/a.c": "\n"}, "no row"),
    ("header without its folder", layers.check, {"src/kern/a.c": '#include "b.h"\n'}, "not <folder>/<header>"),
    ("short function", sizes.check, {"src/base/a.c": function(10)}, None),
    ("long function", sizes.check, {"src/base/a.c": function(120)}, "f() has"),
    ("named exception", sizes.check,
     {"src/base/a.c": function(120), "tools/exceptions.txt": "src/base/a.c:f a table\n"}, None),
    ("stale exception", sizes.check,
     {"src/base/a.c": function(1), "tools/exceptions.txt": "src/base/a.c:f a table\n"}, "needs no exception"),
    ("complexity", sizes.check, {"src/base/a.c": function(30, "    if (x) x++;")}, "complexity"),
    ("long file", sizes.check, {"src/base/a.c": "\n" * 900}, "900 lines"),
    ("long header", sizes.check, {"src/base/a.h": "\n" * 301}, "301 lines"),
    ("banned call", style.check, {"a.c": "int f(void)\n{\n    return atoi(s);\n}\n"}, "atoi() is banned"),
    ("banned word in a comment is fine", style.check, {"a.c": "/* unlike atoi(s) */\n"}, None),
    ("banned word in a string is fine", style.check, {"a.c": 'char *s = "\\"strcpy(";\n'}, None),
    ("well-formed C", style.check,
     {"a.c": "int f(int a, char *b)\n{\n    if (a) {\n        a = 0; /* a,b */\n    } else {\n        for (;;) {\n        }\n    }\n}\n"}, None),
    ("keyword", style.check, {"a.c": "    if(x)\n"}, "keyword"),
    ("comma", style.check, {"a.c": "    f(a,b);\n"}, "comma"),
    ("else", style.check, {"a.c": "    }\n    else {\n"}, "else on a line"),
    ("brace of a function", style.check, {"a.c": "int f(void) {\n    return 0;\n}\n"}, "function's brace"),
    ("blank lines", style.check, {"a.c": "int a;\n\n\nint b;\n"}, "two blank lines"),
    ("star", style.check, {"a.c": "    char* s = 0;\n"}, "star"),
    ("tab", style.check, {"a.c": "\tint x;\n"}, "tab"),
    ("trailing blank", style.check, {"a.md": "text \n"}, "trailing blanks"),
    ("long line", style.check, {"a.c": "/* " + "x" * 130 + " */\n"}, "columns"),
    ("no newline at the end", style.check, {"a.c": "int x;"}, "no newline"),
    ("unfinished work", style.check, {"a.c": "/* TO" + "DO: more */\n"}, "unfinished"),
    ("machine path", style.check, {"a.md": "see /ho" + "me/anna/x\n"}, "machine path"),
    ("registry host", style.check, {"a.md": "from pypi" + ".org\n"}, "registry host"),
    ("header alone", headers.check, {"src/base/a.h": "size_t f(void);\n"}, "does not compile alone"),
    ("walk", docs.check_walk, {"docs/walk.md": "`f()` then `g()`\n", "src/base/a.c": function(1)}, "no function g()"),
    ("walk, wrong file", docs.check_walk,
     {"docs/walk.md": "| a | `f()` | `src/base/b.c` |\n", "src/base/a.c": function(1)}, "is not in src/base/b.c"),
    ("walk, all there", docs.check_walk, {"docs/walk.md": "`f()`\n", "src/base/a.c": function(1)}, None),
    ("notices", docs.check_notices,
     {"shim/Cargo.lock": '[[package]]\nname = "a"\nversion = "1.0"\nsource = "x"\n',
      "NOTICES.md": "| a | 0.9 | MIT | yes |\n"}, "without a 1.0"),
]

COUNTS = [
    (("[  PASSED  ] 7 test(s).\n", True), (7, 0, 0)),
    (("[  PASSED  ] 6 test(s).\n[  FAILED  ] 1 test(s), listed below:\n", False), (6, 1, 0)),
    (("text\n12 passed, 0 failed, 3 skipped\n", True), (12, 0, 3)),
    (("http: 5 passed, 0 failed\n", True), (5, 0, 0)),
    (("", True), (1, 0, 0)),
    (("died", False), (0, 1, 0)),
]


class Machine:
    """tools/setup.sh in a tree of its own, on a machine made of scripts."""

    def __init__(self, installed="", user=1000, cargos=()):
        self.root = tree({})
        self.bin = os.path.join(self.root, "bin")
        os.makedirs(os.path.join(self.root, "tools"))
        shutil.copy(os.path.join(ROOT, "tools/setup.sh"), os.path.join(self.root, "tools/setup.sh"))
        self.script("bin/dpkg-query", f'for p; do :; done; case " {installed} " in *" $p "*) printf installed;; *) exit 1;; esac')
        self.script("bin/apt-get", f'echo "$@" >>"{self.root}/apt"')
        self.script("bin/apt-cache", "printf 'clang\\n  Depends: clang-77\\n  Breaks: <clang-3.2>\\n'")
        self.script("bin/id", f"echo {user}")
        for folder in cargos:
            self.script(f"{folder}/cargo", "true")
            self.script(f"{folder}/rustc", "echo rustc 1.9999.0")

    def script(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n" + text + "\n")
        os.chmod(path, 0o755)

    def run(self, word, *path):
        """Status, stdout, stderr, what apt-get was asked for."""
        folders = [os.path.join(self.root, p) for p in path]
        env = {"PATH": ":".join([self.bin, *folders, os.environ["PATH"]]), "HOME": self.root, "FFWD_RUST_MINOR": "9999"}
        r = subprocess.run(["sh", "tools/setup.sh", word], cwd=self.root, env=env, capture_output=True, text=True, check=False)
        asked = os.path.join(self.root, "apt")
        return r.returncode, r.stdout, r.stderr, open(asked, encoding="utf-8").read() if os.path.exists(asked) else ""


def setup_problems():
    code, _, err, _ = Machine().run("build")
    if code != 1 or err.count("sudo ") != 2 or "--no-remove" not in err or "rustc-web cargo-web" not in err:
        yield f"setup: a user is not told the line: {err}"
    for user in (0, 1000):
        code, _, err, asked = Machine("gcc rustc cargo", user).run("build")
        if code != 1 or asked or err.count("\n") != 1 or "(rustc cargo)" not in err:
            yield f"setup: the packages in the way are not named in one sentence: {err}{asked}"
    code, _, _, asked = Machine("gcc", 0, ["a"]).run("build", "a")
    if code != 0 or "--no-remove" not in asked or "rustc-web" in asked or " gcc " in asked or "libmd-dev" not in asked:
        yield f"setup: {code}, apt-get was asked for {asked}"
    code, _, _, asked = Machine("libcurl4-openssl-dev", 0, ["a"]).run("build", "a")
    if code != 0 or "curl4-gnutls" in asked or "libxxhash-dev" not in asked:
        yield f"setup: {code}, another libcurl is there, apt-get was asked for {asked}"
    for word in ("test", "long"):
        code, _, _, asked = Machine("gcc", 0, ["a"]).run(word, "a")
        cross = word == "long" and os.uname().machine == "x86_64"
        if code != 0 or "libcmocka-dev" not in asked or ("qemu-user" in asked) != cross:
            yield f"setup: {code}, for {word} apt-get was asked for {asked}"
    code, _, _, asked = Machine("gcc", 0, ["a"]).run("fuzz", "a")
    if code != 0 or "clang libclang-rt-77-dev" not in asked or "libcmocka-dev" not in asked:
        yield f"setup: {code}, for fuzz apt-get was asked for {asked}"
    machine = Machine(cargos=["a", "b"])
    code, _, err, _ = machine.run("cargo")
    if code != 1 or err.count("\n") != 1:
        yield f"setup: no cargo: {code} {err}"
    chosen = [machine.run("cargo", *path)[1] for path in (["b", "a"], ["a", "b"], ["a"], [])]
    if chosen != [os.path.join(machine.root, "b/cargo\n")] * 4:
        yield f"setup: cargos took turns: {chosen}"
    os.remove(os.path.join(machine.root, "b/rustc"))
    if machine.run("cargo", "a")[1] != os.path.join(machine.root, "a/cargo\n"):
        yield "setup: a cargo that has gone is not replaced"


def main():
    failed = list(setup_problems())
    for what, check, files, expected in CASES:
        more = {"paths": list(files)} if check is style.check else {}
        got = found(check, files, **more)
        if (expected is None and got) or (expected is not None and not any(expected in g for g in got)):
            failed.append(f"{what}: expected {expected}, got {got}")
    for arguments, expected in COUNTS:
        if run_tests.count(*arguments) != expected:
            failed.append(f"count{arguments}: {run_tests.count(*arguments)}")
    text = "static int\nf(int a,\n  int b)\n{\n}\n\nstruct s {\n};\nvoid g(void)\n{\n}\n"
    names = [n for n, *_ in source.functions(text)]
    if names != ["f", "g"]:
        failed.append(f"functions: {names}")
    print("\n".join(failed))
    total = len(CASES) + len(COUNTS) + 1 + 8
    print(f"{total - len(failed)} passed, {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
