"""What blocks of every tensor type stand for, by the gguf package: blocks of arbitrary bytes, with f16 scales made finite."""
import json
import os

import gguf
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
BLOCKS = 3  # the first at random, then bytes of ones, then of zeros

# Where a block has its f16 scales.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}


def blocks_of(name, size, draw):
    if name == "MXFP4":  # the scale is one byte: its ends, where it is denormal or overflows, and an ordinary one
        b = draw.integers(0, 256, (5, size), dtype=np.uint8)
        b[:, 0] = [0, 1, 2, 126, 255]
        return b
    b = draw.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    b[1], b[2] = 255, 0
    for at in HALVES[name]:
        b[:, at:at + 2] = draw.uniform(-0.1, 0.1, (BLOCKS, 1)).astype("<f2").view(np.uint8)
    return b


def run(_names):
    draw = np.random.default_rng(7)
    out = {}
    for name in HALVES:
        kind = gguf.GGMLQuantizationType[name]
        b = blocks_of(name, gguf.GGML_QUANT_SIZES[kind][1], draw)
        with np.errstate(over="ignore"):  # MXFP4's largest values are infinite
            values = np.concatenate([gguf.dequantize(row, kind) for row in b]).astype("<f4")
        out[name] = {"blocks": b.tobytes().hex(), "values": values.tobytes().hex()}
    with open(os.path.join(HERE, "types.json"), "w", encoding="utf-8") as f:
        json.dump(out, f, indent=0)
        f.write("\n")
