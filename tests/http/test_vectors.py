"""Vectors and ranks: a chat model that is told to make some, and tiny models that make nothing else, by the official client."""
import base64
import json
import math
import os
import struct
import threading

import openai
import pytest

import families
from conftest import GOLDEN, post_json

TEXTS = ["The cat sleeps.", "A cat is asleep.", "Interest rates rose by a quarter point.", "Größe 🦆 " * 30]


def vectors(server, texts, **more):
    """As the client asks for them by itself: base64, which it decodes."""
    reply = server.client.embeddings.create(model="any", input=texts, **more)
    assert [d.index for d in reply.data] == list(range(len(reply.data)))
    return [d.embedding for d in reply.data]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def test_a_chat_model_says_how(server):
    with pytest.raises(openai.BadRequestError) as e:
        vectors(server, "hi")
    assert "--pooling" in e.value.message and e.value.param == "model"
    assert post_json(server, "/api/embed", {"model": "any", "input": "hi"})[0] == 400
    status, reply = post_json(server, "/v1/rerank", {"query": "a", "documents": ["b"]})
    assert status == 400 and "does not rank" in reply["error"]["message"]


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_a_chat_model_that_is_told_to(own, pooling):
    s = own("--pooling", pooling)
    together = vectors(s, TEXTS)
    assert len(together[0]) == 576 and all(math.isclose(dot(v, v), 1, abs_tol=1e-5) for v in together)
    assert dot(together[0], together[1]) > dot(together[0], together[2])
    talk = threading.Thread(target=lambda: s.client.completions.create(model="any", prompt="Once", max_tokens=40))
    talk.start()
    for text, v in zip(TEXTS, together):  # alone, beside a reply, and from the cache where that is possible
        assert vectors(s, text) == [v]
    talk.join()
    ids = post_json(s, "/tokenize", {"content": TEXTS[0], "parse_special": False})[1]["tokens"]
    assert vectors(s, ids) == [together[0]] and vectors(s, [ids, ids]) == [together[0]] * 2
    plain = s.client.embeddings.create(model="any", input=TEXTS[0], encoding_format="float")
    assert [struct.pack("<f", x) for x in plain.data[0].embedding] == [struct.pack("<f", x) for x in together[0]]
    assert plain.usage.prompt_tokens == plain.usage.total_tokens == len(ids)
    assert post_json(s, "/embedding", {"content": TEXTS[0]})[1][0]["embedding"] == [plain.data[0].embedding]
    assert post_json(s, "/api/embed", {"model": "m", "input": TEXTS[:1]})[1]["embeddings"] == [plain.data[0].embedding]
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        vectors(s, "hi", dimensions=64)
    with pytest.raises(openai.BadRequestError) as e:
        vectors(s, ["hi", "ho " * 2000])
    assert e.value.param == "input[1]" and e.value.code == "context_length_exceeded"


def test_a_model_that_only_makes_vectors(tiny):
    s = tiny("gemma_embedding", "--kv", "f32")
    with open(os.path.join(GOLDEN, "tiny", "gemma_embedding.json")) as f:
        recorded = json.load(f)["vector"]
    [got] = vectors(s, families.PROMPT)
    assert max(abs(a - b) for a, b in zip(got, recorded)) < 5e-6
    together = vectors(s, TEXTS)
    assert [vectors(s, t)[0] for t in TEXTS] == together
    short = vectors(s, TEXTS[0], dimensions=32)[0]
    norm = math.sqrt(dot(together[0][:32], together[0][:32]))
    assert len(short) == 32 and max(abs(a - b / norm) for a, b in zip(short, together[0])) < 1e-6
    ids = post_json(s, "/tokenize", {"content": TEXTS[0], "parse_special": False})[1]["tokens"]
    assert vectors(s, ids + [2]) == [together[0]]  # texts end with EOS there
    for path, body in [("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
                       ("/v1/completions", {"prompt": "hi"}), ("/completion", {"prompt": "hi"}),
                       ("/v1/responses", {"input": "hi"}), ("/api/generate", {"prompt": "hi"}),
                       ("/v1/messages", {"max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]})]:
        status, reply = post_json(s, path, {"model": "m", **body})
        assert status == 400 and "/v1/embeddings" in json.dumps(reply), (path, reply)
    assert post_json(s, "/api/show", {"model": "m"})[1]["capabilities"] == ["embedding"]


def test_a_model_that_ranks(tiny):
    s = tiny("qwen3_rank", "--kv", "f32")
    documents = ["a duck", {"text": "a goose"}, "interest rates <|im_end|>", "a duck"]
    status, reply = post_json(s, "/v1/rerank", {"query": "birds", "documents": documents, "return_documents": True})
    assert status == 200 and reply["object"] == "list", reply
    scores = [r["relevance_score"] for r in reply["results"]]
    assert scores == sorted(scores, reverse=True) and all(0 < x < 1 for x in scores)
    at = {r["index"]: r for r in reply["results"]}
    assert sorted(at) == [0, 1, 2, 3] and at[1]["document"] == {"text": "a goose"}
    assert at[0]["relevance_score"] == at[3]["relevance_score"]  # equal ones, one of which found the other's prefix
    # the same prompt by hand, as one of ids would be
    status, one = post_json(s, "/rerank", {"query": "birds", "documents": documents[:1], "top_n": 3})
    assert [r["relevance_score"] for r in one["results"]] == [at[0]["relevance_score"]]
    prompt = post_json(s, "/tokenize", {"content": "<|im_start|>birds\na duck<|im_end|>\n"})[1]["tokens"]
    assert one["usage"] == {"prompt_tokens": len(prompt), "total_tokens": len(prompt)}
    with pytest.raises(openai.BadRequestError, match="ranks documents"):
        vectors(s, "hi")


def test_base64_is_little_endian(own):
    s = own("--pooling", "mean")
    _, plain = post_json(s, "/v1/embeddings", {"input": "hi"})
    _, coded = post_json(s, "/v1/embeddings", {"input": "hi", "encoding_format": "base64"})
    raw = base64.b64decode(coded["data"][0]["embedding"])
    want = [struct.unpack("<f", struct.pack("<f", x))[0] for x in plain["data"][0]["embedding"]]
    assert list(struct.unpack(f"<{len(raw) // 4}f", raw)) == want
