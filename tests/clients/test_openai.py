"""The official `openai` package at /v1/chat/completions: chat, stream, a round of tools, parse, errors, cancellation."""
import asyncio
import json

import openai
import pytest
from given import WEATHER, Colour, client  # noqa: F401 (a fixture)

HI = [{"role": "user", "content": "Name a colour."}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city",
                                           "parameters": WEATHER}}]


def ask(client, messages=HI, **more):
    return client.chat.completions.create(**dict(model="any", max_tokens=30, temperature=0, messages=messages) | more)


def test_chat(client):
    reply = ask(client, n=2, seed=7, temperature=0.5)
    assert reply.object == "chat.completion" and len(reply.choices) == 2
    for choice in reply.choices:
        assert choice.message.role == "assistant" and choice.message.content
        assert choice.finish_reason in ("stop", "length")
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    [model] = client.models.list()
    assert reply.model == model.id


def test_stream(client):
    whole = ask(client)
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    with client.chat.completions.stream(model="any", max_tokens=300, temperature=0, messages=HI) as stream:
        told = "".join(e.delta for e in stream if e.type == "content.delta")
        assert told == stream.get_final_completion().choices[0].message.content


def test_an_asynchronous_client(server):
    async def run():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=60) as client:
            replies = await asyncio.gather(*(ask(client, seed=1) for _ in range(4)))
            return {r.choices[0].message.content for r in replies}
    assert len(asyncio.run(run())) == 1


@pytest.mark.parametrize("streamed", [False, True])
def test_a_round_of_tools(client, streamed):
    how = dict(model="any", max_tokens=80, temperature=0, messages=HI, tools=TOOLS, parallel_tool_calls=False,
               tool_choice={"type": "function", "function": {"name": "get_weather"}})
    if streamed:
        with client.chat.completions.stream(**how) as stream:
            reply = stream.get_final_completion()
    else:
        reply = client.chat.completions.create(**how)
    message = reply.choices[0].message
    [call] = message.tool_calls
    assert reply.choices[0].finish_reason == "tool_calls" and set(json.loads(call.function.arguments)) == {"city"}
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    said = message.model_dump(include={"role", "content", "tool_calls"})
    after = ask(client, HI + [said, result], tools=TOOLS)
    assert after.usage.model_extra["ffwd"]["replayed_ids"] > 0


def test_parse(client):
    reply = client.chat.completions.parse(model="any", max_tokens=60, temperature=0, messages=HI, response_format=Colour)
    assert isinstance(reply.choices[0].message.parsed, Colour)
    tool = openai.pydantic_function_tool(Colour)
    reply = client.chat.completions.parse(model="any", max_tokens=80, temperature=0, messages=HI, tools=[tool],
                                          tool_choice="required", parallel_tool_calls=False)
    assert isinstance(reply.choices[0].message.tool_calls[0].function.parsed_arguments, Colour)


@pytest.mark.parametrize("more, param", [
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
     "messages[0].content[0]"),
    ({"temperature": -1}, "temperature"),
    ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"messages": [{"role": "user", "content": "word " * 3000}]}, "messages"),
])
def test_errors(client, more, param):
    with pytest.raises(openai.BadRequestError) as e:
        ask(client, **more)
    assert e.value.param == param and e.value.type == "invalid_request_error"


def test_a_model_that_is_not_there(client):
    with pytest.raises(openai.NotFoundError) as e:
        client.models.retrieve("no-such-model")
    assert e.value.code == "model_not_found"


def test_requests_that_are_left(server, client):
    with ask(client, max_tokens=900, stream=True) as stream:
        next(iter(stream))
    assert server.becomes_idle(10)
    with pytest.raises(openai.APITimeoutError):
        ask(client, max_tokens=900, timeout=0.3, extra_body={"ignore_eos": True})
    assert server.becomes_idle(10)


def test_vectors(client):
    texts = ["The cat sleeps.", "Interest rates rose."]
    coded, plain = (client.embeddings.create(model="any", input=texts, **more) for more in ({}, {"encoding_format": "float"}))
    assert len(coded.data) == 2 and len(coded.data[0].embedding) == 576 and coded.usage.prompt_tokens > 4
    for a, b in zip(coded.data, plain.data):
        assert max(abs(x - y) for x, y in zip(a.embedding, b.embedding)) < 1e-7
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        client.embeddings.create(model="any", input="hi", dimensions=10)
