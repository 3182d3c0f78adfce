"""The official `openai` package at /v1/responses: create, stream, parse, a round of tools, earlier responses, errors."""
import openai
import pytest
from given import WEATHER, Colour, client  # noqa: F401 (a fixture)

HI = "Name a colour."
TOOLS = [{"type": "function", "name": "get_weather", "description": "The weather of a city", "parameters": WEATHER,
          "strict": False}]


def ask(client, given=HI, **more):
    return client.responses.create(**dict(model="any", max_output_tokens=30, temperature=0, input=given) | more)


def test_create(client):
    r = ask(client, instructions="Be brief.", metadata={"a": "b"})
    assert r.object == "response" and r.id.startswith("resp_") and r.status in ("completed", "incomplete")
    [message] = r.output
    assert message.type == "message" and message.role == "assistant" and r.output_text == message.content[0].text != ""
    assert r.instructions == "Be brief." and r.metadata == {"a": "b"} and r.temperature == 0 and r.store
    assert r.usage.output_tokens <= 30 and r.usage.total_tokens == r.usage.input_tokens + r.usage.output_tokens
    assert (r.incomplete_details is None) == (r.status == "completed")
    counted = client.responses.input_tokens.count(model="any", input=HI, instructions="Be brief.")
    assert counted.input_tokens == r.usage.input_tokens


def test_stream(client):
    whole = ask(client, max_output_tokens=300)
    events = list(ask(client, max_output_tokens=300, stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    kinds = [e.type.removeprefix("response.") for e in events]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", whole.status]
    assert set(kinds[4:-4]) == {"output_text.delta"}
    assert "".join(e.delta for e in events[4:-4]) == events[-1].response.output_text == whole.output_text
    assert events[-1].response.usage.output_tokens == whole.usage.output_tokens


def test_stream_helper(client):
    with client.responses.stream(model="any", max_output_tokens=300, temperature=0, input=HI) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert final.status == "completed" and final.output_text == text == ask(client, max_output_tokens=300).output_text


@pytest.mark.parametrize("streamed", [False, True])
def test_a_round_of_tools(client, streamed):
    question = [{"role": "user", "content": "The weather in Paris?"}]
    how = dict(model="any", max_output_tokens=80, temperature=0, input=question, tools=TOOLS, parallel_tool_calls=False,
               tool_choice={"type": "function", "name": "get_weather"})
    if streamed:
        with client.responses.stream(**how) as stream:
            told = "".join(e.delta for e in stream if e.type == "response.function_call_arguments.delta")
            r = stream.get_final_response()
        assert told == r.output[0].arguments
    else:
        r = client.responses.create(**how)
    [call] = r.output
    assert call.type == "function_call" and call.name == "get_weather" and '"city"' in call.arguments
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    by_items = ask(client, question + [i.model_dump(exclude_none=True) for i in r.output] + [result], tools=TOOLS)
    by_id = ask(client, [result], previous_response_id=r.id, tools=TOOLS)
    assert by_items.output and by_items.usage.input_tokens == by_id.usage.input_tokens
    assert by_items.usage.model_extra["ffwd"]["replayed_ids"] > 0 and by_id.usage.model_extra["ffwd"]["replayed_ids"] > 0


def test_earlier_responses(client):
    first = ask(client, "My name is Ada.")
    second = ask(client, "What is my name?", previous_response_id=first.id)
    assert second.previous_response_id == first.id and second.usage.input_tokens > first.usage.input_tokens
    shown = client.responses.retrieve(second.id)
    assert shown == second
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError) as e:
        ask(client, "And?", previous_response_id=first.id)
    assert (e.value.param, e.value.code) == ("previous_response_id", "previous_response_not_found")
    third = ask(client, "And?", previous_response_id=second.id)  # what it needs of the first is still there
    assert third.usage.input_tokens > second.usage.input_tokens
    unkept = ask(client, store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(unkept.id)


def test_parse(client):
    how = dict(model="any", max_output_tokens=60, temperature=0, input=HI, text_format=Colour)
    r = client.responses.parse(**how)
    assert isinstance(r.output_parsed, Colour)
    with client.responses.stream(**how) as stream:
        assert stream.get_final_response().output_parsed == r.output_parsed


def test_parse_of_calls(client):
    tool = openai.pydantic_function_tool(Colour)["function"]
    tools = [{"type": "function", "name": tool["name"], "parameters": tool["parameters"], "strict": True}]
    r = client.responses.parse(model="any", max_output_tokens=80, temperature=0, input=HI, tools=tools,
                               tool_choice="required", parallel_tool_calls=False)
    assert set(r.output[0].parsed_arguments) == {"name", "warm"}


def test_logprobs(client):
    r = ask(client, include=["message.output_text.logprobs"], top_logprobs=2)
    logprobs = r.output[0].content[0].logprobs
    assert "".join(x.token for x in logprobs) == r.output_text and all(len(x.top_logprobs) == 2 for x in logprobs)
    assert all(x.logprob == x.top_logprobs[0].logprob for x in logprobs)


@pytest.mark.parametrize("more, param, said", [
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "web_search"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]}, "input[0].content[0]",
     "input_image"),
    ({"background": True}, "background", "background"),
    ({"reasoning": {"effort": "high"}}, "reasoning.effort", "does not think"),
    ({"input": "word " * 3000}, "input", "1024"),
])
def test_errors(client, more, param, said):
    with pytest.raises(openai.BadRequestError) as e:
        ask(client, **more)
    assert e.value.param == param and said in e.value.message and e.value.type == "invalid_request_error"


def test_a_stream_that_is_left(server, client):
    with client.responses.create(model="any", max_output_tokens=900, input=HI, stream=True) as stream:
        next(iter(stream))
    assert server.becomes_idle(10)
