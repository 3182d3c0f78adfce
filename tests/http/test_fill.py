"""Law L2 over HTTP: with sources, each alone and all together, replies are those of one token a step: text, calls, tokens,
log-probabilities, how they end. Alone and in company, greedy and seeded; with a draft model too (SO10, SO13)."""
import concurrent.futures
import json

import jsonschema
import pytest

from conftest import MODEL, Server, post_raw

SOURCES = ["grammar", "grammar_likely", "template", "echo", "ngram", "draft"]
PERSON = {"type": "object", "additionalProperties": False, "required": ["name", "age", "likes"],
          "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 99},
                         "likes": {"type": "array", "maxItems": 2, "items": {"type": "string", "maxLength": 8}}}}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {
    "type": "object", "required": ["city", "days"], "additionalProperties": False,
    "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 9},
                   "unit": {"enum": ["celsius", "fahrenheit"]}}}}} for name in ("get_weather", "get_forecast")]
COPY = "Copy this exactly, twice: The quick brown fox jumps over the lazy dog, and the dog sleeps on."


def ask(text, **more):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 60, **more}


REQUESTS = {
    "plain": ask("Why is the sky blue?"),
    "copy": ask(COPY),
    "schema": ask("A person as JSON, please.",
                  response_format={"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}}),
    "json": ask("Some JSON object.", response_format={"type": "json_object"}),
    "regex": ask("A date and a time.", guided_regex=r"on \d{4}-\d{2}-\d{2} at \d{1,2}:\d{2}( (am|pm))?"),
    "choice": ask("Yes or no?", guided_choice=["yes, certainly", "yes, perhaps", "no"]),
    "required": ask("The weather in Oslo for two days?", tools=TOOLS, tool_choice="required"),
    "auto": ask("The weather in Oslo for two days? Call the function.", tools=TOOLS),
    "penalties": ask(COPY, repetition_penalty=1.2, presence_penalty=0.5, logit_bias={"198": -5}),
    "mirostat": ask(COPY, mirostat=2, mirostat_tau=4),
    "logprobs": ask(COPY, logprobs=True, top_logprobs=3),
    "stop": ask(COPY, stop=["lazy", "zz"]),
    "short": ask(COPY, max_tokens=7),
}


# Steps of many ids cost little more than those of one, so that whatever sources say is tried, on any machine.
CHEAP = {"points": [{"tokens": 1, "ms": 200}, {"tokens": 256, "ms": 220}], "head_ms_per_position": 0.1,
         "attention_ms_per_mkey": 0.01, "decode_attention_ms_per_mkey": 0.01}


@pytest.fixture(scope="module")
def drafted(tmp_path_factory):
    """The model is its own draft: right at once when greedy, and often when not."""
    cost = tmp_path_factory.mktemp("cost") / "cost.json"
    cost.write_text(json.dumps(CHEAP))
    s = Server("--rows", "8", "--draft-model", MODEL, "--cost-file", str(cost))
    yield s
    assert s.stop() == 0, s.log


def reply(server, body, seed, **ffwd):
    body = {**body, "seed": 7, "temperature": 0.8 if seed else 0, "ffwd": {"trace": True, **ffwd}}
    status, out = post_raw(server, "/v1/chat/completions", json.dumps(body).encode())
    out = json.loads(out)
    assert status == 200, out
    choice, message = out["choices"][0], out["choices"][0]["message"]
    calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])]
    usage, trace = out["usage"], out["ffwd"]["trace"]
    counts = usage["ffwd"]["by_source"]
    assert usage["ffwd"]["sampled"] + sum(c.get("accepted", 0) for c in counts.values()) == usage["completion_tokens"]
    for name in SOURCES:  # the end token is counted and not shown
        assert 0 <= counts[name].get("accepted", 0) - trace.count(name) <= 1
    same = (message["content"], calls, choice["finish_reason"], choice["logprobs"], usage["completion_tokens"], len(trace))
    return same, usage["ffwd"]


@pytest.mark.parametrize("seed", [False, True], ids=["greedy", "seeded"])
@pytest.mark.parametrize("name", REQUESTS)
def test_same_reply_with_each_source(drafted, name, seed):
    body = REQUESTS[name]
    want, plain = reply(drafted, body, seed, fill="off")
    assert plain["sampled"] == want[4]
    for sources in [SOURCES] + [[s] for s in SOURCES]:
        got, _ = reply(drafted, body, seed, sources=sources)
        assert got == want, sources


def test_same_replies_in_company(drafted):
    """All at once, twice over: rows of all kinds share steps, prefixes and blocks."""
    jobs = [(body, seed) for body in REQUESTS.values() for seed in (False, True)]
    want = [reply(drafted, body, seed, fill="off")[0] for body, seed in jobs]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda job: reply(drafted, *job)[0], jobs * 2))
    assert got == want * 2


def test_sources_do_something(drafted):
    """Each source has a request that it serves; otherwise the tests above compare nothing."""
    long_copy = ask("Copy: " + "one two three four five six seven eight nine ten. " * 6, max_tokens=160)
    for sources, body in [(["grammar"], REQUESTS["required"]), (["grammar_likely"], REQUESTS["schema"]),
                          (["echo", "ngram"], long_copy), (["draft"], REQUESTS["plain"])]:
        accepted = 0
        for _ in range(3):  # drafts and copies are tried out first
            counts = reply(drafted, body, False, sources=sources)[1]["by_source"]
            accepted += sum(counts[s].get("accepted", 0) for s in sources)
        assert accepted > 0, sources
    assert reply(drafted, REQUESTS["required"], False)[1]["by_source"]["grammar"]["asserted"] > 20


def test_calls_validate_unless_cut_off_TC2(drafted):
    for n in (8, 16, 24, 32, 200):
        status, out = post_raw(drafted, "/v1/chat/completions", json.dumps(
            {**REQUESTS["required"], "max_tokens": n, "temperature": 0.8, "seed": n}).encode())
        choice = json.loads(out)["choices"][0]
        assert status == 200
        calls = choice["message"].get("tool_calls", [])
        if choice["finish_reason"] == "length":
            calls = calls[:-1]  # the last one may be cut off
        else:
            assert choice["finish_reason"] == "tool_calls" and calls
        for call in calls:
            jsonschema.validate(json.loads(call["function"]["arguments"]), TOOLS[0]["function"]["parameters"])


def test_template_that_raises_is_the_clients_error_TC17(server):
    """Two user turns in a row, a system turn at the end, tool results from nowhere: an answer or a 400, never a 500."""
    for roles in (["user", "user"], ["assistant"], ["user", "system"], ["tool"], ["user", "tool"]):
        messages = [{"role": r, "content": "x", **({"tool_call_id": "call_1"} if r == "tool" else {})} for r in roles]
        status, out = post_raw(server, "/v1/chat/completions",
                               json.dumps({"messages": messages, "max_tokens": 2}).encode())
        assert status in (200, 400), (roles, out)
        assert status == 200 or json.loads(out)["error"]["message"]
