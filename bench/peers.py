"""The programs that compare.py runs: ffwd and its peers, which all offer the same measurements.

    prefill(model, n)           tokens a second of a prompt of n, head of the last one
    decode(model, depth)        tokens a second, one at a time, after `depth` tokens
    batch(model, rows)          {rows: tokens a second} of so many sequences decoded together, after BATCH_PROMPT tokens
    forward(model, sizes)       {n: seconds} of one pass over n tokens of one sequence, head of the last one
    start(model)                (seconds to the first output, peak bytes) of a process that answers with one token

All use random ids, keys and values as f16, and a context just as large as needed. The first repetition of a prompt or
pass warms and is not counted (`ffwd bench` and llama.cpp's programs make such a one themselves; of ik_llama.cpp's the
first sample is dropped). A peer has one setting to choose for each kind of measurement: whether weights are repacked.
"""
import json
import os
import re
import statistics
import subprocess
import tempfile

import kit

DECODE = 128                          # decoded tokens
BATCH_PROMPT, BATCH_TOKENS = 128, 32
FORWARD_REPS = 10
START_CONTEXT = 512
KINDS = {"prefill": "prefill", "decode": "decode", "batch": "batches", "forward": "short passes", "start": "the start"}


def prefill_reps(n):
    return 5 if n <= 128 else 1


class Ffwd:
    name = "ffwd"

    def __init__(self, program, threads):
        self.program, self.threads = program, str(threads)

    def run(self, *arguments):
        return json.loads(kit.output([self.program, *map(str, arguments), "--json"]))

    def bench(self, model, *more):
        return self.run("bench", "-m", model, "--threads", self.threads, "--no-probe", *more)

    def prefill(self, model, n):
        return self.bench(model, "--ctx", n, "--pp", n, "--tg", 0, "--reps", prefill_reps(n))["pp"]["median"]

    def linear(self, model, n):
        return self.bench(model, "--ctx", n, "--pp", n, "--tg", 0, "--reps", 1)["pp"]["linear_gmac_s"]

    def decode(self, model, depth):
        return self.bench(model, "--ctx", depth + DECODE, "--pp", 0, "--tg", DECODE, "--depth", depth, "--reps",
                          1)["tg"]["median"]

    def batch(self, model, rows):
        return {n: self.bench(model, "--ctx", BATCH_PROMPT + BATCH_TOKENS, "--pp", 0, "--tg", BATCH_TOKENS, "--depth",
                              BATCH_PROMPT, "--batch", n, "--reps", 1)["tg"]["median"] for n in rows}

    def forward(self, model, sizes):
        return {n: n / self.bench(model, "--pp", n, "--tg", 0, "--reps", FORWARD_REPS)["pp"]["median"] for n in sizes}

    def start(self, model):
        return kit.cold_start([self.program, "run", "-m", model, "--raw", "-p", kit.PROMPT, "-n", "1", "--ctx",
                               str(START_CONTEXT), "--threads", self.threads])

    def info(self, *more):
        return self.run("info", *more)


def bench_samples(text):
    """{(prompt tokens, decoded tokens): tokens a second of each repetition} of what llama-bench prints as JSON."""
    return {(t["n_prompt"], t["n_gen"]): t["samples_ts"] for t in json.loads(text)}


def batch_rates(text):
    """{rows: decoded tokens a second} of llama-batched-bench's table: PP, TG, B, N_KV, T_PP, S_PP, T_TG, S_TG, ..."""
    rates = {}
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) >= 8 and re.fullmatch(r"\d+", cells[2]):
            rates[int(cells[2])] = float(cells[7])
    return rates


