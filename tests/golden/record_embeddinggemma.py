"""Vectors of EmbeddingGemma by transformers, f32, eager attention; pooling and the dense layers in numpy, f64."""
import json
import os

import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
LICENCE, LONG = "/usr/share/common-licenses/GPL-3", 6000
TEXTS = ["task: search result | query: Which planet is known as the Red Planet?",
         "title: none | text: Mars, known for its reddish appearance, is often referred to as the Red Planet.",
         "title: none | text: Größe der Ente 🦆\n\n  two  spaces, and a tab\t."]


def run(names):
    """names: the folder with the model, as tools/embeddinggemma.py unpacks it."""
    folder, = names
    with open(LICENCE, encoding="ascii") as f:
        texts = TEXTS + ["title: none | text: " + f.read(LONG)]  # longer than a window, and than a partial sum
    tok = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    assert model.config.use_bidirectional_attention and model.config.sliding_window == 257
    dense = [load_file(os.path.join(folder, f"{i}_Dense", "model.safetensors"))["linear.weight"].double().numpy()
             for i in (2, 3)]
    lines = []
    for text in texts:
        ids = tok.encode(text).ids
        with torch.no_grad():
            v = model(input_ids=torch.tensor([ids])).last_hidden_state[0].double().numpy().mean(axis=0)
        for w in dense:
            v = w @ v
        vector = [float(f"{x:.7f}") for x in v / np.linalg.norm(v)]
        lines.append(json.dumps(dict(text=text, tokens=len(ids), vector=vector), separators=(",", ":")))
        print(len(ids), vector[:3])
    with open(os.path.join(HERE, "real", "embeddinggemma.json"), "w", encoding="utf-8") as out:
        out.write("[" + ",\n".join(lines) + "]\n")
