"""Logits of the tiny models by transformers, f32, eager attention."""
import json
import os

import numpy as np
import torch
import transformers

import families

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = 8


def rope(f):
    r = dict(rope_type="default", rope_theta=f.theta)
    if f.scaling == "linear":
        r.update(rope_type="linear", factor=f.factor)
    if f.scaling == "yarn":
        r.update(rope_type="yarn", factor=f.factor, original_max_position_embeddings=f.original, beta_fast=32.0,
                 beta_slow=1.0)
    if f.scaling == "llama3":
        r.update(rope_type="llama3", factor=f.factor, low_freq_factor=1.0, high_freq_factor=4.0,
                 original_max_position_embeddings=f.original)
    return r


def config(f):
    common = dict(vocab_size=families.VOCAB, hidden_size=f.width, intermediate_size=f.ffn, num_hidden_layers=f.layers,
                  num_attention_heads=f.heads, num_key_value_heads=f.kv_heads, max_position_embeddings=f.context,
                  rms_norm_eps=f.eps, tie_word_embeddings=f.tied, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    if f.gemma:
        kinds = ["sliding_attention" if families.slides(f, i) else "full_attention" for i in range(f.layers)]
        local = dict(rope_type="default", rope_theta=f.theta_swa or 1e4)
        return transformers.Gemma3TextConfig(
            **common, head_dim=f.head_dim, query_pre_attn_scalar=f.head_dim, sliding_window=f.window,
            layer_types=kinds, rope_parameters=dict(sliding_attention=local, full_attention=rope(f)))
    if f.name == "mistral":
        return transformers.MistralConfig(**common, head_dim=f.head_dim, sliding_window=None, rope_parameters=rope(f))
    kind = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config, "qwen3": transformers.Qwen3Config}
    head_dim = {} if f.arch == "qwen2" else dict(head_dim=f.head_dim)
    return kind[f.arch](**common, **head_dim, rope_parameters=rope(f))


def model(f):
    m = transformers.AutoModelForCausalLM.from_config(config(f), attn_implementation="eager").float().eval()
    state = {}
    for name, theirs, shape in families.tensors(f):
        w = families.tensor(name, shape)
        if f.gemma and name.endswith("norm.weight"):
            w = families.draws(name, w.size).reshape(shape) * np.float32(0.25)  # transformers adds the 1 itself
        state[theirs] = torch.from_numpy(w)
    missing, unexpected = m.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"} and bool(missing) == f.tied, (missing, unexpected)
    m.tie_weights()
    return m


def logits(m, ids):
    with torch.no_grad():
        return m(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float().numpy()


def short(x):
    """The shortest decimal that reads back as the same f32."""
    return float(np.format_float_scientific(np.float32(x), unique=True))


def record(f):
    m, ids = model(f), list(families.PROMPT)
    prompt = logits(m, ids)
    order = np.argsort(-prompt, axis=1, kind="stable")[:, :TOP]
    greedy, margins = [], []
    for _ in range(families.GREEDY):
        last = logits(m, ids)[-1]
        best = np.argsort(-last, kind="stable")[:2]
        greedy.append(int(best[0]))
        margins.append(round(float(last[best[0]] - last[best[1]]), 6))
        ids.append(greedy[-1])
    n = len(prompt)
    return dict(family=f.name, vocab=families.VOCAB, prompt=families.PROMPT, std=short(prompt.std()),
                top=[dict(ids=[int(i) for i in order[p]], logits=[short(prompt[p, i]) for i in order[p]])
                     for p in range(n)],
                full=[dict(position=p, logits=[short(x) for x in prompt[p]]) for p in (0, n // 2, n - 1)],
                greedy=dict(ids=greedy, margins=margins))


def run(names):
    torch.set_num_threads(1)
    for f in families.FAMILIES:
        if names and f.name not in names:
            continue
        r = record(f)
        with open(os.path.join(HERE, "tiny", f.name + ".json"), "w") as out:
            # one line per position keeps the diffs of a new recording readable
            out.write(json.dumps(r, separators=(",", ":")).replace('{"ids"', '\n{"ids"').replace(
                '{"position"', '\n{"position"').replace('"full"', '\n"full"').replace('"greedy"', '\n"greedy"') + "\n")
        print(f"{f.name}: std {r['std']:.4f}, greedy {r['greedy']['ids']}, least margin {min(r['greedy']['margins'])}")
