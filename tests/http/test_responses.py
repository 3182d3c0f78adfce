"""The Responses API with a real model, spoken by hand: what a client's library would not send or not show."""
import json
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import CONTEXT, Server, post_raw

HI = "Name a colour."
WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"enum": [1, 2]}},
           "required": ["city", "days"], "additionalProperties": False}
TOOLS = [{"type": "function", "name": "get_weather", "description": "The weather of a city", "parameters": WEATHER}]
CALL = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False, "max_output_tokens": 80}


def send(server, method, path, body=None, **headers):
    data = None if body is None else json.dumps(body, indent=1).encode()
    request = urllib.request.Request(server.url + path, data, {"Content-Type": "application/json"} | headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def respond(server, given=HI, **more):
    status, text = send(server, "POST", "/v1/responses",
                        dict(model="any", max_output_tokens=24, temperature=0, input=given) | more)
    assert status == 200, text
    return json.loads(text)


def events(server, given=HI, **more):
    status, text = send(server, "POST", "/v1/responses",
                        dict(model="any", max_output_tokens=24, temperature=0, input=given, stream=True) | more)
    assert status == 200, text
    found = []
    for block in text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        data = json.loads(data.removeprefix("data: "))
        assert name == "event: " + data["type"] and data["sequence_number"] == len(found)
        found.append(data)
    return found


def text_of(response):
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


def collect(found):
    """What a client makes of a stream's events: the items, each told of from beginning to end."""
    items, now = [], None
    for e in found[2:-1]:
        kind = e["type"].removeprefix("response.")
        assert e["output_index"] == len(items)
        if kind == "output_item.added":
            assert now is None and e["item"]["status"] == "in_progress"
            now = {"id": e["item"]["id"], "text": ""}
        elif kind == "output_item.done":
            items.append(e["item"])
            assert e["item"]["id"] == now["id"]
            now = None
        else:
            assert e["item_id"] == now["id"]
            if kind.endswith(".delta"):
                now["text"] += e["delta"]
            elif kind in ("output_text.done", "function_call_arguments.done"):
                assert now["text"] == e.get("text", e.get("arguments"))
    assert now is None
    return items


def without_ids(items):
    return [{k: v for k, v in item.items() if k not in ("id", "call_id")} for item in items]


def test_a_stream_says_what_a_whole_reply_says(server):
    for more in ({}, CALL, {"max_output_tokens": 300}):
        whole, found = respond(server, **more), events(server, **more)
        final = found[-1]["response"]
        assert [e["type"] for e in found[:2]] == ["response.created", "response.in_progress"]
        assert found[-1]["type"] == "response." + whole["status"]
        assert collect(found) == final["output"] and without_ids(final["output"]) == without_ids(whole["output"])
        assert final.keys() == whole.keys() and final["usage"].keys() == whole["usage"].keys()
        assert {e["response"]["id"] for e in found if "response" in e} == {final["id"]}


def test_it_is_the_same_model_as_the_other_dialects(server):
    other = server.client.chat.completions.create(model="any", messages=[{"role": "user", "content": HI}], temperature=0,
                                                  max_tokens=24).choices[0]
    assert text_of(respond(server)) == other.message.content


def test_a_conversation_by_id_and_by_items(server):
    """Both ways the model reads the same, and what it has read before is not computed again."""
    history, previous, fed = [], None, 0
    for turn, question in enumerate(["Remember the words " + "apple pear " * 40, "Name the first.", "And the second?"]):
        message = {"role": "user", "content": question}
        by_id = respond(server, [message], previous_response_id=previous, instructions="Be brief.", cache_salt="turns")
        by_items = respond(server, history + [message], instructions="Be brief.", store=False, cache_salt="turns")
        assert without_ids(by_id["output"]) == without_ids(by_items["output"])
        assert by_id["usage"]["input_tokens"] == by_items["usage"]["input_tokens"]
        assert by_id["usage"]["input_tokens_details"]["cached_tokens"] >= fed
        fed = by_id["usage"]["total_tokens"] - 8  # a few ids at the end are fed again rather than copied
        history += [message] + by_id["output"]
        previous = by_id["id"]
        assert by_id["usage"]["ffwd"]["replayed_ids"] > 0 or not turn


def test_branches_and_references(server):
    first = respond(server, "My name is Ada.")
    left, right = (respond(server, "Say " + word, previous_response_id=first["id"]) for word in ("yes.", "no."))
    assert left["previous_response_id"] == right["previous_response_id"] == first["id"]
    asked = [{"role": "user", "content": "My name is Ada."}, {"type": "item_reference", "id": first["output"][0]["id"]},
             {"role": "user", "content": "Say yes."}]
    assert without_ids(respond(server, asked)["output"]) == without_ids(left["output"])
    status, text = send(server, "POST", "/v1/responses", {"input": asked}, Authorization="Bearer somebody-else")
    assert status == 400 and json.loads(text)["error"]["param"] == "input[1].id"
    status, text = send(server, "POST", "/v1/responses", {"input": "", "previous_response_id": first["id"]},
                        Authorization="Bearer somebody-else")
    assert status == 400 and json.loads(text)["error"]["code"] == "previous_response_not_found"


def test_kept_responses(server):
    r = respond(server, metadata={"a": "b"})
    status, text = send(server, "GET", "/v1/responses/" + r["id"])
    assert status == 200 and json.loads(text) == r
    streamed = events(server)[-1]["response"]
    status, text = send(server, "GET", "/v1/responses/" + streamed["id"])
    assert status == 200 and json.loads(text) == streamed
    assert send(server, "GET", "/v1/responses/" + r["id"], Authorization="Bearer somebody-else")[0] == 404
    assert send(server, "DELETE", "/v1/responses/" + r["id"]) == \
        (200, json.dumps({"id": r["id"], "object": "response", "deleted": True}, separators=(",", ":")))
    assert send(server, "DELETE", "/v1/responses/" + r["id"])[0] == 404
    assert send(server, "POST", f"/v1/responses/{streamed['id']}/cancel", {})[0] == 405


def test_an_agents_turns(server):
    previous, made, given = None, 0, HI
    for turn in range(3):
        r = respond(server, given, previous_response_id=previous, **CALL)
        [call] = r["output"]
        assert r["status"] == "completed" and call["type"] == "function_call" and call["name"] == "get_weather"
        assert json.loads(call["arguments"])["days"] in (1, 2)
        assert r["usage"]["ffwd"]["replayed_ids"] >= made
        made += r["usage"]["output_tokens"] - 1
        previous = r["id"]
        given = [{"type": "function_call_output", "call_id": call["call_id"], "output": f"{20 + turn} degrees"},
                 {"role": "user", "content": "And then?"}]


def test_a_reply_of_a_shape(server):
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"],
              "additionalProperties": False}
    r = respond(server, text={"format": {"type": "json_schema", "name": "x", "schema": schema}})
    assert json.loads(text_of(r))["colour"] in ("red", "blue")
    assert r["text"]["format"]["schema"] == schema
    schema["properties"]["colour"] = {"type": "string", "format": "no-such-format"}
    status, text = send(server, "POST", "/v1/responses", {"input": HI, "text": {"format": {"type": "json_schema",
                                                                                          "schema": schema}}})
    assert status == 400 and json.loads(text)["error"]["param"].startswith("text.format.schema")


