"""The two real models by transformers: their GGUF dequantised to f32, eager attention."""
import json
import math
import os

import torch
import transformers

import vocab

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT, BYTES = "/usr/share/common-licenses/GPL-3", 12288
STEPS = 32
PROMPTS = {
    "smollm2": ["The capital of France is", "def fibonacci(n):\n    ",
                "<|im_start|>user\nName three primary colors.<|im_end|>\n<|im_start|>assistant\n"],
    "gemma3": ["The capital of France is", "def fibonacci(n):\n    "],
}


def load(name):
    folder, file = os.path.split(vocab.model_path(name))
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file, dtype=torch.float32, attn_implementation="eager").eval()


def scored(model, ids):
    """One window. Per position but the last: loss of the next id, best id, margin between best and second best."""
    x = torch.tensor([ids])
    hidden = model.model(input_ids=x, use_cache=False).last_hidden_state[0]
    losses, best, margins = [], [], []
    for at in range(0, len(ids) - 1, 256):
        rows = model.lm_head(hidden[at:min(at + 256, len(ids) - 1)]).double()
        losses += torch.nn.functional.cross_entropy(rows, x[0, at + 1:at + 1 + len(rows)], reduction="none").tolist()
        values, places = rows.topk(2)
        best += places[:, 0].tolist()
        margins += (values[:, 0] - values[:, 1]).tolist()
    return losses, best, margins


def int8(x):
    """What ffwd's integer kernels see of an activation: per 32 values, multiples of amax / 127, ties to even."""
    blocks = x.unflatten(-1, (-1, 32))
    scale = blocks.abs().amax(-1, keepdim=True) / 127
    return (torch.where(scale > 0, (blocks / scale).round().clamp(-127, 127), 0.0) * scale).flatten(-2)


def rounded(model, ids, best, margins):
    """The same window with the input of every linear layer rounded: how far exact weights and f32 everything else get."""
    hooks = [m.register_forward_pre_hook(lambda _, args: (int8(args[0]),) + args[1:])
             for m in model.modules() if isinstance(m, torch.nn.Linear)]
    losses, found, _ = scored(model, ids)
    for hook in hooks:
        hook.remove()
    same = [a == b for a, b in zip(found, best)]
    sure = [s for s, m in zip(same, margins) if m > 0.1]
    return dict(nll_mean=round(math.fsum(losses) / len(losses), 6), ppl=round(math.exp(math.fsum(losses) / len(losses)), 4),
                agree=round(sum(same) / len(same), 4), agree_where_sure=round(sum(sure) / len(sure), 4))


def continued(model, ids):
    x, past, out = torch.tensor([ids]), None, dict(ids=[], second=[], margins=[])
    for _ in range(STEPS):
        step = model(input_ids=x, past_key_values=past, use_cache=True)
        past = step.past_key_values
        values, places = step.logits[0, -1].topk(2)
        out["ids"].append(int(places[0]))
        out["second"].append(int(places[1]))
        out["margins"].append(round(float(values[0] - values[1]), 4))
        x = places[:1][None]
    return out


def record(name):
    model, tok = load(name), vocab.build(name, True)
    with open(TEXT, "rb") as f:
        ids = vocab.bos(name) + tok.encode(f.read()[:BYTES].decode(), add_special_tokens=False).ids
    losses, best, margins = scored(model, ids)
    total = math.fsum(losses)
    out = dict(model=name, file=vocab.FILES[name],
               perplexity=dict(text=TEXT, bytes=BYTES, tokens=len(ids), scored=len(losses), nll_sum=round(total, 4),
                               nll_mean=round(total / len(losses), 6), ppl=round(math.exp(total / len(losses)), 4),
                               nll_by_256=[round(math.fsum(losses[i:i + 256]), 4) for i in range(0, len(losses), 256)],
                               hits=sum(a == b for a, b in zip(best, ids[1:])), ids=ids, top1=best,
                               margin=[round(m, 2) for m in margins]),
               int8_activations=rounded(model, ids, best, margins), greedy=[])
    for prompt in PROMPTS[name]:
        start = vocab.bos(name) + tok.encode(prompt, add_special_tokens=False).ids
        out["greedy"].append(dict(prompt=prompt, prompt_ids=start, **continued(model, start)))
    return out


def run(names):
    torch.set_num_threads(2)
    os.makedirs(os.path.join(HERE, "real"), exist_ok=True)
    for name in names or vocab.FILES:
        with torch.no_grad():
            r = record(name)
        with open(os.path.join(HERE, "real", name + ".json"), "w") as out:
            text = json.dumps(r, separators=(",", ":"))
            for key in ("perplexity", "ids", "top1", "margin", "int8_activations", "greedy", "prompt", "prompt_ids"):
                text = text.replace(f'"{key}":', f'\n"{key}":')
            out.write(text + "\n")
        p = r["perplexity"]
        print(f"{name}: {p['tokens']} tokens, nll {p['nll_mean']}, ppl {p['ppl']}, top-1 {p['hits'] / p['scored']:.4f}")
        print("   with int8 activations:", r["int8_activations"])
        for g in r["greedy"]:
            print("  ", g["prompt_ids"], g["ids"], [f"{i}:{m}" for i, m in enumerate(g["margins"]) if m < 0.1])
