#!/usr/bin/env python3
"""What each real template determines of tool calls, against the table in docs/template-rows.md.

    rows.py PROBE CORPUS            compares
    rows.py PROBE CORPUS --write    writes the table
"""
import glob
import os
import subprocess
import sys

DOC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "template-rows.md")
BEGIN, END = "<!-- table: tests/text/rows.py --write -->\n", "<!-- end of table -->\n"
# The vocabulary that comes closest to the model's own; the others are read with Qwen's.
VOCABS = {"llama-bpe": ("Llama", "llama", "functionary"), "gemma-4": ("gemma-4",), "qwen35": ("Qwen3.5",)}


def vocab_of(name):
    return next((v for v, words in VOCABS.items() if any(w in name for w in words)), "qwen2")


def lines(program, corpus):
    for path in sorted(glob.glob(os.path.join(corpus, "templates", "*.jinja"))):
        vocab = vocab_of(os.path.basename(path))
        out = subprocess.run([program, f"{corpus}/ggml-vocab-{vocab}.gguf", path], capture_output=True, text=True,
                             timeout=120, check=True).stdout
        name, form, *counts, shape, why = out.rstrip("\n").split("\t")
        yield name.removesuffix(".jinja"), vocab, form, counts, shape, why


def table(program, corpus):
    rows, counts_of = [], {}
    for name, vocab, form, counts, shape, why in lines(program, corpus):
        counts_of[name] = sum(map(int, counts))
        if form == "none":
            continue
        cells = counts if counts_of[name] else [""] * len(counts)
        rows.append(f"| {name} | {vocab} | `{form}` | {shape} | {' | '.join(cells)} | {why} |")
    head = ["| template | vocabulary | format | shape | scaffold | name | key | after | close | value | why none |",
            "|---|---|---|---|---|---|---|---|---|---|---|"]
    unknown = len(counts_of) - len(rows)
    tail = ["", f"{unknown} more templates of the collection write calls in ways that are not known here, or mention tools "
            "and write no calls: no rows."]
    return "\n".join(head + rows + tail) + "\n", counts_of


def main():
    program, corpus, *rest = sys.argv[1:]
    text, counts = table(program, corpus)
    with open(DOC, encoding="utf-8") as f:
        doc = f.read()
    before, _, after = doc.partition(BEGIN)
    written, _, behind = after.partition(END)
    if rest == ["--write"]:
        with open(DOC, "w", encoding="utf-8") as f:
            f.write(before + BEGIN + text + END + behind)
        return
    ours, theirs = text.split("\n"), written.split("\n")
    wrong = [line for line in ours if line not in theirs] + [line for line in theirs if line not in ours]
    for line in wrong:
        print(("now:  " if line in ours else "docs: ") + line)
    print(f"note: {sum(1 for n in counts.values() if n)} of {len(counts)} templates have rows")
    print(f"{len(ours) - len([x for x in wrong if x in ours])} passed, {len(wrong)} failed")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
