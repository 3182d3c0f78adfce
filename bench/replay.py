#!/usr/bin/env python3
"""Measures what fast-forwarding saves on recorded conversations, and writes it into bench/RESULTS.md.

    bench/replay.py [--ffwd PROGRAM] [--threads N] [--models smollm2,1b] [--classes a,b] [--tool-lines 24] [--lines 3]
                    [--repeat 3] [--each] [--no-peer] [--out FILE]

Makes what it needs once, in the user's cache and in build/bench: the corpus (bench/corpus/make.py) and a model of the
Llama 3.2 1B shape with random weights (tools/synth_model.py), of which a third of the conversations are run: it is
slow. What steps cost is measured first, and frozen. SmolLM2 is also run with eight requests at a time, and with a
draft that is never right. Extraction is run beside llama.cpp's server with the same model and schemas (bench/peers.sh
builds it). Needs an otherwise idle machine and says so when it is not. The exit status is 0 when everything was
measured, bars met or not.
"""
import argparse
import datetime
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import kit
from kit import HERE, ROOT, die, output, say, table

TITLE = "Fast-forwarding"
MODELS = {"smollm2": "SmolLM2-135M Q4_1", "1b": "1B shape Q4_K_M, random weights"}
CLASSES = ["tools_required", "tools_auto", "extraction", "edit", "code", "chat", "near_copies"]
# On ÷ off. Of time, with AVX2 only and with VNNI; where little or nothing can be foreseen, of passes × modelled cost.
TIME_BARS = {"tools_required": (0.75, 0.55), "tools_auto": (0.9, 0.75)}
TIME_BARS_1B = {"extraction": 1 / 1.35, "edit": 1 / 2.5}
COST_BAR, BATCH_BAR, PEER_BAR, DRAFT_BAR = 1.02, 0.8, 2.0, 1.02
DRAFT_PAIRS, DRAFT_TOKENS = 21, 400


# ---------------------------------------------------------------------------------------------------- what is needed


def model_path(name, ffwd):
    return kit.known_model(ffwd, name) if name == "smollm2" else kit.synthetic_1b(ffwd, "q4_k_m")


def make_corpus():
    path = os.path.join(ROOT, "build/bench/replay.jsonl")
    say(output([sys.executable, "-B", os.path.join(HERE, "corpus/make.py"), "--out", path]).strip())
    return path


# ---------------------------------------------------------------------------------------------------------- measuring


def cost_file(model, name, args):
    path = os.path.join(ROOT, f"build/bench/cost-{name}.json")
    text = output([args.ffwd, "info", "-m", model, "--cost", "--threads", str(args.threads), "--json"])
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path, json.loads(text)


