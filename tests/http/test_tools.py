"""Tool calls as clients read them, whole and streamed, over several turns. Case names are those of the reports that other
servers' users made."""
import json

import pytest

from test_ffwd import cached, chat, extra, user

WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12},
                                            "unit": {"type": "string", "enum": ["C", "F"]},
                                            "days": {"type": "integer", "minimum": 1, "maximum": 9}},
           "required": ["city", "unit", "days"], "additionalProperties": False}
CLOCK = {"type": "object", "properties": {"zone": {"enum": ["UTC", "CET"]}}, "required": ["zone"],
         "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters": WEATHER}},
         {"type": "function", "function": {"name": "clock", "description": "What time it is", "parameters": CLOCK}}]
QUESTION = user("What is the weather in Paris?")
NAMED = {"type": "function", "function": {"name": "clock"}}
FEW = 12  # so many ids at the end of a reply may be fed anew: what a grammar determines there was never fed
REPLAY = dict(tools=TOOLS, tool_choice="required", parallel_tool_calls=False, max_tokens=80)


def valid(call):
    """Whether a call is one of the tools', with arguments that their schemas allow."""
    arguments = json.loads(call.function.arguments)
    if call.function.name == "clock":
        return set(arguments) == {"zone"} and arguments["zone"] in ("UTC", "CET")
    assert call.function.name == "get_weather"
    return list(arguments) == ["city", "unit", "days"] and isinstance(arguments["city"], str) \
        and len(arguments["city"]) <= 12 and arguments["unit"] in ("C", "F") and arguments["days"] in range(1, 10)


def streamed(server, messages, **more):
    """What a client that adds up deltas by itself makes of a stream: content, calls, finish reason, usage."""
    content, calls, finish, usage = "", [], None, None
    for chunk in chat(server, messages, stream=True, stream_options={"include_usage": True}, **more):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            content += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for part in choice.delta.tool_calls or []:
                if part.index == len(calls):
                    assert part.type == "function" and part.function.name and part.function.arguments == ""
                    calls.append([part.id, part.function.name, ""])
                else:
                    assert part.index == len(calls) - 1 and part.id is None and part.function.name is None
                    calls[-1][2] += part.function.arguments
    return content, calls, finish, usage


@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
@pytest.mark.parametrize("temperature", [0, 1.5])
def test_tc2_tc8_tc9_calls_whole_and_streamed(server, choice, temperature):
    for seed in range(4):
        how = dict(tools=TOOLS, tool_choice=choice, parallel_tool_calls=False, max_tokens=80, temperature=temperature, seed=seed)
        reply = chat(server, [QUESTION], **how)
        message, finish = reply.choices[0].message, reply.choices[0].finish_reason
        assert finish == "tool_calls" and message.content is None
        [call] = message.tool_calls
        assert call.id.startswith("call_") and call.type == "function" and valid(call)
        assert choice == "required" or call.function.name == "clock"
        content, calls, finish, usage = streamed(server, [QUESTION], **how)
        assert (content, finish) == ("", "tool_calls")
        assert [c[1:] for c in calls] == [[call.function.name, call.function.arguments]]
        assert calls[0][0].startswith("call_") and calls[0][0] != call.id
        assert usage.completion_tokens == reply.usage.completion_tokens


def test_the_clients_own_sum_of_a_stream(server):
    how = dict(model="any", messages=[QUESTION], tools=TOOLS, tool_choice="required", parallel_tool_calls=False, max_tokens=80,
               temperature=0)
    with server.client.chat.completions.stream(**how) as stream:
        final = stream.get_final_completion().choices[0]
    whole = server.client.chat.completions.create(**how).choices[0]
    assert final.finish_reason == whole.finish_reason == "tool_calls"
    [a], [b] = final.message.tool_calls, whole.message.tool_calls
    assert (a.function.name, a.function.arguments) == (b.function.name, b.function.arguments)


def test_tc6_ids_are_unique(server):
    reply = chat(server, [QUESTION], n=4, tools=TOOLS, tool_choice="required", max_tokens=100, temperature=1)
    ids = [call.id for choice in reply.choices for call in choice.message.tool_calls or []]
    assert len(ids) >= 4 and all(ids) and len(set(ids)) == len(ids)


