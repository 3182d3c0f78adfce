"""Vectors of EmbeddingGemma, over HTTP, against tests/golden/real/embeddinggemma.json (transformers, f32); for real.py."""
import json
import os
import re
import subprocess
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = "embeddinggemma-300m.gguf"  # as tools/embeddinggemma.py writes it, in the cache; EMBEDDINGGEMMA names another


def ask(ffwd, model, texts):
    """The reply to a request for their vectors, of a server for it alone."""
    command = [ffwd, "serve", "-m", model, "--port", "0", "--kv", "f32"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            url = next(filter(None, (re.search(r"listening on (\S+)", line) for line in server.stderr))).group(1)
            request = urllib.request.Request(url + "/v1/embeddings", json.dumps({"input": texts}).encode())
            with urllib.request.urlopen(request, timeout=600) as reply:
                return json.load(reply)
        finally:
            server.terminate()


def run(ffwd, model, check):
    """f32 weights leave rounding alone, and the recording has seven decimals. Activations of quantised ones are rounded to 8
    bits, as are the weights: Q8_0 leaves about 5e-4."""
    with open(os.path.join(HERE, "real", "embeddinggemma.json"), encoding="utf-8") as f:
        recorded = json.load(f)
    types = json.loads(subprocess.run([ffwd, "info", "-m", model, "--json"], check=True, capture_output=True).stdout)
    exact = re.fullmatch(r"\d+ F32", types["model"]["types"]) is not None
    reply = ask(ffwd, model, [r["text"] for r in recorded])
    tokens = sum(r["tokens"] for r in recorded)
    check(f"embeddinggemma: {reply['usage']['prompt_tokens']} tokens, recorded {tokens}",
          reply["usage"]["prompt_tokens"] == tokens)
    for want, got in zip(recorded, reply["data"]):
        far = max(abs(a - b) for a, b in zip(want["vector"], got["embedding"]))
        cosine = sum(a * b for a, b in zip(want["vector"], got["embedding"]))
        check(f"embeddinggemma: {want['tokens']} tokens, cosine 1 - {1 - cosine:.1e}, at most {far:.1e} off",
              cosine > 0.999999 and far < 1e-6 if exact else cosine > 0.998)
