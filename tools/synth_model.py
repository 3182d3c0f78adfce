#!/usr/bin/env python3
"""Writes a GGUF model with random weights, as large as a real one, to measure speed with.

    tools/synth_model.py --like TOKENIZER.gguf --out FILE.gguf [--types q4_k_m|q4_0|q8_0] [--layers 16] [--width 2048] ...

The defaults are the shape of Llama 3.2 1B. The weight types are those that llama.cpp gives it under that name. q4_k_m:
Q6_K for the embedding, which is the head too, and for attn_v and ffn_down of every layer in the first and last eighth
and of every third between them; Q4_K for the rest. q4_0: Q6_K for the embedding, Q4_0 for the rest. q8_0: Q8_0 for all.
Vocabulary, merges, special tokens and chat template are those of the file that --like names. The same arguments give the
same bytes.

Blocks are drawn, not quantised: random codes, with scales such that every linear layer keeps the variance of its input.
The block scale stays a normal half float: products of denormal ones take many times as long on some processors, and
would look like a slow kernel.
"""
import argparse
import os
import struct
import sys
import zlib

import numpy as np

ALIGN = 32
F32, Q4_0, Q8_0, Q4_K, Q6_K = 0, 2, 8, 12, 14
BLOCK = {Q4_0: (32, 18), Q8_0: (32, 34), Q4_K: (256, 144), Q6_K: (256, 210)}  # weights, bytes
WIDEST = max(weights for weights, _ in BLOCK.values())
# The file's own number for the mixture; types of the embedding, of what takes more bits, of the rest.
TYPES = {"q4_k_m": (15, Q6_K, Q6_K, Q4_K), "q4_0": (2, Q6_K, Q4_0, Q4_0), "q8_0": (7, Q8_0, Q8_0, Q8_0)}
U32, FLOAT, STRING, ARRAY = 4, 6, 8, 9
SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
CHUNK = 1 << 16  # blocks drawn at a time
SMALLEST_HALF = 2.0 ** -14


def die(text):
    sys.exit(f"synth_model: {text}")


# ------------------------------------------------------------------------------------------------------------ metadata


