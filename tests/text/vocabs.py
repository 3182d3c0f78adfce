#!/usr/bin/env python3
"""Compares ids with recorded ones: the real vocabularies' own .inp and .out files, and the corpus of tests/golden.

    vocabs.py PROBE CORPUS [NAME…]
"""
import array
import glob
import hashlib
import json
import os
import sys

from probe import Probe, ids_of

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
sys.path.insert(0, GOLDEN)
import corpus  # noqa: E402

PLAIN, TRUSTED, SHOW = 0, 1, 16
# Vocabularies of models ffwd does not run: not byte-pair encodings.
OTHER_KINDS = {"bert-bge": "bert", "nomic-bert-moe": "t5"}
# decode(encode(x)) is x except where a vocabulary has no tokens for some bytes, and drops them.
DROPS_BYTES = {"smollm2", "falcon", "baichuan", "deepseek-llm"}
# A SentencePiece-style vocabulary writes a space as this character and cannot tell the two apart; the reference cannot either.
BAR, BAR_IS_SPACE = "\u2581", {"gemma-4", "gemma3", "llama-spm", "phi-3", "baichuan"}
# Phi-3's specials swallow the white space behind them.
SWALLOWS = {"phi-3"}
SPECIAL_TEXTS = ["<s>a</s> b", "<|endoftext|>", "x<|im_start|>user\nhi<|im_end|>", "<bos><start_of_turn>", "<0x0A>", "<unk>",
                 "<|eot_id|><|begin_of_text|>", "<｜end▁of▁sentence｜>", "[INST] x [/INST]", "▁a▁▁b"]


class Tally:
    def __init__(self):
        self.passed, self.failures = 0, []

    def check(self, ok, text):
        if ok:
            self.passed += 1
        else:
            self.failures.append(text)


def ask(probe, text, flags):
    probe.send(flags, text.encode("utf-8", "surrogatepass"))
    status, data = probe.receive()
    ids = ids_of(data) if status == 0 else data.decode()
    status, back = probe.receive()
    return ids, back.decode(), status


def round_trip(tally, name, probe, text, flags, exact=True):
    ids, back, status = ask(probe, text, flags)
    tally.check(status == 0, f"{name}: a stream of {text[:60]!r} gives other text than decoding it whole")
    if name in SWALLOWS and flags & TRUSTED:
        exact = False
    if exact:
        text = text.replace(BAR, " ") if name in BAR_IS_SPACE else text
        tally.check(back == text, f"{name}: {text[:60]!r} comes back as {back[:60]!r} ({str(ids)[:80]})")
    return ids


def recorded(path):
    with open(path + ".inp", encoding="utf-8", newline="") as f:
        texts = f.read().split("\n__ggml_vocab_test__\n")
    with open(path + ".out", encoding="utf-8") as f:
        lines = f.read().split("\n")
    return list(zip(texts, ([int(i) for i in line.split()] for line in lines)))


def real_vocabulary(tally, program, path):
    name = os.path.basename(path)[len("ggml-vocab-"):-len(".gguf")]
    if name in OTHER_KINDS:
        return
    probe = Probe(program, "tok", path)
    vocab = int(probe.receive()[1].split()[0])
    exact = name not in DROPS_BYTES
    if os.path.exists(path + ".out"):
        for text, want in recorded(path):
            ids = round_trip(tally, name, probe, text, PLAIN, exact)
            tally.check(ids == want, f"{name}: {text[:60]!r}\n   ffwd     {ids}\n   recorded {want}")
    for text in corpus.small() + SPECIAL_TEXTS:
        round_trip(tally, name, probe, text, PLAIN, exact)
        ids = round_trip(tally, name, probe, text, TRUSTED | SHOW, exact)
        tally.check(all(0 <= i < vocab for i in ids), f"{name}: ids outside the vocabulary for {text[:60]!r}")
    round_trip(tally, name, probe, corpus.large()[:100_000], PLAIN)
    tally.check(probe.close() == 0, f"{name}: probe failed")


def golden(tally, program, name, path):
    with open(os.path.join(GOLDEN, "tokens", name + ".json")) as f:
        record = json.load(f)
    probe = Probe(program, "tok", path)
    probe.receive()
    exact = name not in DROPS_BYTES
    for key, flags in (("texts", PLAIN), ("special_texts", TRUSTED | SHOW)):
        for entry in record[key]:
            ids = round_trip(tally, name, probe, entry["text"], flags, exact)
            tally.check(ids == entry["ids"], f"{name}: {entry['text'][:60]!r}\n   ffwd     {ids}\n   recorded {entry['ids']}")
    ids = round_trip(tally, name, probe, corpus.large(), PLAIN)
    digest = hashlib.sha256(array.array("i", ids).tobytes()).hexdigest()
    large = record["large"]
    tally.check(len(ids) == large["count"], f"{name}: {len(ids)} ids of the large text, recorded {large['count']}")
    tally.check(digest == large["sha256_of_ids_le32"], f"{name}: other ids of the large text than recorded")
    probe.close()


def main():
    program, folder, *only = sys.argv[1:]
    tally = Tally()
    wanted = lambda name: not only or any(o in name for o in only)
    for path in sorted(glob.glob(os.path.join(folder, "ggml-vocab-*.gguf"))):
        if wanted(path):
            real_vocabulary(tally, program, path)
    for name, variable in (("smollm2", "SMOLLM2"), ("gemma3", "GEMMA")):
        path = os.environ.get(variable)
        if path and wanted(name):
            golden(tally, program, name, path)
        elif wanted(name):
            print(f"note: {variable} is not set, so the ids of that model are not compared")
    for f in tally.failures[:300 if only else 40]:
        print(f)
    print(f"{tally.passed} passed, {len(tally.failures)} failed")
    sys.exit(bool(tally.failures))


if __name__ == "__main__":
    main()
