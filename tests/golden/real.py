#!/usr/bin/env python3
"""Compares the real models with tests/golden/real/*.json (transformers, dequantised to f32).

usage: real.py FFWD [MODEL ...]

Activations are rounded to 8 bits here and not there, so logits differ by some tenths. The rules: perplexity within 0.5 %;
the best id agrees at 98 % of the positions where the recording's margin is above 0.1; greedy text is the recorded one, or
leaves it at a step where the recorded margin is below NEAR, for the recorded second best."""
import json
import math
import os
import subprocess
import sys
import tempfile

import vectors

HERE = os.path.dirname(os.path.abspath(__file__))
# Files elsewhere than in the cache are named by SMOLLM2 and GEMMA.
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "ffwd", "models")
NEAR = 0.5
END = {"smollm2": (0, 2), "gemma3": (1, 106)}  # <|endoftext|>, <|im_end|>; <eos>, <end_of_turn>
passed = failed = 0


def check(what, good):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(("ok    " if good else "FAIL  ") + what, flush=True)


def ffwd(*args):
    r = subprocess.run([sys.argv[1], *args], capture_output=True, timeout=600)
    if r.returncode:
        sys.exit(f"{' '.join(args)}: {r.stderr.decode(errors='replace')}")
    return json.loads(r.stdout)


def positions(name, model, rec):
    """Best id at every position of the text, and the perplexity from the same ids."""
    ids = rec["ids"]
    out = ffwd("logits", "-m", model, "--ids", ",".join(map(str, ids)), "--top", "1", "--json")
    best = [p["top"][0]["id"] for p in out["positions"]]
    sure = [i for i, m in enumerate(rec["margin"]) if m > 0.1]
    agree = sum(best[i] == rec["top1"][i] for i in sure)
    check(f"{name}: best id agrees at {agree} of {len(sure)} positions with a margin above 0.1 "
          f"({100 * agree / len(sure):.2f} %)", agree >= 0.98 * len(sure))


def perplexity(name, model, rec):
    if not os.path.exists(rec["text"]):
        print(f"skip  {name}: {rec['text']} is not on this machine")
        return
    with open(rec["text"], "rb") as f:
        text = f.read(rec["bytes"])
    with tempfile.NamedTemporaryFile(suffix=".txt") as f:
        f.write(text)
        f.flush()
        out = ffwd("perplexity", "-m", model, "-f", f.name, "--json")
    off = out["ppl"] / rec["ppl"] - 1
    check(f"{name}: {out['tokens']} tokens, recorded {rec['tokens']}", out["tokens"] == rec["tokens"])
    check(f"{name}: perplexity {out['ppl']:.4f}, recorded {rec['ppl']:.4f} ({100 * off:+.3f} %)", abs(off) < 0.005)
    check(f"{name}: perplexity is exp of the mean loss", math.isclose(out["ppl"], math.exp(out["nll"]), rel_tol=1e-5))


def greedy(name, model, rec):
    """All recorded steps, unless the recording itself ends the reply: at an end token, which `ids` does not list."""
    out = ffwd("run", "-m", model, "-p", rec["prompt"], "--raw", "-n", str(len(rec["ids"])), "--json")
    check(f"{name}: ids of {rec['prompt']!r}", out["prompt_ids"] == rec["prompt_ids"])
    for i, (got, want) in enumerate(zip(out["ids"], rec["ids"])):
        if got != want:
            near = rec["margins"][i] < NEAR and got == rec["second"][i]
            check(f"{name}: {rec['prompt']!r} leaves the recording at step {i}, margin {rec['margins'][i]}", near)
            return
    steps = len(out["ids"])
    whole = steps == len(rec["ids"]) and out["finish_reason"] == "length"
    ended = steps < len(rec["ids"]) and out["finish_reason"] == "stop" and (
        rec["ids"][steps] in END[name] or (rec["margins"][steps] < NEAR and rec["second"][steps] in END[name]))
    check(f"{name}: {rec['prompt']!r} equals the recording for {steps} of {len(rec['ids'])} steps"
          f"{', to its end token' if ended else ''}", whole or ended)


def main():
    models = {"smollm2": ("SMOLLM2", "SmolLM2-135M-Instruct.Q4_1.gguf"), "gemma3": ("GEMMA", "gemma-3-270m-q4_k_m.gguf")}
    for name in sys.argv[2:] or models:
        variable, file = models[name]
        path = os.environ.get(variable) or os.path.join(CACHE, file)
        with open(os.path.join(HERE, "real", name + ".json"), encoding="utf-8") as f:
            rec = json.load(f)
        positions(name, path, rec["perplexity"])
        perplexity(name, path, rec["perplexity"])
        for g in rec["greedy"]:
            greedy(name, path, g)
    gemma = os.environ.get("EMBEDDINGGEMMA") or os.path.join(CACHE, vectors.FILE)
    there = os.path.exists(gemma)
    if there and not sys.argv[2:]:
        vectors.run(sys.argv[1], gemma, check)
    elif not there:
        print("note: EmbeddingGemma is not in the cache; tools/embeddinggemma.py makes the file")
    print(f"{passed} passed, {failed} failed, {int(not there)} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