def test_tc2_a_limit_never_leaves_half_a_call(server):
    """Whole replies have complete calls alone; the finish reason is the limit until the model came to its end."""
    how = dict(tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    full = chat(server, [QUESTION], max_tokens=80, **how)
    for limit in range(1, full.usage.completion_tokens + 1):
        choice = chat(server, [QUESTION], max_tokens=limit, **how).choices[0]
        calls = choice.message.tool_calls or []
        assert all(valid(call) for call in calls)
        assert choice.finish_reason == ("tool_calls" if choice == full.choices[0] else choice.finish_reason)
        if not calls:
            assert choice.finish_reason == "length" and choice.message.content
        content, parts, finish, _ = streamed(server, [QUESTION], max_tokens=limit, **how)
        assert finish == choice.finish_reason and len(parts) <= 1
        if calls:
            assert parts[0][1:] == [calls[0].function.name, calls[0].function.arguments]
        elif parts:
            assert full.choices[0].message.tool_calls[0].function.arguments.startswith(parts[0][2])


def test_tools_without_a_call(server):
    reply = chat(server, [user("Say hello.")], tools=TOOLS, tool_choice="none", max_tokens=20).choices[0]
    assert reply.message.tool_calls is None and reply.message.content and reply.finish_reason in ("stop", "length")


@pytest.mark.parametrize("stream", [False, True])
def test_an_agents_turns(server, stream):
    """Each turn's call, its result, the next question: earlier replies are known by their calls' ids alone."""
    messages, made, before, salt = [QUESTION], 0, 0, f"agent-{stream}"
    for turn in range(3):
        how = dict(cache_salt=salt, temperature=1, seed=turn, **REPLAY)
        if stream:
            content, [[id_, name, arguments]], finish, usage = streamed(server, messages, **how)
            assert content == ""
        else:
            reply = chat(server, messages, **how)
            [call], finish, usage = reply.choices[0].message.tool_calls, reply.choices[0].finish_reason, reply.usage
            id_, name, arguments = call.id, call.function.name, call.function.arguments
        assert finish == "tool_calls"
        assert usage.model_extra["ffwd"]["replayed_ids"] >= made
        assert turn == 0 or usage.model_extra["ffwd"]["replayed_ids"] > 0
        assert usage.prompt_tokens_details.cached_tokens >= before - FEW
        made += usage.completion_tokens
        before = usage.total_tokens - 1
        messages += [{"role": "assistant", "content": None, "tool_calls": [
                         {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}]},
                     {"role": "tool", "tool_call_id": id_, "content": json.dumps({"degrees": 20 + turn})},
                     user("And tomorrow?")]


def test_a_message_goes_back_as_it_came(server):
    """What the client's own object holds, dumped, is a message of the next turn."""
    first = chat(server, [QUESTION], cache_salt="dump", **REPLAY)
    message = first.choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
    for said in (message, message.model_dump(), message.model_dump(exclude_none=True)):
        reply = chat(server, [QUESTION, said, result], cache_salt="dump", tools=TOOLS, max_tokens=4)
        assert extra(reply)["replayed_ids"] > 0 and cached(reply) >= first.usage.total_tokens - 1 - FEW


def test_trace(server):
    """One origin for each id; together they are what usage counts."""
    reply = chat(server, [QUESTION], ffwd={"trace": True}, **REPLAY)
    trace, usage = reply.model_extra["ffwd"]["trace"], extra(reply)
    assert trace == reply.choices[0].model_extra["ffwd"]["trace"]
    assert reply.usage.completion_tokens - len(trace) in (0, 1)  # what ends a reply is none of its ids
    assert trace.count("grammar") in (usage["by_source"]["grammar"]["accepted"], usage["by_source"]["grammar"]["accepted"] - 1)
    assert set(trace) <= {"sampled", *usage["by_source"]}
    chunks = list(chat(server, [QUESTION], ffwd={"trace": True}, stream=True, **REPLAY))
    assert chunks[-1].choices[0].model_extra["ffwd"]["trace"] == chunks[-1].model_extra["ffwd"]["trace"] == trace
    told = [o for c in chunks[:-1] for o in (c.choices[0].model_extra or {}).get("ffwd", {}).get("origins", [])]
    assert told and told == trace[:len(told)]  # each once, in order; those behind the last text are only in the trace
    assert "ffwd" not in (chat(server, [QUESTION], **REPLAY).model_extra or {})
    text = server.client.completions.create(model="any", prompt="One, two,", max_tokens=5, temperature=0,
                                            extra_body={"ffwd": {"trace": True}, "ignore_eos": True})
    assert len(text.model_extra["ffwd"]["trace"]) == len(text.choices[0].model_extra["ffwd"]["trace"]) == 5


def test_logprobs_of_a_call(server):
    """All tokens have one, whatever they spell; a stream tells each once."""
    how = dict(logprobs=True, top_logprobs=1, **REPLAY)
    reply = chat(server, [QUESTION], **how)
    told = [t.token for t in reply.choices[0].logprobs.content]
    assert "".join(told).startswith("<tool_call>") and reply.usage.completion_tokens - len(told) in (0, 1)
    stream = [t.token for chunk in chat(server, [QUESTION], stream=True, **how) for choice in chunk.choices
              for t in (choice.logprobs.content if choice.logprobs else [])]
    assert stream == told
