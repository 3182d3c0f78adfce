"""Vectors and classes of the tiny models by transformers, f32, eager attention; from the final states on in numpy."""
import json
import os

import numpy as np
import torch
import transformers

import families
import record_tiny

HERE = os.path.dirname(os.path.abspath(__file__))


def states(f, ids):
    """Final states [position][channel], normed."""
    config = record_tiny.config(f)
    if f.dense:
        kinds, local = config.layer_types, config.rope_parameters
        config = transformers.Gemma3TextConfig(**{
            **config.to_dict(), "use_bidirectional_attention": True, "sliding_window": f.window, "layer_types": kinds,
            "rope_parameters": local})
        assert config.sliding_window == f.window // 2 + 1, config.sliding_window  # |i - j| below it
    model = transformers.AutoModel.from_config(config, attn_implementation="eager").float().eval()
    state = {}
    for name, theirs, shape in families.tensors(f):
        w = families.tensor(name, shape)
        if f.gemma and name.endswith("norm.weight"):
            w = families.draws(name, w.size).reshape(shape) * np.float32(0.25)  # transformers adds the 1 itself
        state[theirs.removeprefix("model.")] = torch.from_numpy(w)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not missing and not unexpected, (missing, unexpected)
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False).last_hidden_state[0].double().numpy()


def record(f):
    h = states(f, families.PROMPT)
    more = {name: families.tensor(name, shape).astype(np.float64) for name, shape in families.vector_tensors(f)}
    if f.classes:
        e = more["cls.output.weight"] @ h[-1]
        out = np.exp(e - e.max())
        return dict(family=f.name, classes=[float(x) for x in out / out.sum()])
    v = more["dense_3.weight"] @ (more["dense_2.weight"] @ h.mean(axis=0))
    return dict(family=f.name, vector=[float(np.float32(x)) for x in v / np.linalg.norm(v)])


def run(names):
    torch.set_num_threads(1)
    for f in families.VECTORS:
        if names and f.name not in names:
            continue
        with open(os.path.join(HERE, "tiny", f.name + ".json"), "w") as out:
            out.write(json.dumps(record(f), separators=(",", ":")) + "\n")
        print(f.name)
