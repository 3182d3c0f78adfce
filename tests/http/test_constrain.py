"""Replies that have to look like something: schemas, regular expressions, choices, grammars, tool calls; and filling.
Case names are those of the reports that other servers' users made."""
import json
import re

import jsonschema
import pytest

from conftest import post_raw

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
PERSON = {
    "type": "object", "additionalProperties": False, "required": ["name", "age", "tags"],
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
                   "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3}},
}
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "required": ["city"], "additionalProperties": False,
                   "properties": {"city": {"type": "string", "maxLength": 20},
                                  "unit": {"enum": ["celsius", "fahrenheit"]}}}}}
TIME = {"type": "function", "function": {
    "name": "get_time", "parameters": {"type": "object", "required": ["zone"], "additionalProperties": False,
                                       "properties": {"zone": {"enum": ["UTC", "CET"]}}}}}
UNENFORCEABLE = {"type": "object", "properties": {"a": {"not": {"type": "string"}}}}


def post(server, path, **body):
    """Status and JSON of a request; the usual prompt is added."""
    if path == CHAT:
        body.setdefault("messages", [{"role": "user", "content": "Tell me about Anna, who is 34, and the weather in Oslo."}])
    else:
        body.setdefault("prompt", "Here is what we know of Anna: ")
    status, reply = post_raw(server, path, json.dumps({"max_tokens": 120, "temperature": 0, **body}).encode())
    return status, json.loads(reply)


def text_of(reply):
    choice = reply["choices"][0]
    return choice["message"]["content"] if "message" in choice else choice["text"]


def said(server, path, **body):
    """The text of a reply that came to its end, and its usage."""
    status, reply = post(server, path, **body)
    assert status == 200, reply
    assert reply["choices"][0]["finish_reason"] == "stop", reply
    return text_of(reply), reply["usage"]


def check_sums(usage):
    ffwd = usage["ffwd"]
    counts = [c for c in ffwd["by_source"].values() if c]
    assert ffwd["sampled"] + sum(c["accepted"] for c in counts) == usage["completion_tokens"], usage
    for c in counts:
        assert c["asserted"] <= c["accepted"] and c["accepted"] + c["rejected"] <= c["proposed"], usage


# ---- constraints ----

