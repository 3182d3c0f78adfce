"""What the official client sees: replies, streams, log-probabilities, errors."""
import json
import math
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from conftest import CONTEXT, FFWD, MODEL, Server

ASK = [{"role": "user", "content": "Name three colours."}]


def chat(server, **more):
    args = dict(model="any", messages=ASK, max_tokens=12, temperature=0)
    return server.client.chat.completions.create(**{**args, **more})


def complete(server, prompt, **more):
    args = dict(model="any", prompt=prompt, max_tokens=8, temperature=0)
    return server.client.completions.create(**{**args, **more})


def joined(stream):
    """Text by choice index, and the chunks."""
    texts, chunks = {}, list(stream)
    for c in chunks:
        for choice in c.choices:
            piece = choice.delta.content if hasattr(choice, "delta") else choice.text
            texts[choice.index] = texts.get(choice.index, "") + (piece or "")
    return texts, chunks


# ---- replies ----

def test_models(server):
    models = server.client.models.list().data
    assert [m.id for m in models] == ["SmolLM2-135M-Instruct.Q4_1"]
    assert server.client.models.retrieve(models[0].id).id == models[0].id
    with pytest.raises(openai.NotFoundError) as e:
        server.client.models.retrieve("other")
    assert e.value.code == "model_not_found"


def test_chat_whole(server):
    r = chat(server)
    assert r.object == "chat.completion" and r.id.startswith("chatcmpl-") and r.model.startswith("SmolLM2")
    [choice] = r.choices
    assert choice.message.role == "assistant" and choice.message.content.strip()
    assert choice.finish_reason in ("stop", "length")
    u = r.usage
    assert u.prompt_tokens > 5 and 0 < u.completion_tokens <= 12
    assert u.total_tokens == u.prompt_tokens + u.completion_tokens
    assert u.prompt_tokens_details.cached_tokens >= 0
    extra = u.model_extra["ffwd"]
    assert extra["steps"] > 0 and extra["decode_s"] > 0 and isinstance(extra["seed"], int)


def test_chat_stream_is_the_whole_reply(server):
    whole = chat(server)
    texts, chunks = joined(chat(server, stream=True, stream_options={"include_usage": True}))
    assert texts == {0: whole.choices[0].message.content}
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == whole.choices[0].finish_reason
    assert all(c.choices[0].finish_reason is None for c in chunks[:-2])
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == whole.usage.total_tokens
    assert {c.id for c in chunks} == {chunks[0].id} and chunks[0].object == "chat.completion.chunk"
    assert len(chunks) > 5, "the stream comes in one piece"
    _, chunks = joined(chat(server, stream=True))
    assert all(c.usage is None for c in chunks)


def test_parts_and_roles(server):
    def text(*messages):
        return chat(server, messages=list(messages)).choices[0].message.content
    user = {"role": "user", "content": "Say\nhello."}
    parts = {"role": "user", "content": [{"type": "text", "text": "Say"}, {"type": "text", "text": "hello."}]}
    assert text(user) == text(parts)
    system, developer = ({"role": r, "content": "You are a pirate."} for r in ("system", "developer"))
    assert text(system, user) == text(developer, user)
    assert text(user, {"role": "assistant", "content": None}, user)


def test_completions(server):
    ids = json.loads(subprocess.run([FFWD, "tokenize", "-m", MODEL, "-p", "The capital of France is", "--json"],
                                    check=True, capture_output=True).stdout)["ids"]
    a = complete(server, "The capital of France is")
    assert a.object == "text_completion" and "Paris" in a.choices[0].text
    assert a.usage.prompt_tokens == len(ids)
    assert complete(server, ids).choices[0].text == a.choices[0].text
    texts, _ = joined(complete(server, ids, stream=True))
    assert texts == {0: a.choices[0].text}
    two = complete(server, ["The capital of France is", "One, two,"])
    assert [c.index for c in two.choices] == [0, 1]
    assert two.choices[0].text == a.choices[0].text
    assert two.choices[1].text == complete(server, "One, two,").choices[0].text
    assert complete(server, [ids, ids]).usage.prompt_tokens == 2 * len(ids)


def test_stop_and_length(server):
    full = complete(server, "1, 2, 3,", max_tokens=20)
    assert full.choices[0].finish_reason == "length" and full.usage.completion_tokens == 20
    stopped = complete(server, "1, 2, 3,", max_tokens=20, stop=[" 6", "zzz"])
    assert stopped.choices[0].finish_reason == "stop"
    assert stopped.choices[0].text == full.choices[0].text.split(" 6")[0]
    texts, _ = joined(complete(server, "1, 2, 3,", max_tokens=20, stop=" 6", stream=True))
    assert texts[0] == stopped.choices[0].text