class Peer:
    """What llama.cpp and ik_llama.cpp have in common."""

    programs = ["llama-bench", "llama-batched-bench"]
    drop = 0  # first samples of a prompt's repetitions that are not counted

    def __init__(self, folder, threads):
        self.folder, self.threads = folder, str(threads)
        self.repack = dict.fromkeys(KINDS, 1)  # for the model that is measured now
        self.scratch = tempfile.TemporaryDirectory(prefix="ffwd-bench-")  # some write logs where they run

    def command(self, program, *arguments):
        return [os.path.abspath(os.path.join(self.folder, program)), *map(str, arguments)]

    def bench(self, model, kind, *more):
        command = self.command("llama-bench", "-m", model, "-t", self.threads, "-fa", 1, *self.bench_repack(kind), "-o",
                               "json", *more)
        return bench_samples(kit.output(command, cwd=self.scratch.name))

    def prompts(self, model, kind, sizes, reps):
        """{n: tokens a second}"""
        got = self.bench(model, kind, "-p", ",".join(map(str, sizes)), "-n", 0, "-r", reps + self.drop)
        return {n: statistics.median(got[n, 0][self.drop:]) for n in sizes}

    def prefill(self, model, n):
        return self.prompts(model, "prefill", [n], prefill_reps(n))[n]

    def forward(self, model, sizes):
        return {n: n / rate for n, rate in self.prompts(model, "forward", sizes, FORWARD_REPS).items()}

    def batch(self, model, rows, prompt=BATCH_PROMPT, tokens=BATCH_TOKENS):
        command = self.command("llama-batched-bench", "-m", model, "-t", self.threads, "-fa", "on",
                               *self.tool_repack("batch"), "-c", max(rows) * (prompt + tokens), "-npp", prompt, "-ntg",
                               tokens, "-npl", ",".join(map(str, rows)))
        got = batch_rates(kit.output(command, cwd=self.scratch.name, stderr=subprocess.STDOUT))  # which one uses
        if set(got) != set(rows):
            kit.die(f"{self.name}'s llama-batched-bench gave rates for {sorted(got)} of {rows} rows")
        return got

    def start(self, model):
        program, *more = self.answer
        return kit.cold_start(self.command(
            program, "-m", model, "-t", self.threads, "-fa", "on", "-c", START_CONTEXT, "-p", kit.PROMPT, "-n", 1,
            "--no-warmup", "--no-display-prompt", "--temp", 0, *more, *self.tool_repack("start")), cwd=self.scratch.name)

    def choose(self, model, kinds):
        """Takes the better setting for each kind of measurement, found in a short trial."""
        trial = {"prefill": lambda: self.prompts(model, "prefill", [128], 1)[128],
                 "decode": lambda: self.decode(model, 0, 24),
                 "batch": lambda: self.batch(model, [8], 16, 8)[8], "forward": lambda: 1 / self.forward(model, [8])[8],
                 "start": lambda: 1 / min(self.start(model)[0] for _ in range(2))}
        for kind in kinds:
            rates = []
            for setting in (0, 1):
                self.repack[kind] = setting
                rates.append(trial[kind]())
            self.repack[kind] = int(rates[1] > rates[0])

    def settings(self, kinds):
        """How it ran, in words."""
        yes = [KINDS[k] for k in kinds if self.repack[k]]
        no = [KINDS[k] for k in kinds if not self.repack[k]]
        return f"{self.name}: weights " + " and ".join(
            [f"{how} for {', '.join(what)}" for how, what in (("repacked", yes), ("as in the file", no)) if what])


class LlamaCpp(Peer):
    name = "llama.cpp"
    programs = Peer.programs + ["llama-completion"]
    answer = ["llama-completion", "-no-cnv"]

    def bench_repack(self, kind):
        return ["--repack", self.repack[kind]]

    def tool_repack(self, kind):
        return [] if self.repack[kind] else ["--no-repack"]

    def decode(self, model, depth, tokens=DECODE):
        return statistics.median(self.bench(model, "decode", "-p", 0, "-n", tokens, "-d", depth, "-r", 1)[0, tokens])


class IkLlamaCpp(Peer):
    name = "ik_llama.cpp"
    programs = Peer.programs + ["llama-cli"]
    answer = ["llama-cli"]
    drop = 1  # its own warm-up is of one token

    def bench_repack(self, kind):
        return ["-rtr", self.repack[kind]]

    def tool_repack(self, kind):
        return ["-rtr"] if self.repack[kind] else []

    def decode(self, model, depth, tokens=DECODE):
        how = ["-n", 0, "-gp", f"{depth},{tokens}"] if depth else ["-n", tokens]
        return statistics.median(self.bench(model, "decode", "-p", 0, *how, "-r", 1)[depth, tokens])


def found(threads, llama="", ik=""):
    """(the peers that are built, {the others' name: what is missing})."""
    built, missing = [], {}
    for kind, folder in ((LlamaCpp, kit.peer_folder("llama", llama)), (IkLlamaCpp, kit.peer_folder("ik", ik))):
        lacking = kit.lacks(folder, kind.programs) if folder else kind.programs
        if lacking:
            missing[kind.name] = f"{', '.join(lacking)} not there" + (f" in {folder}" if folder else "")
        else:
            built.append(kind(folder, threads))
    return built, missing
