"""Counts the instructions of a step and compares them with budgets.txt. Run by run.sh; --renew writes budgets.txt anew.

Time on a shared machine says little about a change of 5 %; the number of instructions says it each time. callgrind runs
`ffwd bench` on one thread with the AVX2 kernels (it knows no AVX-512) and counts within model_forward() and model_head()
alone, so neither loading nor the random ids matter. The count is the same on every machine for the same compiler; with
another one than the budgets were made with, nothing is compared.

A budget that is exceeded by more than TOLERANCE fails. What the program has become better by is told, so that the budget
can follow: run `tests/guard/run.sh --renew` and say in the commit why the numbers changed.
"""
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
os.chdir(os.path.join(HERE, "../.."))
sys.path.insert(0, "tests/cli")
import kit  # noqa: E402  pylint: disable=wrong-import-position

BUDGETS = os.path.join(HERE, "budgets.txt")
TOLERANCE = 0.03
AVX2 = {"FFWD_CPU": "avx2"}
REPETITIONS = 2  # `ffwd bench` warms once and repeats once


class Case:
    def __init__(self, name, model, tokens, *options):
        self.name, self.model, self.options = name, model, options
        self.tokens = REPETITIONS * tokens


def smollm2():
    return kit.need(kit.SMOLLM2, "there is no SmolLM2")


CASES = [
    Case("tiny_decode", lambda: kit.tiny("gemma3"), 16, "--pp", "0", "--tg", "16"),
    Case("smollm2_decode", smollm2, 2, "--pp", "0", "--tg", "2"),
    Case("smollm2_decode_8_rows", smollm2, 8, "--pp", "0", "--tg", "1", "--batch", "8"),
    Case("smollm2_prefill", smollm2, 16, "--pp", "16", "--tg", "0"),
]


def compiler():
    """The compiler of the C code in the program, as "gcc 12"."""
    notes = subprocess.run(["readelf", "-p", ".comment", kit.FFWD], capture_output=True, text=True, check=False).stdout
    found = re.search(r"GCC: \([^)]*\) (\d+)\.", notes)
    return "gcc " + found[1] if found else "an unknown compiler"


def instructions(case):
    """Of one token."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + kit.temp("callgrind.out"),
               "--toggle-collect=model_forward", "--toggle-collect=model_head",
               kit.FFWD, "bench", "-m", case.model(), "-t", "1", "--reps", "1", "--no-probe", *case.options]
    ended = subprocess.run(command, env=dict(os.environ, **AVX2), capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", ended.stderr)
    assert ended.returncode == 0 and found, ended.stderr[-1000:]
    return round(int(found[1]) / case.tokens)


def read_budgets():
    """(compiler, {name: instructions})"""
    with open(BUDGETS, encoding="utf-8") as f:
        lines = [line.split(None, 1) for line in f if line.strip() and not line.startswith("#")]
    budgets = {name: value.strip() for name, value in lines}
    return budgets.pop("compiler"), {name: int(value) for name, value in budgets.items()}


def write_budgets(counted):
    with open(BUDGETS, encoding="utf-8") as f:
        head = [line for line in f if line.startswith("#")]
    with open(BUDGETS, "w", encoding="utf-8") as f:
        f.writelines(head)
        f.write(f"compiler {compiler()}\n")
        f.writelines(f"{name} {n}\n" for name, n in counted.items())


def guard(case, budgets):
    def test():
        budget, n = budgets[case.name], instructions(case)
        change = n / budget - 1
        print(f"{case.name}: {n} instructions a token, budget {budget}, {change:+.2%}")
        if change < -TOLERANCE:
            print(f"note: {case.name} takes {-change:.1%} fewer instructions than its budget: tests/guard/run.sh --renew")
        assert change <= TOLERANCE, f"{change:.1%} more instructions than the budget allows; see tests/guard/guard.py"
    test.__name__ = case.name
    return test


def deep(kv):
    return Case("tiny_deep_" + kv, lambda: kit.tiny("gemma3"), 16, "--pp", "0", "--tg", "16", "--depth", "192", "--kv", kv)


def cp1_half_precision_is_no_slower():
    """CP1: what attention can be set to, f16 or f32 keys and values, costs no instructions where memory is no matter, so
    the default, which reads half as much, is slower nowhere."""
    f16, f32 = instructions(deep("f16")), instructions(deep("f32"))
    print(f"keys and values in f16: {f16} instructions, in f32: {f32}, {f16 / f32 - 1:+.2%}")
    assert f16 <= (1 + TOLERANCE) * f32


def reason_to_skip():
    if not shutil.which("valgrind"):
        return "there is no valgrind"
    if kit.ffwd("info", env=AVX2).code:
        return "this processor has no AVX2"
    made_with = read_budgets()[0]
    if made_with != compiler():
        return f"they are for {made_with} and the program is of {compiler()}"
    return None


def main():
    if sys.argv[1:] == ["--renew"]:
        write_budgets({case.name: instructions(case) for case in CASES})
        return 0
    why = reason_to_skip()
    if why:
        print(f"note: instruction budgets skipped, {why}\nguard: 0 passed, 0 failed, 1 skipped")
        return 0
    budgets = read_budgets()[1]
    kit.run_all([guard(case, budgets) for case in CASES] + [cp1_half_precision_is_no_slower])
    kit.TEMP.cleanup()
    print("guard: {passed} passed, {failed} failed, {skipped} skipped".format(**kit.counts))
    return kit.counts["failed"] != 0


if __name__ == "__main__":
    sys.exit(main())
