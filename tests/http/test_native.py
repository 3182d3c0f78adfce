"""Text, ids, conversations, what would become of a request, and llama-server's addresses, with a real model."""
import json
import os
import subprocess
import urllib.request

import pytest

from conftest import CONTEXT, FFWD, MODEL, head, post_json

HI = [{"role": "user", "content": "Name a colour."}]
TEXT = "Größe <|im_end|> 🦆\n\n  two"


def ok(server, path, **body):
    status, reply = post_json(server, path, body)
    assert status == 200, reply
    return reply


def test_texts_and_ids(server):
    ids = ok(server, "/tokenize", content=TEXT)["tokens"]
    assert ok(server, "/detokenize", tokens=ids)["content"] == TEXT
    pieces = ok(server, "/tokenize", content=TEXT, with_pieces=True)["tokens"]
    assert [p["id"] for p in pieces] == ids and {"id": 2, "piece": "<|im_end|>"} in pieces
    assert b"".join(p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces).decode() == TEXT
    plain = ok(server, "/tokenize", content=TEXT, parse_special=False)["tokens"]
    assert 2 not in plain and ok(server, "/detokenize", tokens=plain)["content"] == TEXT


def test_a_template_then_a_raw_prompt_is_a_chat(server):
    prompt = ok(server, "/apply-template", messages=HI)["prompt"]
    assert prompt.endswith("<|im_start|>assistant\n") and "Name a colour." in prompt
    said = server.client.chat.completions.create(model="any", messages=HI, temperature=0, max_tokens=12)
    raw = server.client.completions.create(model="any", prompt=prompt, temperature=0, max_tokens=12)
    assert raw.choices[0].text == said.choices[0].message.content and raw.usage.prompt_tokens == said.usage.prompt_tokens


@pytest.mark.parametrize("path", ["/v1/ffwd/count", "/v1/chat/completions/input_tokens"])
def test_counts(server, path):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    for more in ({}, {"tools": tools}, {"tools": tools, "tool_choice": "none"}):
        counted = ok(server, path, messages=HI, **more)
        used = ok(server, "/v1/chat/completions", messages=HI, max_tokens=1, **more)["usage"]["prompt_tokens"]
        assert (counted["input_tokens"], counted["context_length"]) == (used, CONTEXT)
    assert ok(server, path, prompt="Once upon")["input_tokens"] == len(ok(server, "/tokenize", content="Once upon")["tokens"])
    # what no context holds is refused as it would be if it were to be served
    status, reply = post_json(server, path, {"messages": [{"role": "user", "content": "a" * (8 << 20)}]})
    assert status == 400 and reply["error"]["param"] == "messages"


def test_explain_says_what_the_program_says(server):
    body = {"messages": HI, "max_tokens": 7, "guided_regex": "[a-z]+", "ffwd": {"sources": ["grammar", "echo"]}}
    said = subprocess.run([FFWD, "explain", "-m", MODEL, "--ctx", str(CONTEXT), "--json"], input=json.dumps(body).encode(),
                          capture_output=True, check=True, timeout=60).stdout
    assert ok(server, "/v1/ffwd/explain", **body) == json.loads(said)
    plan = ok(server, "/v1/chat/completions", **body | {"ffwd": body["ffwd"] | {"plan": True}})["usage"]["ffwd"]["plan"]
    assert plan == json.loads(said)["plan"]
    status, reply = post_json(server, "/v1/ffwd/explain", {"messages": HI, "max_tokens": 100 * CONTEXT})
    assert status == 400 and reply["error"]["param"] == "max_tokens"


@pytest.mark.parametrize("path", ["/apply-template", "/v1/ffwd/count", "/v1/ffwd/explain", "/v1/chat/completions"])
def test_schemas_of_tools_are_schemas(server, path):
    for wrong in ([], "{}", 5):
        tools = [{"type": "function", "function": {"name": "f", "parameters": wrong}}]
        status, reply = post_json(server, path, {"messages": HI, "tools": tools})
        assert (status, reply["error"]["param"]) == (400, "tools[0].function.parameters"), wrong


# ---- llama-server's addresses ----

GREEDY = {"temperature": 0, "n_predict": 12}


def stream(server, **body):
    request = urllib.request.Request(server.url + "/completion", json.dumps(body | {"stream": True}).encode())
    with urllib.request.urlopen(request, timeout=60) as reply:
        events = reply.read().decode().split("\n\n")
    assert events.pop() == "" and all(e.startswith("data: {") for e in events)
    return [json.loads(e.removeprefix("data: ")) for e in events]


