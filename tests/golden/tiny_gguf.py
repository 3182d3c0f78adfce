#!/usr/bin/env python3
"""The Python twin of tests/lib/tiny.c: the tiny models as GGUF files in F32.

    tiny_gguf.py FOLDER      writes FOLDER/<family>.gguf for every family

Both must give the same bytes, which check_llama.py verifies; this one exists so that the bytes have two authors.
"""
import math
import os
import struct
import sys

import numpy as np

import families

TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
            "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
            "{% endif %}")
RERANK = "<|im_start|>{query}\n{document}<|im_end|>\n"
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
ALIGN = 32


def byte_text():
    """The visible character that stands for each byte in a byte-level vocabulary."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spare = iter(range(256, 512))
    return [chr(b if b in plain else next(spare)) for b in range(256)]


def vocabulary():
    """8 specials, 256 bytes, 248 merges; returns (tokens, merges as pairs)."""
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|reserved_{i}|>" for i in range(3, 8)]
    tokens += byte_text()
    space, line = byte_text()[32], byte_text()[10]
    vowels, others = "aeiou", "bcdfghjklmnpqrstvwxyz"
    merges = [(space, c) for c in "abcdefghijklmnopqrstuvwxyz"]
    merges += [(c, v) for c in others for v in vowels]
    merges += [(v, c) for v in vowels for c in others]
    merges += [("t", "h"), ("s", "t"), ("c", "k"), ("l", "l"), ("e", "e"), ("o", "o"), (space + "t", "he"),
               ("in", "g"), ("an", "d"), ("er", "s"), (space, space), (line, line)]
    tokens += [a + b for a, b in merges]
    assert len(tokens) == families.VOCAB and len(set(tokens)) == families.VOCAB
    return tokens, merges


def text(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key, kind, value):
    if kind == ARRAY:
        of, items = value
        body = struct.pack("<IQ", of, len(items))
        body += b"".join(text(x) for x in items) if of == STRING else struct.pack(f"<{len(items)}i", *items)
    elif kind == STRING:
        body = text(value)
    else:
        body = struct.pack({U32: "<I", F32: "<f", BOOL: "<?"}[kind], value)
    return text(key) + struct.pack("<I", kind) + body


def metadata(f):
    a = f.arch
    out = [pair("general.architecture", STRING, a), pair("general.name", STRING, f"tiny {f.name}"),
           pair("general.alignment", U32, ALIGN)]
    for key, value in [("context_length", f.context), ("embedding_length", f.width), ("block_count", f.layers),
                       ("feed_forward_length", f.ffn), ("attention.head_count", f.heads),
                       ("attention.head_count_kv", f.kv_heads)]:
        out.append(pair(f"{a}.{key}", U32, value))
    if f.says_head_dim:
        out += [pair(f"{a}.attention.{k}_length", U32, f.head_dim) for k in ("key", "value")]
    out.append(pair(f"{a}.attention.layer_norm_rms_epsilon", F32, f.eps))
    out.append(pair(f"{a}.rope.freq_base", F32, f.theta))
    if a == "llama":
        out += [pair("llama.rope.dimension_count", U32, f.head_dim), pair("llama.vocab_size", U32, families.VOCAB)]
    if f.theta_swa:
        out.append(pair(f"{a}.rope.freq_base_swa", F32, f.theta_swa))
    if f.window:
        out.append(pair(f"{a}.attention.sliding_window", U32, f.window))
    if f.scaling in ("linear", "yarn"):
        out += [pair(f"{a}.rope.scaling.type", STRING, f.scaling), pair(f"{a}.rope.scaling.factor", F32, f.factor)]
    if f.scaling == "yarn":
        out.append(pair(f"{a}.rope.scaling.original_context_length", U32, f.original))
    if f.dense:
        out.append(pair(f"{a}.pooling_type", U32, 1))
        out += [pair(f"{a}.dense_{k}_feat_{side}", U32, n) for k, side, n in
                [(2, "in", f.width), (2, "out", f.dense), (3, "in", f.dense), (3, "out", f.width)]]
    if f.classes:
        out += [pair(f"{a}.pooling_type", U32, 4), pair(f"{a}.classifier.output_labels", ARRAY, (STRING, ["yes", "no"]))]
    tokens, merges = vocabulary()
    out += [pair("tokenizer.ggml.model", STRING, "gpt2"), pair("tokenizer.ggml.pre", STRING, "gpt-2"),
            pair("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
            pair("tokenizer.ggml.token_type", ARRAY, (I32, [3] * 8 + [1] * (families.VOCAB - 8))),
            pair("tokenizer.ggml.merges", ARRAY, (STRING, [f"{x} {y}" for x, y in merges])),
            pair("tokenizer.ggml.bos_token_id", U32, 1), pair("tokenizer.ggml.eos_token_id", U32, 2),
            pair("tokenizer.ggml.padding_token_id", U32, 0), pair("tokenizer.ggml.add_bos_token", BOOL, False)]
    if f.dense:
        out.append(pair("tokenizer.ggml.add_eos_token", BOOL, True))
    out.append(pair("tokenizer.chat_template", STRING, TEMPLATE))
    if f.classes:
        out.append(pair("tokenizer.chat_template.rerank", STRING, RERANK))
    return out


def interleaved(w, heads):
    """Rows of Q or K from halves (i, i + hd/2) to neighbours (2i, 2i + 1), head by head."""
    hd = w.shape[0] // heads
    return w.reshape(heads, 2, hd // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def rope_factors(f):
    """What llama3 scaling divides each frequency by: 1 for short waves, `factor` for long ones, a ramp between."""
    out = []
    for i in range(0, f.head_dim, 2):
        turns = f.original / (2 * math.pi * f.theta ** (i / f.head_dim))  # in the original context
        ramp = min(max((turns - 1.0) / (4.0 - 1.0), 0.0), 1.0)  # low_freq_factor 1, high_freq_factor 4
        out.append(1.0 / ((1.0 - ramp) / f.factor + ramp))
    return np.array(out, dtype=np.float32)


def file_tensors(f):
    out = []
    for name, _, shape in families.tensors(f):
        w = families.tensor(name, shape)
        if f.permuted and ".attn_q." in name:
            w = interleaved(w, f.heads)
        if f.permuted and ".attn_k." in name:
            w = interleaved(w, f.kv_heads)
        out.append((name, w))
    if f.scaling == "llama3":
        out.append(("rope_freqs.weight", rope_factors(f)))
    out += [(name, families.tensor(name, shape)) for name, shape in families.vector_tensors(f)]
    return out


def build(f):
    keys, items = metadata(f), file_tensors(f)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(items), len(keys)) + b"".join(keys)
    data = b""
    for name, w in items:
        head += text(name) + struct.pack("<I", w.ndim) + struct.pack(f"<{w.ndim}Q", *reversed(w.shape))
        head += struct.pack("<IQ", 0, len(data))
        raw = np.ascontiguousarray(w, dtype="<f4").tobytes()
        data += raw + bytes(-len(raw) % ALIGN)
    return head + bytes(-len(head) % ALIGN) + data


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    for f in families.FAMILIES + families.VECTORS:
        with open(os.path.join(sys.argv[1], f.name + ".gguf"), "wb") as out:
            out.write(build(f))


if __name__ == "__main__":
    main()
