"""Ids of the corpus, for both real models: by llama.cpp and by the pipelines of vocab.py. Where the two differ, the text
is left out of the recording and shown, so what is committed is what both say. (One is: llama.cpp takes `</s>` for a
control token whatever the file says, so with special=False it finds other ids than the file's user-defined token.)"""
import array
import ctypes
import hashlib
import json
import os
import sys

import check_llama
import corpus
import vocab

HERE = os.path.dirname(os.path.abspath(__file__))


class Llama:
    """llama.cpp's tokenizer: the vocabulary of a file without its weights."""

    def __init__(self, lib, path):
        self.lib = lib
        params = lib.llama_model_default_params()
        params.vocab_only = True
        self.model = lib.llama_model_load_from_file(path.encode(), params)
        self.vocab = lib.llama_model_get_vocab(self.model)

    def encode(self, text, special):
        raw = text.encode()
        room = (self.lib.llama_token * (len(raw) + 16))()
        n = self.lib.llama_tokenize(self.vocab, raw, len(raw), room, len(room), False, special)
        assert n >= 0, n
        return list(room[:n])


def le32(ids):
    a = array.array("i", ids)
    if sys.byteorder == "big":
        a.byteswap()
    return a.tobytes()


def compare(name, llama, pipeline, special):
    kept = []
    for text in corpus.small():
        ours, theirs = pipeline.encode(text, add_special_tokens=False).ids, llama.encode(text, special)
        if ours == theirs:
            kept.append(dict(text=text, ids=ours))
        else:
            print(f"{name} special={special} left out {text[:60]!r}\n   llama.cpp {theirs[:40]}\n   pipeline  {ours[:40]}")
    return kept


def large(name, llama, pipeline):
    text = corpus.large()
    ours, theirs = pipeline.encode(text, add_special_tokens=False).ids, llama.encode(text, False)
    if ours != theirs:
        at = next(i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b)
        print(f"{name}: the large text differs at token {at}: {ours[at - 3:at + 5]} {theirs[at - 3:at + 5]}")
    return dict(bytes=len(text.encode()), sha256_of_text=hashlib.sha256(text.encode()).hexdigest(), count=len(theirs),
                sha256_of_ids_le32=hashlib.sha256(le32(theirs)).hexdigest(), head=theirs[:64], tail=theirs[-64:],
                pipeline_agrees=ours == theirs)


def run(names):
    lib = check_llama.binding()
    quiet = lib.llama_log_callback(lambda *_: None)
    lib.llama_log_set(quiet, ctypes.c_void_p(0))
    lib.llama_backend_init()
    os.makedirs(os.path.join(HERE, "tokens"), exist_ok=True)
    for name in names or vocab.FILES:
        llama = Llama(lib, vocab.model_path(name))
        plain, special = vocab.build(name, False), vocab.build(name, True)
        r = dict(model=name, texts=compare(name, llama, plain, False),
                 special_texts=compare(name, llama, special, True), large=large(name, llama, plain))
        with open(os.path.join(HERE, "tokens", name + ".json"), "w") as out:
            out.write(json.dumps(r, ensure_ascii=True, separators=(",", ":")).replace('{"text"', '\n{"text"').replace(
                '"special_texts"', '\n"special_texts"').replace('"large"', '\n"large"') + "\n")
        print(f"{name}: {len(r['texts'])} and {len(r['special_texts'])} of {len(corpus.small())} texts, large {r['large']['count']} "
              f"ids, both agree: {r['large']['pipeline_agrees']}")
