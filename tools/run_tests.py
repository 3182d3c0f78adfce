#!/usr/bin/env python3
"""Runs the test programs of one tier and adds up what they counted.

    tools/run_tests.py unit|test|long|clients|asan|tsan

A test program is a cmocka program, or anything else that exits 0 when all is well. One that closes with a line
"N passed, N failed[, N skipped]" is counted by it, one without counts as one test. Output is shown only on failure,
with VERBOSE=1, or where a line starts with "note:". Programs get:

    BUILD FFWD PYTHON      the build folder, the program, a Python that has tools/requirements.txt
    SMOLLM2 GEMMA          the two real models, where they are in the cache (fetched by `make test`)
"""
import glob
import os
import re
import signal
import subprocess
import sys
import time

BUILD = os.environ.get("BUILD", "build")
FFWD = os.environ.get("FFWD", BUILD + "/ffwd")
MINUTE = 60


def existing(pattern):
    return sorted(glob.glob(pattern))


def executable(*paths):
    return [p for p in paths if os.access(p, os.X_OK)]


def programs(tier):
    """(command, timeout in seconds) in the order they run: quick ones first."""
    lint = [("tools/lint.py", 2 * MINUTE), ("tests/lint/run.py", 2 * MINUTE)]
    units = [(p, 2 * MINUTE) for p in existing(BUILD + "/tests/test_*") + existing(BUILD + "/tests/fuzz_*")
             if not p.endswith(".d")]
    kern = [(p, 10 * MINUTE) for p in executable(BUILD + "/tests/kern_check")]
    scripts = [(p, 15 * MINUTE) for p in executable(*existing("tests/*/run.sh")) if "/clients/" not in p]
    long = [(p, 240 * MINUTE) for p in executable(*existing("tests/*/long.sh"))]
    clients = [(p, 30 * MINUTE) for p in executable("tests/clients/run.sh", *existing("tests/*/clients.sh"))]
    slow_units = [(p, 10 * MINUTE) for p, _ in units]
    return {
        "unit": lint + units + kern,
        "test": lint + units + kern + scripts,
        "long": long,
        "clients": clients,
        "asan": slow_units + kern + [(p, 10 * MINUTE) for p in executable(BUILD + "/tests/sim")],
        "tsan": slow_units,  # `make tsan` builds those with threads
    }[tier]


def environment():
    env = dict(os.environ, BUILD=BUILD, FFWD=FFWD, LC_ALL="C.UTF-8")
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not cache.startswith("/"):
        cache = os.path.expanduser("~/.cache")
    for name, file in (("SMOLLM2", "SmolLM2-135M-Instruct.Q4_1.gguf"), ("GEMMA", "gemma-3-270m-q4_k_m.gguf")):
        path = os.path.join(cache, "ffwd/models", file)
        if os.path.exists(path):
            env.setdefault(name, path)
    return env


def count(output, ok):
    """(passed, failed, skipped) as the program itself counted."""
    plain = re.findall(r"^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", output, re.M)
    if plain:
        passed, failed, skipped = (int(x or 0) for x in plain[-1])
    else:
        passed = sum(map(int, re.findall(r"^\[  PASSED  \] (\d+) test", output, re.M)))
        failed = sum(map(int, re.findall(r"^\[  FAILED  \] (\d+) test", output, re.M)))
        skipped = sum(map(int, re.findall(r"^\[  SKIPPED \] (\d+) test", output, re.M)))
    if not ok and failed == 0:
        failed = 1
    if ok and passed + failed + skipped == 0:
        passed = 1
    return passed, failed, skipped


def run(program, timeout, env):
    """(output, failure text or None). The program's whole process group ends with it."""
    child = subprocess.Popen([program], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)
    why = None
    try:
        output, _ = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        why = f"did not end within {timeout} s"
        os.killpg(child.pid, signal.SIGKILL)
        output, _ = child.communicate()
    except KeyboardInterrupt:
        os.killpg(child.pid, signal.SIGTERM)
        raise
    if why is None and child.returncode < 0:
        why = "was ended by " + signal.Signals(-child.returncode).name
    elif why is None and child.returncode:
        why = f"exit status {child.returncode}"
    return output.decode("utf-8", "replace"), why


def main():
    tier = sys.argv[1] if len(sys.argv) == 2 else ""
    if tier not in ("unit", "test", "long", "clients", "asan", "tsan"):
        sys.exit(__doc__)
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env, total, times = environment(), [0, 0, 0], []
    chosen = programs(tier)
    for program, timeout in chosen:
        start = time.monotonic()
        output, why = run(program, timeout, env)
        counts = count(output, why is None)
        if why is None and counts[1]:
            why = f"{counts[1]} failed"
        for i in range(3):
            total[i] += counts[i]
        skipped = f", {counts[2]} skipped" if counts[2] else ""
        times.append((time.monotonic() - start, program))
        print(f"{'FAIL' if why else 'ok  '}  {program:<32} {counts[0]:>5} passed{skipped}  "
              f"{times[-1][0]:6.1f} s{'  ' + why if why else ''}", flush=True)
        notes = re.findall(r"^note:.*$", output, re.M)
        if why or os.environ.get("VERBOSE"):
            print("      | " + output.rstrip("\n").replace("\n", "\n      | "), flush=True)
        elif notes:
            print("\n".join("      " + n for n in notes), flush=True)
    slowest = ", ".join(f"{program} {seconds:.0f} s" for seconds, program in sorted(times, reverse=True)[:5])
    print(f"{sum(seconds for seconds, _ in times):.0f} s in all; slowest: {slowest}")
    tail = f", {total[2]} skipped" if total[2] else ""
    print(f"{total[0]} passed, {total[1]} failed{tail}")
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