SCHEMAS = [
    {"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}},
    {"response_format": {"type": "json_object", "schema": PERSON}},
    {"guided_json": PERSON}, {"guided_json": json.dumps(PERSON)}, {"json_schema": PERSON},
    {"structured_outputs": {"json": PERSON}},
]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("asked", SCHEMAS)
def test_SO2_schema_is_applied(server, path, asked):
    for seed in range(3):
        text, usage = said(server, path, **asked, temperature=1.0, seed=seed)
        jsonschema.validate(json.loads(text), PERSON)
        check_sums(usage)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_json_object(server, path):
    for asked in ({"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}):
        status, reply = post(server, path, **asked, max_tokens=200)
        assert status == 200 and text_of(reply).lstrip().startswith("{"), reply
        if reply["choices"][0]["finish_reason"] == "stop":
            assert isinstance(json.loads(text_of(reply)), dict)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_regex_choice_and_grammar(server, path):
    for field in ("guided_regex", "regex"):
        assert re.fullmatch(r"\d{3}-[a-f]{2,4}", said(server, path, **{field: r"\d{3}-[a-f]{2,4}"})[0])
    for asked in ({"guided_choice": ["sunny", "rain\nand hail", "snow \u2603"]},
                  {"structured_outputs": {"choice": ["sunny", "rain\nand hail", "snow \u2603"]}}):
        assert said(server, path, **asked, temperature=1.5, seed=3)[0] in ["sunny", "rain\nand hail", "snow \u2603"]
    gbnf = 'root ::= "move " dir (", " dir){1,2} "."\ndir ::= "left" | "right" # no other\n'
    for field in ("grammar", "guided_grammar", "ebnf"):
        text = said(server, path, **{field: gbnf}, temperature=1.0, seed=1)[0]
        assert re.fullmatch(r"move (left|right)(, (left|right)){1,2}\.", text), text
    lark = 'start: "yes" | "no, " REASON\nREASON: /[a-z]{1,5}/\n'
    assert re.fullmatch("yes|no, [a-z]{1,5}", said(server, path, structured_outputs={"grammar": lark})[0])


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_schemas_are_taken_as_they_were_written(server, path):
    """A number that no double holds is the client's own, not its neighbour; so is a NUL; so is the order of keys."""
    status, reply = post(server, path, guided_json={"const": 2 ** 53 + 1})
    assert status == 400 and "guided_json/const" in reply["error"]["message"], reply
    assert json.loads(said(server, path, guided_json={"const": 2 ** 53 - 1})[0]) == 2 ** 53 - 1
    status, reply = post(server, path, guided_json={"enum": ["a\u0000b"]})
    assert status == 400 and "guided_json/enum" in reply["error"]["message"], reply
    assert json.loads(said(server, path, guided_json={"enum": ['\u00e9"\\']})[0]) == '\u00e9"\\'
    keys = ["zeta", "alpha", "mid"]
    schema = {"type": "object", "properties": {k: {"const": 1} for k in keys}, "required": keys,
              "additionalProperties": False}
    assert list(json.loads(said(server, path, guided_json=schema)[0])) == keys


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("asked, param", [
    ({"grammar": "root ::= ("}, "grammar"), ({"guided_grammar": "root ::= missing"}, "guided_grammar"),
    ({"guided_regex": "(a"}, "guided_regex"), ({"guided_regex": "a(?=b)"}, "guided_regex"),
    ({"guided_json": {"type": "nonsense"}}, "guided_json"), ({"guided_json": "{"}, "guided_json"),
    ({"guided_choice": []}, "guided_choice"), ({"guided_json": {}, "guided_regex": "a"}, "guided_regex"),
])
@pytest.mark.parametrize("stream", [False, True])
def test_SO1_what_is_no_grammar_is_refused(server, path, asked, param, stream):
    status, reply = post(server, path, **asked, stream=stream)
    assert status == 400 and reply["error"]["param"] == param, reply


@pytest.mark.parametrize("strict", [{"strict": True}, {"strict": False}, {}])
def test_unenforceable_keyword_is_named(server, strict):
    status, reply = post(server, CHAT, response_format={
        "type": "json_schema", "json_schema": {"name": "x", "schema": UNENFORCEABLE, **strict}})
    error = reply["error"]
    assert status == 400 and error["param"] == "response_format.json_schema.schema", reply
    assert "/properties/a/not" in error["message"] and error["code"] == "unsupported", reply


# ---- calls ----

def call_of(reply):
    """Name and arguments of the reply's first call, written as tool_calls or still as text."""
    message = reply["choices"][0]["message"]
    if message.get("tool_calls"):
        function = message["tool_calls"][0]["function"]
        return function["name"], json.loads(function["arguments"])
    call = json.loads(re.search(r"<tool_call>\s*(.*?)\s*</tool_call>", message["content"], re.S).group(1))
    return call["name"], call["arguments"]


def test_TC8_required_calls(server):
    for seed in range(4):
        status, reply = post(server, CHAT, tools=[WEATHER, TIME], tool_choice="required", temperature=1.0, seed=seed,
                             parallel_tool_calls=False)
        assert status == 200, reply
        name, arguments = call_of(reply)
        tool = next(t for t in (WEATHER, TIME) if t["function"]["name"] == name)
        jsonschema.validate(arguments, tool["function"]["parameters"])
        check_sums(reply["usage"])
        assert reply["usage"]["ffwd"]["relaxed"] == []


@pytest.mark.parametrize("tool", [WEATHER, TIME])
def test_TC9_named_tool_is_called(server, tool):
    name = tool["function"]["name"]
    for choice in ({"type": "function", "function": {"name": name}},
                   {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                       {"type": "function", "function": {"name": name}}]}}):
        status, reply = post(server, CHAT, tools=[WEATHER, TIME], tool_choice=choice, parallel_tool_calls=False)
        assert status == 200 and call_of(reply)[0] == name, reply


@pytest.mark.parametrize("asked, param", [
    ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "get_time"}}}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"), ({"tools": [WEATHER], "tool_choice": "maybe"}, "tool_choice"),
    ({"tools": [WEATHER], "response_format": {"type": "json_object"}}, "response_format"),
    ({"tools": [WEATHER, WEATHER]}, "tools[1].name"),
])
def test_TC9_what_cannot_be_chosen_is_refused(server, asked, param):
    status, reply = post(server, CHAT, **asked)
    assert status == 400 and reply["error"]["param"].split(".")[0] == param.split(".")[0], reply


def test_TC10_at_most_one_call(server):
    status, reply = post(server, CHAT, tools=[TIME], tool_choice="required", parallel_tool_calls=False,
                         temperature=1.5, seed=5, max_tokens=200)
    assert status == 200 and call_of(reply), reply
    message = reply["choices"][0]["message"]
    assert len(message.get("tool_calls") or []) <= 1 and (message["content"] or "").count("<tool_call>") <= 1, reply


