#!/usr/bin/env python3
"""Measures ffwd against llama.cpp and ik_llama.cpp on this machine, and says which of the project's bars are met.

    bench/compare.py [--quick] [--json] [--models smollm2,1b-q8_0] [--figures prefill,decode-0] [--rounds N]
                     [--threads N] [--ffwd PROGRAM] [--peers DIR] [--ik DIR] [--out FILE]

The programs take turns (A B C A B C ...), so that what the machine does meanwhile meets all; a ratio is taken within
each round, to the peer with the better median, and the median of the ratios counts. What memory and processors can do
is probed in every round (limits.c). Each peer runs with the better of its settings, found out first for each kind of
figure. bench/peers.sh builds the peers; one that is not there is named as skipped, and then the exit status is 3.
Otherwise it is 0 when everything was measured, bars met or not. Needs an idle machine and says so when it is not.

Writes a section of bench/RESULTS.md for each model, and the chart bench/results.png of all that stands there. --quick
takes less than five minutes. It writes no file, nor does a choice of figures, unless --out names one. --json prints one
object: {"isa", "threads", "ratios": {"model/figure": ffwd ÷ better peer, higher is better}, "limits": {"machine": what
was probed, "reached": {"model/figure": share of the limit}}, "skipped": {peer: why}}.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import bars
import kit
import peers
import report

QUICK_S = 270  # no further round begins that would not be over by then
LIMITS = os.path.join(kit.BUILD, "bench/limits")
OWN_ROWS = 32  # of a step whose overhead is measured
STARTS = 5     # of a cold process, a round: one takes little time, and single ones differ by half


# ------------------------------------------------------------------------------------------------------ expected time


class Part:
    """Figures of a model that are measured together, or a trial of the peers' settings (no figures)."""

    def __init__(self, names, seconds, rounds):
        self.names, self.seconds, self.rounds = names, seconds, rounds  # seconds: a guess for one round


class Plan:
    """How long what is left may take: guesses, corrected by how right those of the parts before were."""

    def __init__(self, parts, budget):
        self.left, self.budget = list(parts), budget
        self.begin, self.guessed, self.spent = time.monotonic(), 0, 0

    def scale(self):
        return self.spent / self.guessed if self.guessed > 20 else 1

    def minutes(self):
        return sum(p.seconds * p.rounds for p in self.left) * self.scale() / 60

    def took(self, part, since):
        self.guessed += part.seconds
        self.spent += time.monotonic() - since

    def another(self, part):
        """Whether there is time for one more round of a part, and one of each that follows."""
        least = (part.seconds + sum(p.seconds for p in self.left)) * self.scale()
        return not self.budget or time.monotonic() - self.begin + least < self.budget


def kinds_of(figures):
    return list(dict.fromkeys(bars.FIGURES[f].kind for f in figures))


def guess(model, figures, programs):
    """Seconds of one round of figures that are measured together."""
    prompt_pace, decode_pace = bars.MODELS[model].pace
    prompts = steps = 0
    for name in figures:
        f = bars.FIGURES[name]
        prompts += {"prefill": 2 * f.n * peers.prefill_reps(f.n), "linear": 2 * f.n, "decode": f.n, "batch": f.n * peers.BATCH_PROMPT,
                    "forward": f.n * peers.FORWARD_REPS}.get(f.kind, 0)
        steps += {"decode": peers.DECODE, "batch": peers.BATCH_TOKENS * (1 + f.n / 4), "forward": peers.FORWARD_REPS,
                  "own": 60}.get(f.kind, 0)
    return programs * (1 + prompts / prompt_pace + steps / decode_pace) + 1


def trial_guess(model, figures, programs):
    prompt_pace, decode_pace = bars.MODELS[model].pace
    prompts = {"prefill": 256, "batch": 128, "forward": 90}
    steps = {"decode": 24, "batch": 16, "start": 2}
    return programs * 2 * sum(1 + prompts.get(kind, 0) / prompt_pace + steps.get(kind, 0) / decode_pace
                              for kind in kinds_of(figures))


