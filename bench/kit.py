"""What the benchmark scripts share: figures and ratios, running programs, models, and the sections of a report."""
import hashlib
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
PROMPT = "The capital of France is"


def die(text):
    sys.exit(f"{os.path.basename(sys.argv[0]).removesuffix('.py')}: {text}")


def say(text):
    print(text, file=sys.stderr, flush=True)


# --------------------------------------------------------------------------------------------------------- figures


class Figures:
    """Values of one measured quantity, in the order they were taken."""

    def __init__(self, values=()):
        self.values = list(values)

    def add(self, value):
        self.values.append(value)

    @property
    def median(self):
        return statistics.median(self.values)

    def text(self, digits=0):
        low, high = min(self.values), max(self.values)
        return f"{self.median:.{digits}f} [{low:.{digits}f}–{high:.{digits}f}]"


def ratios(ours, theirs, less_is_better=False):
    """Pair by pair, so that above 1 is always better for us."""
    return Figures(b / a if less_is_better else a / b for a, b in zip(ours.values, theirs.values))


def better(of, less_is_better=False):
    """The name of the Figures with the better median; None of none."""
    pick = min if less_is_better else max
    return pick(of, key=lambda name: of[name].median) if of else None


# -------------------------------------------------------------------------------------------------------- programs


def output(command, cwd=None, stderr=subprocess.PIPE):
    """Its stdout (and stderr: subprocess.STDOUT); the end of this script where it fails."""
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, errors="replace", cwd=cwd, check=False)
    if run.returncode:
        last = ((run.stderr or run.stdout).strip().splitlines() or ["no message"])[-1]
        die(f"{os.path.basename(command[0])} failed with status {run.returncode}: {last}")
    return run.stdout


def last_line(text):
    return text.strip().splitlines()[-1]


def cold_start(command, cwd=None):
    """(seconds from the process's start to its first output, peak resident bytes)."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             cwd=cwd)
    first = child.stdout.read(1)
    seconds = time.monotonic() - start
    child.stdout.read()
    child.stdout.close()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if not first or child.returncode:
        die(f"{os.path.basename(command[0])} ended with status {child.returncode} and no text")
    return seconds, usage.ru_maxrss * 1024


def peer_folder(peer, given=""):
    """The folder of the programs of "llama" or "ik": as given, or where peers.sh put them; "" if they are not there."""
    if given:
        return given
    run = subprocess.run([os.path.join(HERE, "peers.sh"), "where", peer], capture_output=True, text=True, check=False)
    return last_line(run.stdout) if run.returncode == 0 else ""


def lacks(folder, programs):
    """Those of the programs that are not in the folder."""
    return [p for p in programs if not os.access(os.path.join(folder, p), os.X_OK)]


def llama_cpp(folder, program):
    """llama.cpp's folder, which has the program, or the end of this script."""
    folder = peer_folder("llama", folder)
    if lacks(folder, [program]):
        die("llama.cpp is not there: run bench/peers.sh, or name its folder with --peers")
    return folder


# ---------------------------------------------------------------------------------------------------------- models


def cache():
    root = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(root if root.startswith("/") else os.path.expanduser("~/.cache"), "ffwd")


def python():
    """A Python that has numpy, as tools/synth_model.py needs it, or the end of this script."""
    made = os.path.join(ROOT, "build/venv/bin/python")
    found = os.environ.get("PYTHON") or (made if os.access(made, os.X_OK) else sys.executable)
    if subprocess.run([found, "-c", "import numpy"], capture_output=True, check=False).returncode:
        die(f"{found} has no numpy: `make build/venv/bin/python` makes one that has it")
    return found


def known_model(ffwd, name):
    return last_line(output([ffwd, "pull", name]))


def synthetic_1b(ffwd, types):
    """A model of the Llama 3.2 1B shape with random weights of those types, in the user's cache."""
    script = os.path.join(ROOT, "tools/synth_model.py")
    with open(script, "rb") as f:
        version = hashlib.sha256(f.read()).hexdigest()[:8]  # another script makes another model
    path = os.path.join(cache(), f"models/synthetic-1b-{types}-{version}.gguf")
    if not os.path.exists(path):
        say(f"writing the 1B model in {types}")
        output([python(), script, "--like", known_model(ffwd, "smollm2"), "--out", path, "--types", types])
    return path


def read_whole(path):
    """The file's pages into the system's cache."""
    with open(path, "rb") as f:
        while f.read(1 << 20):
            pass


# ---------------------------------------------------------------------------------------------------------- reports


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        names = re.findall(r"^model name\s*:\s*(.*)$", f.read(), re.M)
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} processors"


def processor_times():
    """(what all processors did, what they idled) since the machine's start."""
    with open("/proc/stat", encoding="ascii") as f:
        times = [int(word) for word in f.readline().split()[1:9]]
    return sum(times), times[3] + times[4]


def busy(seconds=2):
    """Percent of the processors' time that others use just now, when that is more than a little, else 0; says so."""
    since = processor_times()
    time.sleep(seconds)
    every, idle = (now - then for now, then in zip(processor_times(), since))
    used = 100 * (1 - idle / every) if every else 0
    if used > 5:
        say(f"the machine is not idle ({used:.0f} % of its processors' time is in use)")
        return used
    return 0


def busy_text(used):
    text = f"**The machine was not idle** ({used:.0f} % in use before the start): these figures prove little."
    return [text, ""] if used else []


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def met_text(met):
    return "met" if met else "**missed**"


def with_section(text, title, section):
    """`text` with its section of this title replaced, or added at the end."""
    found = re.search(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", text, re.M | re.S)
    section = section.rstrip("\n") + "\n"
    if found:
        rest = text[found.end():]
        return text[:found.start()] + section + ("\n" + rest if rest else "")
    return (text.rstrip("\n") + "\n\n" + section).lstrip("\n")


def section_of(text, title):
    """What stands under a title, without it; "" where it is missing."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return found.group(1).strip("\n") if found else ""


def read_text(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as f:
        return f.read()


def write_text(path, text):
    """Written beside and renamed, so that an interrupted run leaves the old file."""
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".new", path)