def test_choices_and_seeds(server):
    r = chat(server, n=3, temperature=1.0, seed=42, max_tokens=16)
    texts = [c.message.content for c in r.choices]
    assert [c.index for c in r.choices] == [0, 1, 2] and len(set(texts)) > 1
    again, _ = joined(chat(server, n=3, temperature=1.0, seed=42, max_tokens=16, stream=True))
    assert [again[i] for i in range(3)] == texts
    assert chat(server, temperature=1.0, seed=42, max_tokens=16).choices[0].message.content == texts[0]
    first = chat(server, temperature=1.0)
    seed = first.usage.model_extra["ffwd"]["seed"]
    assert chat(server, temperature=1.0, seed=seed).choices[0].message.content == first.choices[0].message.content
    assert chat(server, temperature=1.0).usage.model_extra["ffwd"]["seed"] != seed


def test_samplers(server):
    plain = complete(server, "Once upon a time").choices[0]
    assert plain.text.startswith(",")
    assert "," not in complete(server, "Once upon a time", logit_bias={"28": -100}, max_tokens=1).choices[0].text
    assert complete(server, "Once upon a time", logit_bias={"5": 0.0}).choices[0].text == plain.text
    assert complete(server, "a", logit_bias={"82": 100}).choices[0].text == "b" * 8
    # Penalties and DRY make a reply that repeats itself say more.
    def distinct(**more):
        choice = complete(server, "a a a a a a", max_tokens=30, logprobs=0, **more).choices[0]
        return len(set(choice.logprobs.tokens))

    alone = distinct()
    assert distinct(presence_penalty=2, frequency_penalty=2) > alone
    assert distinct(extra_body={"dry_multiplier": 5, "dry_allowed_length": 1, "dry_sequence_breakers": []}) > alone
    # The same request gives the same text, with each sampler; without an end before min_tokens.
    for more in ({"mirostat": 2, "mirostat_tau": 4}, {"mirostat": 1}, {"typical_p": 0.8, "top_n_sigma": 1.5},
                 {"xtc_probability": 1, "xtc_threshold": 0.05, "min_tokens": 20}, {"dynatemp_range": 0.5},
                 {"samplers": ["top_k", "temperature", "top_p"], "top_k": 30}):
        args = dict(max_tokens=20, temperature=0.9, seed=7, extra_body=more)
        one, two = (complete(server, "Once upon a time", **args) for _ in range(2))
        assert one.choices[0].text == two.choices[0].text != plain.text
        assert "min_tokens" not in more or one.usage.completion_tokens == 20
    with pytest.raises(openai.BadRequestError) as e:
        complete(server, "a", logit_bias={str(i): -100 for i in range(1025)})
    assert e.value.param == "logit_bias"


def test_eight_at_once_say_what_each_says_alone(server):
    def ask(i):
        return chat(server, messages=[{"role": "user", "content": f"Tell me about the number {i}."}],
                    temperature=1.0, seed=i, max_tokens=16).choices[0].message.content
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, range(8)))
    assert together == [ask(i) for i in range(8)]


def test_eight_streams_and_one_that_leaves():
    """Seven readers get what each gets alone, while the eighth hangs up in the middle of its reply."""
    leaver, together_now = 3, threading.Barrier(8)
    s = Server("--rows", "8")

    def ask(i, leave):
        text = ""
        with chat(s, messages=[{"role": "user", "content": f"Tell me about the number {i}."}], temperature=1.0, seed=i,
                  max_tokens=700 if leave else 40, stream=True, extra_body={"ignore_eos": True}) as stream:
            for n, chunk in enumerate(stream):
                text += chunk.choices[0].delta.content or ""
                if leave and n == 10:
                    break  # and the connection is closed
        return text

    def at_once(i):
        together_now.wait(60)
        return ask(i, i == leaver)
    try:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(at_once, range(8)))
        assert s.load_becomes(0, 0, 5), "the request of the client that left runs on"
        alone = [ask(i, False) for i in range(8)]
        assert alone.pop(leaver).startswith(together.pop(leaver))
        assert together == alone and len(set(alone)) == 7
    finally:
        assert s.stop() == 0


def test_chat_logprobs(server):
    [c] = chat(server, logprobs=True, top_logprobs=5).choices
    entries = c.logprobs.content
    assert "".join(e.token for e in entries) == c.message.content
    for e in entries:
        assert len(e.top_logprobs) == 5 and e.top_logprobs[0].token == e.token
        assert e.top_logprobs[0].logprob == e.logprob <= 0 and bytes(e.bytes).decode() == e.token
        values = [t.logprob for t in e.top_logprobs]
        assert values == sorted(values, reverse=True) and sum(map(math.exp, values)) < 1.0001
    streamed = []
    for chunk in chat(server, logprobs=True, top_logprobs=5, stream=True):
        for choice in chunk.choices:
            if choice.logprobs:
                streamed += choice.logprobs.content
    assert streamed == entries
    assert all(e.top_logprobs == [] for e in chat(server, logprobs=True).choices[0].logprobs.content)


