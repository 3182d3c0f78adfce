#!/usr/bin/env python3
"""Measures what fast-forwarding saves on recorded conversations, and writes it into bench/RESULTS.md.

    bench/replay.py [--ffwd PROGRAM] [--threads N] [--models smollm2,1b] [--classes a,b] [--tool-lines 24] [--lines 2]
                    [--repeat 3] [--batch 1] [--each] [--out FILE]

Makes what it needs once, in the user's cache and in build/bench: the corpus (bench/corpus/make.py), a model of the Llama
3.2 1B shape with random weights (tools/synth_model.py), and a chat template that shows tools, which SmolLM2's own does not:
that of Qwen 2.5, whose turn marks SmolLM2's vocabulary has. What steps cost is measured first, and frozen. Needs an
otherwise idle machine and says so when it is not. The exit status is 0 when everything was measured, bars met or not.
"""
import argparse
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys

from bars import HERE, ROOT, die, output, processor, say, table

TITLE = "Fast-forwarding"
TEMPLATE = "templates/Qwen-Qwen2.5-7B-Instruct.jinja"
MODELS = {"smollm2": "SmolLM2-135M Q4_1", "1b": "1B shape Q4_K_M, random weights"}
CLASSES = ["tools_required", "tools_auto", "extraction", "edit", "code", "chat", "near_copies"]
# Time with fast-forwarding ÷ without: what may be lost at most where little or nothing can be foreseen.
BARS = {"code": 1.02, "chat": 1.02, "near_copies": 1.02}


# ---------------------------------------------------------------------------------------------------- what is needed


def cache():
    root = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(root if root.startswith("/") else os.path.expanduser("~/.cache"), "ffwd")


def last_line(text):
    return text.strip().splitlines()[-1]


def model_path(name, ffwd):
    if name == "smollm2":
        return last_line(output([ffwd, "pull", name]))
    script = os.path.join(ROOT, "tools/synth_model.py")
    with open(script, "rb") as f:
        version = hashlib.sha256(f.read()).hexdigest()[:8]  # another script makes another model
    path = os.path.join(cache(), f"models/synthetic-1b-{version}.gguf")
    if not os.path.exists(path):
        say("writing the 1B model (670 MB)")
        output([sys.executable, script, "--like", model_path("smollm2", ffwd), "--out", path])
    return path


def make_corpus():
    path = os.path.join(ROOT, "build/bench/replay.jsonl")
    say(output([sys.executable, "-B", os.path.join(HERE, "corpus/make.py"), "--out", path]).strip())
    return path


def template_path():
    folder = last_line(output([sys.executable, os.path.join(ROOT, "tests/text/fetch_corpus.py")]))
    return os.path.join(folder, TEMPLATE)


# ---------------------------------------------------------------------------------------------------------- measuring


def cost_file(model, name, args):
    path = os.path.join(ROOT, f"build/bench/cost-{name}.json")
    text = output([args.ffwd, "info", "-m", model, "--cost", "--threads", str(args.threads), "--json"])
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path, json.loads(text)


def measure(name, corpus, template, args):
    say(MODELS[name])
    model = model_path(name, args.ffwd)
    path, curve = cost_file(model, name, args)
    got = {"curve": curve, "classes": {}}
    for cls in args.classes:
        say(f"  {cls}")
        limit = args.tool_lines if cls.startswith("tools") else args.lines
        command = [args.ffwd, "bench", "replay", corpus, "-m", model, "--chat-template", template, "--cost-file", path,
                   "--class", cls, "--limit", str(limit), "--repeat", str(args.repeat), "--batch", str(args.batch),
                   "--threads", str(args.threads), "--json"]
        got["classes"].update(json.loads(output(command + ["--each"] * args.each))["classes"])
    return got


# ---------------------------------------------------------------------------------------------------------- reporting


def sources_text(by_source):
    """What each source gave, as accepted of proposed."""
    said = [f"{name} {s['accepted']} of {s['proposed']}" + (f", alone {s['alone']['ratio_time']:.2f}" if "alone" in s else "")
            for name, s in by_source.items() if s["proposed"]]
    return "; ".join(said) or "none"


def bar_text(cls, ratio):
    if cls not in BARS:
        return ""
    return f"≤ {BARS[cls]}: " + ("met" if ratio <= BARS[cls] else "**missed**")


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
                     bar_text(cls, c["ratio_time"])))
    head = ("class", "replies", "tokens", "time", "passes", "modelled cost", "accepted of proposed ids", "bar")
    return "\n".join([f"### {MODELS[name]}", "", curve_text(got["curve"]), "", table(head, rows), ""])


def report(results, args, why, busy):
    head = [f"## {TITLE}", "",
            f"Written by `bench/replay.py` on {datetime.date.today().isoformat()}. {processor()}; {args.threads} threads, "
            f"{args.batch} request{'s' * (args.batch > 1)} at a time. {why} Decoding of recorded replies, every forward pass "
            f"made; fast-forwarding on ÷ off, so below 1 is better; medians of {args.repeat} alternating pairs [range].", ""]
    if busy:
        head += [f"**The machine was not idle** (load {busy:.1f} before the start): these times prove little.", ""]
    return "\n".join(head + [model_section(name, got) for name, got in results.items()])


def with_section(text, section):
    """`text` with its section of this title replaced, or added at the end."""
    found = re.search(rf"^## {TITLE}\n.*?(?=^## |\Z)", text, re.M | re.S)
    if found:
        return text[:found.start()] + section + text[found.end():]
    return text.rstrip("\n") + "\n\n" + section


def write(path, section):
    old = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            old = f.read()
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(with_section(old, section).lstrip("\n"))
    os.replace(path + ".new", path)


def arguments():
    ask = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    ask.add_argument("--ffwd", default=os.environ.get("FFWD", os.path.join(ROOT, "build/ffwd")))
    ask.add_argument("--threads", type=int, default=2)
    ask.add_argument("--models", default=",".join(MODELS))
    ask.add_argument("--classes", default=",".join(CLASSES))
    ask.add_argument("--tool-lines", type=int, default=24, help="conversations of each class of tool calls")
    ask.add_argument("--lines", type=int, default=2, help="of each other class; their replies are long")
    ask.add_argument("--repeat", type=int, default=3)
    ask.add_argument("--batch", type=int, default=1)
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
    load = os.getloadavg()[0]
    busy = load if load > 0.5 else 0
    if busy:
        say(f"replay: the machine is not idle (load {load:.1f})")
    why = "Kernels: " + json.loads(output([args.ffwd, "info", "--json"]))["why"].rstrip(".") + "."
    corpus, template = make_corpus(), template_path()
    section = report({name: measure(name, corpus, template, args) for name in args.models}, args, why, busy)
    if args.out == "-":
        print(section)
    else:
        write(args.out, section)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.SubprocessError as e:
        die(str(e))