def test_log_probabilities_come_with_their_text(server):
    """Also where a reply might have been a call: then text waits until it is known that it is none."""
    for more in ({}, {"tools": TOOLS}):
        found = events(server, top_logprobs=1, **more)
        told = [x for e in found if e["type"] == "response.output_text.delta" for x in e["logprobs"]]
        kept = [x for item in found[-1]["response"]["output"] for part in item.get("content", []) for x in part["logprobs"]]
        assert told == kept and "".join(x["token"] for x in kept).strip() == text_of(found[-1]["response"]).strip() != ""


def test_limits(server):
    assert respond(server, max_output_tokens=3)["incomplete_details"] == {"reason": "max_output_tokens"}
    # an upper bound beyond the context is the rest of it
    assert respond(server, max_output_tokens=10 * CONTEXT)["status"] in ("completed", "incomplete")


def test_many_conversations_at_once(server):
    def talk(i):
        r = respond(server, f"Count to {i}.", max_output_tokens=8)
        return respond(server, "Go on.", previous_response_id=r["id"], max_output_tokens=8)["previous_response_id"] == r["id"]
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(talk, range(32)))


@pytest.mark.parametrize("more, param", [
    ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image"}]}]},
     "input[0].content[1]"),
    ({"input": "word " * 2 * CONTEXT}, "input"),
    ({"tools": [{"type": "function", "name": "f", "parameters": {"not": {}}, "strict": True}]}, "tools[0].parameters"),
    ({"tools": [{"type": "mcp", "server_label": "x"}]}, "tools[0].type"),
    ({"messages": []}, "messages"),
    ({"previous_response_id": "resp_0"}, "previous_response_id"),
])
def test_errors(server, more, param):
    status, text = send(server, "POST", "/v1/responses", {"input": HI} | more)
    error = json.loads(text)["error"]
    assert status == 400 and error["type"] == "invalid_request_error" and error["param"] == param


def test_malformed_bodies(server):
    for body in (b"", b"{", b"[]", b'{"input":' + b"[" * 500 + b"]" * 500 + b"}", b'{"input":"a","input":"b"}',
                 b'{"input":[{"role":"user","content":"\xff"}]}'):
        status, text = post_raw(server, "/v1/responses", body)
        assert status == 400 and json.loads(text)["error"]["type"] == "invalid_request_error"


def test_unknown_fields_are_in_the_log(tmp_path):
    s = Server("--log-file", str(tmp_path / "log"))
    respond(s, no_such_field=1, max_output_tokens=1, **{"another\nline": 2})
    assert s.stop() == 0
    [line] = [x for x in (tmp_path / "log").read_text().splitlines() if "no_such_field" in x]
    assert "another?line" in line and "/v1/responses" in line
