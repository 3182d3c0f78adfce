"""The Messages API with a real model, spoken by hand: what a client's library would not send or not show."""
import json

import pytest

import conftest
from conftest import CONTEXT, Server, post_raw

HI = [{"role": "user", "content": "Name a colour."}]
WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"enum": [1, 2]}},
           "required": ["city", "days"], "additionalProperties": False}
TOOLS = [{"name": "get_weather", "description": "The weather of a city", "input_schema": WEATHER}]


def post(server, body, path="/v1/messages"):
    status, headers, text = conftest.ask(server, path, body)
    return status, headers, text.decode()


def message(server, messages=HI, **more):
    status, headers, text = post(server, dict(model="any", max_tokens=24, temperature=0, messages=messages) | more)
    assert status == 200, text
    return json.loads(text)


def events(server, messages=HI, **more):
    status, headers, text = post(server, dict(model="any", max_tokens=24, temperature=0, messages=messages, stream=True) | more)
    assert status == 200 and headers["Content-Type"] == "text/event-stream"
    found = []
    for block in text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        data = json.loads(data.removeprefix("data: "))
        assert name == "event: " + data["type"]
        found.append(data)
    return found


def collect(found):
    """What a client makes of a stream's events: content, stop reason, usage."""
    assert [e["type"] for e in found[:2]] == ["message_start", "ping"]
    assert [e["type"] for e in found[-2:]] == ["message_delta", "message_stop"]
    content, open_at = [], None
    for e in found[2:-2]:
        if e["type"] == "content_block_start":
            assert open_at is None and e["index"] == len(content)
            open_at = e["index"]
            content.append(dict(e["content_block"]))
            if content[-1]["type"] == "tool_use":
                content[-1]["input"] = ""
        elif e["type"] == "content_block_delta":
            assert e["index"] == open_at
            [(key, value)] = [(k, v) for k, v in e["delta"].items() if k != "type"]
            content[-1]["input" if key == "partial_json" else key] += value
        else:
            assert e["type"] == "content_block_stop" and e["index"] == open_at
            open_at = None
    assert open_at is None
    for block in content:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["input"])
    return content, found[-2]["delta"]["stop_reason"], found[-2]["usage"]


def without_ids(content):
    return [{k: v for k, v in block.items() if k != "id"} for block in content]


def test_a_stream_says_what_a_whole_reply_says(server):
    for more in ({}, {"tools": TOOLS, "tool_choice": {"type": "any", "disable_parallel_tool_use": True}, "max_tokens": 80}):
        whole = message(server, **more)
        content, reason, usage = collect(events(server, **more))
        assert without_ids(content) == without_ids(whole["content"]) and reason == whole["stop_reason"]
        assert usage["output_tokens"] == whole["usage"]["output_tokens"]
        assert usage["ffwd"].keys() == whole["usage"]["ffwd"].keys()


def test_it_is_the_same_model_as_the_other_dialects(server):
    other = server.client.chat.completions.create(model="any", messages=HI, temperature=0, max_tokens=24).choices[0]
    assert message(server)["content"][0]["text"] == other.message.content


def test_usage(server):
    long = [{"role": "user", "content": "Remember these words: " + "apple pear " * 60}]
    message(server, long, cache_salt="usage")
    usage = message(server, long, cache_salt="usage", ffwd={"plan": True})["usage"]
    status, _, counted = post(server, {"model": "any", "messages": long}, "/v1/messages/count_tokens")
    assert status == 200
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == json.loads(counted)["input_tokens"]
    assert usage["cache_read_input_tokens"] > 100 and usage["cache_creation_input_tokens"] == 0
    assert usage["ffwd"]["plan"]["prefix_cache"]["match"]["on"]


