"""The official `ollama` package: chat, stream, generate, a round of tools, structured output, errors, cancellation."""
import asyncio
import json

import ollama
import pydantic
import pytest

GREEDY = {"temperature": 0, "num_predict": 30}
HI = [{"role": "user", "content": "Name a colour."}]


class Colour(pydantic.BaseModel):
    colour: str = pydantic.Field(max_length=8)
    warm: bool


def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: the city's name
    """
    return "sunny in " + city


@pytest.fixture(scope="module")
def client(server):
    return ollama.Client(host=server.url, timeout=60)


def ask(client, messages=HI, **more):
    return client.chat(**dict(model="any", messages=messages, options=GREEDY) | more)


def test_chat(client):
    reply = ask(client)
    assert reply.done and reply.message.role == "assistant" and reply.message.content
    assert reply.done_reason in ("stop", "length") and 0 < reply.eval_count <= 30 and reply.total_duration > 0
    assert ask(client, keep_alive="5m").message.content == reply.message.content


def test_stream(client):
    whole, parts = ask(client), list(ask(client, stream=True))
    assert "".join(p.message.content for p in parts) == whole.message.content
    assert parts[-1].done and (parts[-1].done_reason, parts[-1].eval_count) == (whole.done_reason, whole.eval_count)


def test_generate(client):
    how = dict(model="any", prompt="Name a colour.", options=GREEDY)
    whole = client.generate(**how)
    assert whole.response == "".join(p.response for p in client.generate(stream=True, **how)) == ask(client).message.content
    scored = client.generate(logprobs=True, top_logprobs=2, **how)
    assert scored.response == whole.response and len(scored.logprobs) == whole.eval_count - (whole.done_reason == "stop")
    assert all(len(one.top_logprobs) == 2 for one in scored.logprobs)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_round_of_tools(client, streamed):
    messages = []
    for city in ("Rome", "Oslo", "Bern"):  # the API cannot ask for a call: a small model is shown how
        messages += [{"role": "user", "content": f"The weather in {city}?"},
                     {"role": "assistant", "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": city}}}]},
                     {"role": "tool", "tool_name": "get_weather", "content": get_weather(city)}]
    messages += [{"role": "user", "content": "The weather in Paris?"}]
    how = dict(tools=[get_weather], options=GREEDY | {"num_predict": 80})
    said = list(ask(client, messages, stream=True, **how)) if streamed else [ask(client, messages, **how)]
    call = [c for part in said for c in part.message.tool_calls or []][0]
    assert call.function.name == "get_weather" and isinstance(call.function.arguments["city"], str)
    messages += [{"role": "assistant", "content": "", "tool_calls": [call]},
                 {"role": "tool", "tool_name": call.function.name, "content": get_weather(**call.function.arguments)}]
    assert ask(client, messages, tools=[get_weather]).eval_count > 0


def test_structured_output(client):
    reply = ask(client, format=Colour.model_json_schema(), options=GREEDY | {"num_predict": 90})
    assert Colour.model_validate_json(reply.message.content)
    any_object = ask(client, format="json", options=GREEDY | {"num_predict": 400})
    assert isinstance(json.loads(any_object.message.content), dict)


def test_what_the_server_is(client):
    [model] = client.list().models
    shown = client.show(model.model)
    assert shown.details.family == model.details.family == "llama" and "tools" in shown.capabilities
    assert shown.modelinfo["llama.context_length"] == client.ps().models[0].context_length == 1024


def test_errors(client):
    with pytest.raises(ollama.ResponseError) as e:
        ask(client, options={"top_p": 5})
    assert e.value.status_code == 400 and "options.top_p" in e.value.error
    with pytest.raises(ollama.ResponseError) as e:
        list(ask(client, think=True, stream=True))
    assert e.value.status_code == 400 and "think" in e.value.error
    with pytest.raises(ollama.ResponseError) as e:
        client.pull("no-such-model")
    assert e.value.status_code == 404 and e.value.error


def test_a_stream_that_is_left(server, client):
    for part in ask(client, stream=True, options={"num_predict": 900}):
        assert not part.done
        break
    assert server.becomes_idle(10)


def test_a_task_that_is_cancelled(server):
    async def run():
        # A reply that cannot end early, and does not repeat itself, which would be fast.
        asked = asyncio.create_task(ollama.AsyncClient(host=server.url).chat(
            model="any", messages=HI, format={"type": "array", "items": {"type": "integer"}, "minItems": 400},
            options={"num_predict": 900, "temperature": 2}))
        await asyncio.sleep(0.2)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    asyncio.run(run())
    assert server.becomes_idle(10)


def test_vectors(client):
    many = client.embed(model="any", input=["The cat sleeps.", "Interest rates rose."])
    assert len(many.embeddings) == 2 and len(many.embeddings[0]) == 576 and many.prompt_eval_count > 4
    assert client.embeddings(model="any", prompt="The cat sleeps.").embedding == many.embeddings[0]
