"""The official `anthropic` package: chat, stream, a round of tools, structured output, errors, cancellation."""
import anthropic
import pytest

GREEDY = {"temperature": 0}
HI = [{"role": "user", "content": "Name a colour."}]
TOOLS = [{"name": "get_weather", "description": "The weather of a city",
          "input_schema": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}},
                           "required": ["city"], "additionalProperties": False}}]


@pytest.fixture(scope="module")
def client(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=60)


def ask(client, messages=HI, **more):
    return client.messages.create(**dict(model="any", max_tokens=30, messages=messages, extra_body=GREEDY) | more)


def test_chat(client):
    reply = ask(client, system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
    assert reply.type == "message" and reply.role == "assistant" and reply._request_id.startswith("req_")
    assert reply.content[0].type == "text" and reply.content[0].text and reply.stop_reason in ("end_turn", "max_tokens")
    assert reply.usage.output_tokens <= 30
    counted = client.messages.count_tokens(model="any", messages=HI).input_tokens
    usage = ask(client).usage
    assert counted == usage.input_tokens + usage.cache_read_input_tokens


def test_stream(client):
    whole = ask(client)
    with client.messages.stream(model="any", max_tokens=30, messages=HI, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text == whole.content[0].text
    assert (final.stop_reason, final.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_round_of_tools(client, streamed):
    how = dict(model="any", max_tokens=80, messages=[{"role": "user", "content": "The weather in Paris?"}], tools=TOOLS,
               tool_choice={"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}, extra_body=GREEDY)
    if streamed:
        with client.messages.stream(**how) as stream:
            reply = stream.get_final_message()
    else:
        reply = client.messages.create(**how)
    [call] = reply.content
    assert reply.stop_reason == "tool_use" and call.name == "get_weather" and set(call.input) == {"city"}
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    after = ask(client, how["messages"] + [reply.to_param(), {"role": "user", "content": [result]}], tools=TOOLS)
    assert after.content and after.usage.model_extra["ffwd"]["replayed_ids"] > 0


def test_errors(client):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    with pytest.raises(anthropic.BadRequestError) as e:
        ask(client, [{"role": "user", "content": [image]}])
    assert e.value.body["error"]["type"] == "invalid_request_error" and "messages[0].content[0]" in e.value.message
    assert e.value.request_id.startswith("req_")
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("no-such-model")


def test_a_stream_that_is_left(server, client):
    with client.messages.stream(model="any", max_tokens=900, messages=HI) as stream:
        next(iter(stream.text_stream))
    assert server.becomes_idle(10)