def test_stops(server):
    text = message(server)["content"][0]["text"]
    reply = message(server, stop_sequences=["never", text[8:12]])
    assert (reply["stop_reason"], reply["stop_sequence"]) == ("stop_sequence", text[8:12])
    assert "".join(b["text"] for b in reply["content"]) == text[:text.index(text[8:12])]
    assert message(server, max_tokens=3)["stop_reason"] == "max_tokens"
    # more than the context holds: the reply may take all that is left
    assert message(server, max_tokens=10 * CONTEXT)["stop_reason"] in ("end_turn", "model_context_window_exceeded")


def test_the_reply_goes_on_from_the_last_message(server):
    text = message(server)["content"][0]["text"]
    begun = text[:text.index(" ", 10)]
    reply = message(server, HI + [{"role": "assistant", "content": begun}])
    assert begun + reply["content"][0]["text"][:4] == text[:len(begun) + 4]


def test_an_agents_turns(server):
    messages, made = list(HI), 0
    how = dict(tools=TOOLS, tool_choice={"type": "any", "disable_parallel_tool_use": True}, max_tokens=80, cache_salt="turns")
    for turn in range(3):
        reply = message(server, messages, **how)
        [call] = reply["content"]
        assert reply["stop_reason"] == "tool_use" and call["name"] == "get_weather" and call["input"]["days"] in (1, 2)
        assert reply["usage"]["ffwd"]["replayed_ids"] >= made
        made += reply["usage"]["output_tokens"] - 1
        messages += [{"role": "assistant", "content": reply["content"]},
                     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "is_error": turn == 1,
                                                   "content": [{"type": "text", "text": f"{20 + turn} degrees"}]},
                                                  {"type": "text", "text": "And then?"}]}]


def test_a_reply_of_a_shape(server):
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"],
              "additionalProperties": False}
    reply = message(server, output_config={"format": {"type": "json_schema", "schema": schema}})
    assert json.loads(reply["content"][0]["text"])["colour"] in ("red", "blue")
    schema["properties"]["colour"] = {"type": "string", "format": "no-such-format"}
    status, _, text = post(server, {"max_tokens": 5, "messages": HI,
                                    "output_config": {"format": {"type": "json_schema", "schema": schema}}})
    assert status == 400 and "output_config.format.schema" in json.loads(text)["error"]["message"]


@pytest.mark.parametrize("more, said", [
    ({"max_tokens": None}, "max_tokens"),
    ({"temperature": 3}, "temperature"),
    ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "does not think"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image", "source": {}}]}]},
     "messages[0].content[1]"),
    ({"messages": [{"role": "user", "content": "word " * 2 * CONTEXT}]}, str(CONTEXT)),
    ({"tools": [{"name": "f", "input_schema": {"not": {}}, "strict": True}]}, "tools[0].input_schema"),
])
def test_errors(server, more, said):
    status, headers, text = post(server, dict(max_tokens=24, messages=HI) | more)
    error = json.loads(text)
    assert status == 400 and error["type"] == "error" and error["error"]["type"] == "invalid_request_error"
    assert said in error["error"]["message"] and error["request_id"] == headers["request-id"]


def test_what_is_refused_before_there_is_a_request(server):
    version = "anthropic-version: 2023-06-01"
    status, text = post_raw(server, "/v1/messages", b"{", version)
    assert status == 400 and json.loads(text)["error"]["type"] == "invalid_request_error"
    status, text = post_raw(server, "/v1/nothing", b"{}", version)
    assert status == 404 and json.loads(text)["error"]["type"] == "not_found_error"
    deep = b'{"max_tokens":1,"messages":' + b"[" * 500 + b"]" * 500 + b"}"
    status, text = post_raw(server, "/v1/messages", deep, version)
    assert status == 400 and "nested" in json.loads(text)["error"]["message"]


def test_unknown_fields_are_in_the_log(tmp_path):
    s = Server("--log-file", str(tmp_path / "log"))
    message(s, no_such_field=1, max_tokens=1, **{"another\nline": 2})
    assert s.stop() == 0
    [line] = [x for x in (tmp_path / "log").read_text().splitlines() if "no_such_field" in x]
    assert "another?line" in line
