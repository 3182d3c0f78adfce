#!/usr/bin/env python3
"""Does llama.cpp, given the tiny models as GGUF files, compute what transformers computed from the same weights?

    check_llama.py [FOLDER]     FOLDER: files that tests/lib/tiny.c wrote, compared byte by byte with the Python twin

This proves the conventions of the files (names, permutation, norms, rope keys, window pattern) and the recordings at the
same time. It needs bench/peers.sh to have run, and `pip install diskcache` for llama.cpp's Python binding, which is read
from the same source package. llama.cpp keeps f32 weights in f32; its GELU and exp are approximations, so agreement is
about 1e-5 of the logits' spread for SiLU models and 1e-3 for gemma3 (a 16-bit table).
"""
import ctypes
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import families
import tiny_gguf

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = {"gemma3": 4e-3}
USUAL_LIMIT = 1e-4


def binding():
    """llama.cpp's ctypes binding on the libraries that bench/peers.sh built."""
    peers = os.path.join(HERE, "..", "..", "bench", "peers.sh")
    where = subprocess.run([peers, "where"], check=True, capture_output=True, text=True).stdout.strip()
    source = subprocess.run([peers, "source"], check=True, capture_output=True, text=True).stdout.strip()
    os.environ["LLAMA_CPP_LIB_PATH"] = where
    sys.path.insert(0, os.path.dirname(os.path.dirname(source)))
    import llama_cpp
    return llama_cpp


class Model:
    def __init__(self, lib, path):
        self.lib = lib
        params = lib.llama_model_default_params()
        params.use_mmap = False
        self.model = lib.llama_model_load_from_file(path.encode(), params)
        assert self.model, path

    def logits(self, ids):
        lib = self.lib
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = 128, 128, 128
        params.n_threads = params.n_threads_batch = 1
        params.type_k = params.type_v = 0  # f32
        params.flash_attn_type = 0  # off
        context = lib.llama_init_from_model(self.model, params)
        batch = lib.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, t in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = t, i, 1, 0, 1
        assert lib.llama_decode(context, batch) == 0
        got = np.ctypeslib.as_array(ctypes.cast(lib.llama_get_logits(context), ctypes.POINTER(ctypes.c_float)),
                                    (len(ids), families.VOCAB)).copy()
        lib.llama_batch_free(batch)
        lib.llama_free(context)
        return got

    def close(self):
        self.lib.llama_model_free(self.model)


def worst(recording, got):
    """Largest difference to the recorded logits, as a part of their standard deviation."""
    far = 0.0
    for position, top in enumerate(recording["top"]):
        far = max(far, np.abs(got[position, top["ids"]] - np.array(top["logits"], dtype=np.float32)).max())
    for full in recording["full"]:
        far = max(far, np.abs(got[full["position"]] - np.array(full["logits"], dtype=np.float32)).max())
    return float(far) / recording["std"]


def main():
    lib = binding()
    quiet = lib.llama_log_callback(lambda *_: None)
    lib.llama_log_set(quiet, ctypes.c_void_p(0))
    lib.llama_backend_init()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for f in families.FAMILIES:
            path = os.path.join(folder, f.name + ".gguf")
            content = tiny_gguf.build(f)
            with open(path, "wb") as out:
                out.write(content)
            note = ""
            if len(sys.argv) > 1:
                with open(os.path.join(sys.argv[1], f.name + ".gguf"), "rb") as theirs:
                    same = theirs.read() == content
                failed |= not same
                note = ", C twin equal" if same else ", C TWIN DIFFERS"
            with open(os.path.join(HERE, "tiny", f.name + ".json")) as recorded:
                recording = json.load(recorded)
            model = Model(lib, path)
            far = worst(recording, model.logits(recording["prompt"]))
            model.close()
            bad = far > LIMIT.get(f.arch, USUAL_LIMIT)
            failed |= bad
            print(f"{f.name:13} {far:.2e} of the standard deviation{' TOO FAR' if bad else ''}{note}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
