"""Ollama's API with a real model, spoken by hand: what a client's library would not send or not show."""
import json

import pytest

import conftest
from conftest import CONTEXT, Server, head

HI = [{"role": "user", "content": "Name a colour."}]
GREEDY = {"temperature": 0, "num_predict": 24, "repeat_penalty": 1}
WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"enum": [1, 2]}},
           "required": ["city", "days"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather", "parameters": WEATHER}}]


def post(server, path, body):
    status, headers, text = conftest.ask(server, path, body)
    return status, headers["Content-Type"], text.decode()


def ask(server, path="/api/chat", **more):
    body = {"model": "any", "stream": False, "options": GREEDY} | ({"messages": HI} if path == "/api/chat" else {}) | more
    status, kind, text = post(server, path, body)
    assert status == 200 and kind == "application/json", text
    return json.loads(text)


def stream(server, path="/api/chat", **more):
    body = {"model": "any", "options": GREEDY} | ({"messages": HI} if path == "/api/chat" else {}) | more
    status, kind, text = post(server, path, body)
    assert status == 200 and kind == "application/x-ndjson" and text.endswith("\n"), text
    found = [json.loads(line) for line in text.splitlines()]
    assert [e["done"] for e in found] == [False] * (len(found) - 1) + [True]
    return found


def test_a_stream_says_what_a_whole_reply_says(server):
    whole, found = ask(server), stream(server)
    assert "".join(e["message"]["content"] for e in found) == whole["message"]["content"]
    assert found[-1].keys() == whole.keys() and found[-1]["done_reason"] == whole["done_reason"]
    assert found[-1]["eval_count"] == whole["eval_count"] <= 24
    assert 0 < whole["prompt_eval_duration"] + whole["eval_duration"] <= whole["total_duration"] < 60e9
    how = ("/api/generate", "Name a colour.")
    whole, found = ask(server, how[0], prompt=how[1]), stream(server, how[0], prompt=how[1])
    assert "".join(e["response"] for e in found) == whole["response"] == ask(server)["message"]["content"]


def test_it_is_the_same_model_as_the_other_dialects(server):
    other = server.client.chat.completions.create(model="any", messages=HI, temperature=0, max_tokens=24).choices[0]
    assert ask(server)["message"]["content"] == other.message.content
    other = server.client.completions.create(model="any", prompt="Once upon", temperature=0, max_tokens=24).choices[0]
    assert ask(server, "/api/generate", prompt="Once upon", raw=True)["response"] == other.text


def test_system_is_a_message(server):
    said = ask(server, "/api/generate", prompt="Name a colour.", system="You are terse.")
    same = ask(server, messages=[{"role": "system", "content": "You are terse."}] + HI)
    assert (said["response"], said["prompt_eval_count"]) == (same["message"]["content"], same["prompt_eval_count"])


def test_ends(server):
    text = ask(server)["message"]["content"]
    cut = ask(server, options=GREEDY | {"stop": ["never", text[8:12]]})
    assert (cut["message"]["content"], cut["done_reason"]) == (text[:text.index(text[8:12])], "stop")
    assert ask(server, options=GREEDY | {"num_predict": 3})["done_reason"] == "length"
    prompt = ask(server)["prompt_eval_count"]
    small = ask(server, options=GREEDY | {"num_predict": -1, "num_ctx": prompt + 5})
    assert (small["eval_count"], small["done_reason"]) == (5, "length")
    # a window larger than the server's is the server's
    assert ask(server, options=GREEDY | {"num_ctx": 100 * CONTEXT, "num_predict": 10 * CONTEXT})["eval_count"] >= 3
    status, _, text = post(server, "/api/chat", {"messages": HI, "options": {"num_ctx": prompt}})
    assert status == 400 and "options.num_ctx" in json.loads(text)["error"]


def test_the_reply_goes_on_from_the_last_message(server):
    text = ask(server)["message"]["content"]
    begun = text[:text.index(" ", 10)]
    reply = ask(server, messages=HI + [{"role": "assistant", "content": begun}])
    assert begun + reply["message"]["content"][:4] == text[:len(begun) + 4]


def test_a_shape_begins_behind_a_begun_reply(server):
    """As with Ollama, `format` is about what is generated: the begun text is no part of it."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9, "minimum": 0}}, "required": ["n"],
              "additionalProperties": False}
    for begun in ("The answer: ", '{"n":'):
        reply = ask(server, messages=HI + [{"role": "assistant", "content": begun}], format=schema, options=GREEDY)
        assert list(json.loads(reply["message"]["content"])) == ["n"], reply


def test_seeds(server):
    free = {"temperature": 1.5, "num_predict": 24}
    assert ask(server, options=free | {"seed": 3})["message"] == ask(server, options=free | {"seed": 3})["message"]
    assert ask(server, options=free | {"seed": 3})["message"] != ask(server, options=free | {"seed": 4})["message"]


def test_an_agents_turns(server):
    messages = list(HI)
    how = dict(tools=TOOLS, tool_choice="required", parallel_tool_calls=False, options=GREEDY | {"num_predict": 80})
    for turn in range(2):
        whole, found = ask(server, messages=messages, **how), stream(server, messages=messages, **how)
        [call] = whole["message"]["tool_calls"]
        [[streamed]] = [e["message"]["tool_calls"] for e in found if "tool_calls" in e["message"]]
        assert call["function"] == streamed["function"] and call["function"]["arguments"]["days"] in (1, 2)
        messages += [whole["message"], {"role": "tool", "tool_name": "get_weather", "content": f"{20 + turn} degrees"}]
        made = ask(server, messages=messages, tools=TOOLS)["usage"]["ffwd"]["replayed_ids"]
        assert made >= whole["eval_count"] - 1  # a call's id names the reply


def test_a_reply_of_a_shape(server):
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"],
              "additionalProperties": False}
    how = dict(format=schema, options=GREEDY | {"num_predict": 60})
    for text in (ask(server, **how)["message"]["content"], ask(server, "/api/generate", prompt="A colour?", **how)["response"],
                 ask(server, "/api/generate", prompt="A", raw=True, **how)["response"]):
        assert json.loads(text)["colour"] in ("red", "blue")
    status, _, text = post(server, "/api/chat", {"messages": HI, "format": {"not": {}}})
    assert status == 400 and "format" in json.loads(text)["error"]


@pytest.mark.parametrize("body, part", [
    ({"messages": HI, "options": {"top_p": 2}}, "options.top_p"),
    ({"messages": HI, "think": True}, "does not think"),
    ({"messages": [{"role": "robot", "content": ""}]}, "messages[0].role"),
    ({"messages": HI + [{"role": "user"}]}, "messages[1].content"),
    ({"messages": HI, "tools": [{"type": "web_search"}]}, "tools[0]"),
    ({"messages": [HI[0] | {"images": ["aGk="]}]}, "messages[0].images"),
])
def test_what_is_refused(server, body, part):
    status, _, text = post(server, "/api/chat", body)
    assert status == 400 and list(json.loads(text)) == ["error"] and part in json.loads(text)["error"]


def test_a_client_that_leaves(server):
    body = json.dumps({"messages": HI, "options": {"num_predict": 900}}).encode()
    with server.connect() as sock:
        sock.sendall(head("/api/chat", len(body)) + body)
        assert sock.recv(100)
    assert server.load_becomes(0, 0, 10)


def test_the_model_of_a_strict_server(tmp_path):
    log = tmp_path / "log"
    s = Server("--strict-model", "--model-name", "little", "--log-file", str(log))
    try:
        for name in ("little", "little:latest"):
            assert ask(s, model=name)["model"] == "little"
        ask(s, model="little", prompt="x", colour=1, options=GREEDY | {"mirostat_eta": 0.1, "size\n": 2})
        lines = [line for line in log.read_text().splitlines() if "knows no such fields" in line]
        assert [line.rsplit(": ", 1)[1] for line in lines] == ["prompt, colour", "size?"]
        for path in ("/api/chat", "/api/show"):
            status, _, text = post(s, path, {"model": "large", "messages": HI})
            assert status == 404 and "'large' not found" in json.loads(text)["error"]
        [model] = s.get("/api/tags")["models"]
        assert model["name"] == "little" and model["details"]["quantization_level"] == "Q4_1"
        [running] = s.get("/api/ps")["models"]
        assert running["digest"] == model["digest"] and running["context_length"] == CONTEXT
        shown = json.loads(post(s, "/api/show", {"model": "little"})[2])
        assert shown["model_info"]["llama.context_length"] == CONTEXT and "tools" in shown["capabilities"]
        assert "<|im_start|>" in shown["template"]
    finally:
        assert s.stop() == 0