def parts_of(model, figures, peer_count, rounds):
    """In the order of measuring."""
    groups = {}
    for name in figures:
        kind = bars.FIGURES[name].kind
        groups.setdefault(name if kind in ("prefill", "decode") else kind, []).append(name)
    return [Part([], trial_guess(model, figures, peer_count), 1)] + [
        Part(names, guess(model, names, 1 + peer_count), rounds * (STARTS if kind == "start" else 1))
        for kind, names in groups.items()]


# ---------------------------------------------------------------------------------------------------------- measuring


def probe(threads):
    return json.loads(kit.output([LIMITS, str(threads)]))["runs"][0]


def own_values(model, ffwd, info):
    """What has no counterpart in other programs: memory beyond weights and KV, time to load, the engine's overhead."""
    usage = ffwd.run("run", "-m", model, "--raw", "-p", kit.PROMPT, "-n", 32, "--threads", ffwd.threads)["usage"]
    positions = -(-(usage["prompt_tokens"] + usage["completion_tokens"]) // 32) * 32
    needed = info["weight_bytes"] + positions * info["kv_position_bytes"]
    profile = ffwd.bench(model, "--profile", "--batch", OWN_ROWS, "--tg", peers.DECODE)
    return {"fixed": (usage["peak_bytes"] - needed) / 1e6, "load": usage["load_seconds"],
            "overhead": profile["overhead_us"]["p50"]}


def values_of(program, model, names, info):
    """{figure: value} of one program, for figures that are measured together."""
    numbers = {name: bars.FIGURES[name].n for name in names}
    kind = bars.FIGURES[names[0]].kind
    if kind == "linear":
        return {name: program.linear(model, n) for name, n in numbers.items()}
    if kind == "own":
        return {name: value for name, value in own_values(model, program, info).items() if name in names}
    if kind == "start":
        seconds, peak = program.start(model)
        return {name: value for name, value in (("first-token", seconds), ("memory", peak / 1e6)) if name in names}
    if kind == "prefill":
        return {name: program.prefill(model, n) for name, n in numbers.items()}
    if kind == "decode":
        return {name: program.decode(model, n) for name, n in numbers.items()}
    if kind == "batch":
        got = program.batch(model, list(numbers.values()))
        return {name: got[n] for name, n in numbers.items()}
    got = program.forward(model, list(numbers.values()))
    return {name: got[n] * 1e3 for name, n in numbers.items()}


def measure_part(got, path, part, programs, plan):
    """Rounds of figures that are measured together, into `got`."""
    if bars.FIGURES[part.names[0]].kind in bars.ALONE:
        programs = programs[:1]
    for name in part.names:
        got["figures"][name] = {p.name: kit.Figures() for p in programs}
        got["probes"][name] = []
    for i in range(part.rounds):
        if i and not plan.another(part):
            kit.say(f"  {i} of {part.rounds} rounds: the time is up")
            return
        since = time.monotonic()
        for program in programs:
            for name, value in values_of(program, path, part.names, got["info"]).items():
                got["figures"][name][program.name].add(value)
        probed = probe(got["threads"])
        for name in part.names:
            got["probes"][name].append(probed)
        plan.took(part, since)


def measure(model, path, parts, ffwd, others, plan):
    title = bars.MODELS[model].title
    kit.read_whole(path)
    info = ffwd.info("-m", path)
    got = {"isa": info["isa"], "threads": int(ffwd.threads), "info": info["model"], "figures": {}, "probes": {}}
    kinds = [kind for kind in kinds_of(name for part in parts for name in part.names) if kind not in bars.ALONE]
    for part in parts:
        what = ", ".join(part.names) or "the settings of the peers"
        kit.say(f"{title}: {what} (about {plan.minutes():.0f} min left)")
        plan.left.remove(part)
        if part.names:
            measure_part(got, path, part, [ffwd, *others], plan)
            continue
        since = time.monotonic()
        for peer in others:
            peer.choose(path, kinds)
        plan.took(part, since)
    got["settings"] = [peer.settings(kinds) for peer in others]
    return got


def file_of(model, ffwd):
    if model.startswith("1b-"):
        return kit.synthetic_1b(ffwd.program, model.removeprefix("1b-"))
    return kit.known_model(ffwd.program, model)


# ------------------------------------------------------------------------------------------------------------- results


def as_json(results, machine, threads, skipped):
    ratios, reached, probes = {}, {}, []
    for model, got in results.items():
        for figure, programs in got["figures"].items():
            ratio, share = bars.ratio_to_better(figure, programs), bars.shares(figure, model, got)
            if ratio:
                ratios[f"{model}/{figure}"] = round(ratio[0].median, 3)
            if share:
                reached[f"{model}/{figure}"] = round(share.median, 3)
            probes += got["probes"][figure]
    at_best = {key: None if value is None else statistics.median(p[key] for p in probes)
               for key, value in probes[0].items()}
    return {"isa": machine["isa"], "threads": threads, "ratios": ratios,
            "limits": {"machine": at_best, "reached": reached}, "skipped": skipped}


def chosen(asked, every, what, belongs):
    """The names of `every` that a comma-separated choice means, in their own order."""
    words = asked.split(",")
    for word in words:
        if not any(belongs(name, word) for name in every):
            kit.die(f"--{what}: {word} is none of {', '.join(every)}")
    return [name for name in every if any(belongs(name, word) for word in words)]


def is_figure(name, word):
    return word in (name, bars.FIGURES[name].kind)


def arguments():
    ask = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    ask.add_argument("--quick", action="store_true", help="few models and figures, less than five minutes, no file")
    ask.add_argument("--json", action="store_true", help="prints one JSON object and nothing else")
    ask.add_argument("--models", default="", help=f"of {', '.join(bars.MODELS)}")
    ask.add_argument("--figures", default="", help="names, or kinds: prefill, decode, batch, forward, start, linear, own")
    ask.add_argument("--rounds", type=int, default=3)
    ask.add_argument("--threads", type=int, default=2)
    ask.add_argument("--ffwd", default=os.environ.get("FFWD", os.path.join(kit.BUILD, "ffwd")))
    ask.add_argument("--peers", default="", help="folder of llama.cpp's programs (default: that of bench/peers.sh)")
    ask.add_argument("--ik", default="", help="folder of ik_llama.cpp's")
    ask.add_argument("--out", help="the file whose sections are replaced; - for none (default: RESULTS.md, or none with --quick "
                     "or --figures)")
    args = ask.parse_args()
    models = bars.QUICK_MODELS if args.quick else list(bars.MODELS)
    figures = bars.QUICK_FIGURES if args.quick else list(bars.FIGURES)
    if not args.out:
        args.out = "-" if args.figures or args.quick else os.path.join(kit.HERE, "RESULTS.md")
    args.models = chosen(args.models, bars.MODELS, "models", str.__eq__) if args.models else models
    args.figures = chosen(args.figures, bars.FIGURES, "figures", is_figure) if args.figures else figures
    return args


def figures_for(model, figures):
    """Those that are measured of a model: the engine's own ones were set for real models."""
    return [f for f in figures if bars.FIGURES[f].kind != "own" or not model.startswith("1b-")]


def main():
    args = arguments()
    busy = kit.busy()
    if not os.access(LIMITS, os.X_OK):
        subprocess.run(["make", "-C", kit.ROOT, "BUILD=" + kit.BUILD, LIMITS], check=True, stdout=sys.stderr)
    ffwd = peers.Ffwd(args.ffwd, args.threads)
    machine = ffwd.info()
    others, skipped = peers.found(args.threads, args.peers, args.ik)
    for name, why in skipped.items():
        kit.say(f"skipped: {name}: {why}")
    parts = {model: parts_of(model, figures_for(model, args.figures), len(others), args.rounds)
             for model in args.models}
    plan = Plan([p for each in parts.values() for p in each], QUICK_S if args.quick else 0)
    kit.say(f"{len(args.models)} models, {len(args.figures)} figures: about {plan.minutes():.0f} min")
    paths, results = {model: file_of(model, ffwd) for model in args.models}, {}
    for model, path in paths.items():
        results[model] = measure(model, path, parts[model], ffwd, others, plan)
        if args.out != "-":
            report.write(args.out, {model: results[model]}, machine["why"], busy)
    if args.out != "-":
        report.draw(os.path.join(os.path.dirname(args.out), "results.png"), kit.read_text(args.out))
    if args.json:
        print(json.dumps(as_json(results, machine, args.threads, skipped)))
    else:
        print("\n".join(report.lines(results)))
    return 3 if skipped else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.SubprocessError as e:
        kit.die(str(e))
