"""What the tests of the program share: running it, judging it, counting."""
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback

FFWD = os.environ.get("FFWD", "build/ffwd")
SMOLLM2 = os.environ.get("SMOLLM2", "")
GEMMA = os.environ.get("GEMMA", "")
TEMP = tempfile.TemporaryDirectory(prefix="ffwd-cli-")

counts = {"passed": 0, "failed": 0, "skipped": 0}


def temp(name, data=None):
    """A path in the tests' folder, holding `data` (bytes) if given."""
    path = os.path.join(TEMP.name, name)
    if data is not None:
        with open(path, "wb") as f:
            f.write(data)
    return path


class Ended:
    def __init__(self, args, code, out, err):
        self.args, self.code, self.raw, self.err = args, code, out, err
        self.out = out.decode("utf-8")

    def __str__(self):
        shown = " ".join(a if len(a) < 60 else a[:57] + "..." for a in self.args)
        return f"ffwd {shown}: status {self.code}, stdout {self.out[:200]!r}, stderr {self.err[:300]!r}"

    @property
    def json(self):
        """stdout holds one JSON object and nothing else."""
        return json.loads(self.out)

    def ok(self):
        assert self.code == 0, self
        return self

    def fails(self, status, *words):
        """Ended so, with one sentence on stderr that holds the words, and nothing on stdout."""
        lines = self.err.strip().split("\n")
        assert self.code == status, self
        assert len(lines) == 1 and lines[0].startswith("ffwd"), f"one sentence was expected: {self}"
        assert self.out == "", self
        for word in words:
            assert word in self.err, f"{word!r} is missing: {self}"
        return self


def ffwd(*args, stdin=b"", stdout=subprocess.PIPE, env=None, timeout=120):
    args = [str(a) for a in args]
    run = subprocess.run([FFWD, *args], input=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=timeout,
                         env=dict(os.environ, **(env or {})), check=False)
    return Ended(args, run.returncode, run.stdout or b"", run.stderr.decode("utf-8", "replace"))


class Skip(Exception):
    pass


def need(value, what):
    if not value:
        raise Skip(what)
    return value


def run_all(tests):
    """Runs functions; their names say what they prove."""
    for test in tests:
        name = test.__name__.replace("_", " ")
        try:
            test()
            counts["passed"] += 1
        except Skip as skip:
            counts["skipped"] += 1
            print(f"note: skipped: {name}: {skip}")
        except Exception:  # pylint: disable=broad-except
            counts["failed"] += 1
            print(f"FAILED: {name}\n{traceback.format_exc(limit=-2)}")
        sys.stdout.flush()


def tests_of(module):
    return [f for n, f in vars(module).items() if callable(f) and re.match(r"test_", n)]


_tiny = {}


def tiny(family, template=None):
    """A tiny random model of a family as a GGUF file; with another chat template than usual, if one is given."""
    if (family, template) not in _tiny:
        sys.path.insert(0, "tests/golden")
        try:
            import families  # pylint: disable=import-outside-toplevel
            import tiny_gguf  # pylint: disable=import-outside-toplevel
        except ImportError as e:
            raise Skip(f"the tiny models need numpy ({e})") from e
        made = [f for f in families.FAMILIES if f.name == family]
        usual = tiny_gguf.TEMPLATE
        tiny_gguf.TEMPLATE = template or usual
        _tiny[family, template] = temp(f"tiny-{family}-{len(_tiny)}.gguf", tiny_gguf.build(made[0]))
        tiny_gguf.TEMPLATE = usual
    return _tiny[family, template]


def any_model():
    """The tiny model where it can be made, otherwise the real one."""
    try:
        return tiny("smollm2")
    except Skip:
        return need(SMOLLM2, "no model at all")
