"""Request fields with a real model: what is honoured, what is refused by name, and what is only told to the log."""
import json

import pytest

from conftest import Server, post_raw

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
HI = [{"role": "user", "content": "Hi"}]
SMALL = {CHAT: {"messages": HI, "max_tokens": 1}, COMPLETIONS: {"prompt": "Hi", "max_tokens": 1},
         "/completion": {"prompt": "Hi", "n_predict": 1}, RESPONSES: {"input": "Hi", "max_output_tokens": 1},
         "/v1/messages": {"model": "m", "max_tokens": 1, "messages": HI},
         "/api/chat": {"messages": HI, "stream": False, "options": {"num_predict": 1}},
         "/api/generate": {"prompt": "Hi", "stream": False, "options": {"num_predict": 1}}}


def ask(server, path, **more):
    status, body = post_raw(server, path, json.dumps({**SMALL[path], **more}).encode())
    return status, json.loads(body)


def events(server, path, **more):
    status, body = post_raw(server, path, json.dumps({**SMALL[path], "stream": True, **more}).encode())
    assert status == 200 and b"data: " in body
    lines = [line[len("data: "):] for line in body.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.fixture(scope="module", name="logged")
def start_logged(tmp_path_factory):
    """A server with a log file, as server.file."""
    path = tmp_path_factory.mktemp("fields") / "log"
    s = Server("--rows", "2", "--log-file", str(path))
    s.file = path
    yield s
    assert s.stop() == 0


def ignored(server):
    """The log's lines about unknown fields; a line is there before the reply."""
    return [line for line in server.file.read_text().splitlines() if "knows no such fields" in line]


@pytest.mark.parametrize("path", SMALL)
def test_unknown_fields_are_told_to_the_log(logged, path):
    before = ignored(logged)
    assert ask(logged, path, colour=1, shape=[2])[0] == 200
    assert ask(logged, path)[0] == 200
    [line] = ignored(logged)[len(before):]
    assert line.endswith(f"server: {path} knows no such fields, they were ignored: colour, shape")


def test_no_known_field_is_told(logged):
    """What openai's client has a name for, and what this server's own documentation names."""
    names = ("frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "metadata", "modalities", "n",
             "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key", "reasoning_effort",
             "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream_options", "temperature",
             "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options", "cache_salt",
             "deadline_ms", "priority", "ffwd", "chat_template_kwargs", "ignore_eos", "return_progress", "reasoning_format",
             "thinking_budget_tokens")
    before = ignored(logged)
    assert ask(logged, CHAT, **{name: None for name in names})[0] == 200
    assert ask(logged, COMPLETIONS, best_of=None, echo=None, suffix=None, logprobs=None, user=None)[0] == 200
    assert ignored(logged) == before


@pytest.mark.parametrize("more, param", [
    ({"reasoning_effort": "high"}, "reasoning_effort"), ({"reasoning_effort": "much"}, "reasoning_effort"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"), ({"top_logprobs": 1}, "top_logprobs"),
    ({"max_completion_tokens": 2}, "max_tokens"), ({"max_tokens": None, "max_completion_tokens": 0}, "max_completion_tokens"),
    ({"modalities": ["text", "audio"]}, "modalities"), ({"prompt_cache_options": []}, "prompt_cache_options"),
    ({"prompt_cache_options": {"prewarm": True}}, "prompt_cache_options.prewarm"),
    ({"prompt_cache_options": {"comparison_response_id": "resp_1"}}, "prompt_cache_options.comparison_response_id"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]},
     "messages[0].content[0]"),
    ({"messages": [*HI, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_audio", "input_audio": {
        "data": "AA==", "format": "wav"}}]}]}, "messages[1].content[1]"),
])
def test_what_chat_refuses(server, more, param):
    status, body = ask(server, CHAT, **more)
    assert status == 400 and body["error"]["param"] == param, body


def test_effort_of_a_model_that_does_not_think(server):
    for word in ("none", "minimal"):
        assert ask(server, CHAT, reasoning_effort=word)[0] == 200


def test_usage_comes_last_in_a_stream(server):
    got = events(server, CHAT, stream_options={"include_usage": True})
    assert got[-1]["choices"] == [] and got[-1]["usage"]["completion_tokens"] == 1
    assert all(e["usage"] is None for e in got[:-1])
    assert all("usage" not in e for e in events(server, CHAT))


def test_progress(own):
    server = own("--no-prefix-cache")
    for path in (CHAT, COMPLETIONS, "/completion"):
        text = "word " * 600
        more = {"messages": [{"role": "user", "content": text}]} if path == CHAT else {"prompt": text}
        got = events(server, path, return_progress=True, **more)
        told = [e["prompt_progress"] for e in got if "prompt_progress" in e]
        assert all("prompt_progress" in e for e in got[:len(told)]), "it comes before the reply"
        processed = [t["processed"] for t in told]
        assert processed[0] == told[0]["cache"] == 0 and processed[-1] == told[0]["total"] > 600
        assert len(told) >= 3 and processed == sorted(set(processed))
        times = [t["time_ms"] for t in told]
        assert times == sorted(times) and times[-1] > 0
        assert not any("prompt_progress" in e for e in events(server, path, **more))


def test_filling_in_needs_tokens_for_it(server):
    """This model has none."""
    for path in (COMPLETIONS, "/api/generate"):
        status, body = ask(server, path, suffix="!")
        assert status == 400 and "no tokens for filling in" in str(body["error"])
    status, body = post_raw(server, "/infill", b'{"input_prefix": "a", "input_suffix": "b"}')
    assert status == 400 and json.loads(body)["error"]["param"] == "input_prefix"
