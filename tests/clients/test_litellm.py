"""LiteLLM's OpenAI path: chat, stream, a round of tools, errors."""
import json
import os

import pytest
from given import WEATHER

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it fetches a list of prices when imported
import litellm  # noqa: E402

HI = [{"role": "user", "content": "Name a colour."}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city",
                                           "parameters": WEATHER}}]


@pytest.fixture
def ask(server):
    def call(messages=HI, **more):
        return litellm.completion(**dict(model="openai/any", api_base=server.url + "/v1", api_key="none", messages=messages,
                                         max_tokens=30, temperature=0, num_retries=0, timeout=60) | more)
    return call


def test_chat_and_stream(ask):
    whole = ask()
    chunks = list(ask(stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text and text == whole.choices[0].message.content
    assert whole.choices[0].finish_reason in ("stop", "length")
    assert 0 < whole.usage.completion_tokens == chunks[-1].usage.completion_tokens


@pytest.mark.parametrize("streamed", [False, True])
def test_a_round_of_tools(ask, streamed):
    how = dict(tools=TOOLS, max_tokens=80, parallel_tool_calls=False,
               tool_choice={"type": "function", "function": {"name": "get_weather"}})
    reply = litellm.stream_chunk_builder(list(ask(stream=True, **how))) if streamed else ask(**how)
    message = reply.choices[0].message
    [call] = message.tool_calls
    assert call.function.name == "get_weather" and set(json.loads(call.function.arguments)) == {"city"}
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    assert ask(HI + [message, result], tools=TOOLS).usage.completion_tokens > 0


def test_errors(ask):
    with pytest.raises(litellm.BadRequestError):
        ask([{"role": "user", "content": "word " * 3000}])
