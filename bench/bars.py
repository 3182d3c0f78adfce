#!/usr/bin/env python3
"""Measures ffwd against llama.cpp on this machine, and prints which of the project's bars are met.

    bench/bars.py [--ffwd PROGRAM] [--peers DIR] [--threads N] [--rounds N] [--models smollm2,gemma3-270m] [--out FILE]

The two programs take turns (A B A B ...), so that what the machine does meanwhile meets both; a ratio is taken within
each pair and the median of the ratios counts. llama.cpp runs with the better of its settings, found out first: weights
repacked at load or not, separately for prefill and decode, always with flash attention. Needs an otherwise idle machine
and says so when it is not. Writes bench/RESULTS.md. The exit status is 0 when everything was measured, met or not.
"""
import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PROMPT = "The capital of France is"
OVERHEAD_ROWS, OVERHEAD_US = 32, 150  # the engine's own work in a step, and its bar
PREFILL, DECODE = 512, 128

# What the project promises. Memory is on top of weights and KV, in MB of 10^6 bytes.
MODELS = {
    "smollm2": {"title": "SmolLM2-135M Q4_1", "prefill": 2.5, "decode": 1.3, "fixed_mb": 80, "load_s": 0.5},
    "gemma3-270m": {"title": "Gemma-3-270M Q4_K_M", "prefill": 1.3, "decode": 1.15, "fixed_mb": 250, "load_s": None},
}


def die(text):
    sys.exit(f"bars: {text}")


def say(text):
    print(text, file=sys.stderr, flush=True)


def output(command, **more):
    run = subprocess.run(command, capture_output=True, text=True, **more)
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["no message"])[-1]
        die(f"{os.path.basename(command[0])} failed with status {run.returncode}: {last}")
    return run.stdout


class Figures:
    """Values of one measured quantity, in the order they were taken."""

    def __init__(self):
        self.values = []

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
    made = Figures()
    for a, b in zip(ours.values, theirs.values):
        made.add(b / a if less_is_better else a / b)
    return made


# ------------------------------------------------------------------------------------------------------- the programs


class Ffwd:
    def __init__(self, program, threads):
        self.program, self.threads = program, str(threads)

    def path(self, name):
        return output([self.program, "pull", name]).strip().splitlines()[-1]

    def bench(self, model):
        text = output([self.program, "bench", "-m", model, "--threads", self.threads, "--pp", str(PREFILL), "--tg",
                       str(DECODE), "--reps", "2", "--json"])
        return json.loads(text)

    def info(self, model):
        return json.loads(output([self.program, "info", "-m", model, "--json"]))

    def answer(self, model, n):
        return json.loads(output([self.program, "run", "-m", model, "--raw", "-p", PROMPT, "-n", str(n), "--threads",
                                  self.threads, "--json"]))

    def profile(self, model, rows):
        return json.loads(output([self.program, "bench", "-m", model, "--threads", self.threads, "--profile", "--batch",
                                  str(rows), "--tg", "128", "--json"]))

    def first_token(self, model):
        return [self.program, "run", "-m", model, "--raw", "-p", PROMPT, "-n", "1", "--threads", self.threads]


class LlamaCpp:
    def __init__(self, folder, threads):
        self.folder, self.threads = folder, str(threads)

    def bench(self, model, prefill, decode, repack):
        text = output([os.path.join(self.folder, "llama-bench"), "-m", model, "-t", self.threads, "-fa", "1", "--repack",
                       str(repack), "-p", str(prefill), "-n", str(decode), "-r", "2", "-o", "json"])
        return statistics.median(json.loads(text)[0]["samples_ts"])

    def best_repack(self, model):
        """(for prefill, for decode): the setting with the higher rate in a short trial."""
        best = []
        for prefill, decode in ((PREFILL, 0), (0, 64)):
            rates = [self.bench(model, prefill, decode, repack) for repack in (0, 1)]
            best.append(int(rates[1] > rates[0]))
        return best

    def first_token(self, model, repack):
        command = [os.path.join(self.folder, "llama-completion"), "-m", model, "-t", self.threads, "-fa", "on", "-p", PROMPT,
                   "-n", "1", "-no-cnv", "--no-warmup", "--no-display-prompt", "--temp", "0"]
        return command if repack else command + ["--no-repack"]


