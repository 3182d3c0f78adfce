"""Text, ids and conversations by themselves, and what would become of a request, with a real model."""
import json
import subprocess
import urllib.error
import urllib.request

import pytest

from conftest import CONTEXT, FFWD, MODEL, post_raw

HI = [{"role": "user", "content": "Name a colour."}]
TEXT = "Größe <|im_end|> 🦆\n\n  two"


def post(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)


def ok(server, path, **body):
    status, reply = post(server, path, body)
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
    status, reply = post(server, path, {"messages": [{"role": "user", "content": "a" * (8 << 20)}]})
    assert status == 400 and reply["error"]["param"] == "messages"


def test_explain_says_what_the_program_says(server):
    body = {"messages": HI, "max_tokens": 7, "guided_regex": "[a-z]+", "ffwd": {"sources": ["grammar", "echo"]}}
    said = subprocess.run([FFWD, "explain", "-m", MODEL, "--ctx", str(CONTEXT), "--json"], input=json.dumps(body).encode(),
                          capture_output=True, check=True, timeout=60).stdout
    assert ok(server, "/v1/ffwd/explain", **body) == json.loads(said)
    plan = ok(server, "/v1/chat/completions", **body | {"ffwd": body["ffwd"] | {"plan": True}})["usage"]["ffwd"]["plan"]
    assert plan == json.loads(said)["plan"]
    status, reply = post(server, "/v1/ffwd/explain", {"messages": HI, "max_tokens": 100 * CONTEXT})
    assert status == 400 and reply["error"]["param"] == "max_tokens"


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize", "/apply-template", "/v1/ffwd/count", "/v1/ffwd/explain"])
def test_malformed_bodies(server, path):
    for body in (b"", b"[]", b"{", b"{}", b'{"content":{}}', b'{"tokens":[[1]]}', b'{"messages":"x"}', b"[" * 500, b"\xff\xfe"):
        status, text = post_raw(server, path, body)
        assert status == 400 and json.loads(text)["error"]["type"] == "invalid_request_error", (body, text)
