"""The tiny models: their shapes, their tensors and the generator of their weights.

tests/lib/tiny.c has the same table and the same generator in C; tests/golden/README.md defines both. Whatever changes
here changes there, and the recordings are made anew.
"""
from dataclasses import dataclass

import numpy as np

VOCAB = 512
PROMPT = [(7 * i * i + 31 * i + 11) % 500 + 8 for i in range(44)]
GREEDY = 8


@dataclass(frozen=True)
class Family:
    name: str
    arch: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    context: int
    eps: float
    theta: float
    theta_swa: float = 0.0  # written to the file when not 0; readers fall back to 10000
    window: int = 0
    scaling: str = ""  # "", linear, yarn, llama3
    factor: float = 0.0
    original: int = 0
    tied: bool = False
    says_head_dim: bool = True  # key_length and value_length are in the file
    dense: int = 0  # numbers between the two dense layers of vectors
    classes: int = 0  # of pairs of texts

    @property
    def gemma(self):
        return self.arch in ("gemma3", "gemma-embedding")

    @property
    def qk_norm(self):
        return self.arch == "qwen3" or self.gemma

    @property
    def bias(self):
        return self.arch == "qwen2"

    @property
    def permuted(self):
        """llama files hold Q and K rows in the order of the interleaved rotation."""
        return self.arch == "llama"


FAMILIES = [
    Family("llama", "llama", 128, 3, 4, 2, 32, 192, 512, 1e-5, 5e5, scaling="llama3", factor=8.0, original=64),
    Family("smollm2", "llama", 192, 3, 3, 1, 64, 192, 512, 1e-5, 1e5, tied=True),
    Family("mistral", "llama", 128, 3, 6, 2, 32, 192, 512, 1e-5, 1e6),
    Family("llama_linear", "llama", 128, 3, 4, 2, 32, 192, 512, 1e-5, 1e4, scaling="linear", factor=4.0, tied=True),
    Family("llama_yarn", "llama", 128, 3, 4, 2, 32, 192, 128, 1e-5, 1e4, scaling="yarn", factor=4.0, original=32,
           tied=True),
    Family("llama256", "llama", 256, 2, 4, 2, 64, 512, 512, 1e-5, 1e5),
    Family("qwen2", "qwen2", 128, 3, 4, 2, 32, 192, 512, 1e-6, 1e6, tied=True, says_head_dim=False),
    Family("qwen3", "qwen3", 128, 3, 4, 2, 64, 192, 512, 1e-6, 1e6, tied=True),
    Family("gemma3", "gemma3", 128, 7, 4, 1, 64, 192, 512, 1e-6, 1e6, window=16, tied=True),
    Family("gemma3_256", "gemma3", 256, 7, 4, 2, 64, 256, 512, 1e-6, 1e6, theta_swa=2e4, window=16, tied=True),
]
VECTORS = [
    Family("gemma_embedding", "gemma-embedding", 128, 7, 4, 1, 64, 192, 512, 1e-6, 1e6, window=16, tied=True, dense=192),
    Family("qwen3_rank", "qwen3", 128, 3, 4, 2, 64, 192, 512, 1e-6, 1e6, tied=True, classes=2),
]
BY_NAME = {f.name: f for f in FAMILIES}


def slides(f, layer):
    """True where the layer sees only the window: five of six in gemma3."""
    return f.gemma and layer % 6 < 5


def draws(name, count):
    """`count` numbers in [-1, 1), multiples of 2^-23: splitmix64 of the counter, keyed by the tensor's name."""
    key = 0xCBF29CE484222325  # FNV-1a, 64 bits
    for byte in name.encode():
        key = ((key ^ byte) * 0x100000001B3) % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(40)).astype(np.int64) - 2**23).astype(np.float32) * np.float32(2.0**-23)


def tensor(name, shape):
    """Matrices r/8, norms 1 + r/4, biases r/2: powers of two, so that only the 1 + rounds."""
    r = draws(name, int(np.prod(shape))).reshape(shape)
    if name.endswith("norm.weight"):
        return np.float32(1) + r * np.float32(0.25)
    if name.endswith(".bias"):
        return r * np.float32(0.5)
    return r * np.float32(0.125)


def layer_tensors(f):
    """(file's name, transformers' name, shape) of one layer, in file order."""
    q, kv, d = f.heads * f.head_dim, f.kv_heads * f.head_dim, f.width
    out = [("attn_norm.weight", "input_layernorm.weight", (d,)),
           ("attn_q.weight", "self_attn.q_proj.weight", (q, d)),
           ("attn_k.weight", "self_attn.k_proj.weight", (kv, d)),
           ("attn_v.weight", "self_attn.v_proj.weight", (kv, d)),
           ("attn_output.weight", "self_attn.o_proj.weight", (d, q))]
    if f.bias:
        out += [("attn_q.bias", "self_attn.q_proj.bias", (q,)),
                ("attn_k.bias", "self_attn.k_proj.bias", (kv,)),
                ("attn_v.bias", "self_attn.v_proj.bias", (kv,))]
    if f.qk_norm:
        out += [("attn_q_norm.weight", "self_attn.q_norm.weight", (f.head_dim,)),
                ("attn_k_norm.weight", "self_attn.k_norm.weight", (f.head_dim,))]
    if f.gemma:
        out += [("post_attention_norm.weight", "post_attention_layernorm.weight", (d,)),
                ("ffn_norm.weight", "pre_feedforward_layernorm.weight", (d,)),
                ("post_ffw_norm.weight", "post_feedforward_layernorm.weight", (d,))]
    else:
        out += [("ffn_norm.weight", "post_attention_layernorm.weight", (d,))]
    return out + [("ffn_gate.weight", "mlp.gate_proj.weight", (f.ffn, d)),
                  ("ffn_up.weight", "mlp.up_proj.weight", (f.ffn, d)),
                  ("ffn_down.weight", "mlp.down_proj.weight", (d, f.ffn))]


def tensors(f):
    """(file's name, transformers' name, shape) of the whole model, in file order, without rope_freqs."""
    out = [("token_embd.weight", "model.embed_tokens.weight", (VOCAB, f.width))]
    for i in range(f.layers):
        out += [(f"blk.{i}.{a}", f"model.layers.{i}.{b}", s) for a, b, s in layer_tensors(f)]
    out.append(("output_norm.weight", "model.norm.weight", (f.width,)))
    if not f.tied:
        out.append(("output.weight", "lm_head.weight", (VOCAB, f.width)))
    return out


def vector_tensors(f):
    """(file's name, shape) of what vectors and classes are made with, in file order."""
    out = [("dense_2.weight", (f.dense, f.width)), ("dense_3.weight", (f.width, f.dense))] if f.dense else []
    return out + ([("cls.output.weight", (f.classes, f.width))] if f.classes else [])