def cold_start(command):
    """(seconds from the process's start to its first output, peak resident bytes)."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    first = child.stdout.read(1)
    seconds = time.monotonic() - start
    child.stdout.read()
    child.stdout.close()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if not first or child.returncode:
        die(f"{os.path.basename(command[0])} ended with status {child.returncode} and no text")
    return seconds, usage.ru_maxrss * 1024


# ------------------------------------------------------------------------------------------------------- measuring


def read_whole(path):
    """The file's pages into the system's cache."""
    with open(path, "rb") as f:
        while f.read(1 << 20):
            pass


def measure_speed(model, ffwd, peer, rounds):
    repack = peer.best_repack(model)
    got = {"repack": repack, "prefill": (Figures(), Figures()), "decode": (Figures(), Figures()), "probe": Figures()}
    for i in range(rounds):
        say(f"  speed, round {i + 1} of {rounds}")
        ours = ffwd.bench(model)
        got["prefill"][0].add(ours["pp"]["median"])
        got["decode"][0].add(ours["tg"]["median"])
        got["probe"].add(ours["probe_gbytes_per_second"])
        got["isa"], got["token_bytes"] = ours["isa"], ours["token_bytes"]
        got["prefill"][1].add(peer.bench(model, PREFILL, 0, repack[0]))
        got["decode"][1].add(peer.bench(model, 0, DECODE, repack[1]))
    return got


def measure_start(model, ffwd, peer, rounds):
    got = {"first": (Figures(), Figures()), "peak": (Figures(), Figures())}
    trial = [min(cold_start(peer.first_token(model, repack))[0] for _ in range(2)) for repack in (0, 1)]
    got["repack"] = int(trial[1] < trial[0])
    for _ in range(rounds):
        for side, command in enumerate((ffwd.first_token(model), peer.first_token(model, got["repack"]))):
            seconds, peak = cold_start(command)
            got["first"][side].add(seconds)
            got["peak"][side].add(peak / 1e6)
    return got


def measure_memory(model, ffwd, rounds):
    """What a run takes beyond packed weights and the keys and values of the positions it used."""
    info = ffwd.info(model)["model"]
    got = {"weights": info["weight_bytes"] / 1e6, "peak": Figures(), "fixed": Figures(), "load": Figures()}
    for _ in range(rounds):
        usage = ffwd.answer(model, 32)["usage"]
        positions = -(-(usage["prompt_tokens"] + usage["completion_tokens"]) // 32) * 32
        got["kv"] = positions * info["kv_position_bytes"] / 1e6
        got["peak"].add(usage["peak_bytes"] / 1e6)
        got["fixed"].add(usage["peak_bytes"] / 1e6 - got["weights"] - got["kv"])
        got["load"].add(usage["load_seconds"])
    return got


def measure_overhead(model, ffwd):
    """Microseconds of an engine's step at OVERHEAD_ROWS rows that are neither forward pass, heads nor sampling."""
    got = Figures()
    for _ in range(3):
        got.add(ffwd.profile(model, OVERHEAD_ROWS)["overhead_us"]["p50"])
    return got


def measure(name, ffwd, peer, rounds):
    model = ffwd.path(name)
    read_whole(model)
    say(f"{MODELS[name]['title']}")
    return {"speed": measure_speed(model, ffwd, peer, rounds),
            "start": measure_start(model, ffwd, peer, max(3, rounds)),
            "memory": measure_memory(model, ffwd, 3),
            "overhead": measure_overhead(model, ffwd)}


# ------------------------------------------------------------------------------------------------------- reporting


def bars_of(name, got):
    """(what, value as text, bar as text, met)."""
    bar, speed, start, memory = MODELS[name], got["speed"], got["start"], got["memory"]
    prefill, decode = ratios(*speed["prefill"]), ratios(*speed["decode"])
    first = ratios(*start["first"], less_is_better=True)
    fixed, load = memory["fixed"], memory["load"]
    rows = [(f"prefill {PREFILL}, ratio to llama.cpp", prefill.text(2), f"≥ {bar['prefill']}",
             prefill.median >= bar["prefill"]),
            (f"decode {DECODE}, ratio to llama.cpp", decode.text(2), f"≥ {bar['decode']}", decode.median >= bar["decode"]),
            ("cold process to first token, ratio to llama.cpp", first.text(2), "≥ 1", first.median >= 1),
            ("peak memory beyond weights and KV, MB", fixed.text(0), f"≤ {bar['fixed_mb']}",
             max(fixed.values) <= bar["fixed_mb"])]
    overhead = got["overhead"]
    rows.append((f"a step's overhead at {OVERHEAD_ROWS} rows, median, us", overhead.text(0), f"< {OVERHEAD_US}",
                 overhead.median < OVERHEAD_US))
    if bar["load_s"]:
        rows.append(("load, s", load.text(2), f"≤ {bar['load_s']}", load.median <= bar["load_s"]))
    return rows


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def model_section(name, got):
    speed, start, memory = got["speed"], got["start"], got["memory"]
    said = ["not repacked", "repacked"]
    rows = []
    for what in ("prefill", "decode"):
        ours, theirs = speed[what]
        rows.append((f"{what} {PREFILL if what == 'prefill' else DECODE}, tok/s", ours.text(), theirs.text(),
                     ratios(ours, theirs).text(2)))
    rows.append(("cold process to first token, s", start["first"][0].text(2), start["first"][1].text(2),
                 ratios(*start["first"], less_is_better=True).text(2)))
    rows.append(("peak memory of that, MB", start["peak"][0].text(), start["peak"][1].text(),
                 ratios(*start["peak"], less_is_better=True).text(2)))
    gigabytes = speed["decode"][0].median * speed["token_bytes"] / 1e9
    return "\n".join([
        f"## {MODELS[name]['title']}", "",
        table(("", "ffwd", "llama.cpp", "ratio"), rows), "",
        f"llama.cpp: weights {said[speed['repack'][0]]} for prefill, {said[speed['repack'][1]]} for decode, "
        f"{said[start['repack']]} for the start. Decode reads {gigabytes:.1f} GB/s of weights; the memory probe beside it "
        f"read {speed['probe'].text(1)} GB/s. A run of 32 tokens peaks at {memory['peak'].text()} MB: weights "
        f"{memory['weights']:.1f}, KV {memory['kv']:.1f}, the rest {memory['fixed'].text()}; loaded after "
        f"{memory['load'].text(2)} s.", ""])


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        names = re.findall(r"^model name\s*:\s*(.*)$", f.read(), re.M)
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} processors"