def test_a_completion(server):
    whole = ok(server, "/completion", prompt="Once upon a time", return_tokens=True, **GREEDY)
    other = server.client.completions.create(model="any", prompt="Once upon a time", temperature=0, max_tokens=12)
    assert whole["content"] == other.choices[0].text and whole["stop_type"] == "limit" and not whole["truncated"]
    assert ok(server, "/detokenize", tokens=whole["tokens"])["content"] == whole["content"]
    assert (whole["tokens_predicted"], whole["tokens_evaluated"]) == (12, other.usage.prompt_tokens)
    assert whole["prompt"] == "Once upon a time" and whole["generation_settings"]["n_predict"] == 12
    timings = whole["timings"]
    assert timings["prompt_n"] + timings["cache_n"] == whole["tokens_evaluated"] and timings["predicted_n"] == 12
    assert timings["predicted_per_second"] == pytest.approx(12e3 / timings["predicted_ms"], rel=0.01)
    ids = ok(server, "/tokenize", content="Once upon a time")["tokens"]
    assert ok(server, "/completion", prompt=ids, **GREEDY)["content"] == whole["content"]


def test_a_completion_that_is_streamed(server):
    whole = ok(server, "/completion", prompt="Once upon a time", n_probs=2, return_tokens=True, **GREEDY)
    found = stream(server, prompt="Once upon a time", n_probs=2, **GREEDY)
    assert [e["stop"] for e in found] == [False] * (len(found) - 1) + [True]
    assert "".join(e["content"] for e in found) == whole["content"]
    assert [i for e in found for i in e["tokens"]] == whole["tokens"]
    assert [p for e in found[:-1] for p in e["completion_probabilities"]] == whole["completion_probabilities"]
    changing = ("timings", "usage", "tokens_cached", "generation_settings", "content", "tokens", "completion_probabilities")
    assert {k: v for k, v in found[-1].items() if k not in changing} == {k: v for k, v in whole.items() if k not in changing}


def test_several_completions(server):
    one, two = ok(server, "/completion", prompt=["Once upon", "The"], **GREEDY)
    assert (one["index"], two["index"]) == (0, 1) and "usage" not in one and "usage" in two
    assert one["content"] == ok(server, "/completion", prompt="Once upon", **GREEDY)["content"]
    found = stream(server, prompt="The", n_cmpl=2, **GREEDY)
    assert sorted(e["index"] for e in found if e["stop"]) == [0, 1] and ["usage" in e for e in found][-1]
    for i in range(2):
        assert "".join(e["content"] for e in found if e["index"] == i) == two["content"]


def test_how_completions_end(server):
    text = ok(server, "/completion", prompt="Once upon a time", **GREEDY)["content"]
    cut = ok(server, "/completion", prompt="Once upon a time", stop=[text[5:9]], **GREEDY)
    assert (cut["content"], cut["stop_type"], cut["stopping_word"]) == (text[:text.index(text[5:9])], "word", text[5:9])
    said = ok(server, "/completion", prompt="Yes or no?", grammar='root ::= "yes" | "no"', temperature=0)
    assert said["content"] in ("yes", "no") and said["stop_type"] == "eos"
    said = ok(server, "/completion", prompt="JSON:", json_schema={"enum": ["red", 7]}, temperature=0)
    assert json.loads(said["content"]) in ("red", 7)
    full = ok(server, "/completion", prompt="la " * 600, n_predict=10 * CONTEXT, temperature=0, ignore_eos=True)
    assert full["truncated"] and full["stop_type"] == "limit"


def test_without_the_cache(server):
    prompt = "A long beginning. " * 20
    first = ok(server, "/completion", prompt=prompt, **GREEDY)
    again = ok(server, "/completion", prompt=prompt, **GREEDY)
    alone = ok(server, "/completion", prompt=prompt, cache_prompt=False, **GREEDY)
    assert again["tokens_cached"] > 50 and alone["tokens_cached"] == 0 and alone["timings"]["cache_n"] == 0
    assert first["content"] == again["content"] == alone["content"]


def test_props_and_slots(server):
    props = server.get("/props")
    assert props["default_generation_settings"]["n_ctx"] == CONTEXT and props["total_slots"] == len(server.get("/slots"))
    assert props["model_path"] == os.path.basename(MODEL) and props["eos_token"] == "<|im_end|>"
    assert "<|im_start|>" in props["chat_template"]
    usual = props["default_generation_settings"]["params"]
    said = ok(server, "/completion", prompt="a", n_predict=1)["generation_settings"]
    assert {k: v for k, v in said.items() if k not in ("seed", "n_predict")} == \
        {k: v for k, v in usual.items() if k not in ("seed", "n_predict")}
    assert not any(slot["is_processing"] for slot in server.get("/slots?fail_on_no_slot=1"))
    body = json.dumps({"prompt": "Once", "n_predict": 900, "ignore_eos": True, "stream": True}).encode()
    with server.connect() as sock:
        sock.sendall(head("/completion", len(body)) + body)
        assert sock.recv(100)
        busy = [slot for slot in server.get("/slots") if slot["is_processing"]]
        assert len(busy) == 1 and busy[0]["next_token"]["n_remain"] > 0
    assert server.load_becomes(0, 0, 10)