def test_completion_logprobs(server):
    [c] = complete(server, "The capital of France is", logprobs=3).choices
    lp = c.logprobs
    assert "".join(lp.tokens) == c.text and len(lp.tokens) == len(lp.token_logprobs) == len(lp.top_logprobs) == 8
    for token, value, top, offset in zip(lp.tokens, lp.token_logprobs, lp.top_logprobs, lp.text_offset):
        assert max(top, key=top.get) == token and top[token] == value and len(top) == 3
        assert c.text[offset:].startswith(token)


def test_control_tokens_of_clients_are_text(server):
    """In a message they are spelled out, and cannot end the turn; in a raw prompt they are meant."""
    def size(text):
        return chat(server, messages=[{"role": "user", "content": text}], max_tokens=1).usage.prompt_tokens
    assert size("<|im_end|>") >= size("a") + 3
    assert complete(server, "<|im_end|>", max_tokens=1).usage.prompt_tokens == 1


def test_odd_characters(server):
    for text in ("\0", "a\0b", "\u2028\U0001F600\u202e", "\x7f\x1b[2J", "", " " * 50):
        assert chat(server, messages=[{"role": "user", "content": text}], max_tokens=2).choices


# ---- errors ----

@pytest.mark.parametrize("more, param", [
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "king", "content": "a"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
     "messages[0].content[0]"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": -1}, "temperature"),
    ({"top_p": 2}, "top_p"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": 1 << 40}, "max_tokens"),
    ({"n": 0}, "n"),
    ({"stop": [""]}, "stop[0]"),
    ({"presence_penalty": 3.0}, "presence_penalty"),
    ({"logit_bias": {"five": 1}}, "logit_bias"),
    ({"logit_bias": {"99999999": 1}}, "logit_bias"),
    ({"extra_body": {"mirostat": 2, "top_k": 40}}, "top_k"),
    ({"extra_body": {"samplers": ["greedy"]}}, "samplers"),
    ({"response_format": {"type": "xml"}}, "response_format"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0]"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"extra_body": {"repetition_penalty": 0}}, "repetition_penalty"),
    ({"extra_body": {"min_p": 1}}, "min_p"),
    ({"extra_body": {"chat_template_kwargs": 5}}, "chat_template_kwargs"),
])
def test_wrong_fields_are_named(server, more, param):
    with pytest.raises(openai.BadRequestError) as e:
        chat(server, **more)
    assert e.value.param == param and e.value.type == "invalid_request_error"
    assert e.value.body["message"] and len(e.value.body["message"]) < 300


def test_prompts_that_do_not_fit(server):
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as e:
            chat(server, messages=[{"role": "user", "content": "word " * 2 * CONTEXT}], stream=stream)
        assert e.value.code == "context_length_exceeded" and e.value.param == "messages"
        assert str(CONTEXT) in e.value.body["message"], e.value.body
    with pytest.raises(openai.BadRequestError) as e:
        complete(server, [5] * (CONTEXT + 1))
    assert e.value.code == "context_length_exceeded" and e.value.param == "prompt"
    assert str(CONTEXT) in e.value.body["message"] and str(CONTEXT + 1) in e.value.body["message"]
    with pytest.raises(openai.BadRequestError):
        complete(server, "a", max_tokens=2 * CONTEXT)
    with pytest.raises(openai.BadRequestError) as e:
        complete(server, [10 ** 6])
    assert e.value.param == "prompt"


def test_strict_model():
    s = Server("--strict-model", "--model-name", "mine")
    try:
        with pytest.raises(openai.NotFoundError) as e:
            chat(s, model="other", max_tokens=1)
        assert e.value.code == "model_not_found"
        assert chat(s, model="mine", max_tokens=1).model == "mine"
    finally:
        assert s.stop() == 0


def test_taken_port(server):
    r = subprocess.run([FFWD, "serve", "-m", MODEL, "--port", str(server.port)], capture_output=True, timeout=60,
                       stdin=subprocess.DEVNULL)
    assert r.returncode == 1 and r.stdout == b""
    lines = r.stderr.decode().strip().splitlines()
    assert str(server.port) in lines[-1] and "listening on" not in r.stderr.decode(), lines


def test_stop_lets_requests_finish():
    s = Server()
    stream = chat(s, stream=True, max_tokens=60, extra_body={"ignore_eos": True})
    next(iter(stream))
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(s.stop)
        assert list(stream)[-1].choices[0].finish_reason == "length"
        assert ended.result() == 0
    with pytest.raises(OSError):
        s.connect(2)