def server_bars():
    """The table of bars of SERVERS.md, as servers.py measured them last; nothing where it never ran."""
    try:
        with open(os.path.join(HERE, "SERVERS.md"), encoding="utf-8") as f:
            found = re.search(r"^## Bars\n\n(\|.*?\n)\n", f.read(), re.M | re.S)
    except OSError:
        return []
    return [found.group(1)] if found else []


def replay_section(path):
    """What replay.py wrote into the same file last; nothing where it never ran."""
    try:
        with open(path, encoding="utf-8") as f:
            found = re.search(r"^## Fast-forwarding\n.*?(?=^## |\Z)", f.read(), re.M | re.S)
    except OSError:
        return []
    return [found.group(0).rstrip("\n"), ""] if found else []


def report(results, args, why, busy):
    head = [
        "# ffwd and llama.cpp on one machine", "",
        f"Written by `bench/bars.py` on {datetime.date.today().isoformat()}. {processor()}; {args.threads} threads. {why} "
        f"llama.cpp is the copy in llama-cpp-python 0.3.36, built natively, with its better settings. Medians of "
        f"{args.rounds} alternating rounds [range]; ratios are taken pair by pair, above 1 is better for ffwd.", ""]
    if busy:
        head += [f"**The machine was not idle** (load {busy:.1f} before the start): these figures prove little.", ""]
    head += ["The server under load, beside other servers: [SERVERS.md](SERVERS.md).", "", *server_bars()]
    rows = [(MODELS[name]["title"], what, value, bar, "met" if met else "**missed**")
            for name, got in results.items() for what, value, bar, met in bars_of(name, got)]
    head += ["## Bars", "", table(("model", "what", "measured", "bar", ""), rows), ""]
    kept = replay_section(args.out)
    return "\n".join(head + [model_section(name, got) for name, got in results.items()] + kept)


def find_peers(folder):
    if not folder:
        run = subprocess.run([os.path.join(HERE, "peers.sh"), "where"], capture_output=True, text=True)
        folder = run.stdout.strip().splitlines()[-1] if run.returncode == 0 else ""
    if not os.access(os.path.join(folder, "llama-bench"), os.X_OK):
        die("llama.cpp is not there: run bench/peers.sh, or name its folder with --peers")
    return folder


def main():
    ask = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ask.add_argument("--ffwd", default=os.environ.get("FFWD", os.path.join(ROOT, "build/ffwd")))
    ask.add_argument("--peers", default="", help="folder of llama.cpp's programs (default: where bench/peers.sh puts them)")
    ask.add_argument("--threads", type=int, default=2)
    ask.add_argument("--rounds", type=int, default=5)
    ask.add_argument("--models", default=",".join(MODELS))
    ask.add_argument("--out", default=os.path.join(HERE, "RESULTS.md"), help="- writes no file")
    args = ask.parse_args()
    names = args.models.split(",")
    if not all(name in MODELS for name in names):
        die(f"--models must be of {', '.join(MODELS)}")
    ffwd, peer = Ffwd(args.ffwd, args.threads), LlamaCpp(find_peers(args.peers), args.threads)
    load = os.getloadavg()[0]
    busy = load if load > 0.5 else 0
    if busy:
        say(f"bars: the machine is not idle (load {load:.1f})")
    why = "Kernels: " + json.loads(output([args.ffwd, "info", "--json"]))["why"].rstrip(".") + "."
    results = {name: measure(name, ffwd, peer, args.rounds) for name in names}
    text = report(results, args, why, busy)
    if args.out != "-":
        with open(args.out + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(args.out + ".new", args.out)
    for name, got in results.items():
        for what, value, bar, met in bars_of(name, got):
            print(f"{'met   ' if met else 'MISSED'}  {MODELS[name]['title']}: {what}: {value} (bar {bar})")


if __name__ == "__main__":
    main()
