"""LangChain's OpenAI path: chat, stream, a round of tools, structured output."""
import functools
import operator

import pytest
from given import Colour
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field


class Where(BaseModel):
    city: str = Field(max_length=12)


@tool(args_schema=Where)
def get_weather(city: str) -> str:
    """The weather of a city."""
    return "sunny in " + city


@pytest.fixture(scope="module")
def model(server):
    return ChatOpenAI(base_url=server.url + "/v1", api_key="none", model="any", temperature=0, max_tokens=80, max_retries=0,
                      timeout=60)


def test_chat_and_stream(model):
    reply, chunks = model.invoke("Name a colour."), list(model.stream("Name a colour."))
    assert reply.content and reply.response_metadata["finish_reason"] in ("stop", "length")
    assert len(chunks) > 1 and "".join(c.content for c in chunks) == reply.content
    assert 0 < reply.usage_metadata["output_tokens"] <= 80


@pytest.mark.parametrize("streamed", [False, True])
def test_a_round_of_tools(model, streamed):
    asked = [HumanMessage("The weather in Paris?")]
    bound = model.bind_tools([get_weather], tool_choice="get_weather", parallel_tool_calls=False)
    reply = functools.reduce(operator.add, bound.stream(asked)) if streamed else bound.invoke(asked)
    [call] = reply.tool_calls
    result = get_weather.invoke(call)
    assert call["name"] == "get_weather" and result.content == "sunny in " + call["args"]["city"]
    after = model.bind_tools([get_weather]).invoke(asked + [reply, result])
    assert after.usage_metadata["output_tokens"] > 0


def test_structured_output(model):
    assert isinstance(model.with_structured_output(Colour).invoke("Name a colour."), Colour)