def test_strict_functions(server):
    function = {"name": "f", "parameters": UNENFORCEABLE}
    status, reply = post(server, CHAT, tools=[TIME, {"type": "function", "function": {**function, "strict": True}}])
    assert status == 400 and reply["error"]["param"] == "tools[1].function.parameters", reply
    assert "/properties/a/not" in reply["error"]["message"]
    status, reply = post(server, CHAT, tools=[TIME, {"type": "function", "function": function}], max_tokens=5)
    assert status == 200, reply
    assert reply["usage"]["ffwd"]["relaxed"] == ["/tools/1/function/parameters/properties/a/not"], reply


def test_TC1_malformed_arguments_in_the_history(server):
    messages = [{"role": "user", "content": "And now?"},
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": '{"zone": "U'}}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "12:00"}]
    assert post(server, CHAT, messages=messages, tools=[TIME], max_tokens=5)[0] == 200
    messages[1]["tool_calls"][0] = 7
    status, reply = post(server, CHAT, messages=messages, tools=[TIME])
    assert status == 400 and reply["error"]["param"] == "messages[1].tool_calls", reply


# ---- filling ----

SOURCES = ["grammar", "grammar_likely", "template", "echo", "ngram", "draft"]


@pytest.mark.parametrize("asked", [
    {"guided_json": PERSON}, {"guided_regex": r"(ab){20}-\d{4}"}, {},
    {"tools": [WEATHER, TIME], "tool_choice": "required"},
])
def test_filling_does_not_change_a_reply(server, asked):
    def ask(**ffwd):
        status, reply = post(server, CHAT, **asked, temperature=0.8, seed=11, ffwd=ffwd)
        assert status == 200, reply
        check_sums(reply["usage"])
        choice = reply["choices"][0]
        for call in choice["message"].get("tool_calls") or []:
            del call["id"]
        return (choice["message"]["content"], choice["message"].get("tool_calls"), choice["finish_reason"],
                reply["usage"]["completion_tokens"]), reply["usage"]["ffwd"]
    plain, usage = ask(fill="off", plan=True)
    assert usage["by_source"] == {name: {} for name in SOURCES} and usage["sampled"] == plain[3]
    assert not any(s["on"] for s in usage["plan"]["sources"].values())
    assert ask(fill="lossless")[0] == plain
    for name in SOURCES:
        filled, usage = ask(sources=[name], plan=True)
        assert filled == plain, name
        assert all(not c for s, c in usage["by_source"].items() if s != name), usage
        for other, plan in usage["plan"]["sources"].items():
            assert plan["on"] or plan["why"], usage
            assert other == name or not plan["on"], usage


def test_grammar_fills(server):
    text, usage = said(server, COMPLETIONS, guided_regex=r"(the castle on the hill ){5}")
    assert text == "the castle on the hill " * 5
    assert usage["ffwd"]["by_source"]["grammar"]["asserted"] > 0.8 * usage["completion_tokens"], usage
    assert usage["ffwd"]["steps"] < usage["completion_tokens"] / 2 and usage["ffwd"]["seconds"]["grammar"] > 0, usage


def test_min_tokens_contradicts_a_grammar(server):
    for path in (CHAT, COMPLETIONS):
        status, reply = post(server, path, guided_regex="a+", min_tokens=3)
        assert status == 400 and reply["error"]["param"] == "min_tokens", reply


def test_many_strict_tools_are_compiled_together(server):
    """And every one of them is enforced: the last is called, with what its schema wants."""
    def tool(i):
        properties = {"n%d" % k: {"type": "integer", "minimum": i, "maximum": i + k} for k in range(2)}
        return {"type": "function", "function": {"name": "f%d" % i, "strict": True, "parameters": {
            "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}}}
    tools = [tool(i) for i in range(6)]
    choice = {"type": "function", "function": {"name": "f5"}}
    status, reply = post(server, CHAT, tools=tools, tool_choice="required")
    assert status == 200 and reply["usage"]["ffwd"]["relaxed"] == [], reply
    status, reply = post(server, CHAT, tools=tools, tool_choice=choice)
    call = reply["choices"][0]["message"]["tool_calls"][0]["function"]
    jsonschema.validate(json.loads(call["arguments"]), tools[5]["function"]["parameters"])
    tools[4]["function"]["parameters"]["properties"]["n1"] = {"not": {}}
    status, reply = post(server, CHAT, tools=tools)
    assert status == 400 and reply["error"]["param"] == "tools[4].function.parameters", reply
    assert "/properties/n1/not" in reply["error"]["message"]


def test_schemas_that_refer_to_themselves(server):
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}},
              "$defs": {"x": {"anyOf": [{"$ref": "#/$defs/x"}] * 200}}}
    status, reply = post(server, CHAT, tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}])
    assert status in (200, 400), reply
