#!/usr/bin/env python3
"""Records what ffwd's tests compare with: runs transformers in f32 and writes small JSON files beside this one.

    record.py tiny [family ...]      tiny/<family>.json: logits of the tiny random models
    record.py vectors [family ...]   tiny/<family>.json of the models that make vectors, or rank
    record.py real [smollm2|gemma3]  real/<model>.json: perplexity, top-1 ids and continuations of the real models
    record.py embeddinggemma FOLDER  real/embeddinggemma.json: vectors by the unpacked model in that folder
    record.py types                  types.json: what blocks of every quantised tensor type stand for
    record.py tokens [...]           tokens/<model>.json: ids of the corpus, by two tokenizers that have to agree

README.md in this folder says how to install what this needs and defines every format.
"""
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"


def main():
    what, names = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    if what == "tiny":
        import record_tiny as recorder
    elif what == "vectors":
        import record_vectors as recorder
    elif what == "embeddinggemma":
        import record_embeddinggemma as recorder
    elif what == "real":
        import record_real as recorder
    elif what == "types":
        import record_types as recorder
    elif what == "tokens":
        import record_tokens as recorder
    else:
        sys.exit(__doc__)
    recorder.run(names)


if __name__ == "__main__":
    main()