class Reader:
    """Walks the metadata of a GGUF file, which is taken to be well-formed: it is a model that works."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data, self.at = f.read(64 << 20), 0
        magic, version, _, self.keys = self.take("<4sIQQ")
        if magic != b"GGUF" or version not in (2, 3):
            die(f"{path}: not a GGUF file of version 2 or 3")

    def take(self, layout):
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values

    def string(self):
        n = self.take("<Q")[0]
        self.at += n
        return self.data[self.at - n:self.at]

    def skip(self, kind):
        """Past a value; the number of elements if it is an array."""
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            of, n = self.take("<IQ")
            if of in SCALAR_BYTES:
                self.at += n * SCALAR_BYTES[of]
            else:
                for _ in range(n):
                    self.skip(of)
            return n
        else:
            self.at += SCALAR_BYTES[kind]
        return 0


def tokenizer_of(path):
    """(entries as they stand in the file, their number, tokens in the vocabulary)"""
    r, entries, vocab = Reader(path), [], 0
    for _ in range(r.keys):
        start = r.at
        key = r.string()
        n = r.skip(r.take("<I")[0])
        if key.startswith(b"tokenizer."):
            entries.append(r.data[start:r.at])
        if key == b"tokenizer.ggml.tokens":
            vocab = n
    if not vocab:
        die(f"{path}: no vocabulary (tokenizer.ggml.tokens)")
    return entries, vocab


def text(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def entry(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", STRING) + text(value)
    kind, layout = (FLOAT, "<f") if isinstance(value, float) else (U32, "<I")
    return text(key) + struct.pack("<I", kind) + struct.pack(layout, value)


def metadata(a, vocab):
    pairs = [("general.architecture", "llama"), ("general.name", a.name), ("general.alignment", ALIGN),
             ("general.file_type", TYPES[a.types][0]), ("general.quantization_version", 2), ("llama.block_count", a.layers),
             ("llama.context_length", a.context), ("llama.embedding_length", a.width),
             ("llama.feed_forward_length", a.ffn), ("llama.attention.head_count", a.heads),
             ("llama.attention.head_count_kv", a.kv_heads), ("llama.rope.freq_base", 500000.0),
             ("llama.rope.dimension_count", a.width // a.heads),
             ("llama.attention.layer_norm_rms_epsilon", 1e-5), ("llama.vocab_size", vocab)]
    return [entry(key, value) for key, value in pairs]


# ------------------------------------------------------------------------------------------------------------- tensors


def takes_more_bits(layer, layers):
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def tensors(a, vocab):
    """(name, type, rows, columns, standard deviation of a weight); rows 0: a vector near 1."""
    kv = a.width // a.heads * a.kv_heads
    _, embedding, many, few = TYPES[a.types]
    out = [("token_embd.weight", embedding, vocab, a.width, 2 / a.width ** 0.5), ("output_norm.weight", F32, 0, a.width, 0)]
    for i in range(a.layers):
        more = many if takes_more_bits(i, a.layers) else few
        for name, kind, rows, cols in [("attn_q", few, a.width, a.width), ("attn_k", few, kv, a.width),
                                       ("attn_v", more, kv, a.width), ("attn_output", few, a.width, a.width),
                                       ("ffn_gate", few, a.ffn, a.width), ("ffn_up", few, a.ffn, a.width),
                                       ("ffn_down", more, a.width, a.ffn)]:
            out.append((f"blk.{i}.{name}.weight", kind, rows, cols, cols ** -0.5))
        out += [(f"blk.{i}.{name}.weight", F32, 0, a.width, 0) for name in ("attn_norm", "ffn_norm")]
    return out


def half(value, name):
    if value < SMALLEST_HALF:
        die(f"{name}: too many columns for a normal half float as block scale")
    return np.frombuffer(np.float16(value).tobytes(), np.uint8)


def with_signs(scale, drawn):
    """Two bytes for each block: the half float, with the sign that the second drawn byte has."""
    out = np.broadcast_to(scale, drawn.shape).copy()
    out[:, 1] |= drawn[:, 1] & 0x80
    return out


def fill_q4_0(blocks, deviation, name):
    """Block: f16 d, 32 codes of 4 bits; a weight is d·(code - 8), of mean -d/2, hence d of either sign."""
    blocks[:, 0:2] = with_signs(half(deviation / 4.64, name), blocks[:, 0:2])


def fill_q8_0(blocks, deviation, name):
    """Block: f16 d, 32 codes of 8 bits; a weight is d·code, of mean -d/2."""
    blocks[:, 0:2] = with_signs(half(deviation / 73.9, name), blocks[:, 0:2])


def fill_q4_k(blocks, deviation, name):
    """Block: f16 d, f16 dmin, 8 scales and 8 minima of 6 bits in 12 bytes, 256 codes of 4 bits; a weight is
    d·scale·code - dmin·min. Here min = scale and dmin = 7.5 d, so it is d·scale·(code - 7.5), of mean 0."""
    scales = 16 + (blocks[:, 4:12] & 15)  # 16 .. 31, 23.5 on average; a code's standard deviation is 4.61
    d = deviation / (23.5 * 4.61)
    blocks[:, 0:2], blocks[:, 2:4] = half(d, name), half(7.5 * d, name)
    low, high = scales[:, :4], scales[:, 4:]
    blocks[:, 4:8] = blocks[:, 8:12] = low | (high >> 4) << 6
    blocks[:, 12:16] = (high & 15) | (high & 15) << 4


def fill_q6_k(blocks, deviation, name):
    """Block: 256 codes of 6 bits in 192 bytes, 16 signed scales, f16 d; a weight is d·scale·(code - 32)."""
    sign = (blocks[:, 192:208] & 4).view(np.int8) // 2 - 1  # -1 or 1: the codes' mean is not quite 0
    size = (4 + (blocks[:, 192:208] & 3)).view(np.int8)     # 4 .. 7, 5.5 on average; a code's deviation is 18.5
    blocks[:, 192:208] = (sign * size).view(np.uint8)
    blocks[:, 208:210] = half(deviation / (5.5 * 18.5), name)


FILL = {Q4_0: fill_q4_0, Q8_0: fill_q8_0, Q4_K: fill_q4_k, Q6_K: fill_q6_k}


def write_tensor(out, tensor, seed):
    name, kind, rows, cols, deviation = tensor
    draw = np.random.Philox(key=[seed, zlib.crc32(name.encode())])
    if kind == F32:
        values = 0.9 + 0.2 * (draw.random_raw(cols) >> 40).astype(np.float32) / 2 ** 24
        out.write(values.astype("<f4").tobytes())
        return cols * 4
    weights, size = BLOCK[kind]
    left = rows * cols // weights
    total = left * size
    while left:
        n = min(left, CHUNK)
        words = draw.random_raw(-(-n * size // 8))
        blocks = words.astype("<u8").view(np.uint8)[:n * size].reshape(n, size)
        FILL[kind](blocks, deviation, name)
        out.write(blocks.tobytes())
        left -= n
    return total


def bytes_of(tensor):
    _, kind, rows, cols, _ = tensor
    weights, size = BLOCK.get(kind, (1, 4))
    return (rows or 1) * cols // weights * size


def padded(n):
    return -(-n // ALIGN) * ALIGN


def write_model(out, a):
    entries, vocab = tokenizer_of(a.like)
    entries = metadata(a, vocab) + entries
    every, at = tensors(a, vocab), 0
    head = [b"GGUF", struct.pack("<IQQ", 3, len(every), len(entries)), *entries]
    for tensor in every:
        name, kind, rows, cols, _ = tensor
        shape = (cols, rows) if rows else (cols,)
        head.append(text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", kind, at))
        at += padded(bytes_of(tensor))
    head = b"".join(head)
    out.write(head + bytes(padded(len(head)) - len(head)))
    for tensor in every:
        n = write_tensor(out, tensor, a.seed)
        out.write(bytes(padded(n) - n))


def main():
    ask = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    ask.add_argument("--like", required=True, help="GGUF file whose tokenizer and chat template are taken over")
    ask.add_argument("--out", required=True)
    ask.add_argument("--types", choices=TYPES, default="q4_k_m")
    ask.add_argument("--name", default="random weights of the Llama 3.2 1B shape")
    for name, value in [("layers", 16), ("width", 2048), ("heads", 32), ("kv-heads", 8), ("ffn", 8192),
                        ("context", 32768), ("seed", 1)]:
        ask.add_argument("--" + name, type=int, default=value)
    a = ask.parse_args()
    if min(a.layers, a.width, a.heads, a.kv_heads, a.ffn, a.context) < 1 or a.seed < 0:
        die("sizes are at least 1, and the seed at least 0")
    if a.width % WIDEST or a.ffn % WIDEST:
        die(f"--width and --ffn must be multiples of {WIDEST}, the block of Q4_K")
    if a.width % (2 * a.heads) or a.heads % a.kv_heads:
        die("--heads must divide --width into even parts, and --kv-heads must divide --heads")
    try:
        with open(a.out + ".new", "wb") as out:
            write_model(out, a)
        os.replace(a.out + ".new", a.out)
    except OSError as e:
        die(str(e))


if __name__ == "__main__":
    main()