def measure(name, corpus, args, batch):
    say(f"{MODELS[name]}, {batch} at a time")
    model = model_path(name, args.ffwd)
    path, curve = cost_file(model, name, args)
    got = {"curve": curve, "batch": batch, "classes": {}}
    share = 3 if name == "1b" else 1
    for cls in args.classes:
        limit = args.tool_lines if cls.startswith("tools") else args.lines
        command = [args.ffwd, "bench", "replay", corpus, "-m", model, "--cost-file", path, "--class", cls, "--limit",
                   str(max(limit // share, 1)), "--repeat", str(max(args.repeat - share + 1, 1)), "--batch", str(batch),
                   "--threads", str(args.threads), "--json"]
        say(f"  {cls}")
        got["classes"].update(json.loads(output(command + ["--each"] * args.each))["classes"])
    return got


def post(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as reply:
        return json.load(reply)


def peer_speed(corpus, args):
    """Tokens a second of llama.cpp's server under the schemas of `extraction`: its median over some of them."""
    where = kit.llama_cpp("", "llama-server")
    with open(corpus, encoding="utf-8") as f:
        lines = [line for line in map(json.loads, f) if line["class"] == "extraction"][:4]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([os.path.join(where, "llama-server"), "-m", model_path("1b", args.ffwd), "--port", str(port),
                                   "-t", str(args.threads), "-np", "1", "-c", "2048", "-fa", "on"], cwd=folder,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(120):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.5)
            speeds = []
            for line in lines:
                got = post(port, "/completion", {"prompt": line["messages"][-1]["content"], "n_predict": 100, "temperature": 0,
                                                 "json_schema": line["response_format"]["json_schema"]["schema"]})
                speeds.append(got["timings"]["predicted_per_second"])
        finally:
            server.terminate()
            server.wait(30)
    return sorted(speeds)[len(speeds) // 2]


def wrong_draft(args):
    """What a draft that is never right costs SmolLM2, time ÷ time without: a small model with random weights."""
    say("SmolLM2 with a draft model that is never right")
    model = model_path("smollm2", args.ffwd)
    ratios, counts = [], {"proposed": 0, "accepted": 0}
    with tempfile.TemporaryDirectory() as folder:
        draft = os.path.join(folder, "draft.gguf")
        output([kit.python(), os.path.join(ROOT, "tools/synth_model.py"), "--like", model, "--out", draft, "--layers", "2",
                "--width", "256", "--heads", "4", "--kv-heads", "4", "--ffn", "768"])
        sides = {"without": [], "with": ["--draft-model", draft]}
        for pair in range(DRAFT_PAIRS):
            runs = {}
            for side in sorted(sides, reverse=pair % 2):  # each goes first half of the time
                runs[side] = json.loads(output(
                    [args.ffwd, "run", "-m", model, "-p", "Write a long story about a ship.", "-n", str(DRAFT_TOKENS),
                     "--threads", str(args.threads), "--sources", "draft", "--json"] + sides[side]))
            if runs["with"]["ids"] != runs["without"]["ids"]:
                die("a draft changed the reply")
            ratios.append(runs["with"]["usage"]["decode_seconds"] / runs["without"]["usage"]["decode_seconds"])
            for key in counts:
                counts[key] += runs["with"]["usage"]["ffwd"]["by_source"]["draft"].get(key, 0)
    ratios.sort()
    middle = ratios[len(ratios) // 2]
    return [f"A draft model that is never right (two layers of random weights; {counts['proposed']} ids proposed, "
            f"{counts['accepted']} accepted, {DRAFT_PAIRS} pairs of {DRAFT_TOKENS} tokens of SmolLM2): time {middle:.3f} "
            f"[{ratios[0]:.3f}–{ratios[-1]:.3f}] of that without. Bar {DRAFT_BAR}: {kit.met_text(middle <= DRAFT_BAR)}.", ""]


# ---------------------------------------------------------------------------------------------------------- reporting


def sources_text(by_source):
    """What each source gave, as accepted of proposed."""
    said = [f"{name} {s['accepted']} of {s['proposed']}" + (f", alone {s['alone']['ratio_time']:.2f}" if "alone" in s else "")
            for name, s in by_source.items() if s["proposed"]]
    return "; ".join(said) or "none"


def bar_text(name, got, cls, c):
    """Which bar a class has, and whether it is met."""
    ratio, what = c["ratio_time"], "time"
    if got["batch"] > 1 and cls.startswith("tools"):
        bar = BATCH_BAR
    elif cls in TIME_BARS and got["batch"] == 1:
        bar = TIME_BARS[cls]["avx512" in got["curve"]["isa"]]
    elif name == "1b" and cls in TIME_BARS_1B:
        bar = TIME_BARS_1B[cls]
    else:
        bar, ratio, what = COST_BAR, c["ratio_cost"], "cost"
    return f"{what} ≤ {bar:.2f}: " + kit.met_text(ratio <= bar)


def curve_text(curve):
    one = curve["points"][0]["ms"]
    points = ", ".join(f"{p['tokens']}: {p['ms'] / one:.2f}" for p in curve["points"] if p["tokens"] <= 64)
    return (f"A pass of one token takes {one:.1f} ms without its head, a head {curve['head_ms_per_position']:.2f} ms. Passes of "
            f"more tokens, relative to one: {points}.")


def model_section(name, got):
    rows = []
    for cls, c in got["classes"].items():
        low, high = c["ratio_time_range"]
        rows.append((cls, str(c["lines"]), str(c["tokens"]), f"{c['ratio_time']:.3f} [{low:.3f}–{high:.3f}]",
                     f"{c['ratio_steps']:.3f}", f"{c['ratio_cost']:.3f}", sources_text(c["by_source"]),
                     bar_text(name, got, cls, c)))
    head = ("class", "replies", "tokens", "time", "passes", "modelled cost", "accepted of proposed ids", "bar")
    at_a_time = f", {got['batch']} requests at a time" if got["batch"] > 1 else ""
    return "\n".join([f"### {MODELS[name]}{at_a_time}", "", curve_text(got["curve"]), "", table(head, rows), ""])


def report(results, args, why, busy, peer):
    head = [f"## {TITLE}", "",
            f"Written by `bench/replay.py` on {datetime.date.today().isoformat()}. {kit.processor()}; {args.threads} threads, "
            f"one request at a time unless said otherwise. {why} Decoding of recorded replies, every forward pass "
            f"made; fast-forwarding on ÷ off, so below 1 is better; medians of alternating pairs [range].", ""]
    head += kit.busy_text(busy)
    return "\n".join(head + [model_section(name, got) for name, got in results] + peer)


def arguments():
    ask = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    ask.add_argument("--ffwd", default=os.environ.get("FFWD", os.path.join(ROOT, "build/ffwd")))
    ask.add_argument("--threads", type=int, default=2)
    ask.add_argument("--models", default=",".join(MODELS))
    ask.add_argument("--classes", default=",".join(CLASSES))
    ask.add_argument("--tool-lines", type=int, default=24, help="conversations of each class of tool calls")
    ask.add_argument("--lines", type=int, default=3, help="of each other class; their replies are long")
    ask.add_argument("--repeat", type=int, default=3)
    ask.add_argument("--no-peer", action="store_true", help="without llama.cpp's server")
    ask.add_argument("--each", action="store_true", help="each source alone, too")
    ask.add_argument("--out", default=os.path.join(HERE, "RESULTS.md"), help="- prints the section and writes no file")
    args = ask.parse_args()
    args.models, args.classes = args.models.split(","), args.classes.split(",")
    if not all(name in MODELS for name in args.models):
        die(f"--models must be of {', '.join(MODELS)}")
    if not all(name in CLASSES for name in args.classes):
        die(f"--classes must be of {', '.join(CLASSES)}")
    return args


def main():
    args = arguments()
    busy = kit.busy()
    why = "Kernels: " + json.loads(output([args.ffwd, "info", "--json"]))["why"].rstrip(".") + "."
    kit.python()  # says now that it is missing
    corpus = make_corpus()
    wrong = wrong_draft(args) if "smollm2" in args.models else []
    results = [(name, measure(name, corpus, args, 1)) for name in args.models]
    if "smollm2" in args.models:
        results.append(("smollm2", measure("smollm2", corpus, args, 8)))
    peer = wrong
    for name, got in results:
        c = got["classes"].get("extraction")
        if name == "1b" and c and not args.no_peer:
            ours, theirs = c["tokens"] / c["on"]["seconds"], peer_speed(corpus, args)
            peer += [f"Extraction on the 1B shape: {ours:.1f} tokens a second, llama.cpp's server with the same model and schemas "
                    f"{theirs:.1f}: {ours / theirs:.2f} times. Bar {PEER_BAR}: {kit.met_text(ours / theirs >= PEER_BAR)}.", ""]
    section = report(results, args, why, busy, peer)
    if args.out == "-":
        print(section)
    else:
        kit.write_text(args.out, kit.with_section(kit.read_text(args.out), TITLE, section))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.SubprocessError as e:
        die(str(e))
