"""What goes beyond the API: priorities, deadlines, namespaces, echo, accounting. Case names are those of the reports that
other servers' users made."""
import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from conftest import CONTEXT, FFWD, MODEL, ROWS, Server, head, post_raw

COMPLETIONS = "/v1/completions"
TEXT = ("The castle on the hill was old, and nobody in the village could say who had built it. Some said a king, others a "
        "merchant who had sold his ships; the children said a giant. ")
SOURCES = ["grammar", "grammar_likely", "template", "echo", "ngram", "draft"]
LONG = {"prompt": "Once upon a time", "max_tokens": 900, "ignore_eos": True}


def chat(server, messages, **more):
    extra = {k: more.pop(k) for k in list(more) if k in ("ffwd", "priority", "cache_salt", "deadline_ms", "ignore_eos")}
    args = dict(model="any", messages=messages, max_tokens=8, temperature=0, extra_body=extra)
    return server.client.chat.completions.create(**{**args, **more})


def complete(server, prompt, **more):
    extra = {k: more.pop(k) for k in list(more) if k in ("ffwd", "priority", "cache_salt", "deadline_ms", "ignore_eos")}
    args = dict(model="any", prompt=prompt, max_tokens=8, temperature=0, extra_body=extra)
    return server.client.completions.create(**{**args, **more})


def user(text):
    return {"role": "user", "content": text}


def cached(reply):
    return reply.usage.prompt_tokens_details.cached_tokens


def extra(reply):
    return reply.usage.model_extra["ffwd"]


def ids_of(text):
    return json.loads(subprocess.run([FFWD, "tokenize", "-m", MODEL, "-p", text, "--json"], check=True,
                                     capture_output=True).stdout)["ids"]


@pytest.fixture
def one_row():
    s = Server("--rows", "1", "--cache-per-key", "--deadline", "30")
    yield s
    assert s.load_becomes(0, 0, 10) and s.stop() == 0, s.log


class Occupant:
    """A request that runs until it is told to leave."""

    def __init__(self, server, **more):
        data = json.dumps({**LONG, "n": 4, **more}).encode()
        self.sock = server.connect()
        self.sock.sendall(head(COMPLETIONS, len(data)) + data)
        assert server.load_becomes(1, 3, 10)

    def leave(self):
        self.sock.close()


# ---- fields ----

@pytest.mark.parametrize("field, wrong", [
    ("priority", 101), ("priority", 0.5), ("deadline_ms", 0), ("deadline_ms", 10 ** 9), ("cache_salt", ""),
    ("cache_salt", "x" * 257), ("prompt_cache_key", "x" * 65), ("ffwd", []), ("ffwd.plan", {"plan": "yes"}),
    ("ffwd.fill", {"fill": "lossy"}), ("ffwd.sources", {"sources": ["oracle"]}), ("ffwd.sources", {"sources": "echo"}),
    ("ffwd.trace", {"trace": 1}),
    ("ffwd.session", {"session": ""}), ("ffwd.paln", {"paln": True}),
])
def test_wrong_fields_are_named(server, field, wrong):
    for path, body in ((COMPLETIONS, {"prompt": "a"}), ("/v1/chat/completions", {"messages": [user("a")]})):
        status, reply = post_raw(server, path, json.dumps({**body, field.split(".")[0]: wrong}).encode())
        assert status == 400 and json.loads(reply)["error"]["param"] == field, reply


def test_offsets_do_not_depend_on_stop_strings(server):
    """Text that is held back, since it may become a stop string, moves nothing."""
    def offsets(**more):
        lp = complete(server, "1, 2, 3, 4,", logprobs=0, **more).choices[0].logprobs
        return list(zip(lp.tokens, lp.text_offset))
    plain = offsets()
    assert [at for _, at in plain] == [sum(len(t) for t, _ in plain[:i]) for i in range(len(plain))]
    assert offsets(stop=[", 6, 7, 9", " 5, 6, 8"]) == plain


@pytest.fixture
def unhurried():
    """A server that never cuts a prompt to keep a step short, however slow the machine is just now."""
    s = Server("--itl", "10000")
    yield s
    assert s.stop() == 0, s.log


def test_usage_and_plan(unhurried):
    server = unhurried
    said = [extra(chat(server, [user("Hello.")], ffwd={"plan": True})), extra(complete(server, "Hello,", ffwd={"plan": True}))]
    for e in said:
        counts = e["by_source"]
        assert e["sampled"] + sum(c.get("accepted", 0) for c in counts.values()) == 8 and e["replayed_ids"] == 0
        assert 0 < e["steps"] <= e["head_positions"] and list(counts) == SOURCES and not counts["grammar"]
        assert e["relaxed"] == [] and e["preemptions"] == 0 and e["disarmed"] is False
        assert set(e["seconds"]) == {"queue", "prefill", "decode", "grammar"}
        assert e["seconds"]["decode"] == e["decode_s"] > 0 and e["seconds"]["grammar"] == 0
        on = {"on": True, "why": None}
        assert e["plan"]["prefix_cache"] == {"match": on, "publish": on} and e["plan"]["skip_head"] == on
        assert list(e["plan"]["sources"]) == SOURCES
        assert e["plan"]["sources"]["grammar"] == {"on": False, "why": "nothing constrains the reply"}
    assert "plan" not in extra(complete(server, "Hello,"))
    plan = extra(complete(server, "Hello,", logprobs=1, echo=True, ffwd={"plan": True}))["plan"]
    assert plan["prefix_cache"]["match"]["on"] is False and "prompt" in plan["prefix_cache"]["match"]["why"]
    last = list(complete(server, "Hello,", ffwd={"plan": True}, stream=True, stream_options={"include_usage": True}))[-1]
    assert extra(last)["plan"]["prefix_cache"]["publish"] == {"on": True, "why": None} and extra(last)["sampled"] <= 8


def test_priority_decides_who_is_next(one_row):
    occupant, done = Occupant(one_row, n=4), []

    def ask(priority):
        complete(one_row, "1, 2, 3,", max_tokens=24, priority=priority)
        done.append(priority)
    with ThreadPoolExecutor(3) as pool:
        for i, priority in enumerate((5, 0, -5)):
            pool.submit(ask, priority)
            assert one_row.load_becomes(1, 4 + i, 5)
        rows = one_row.get("/v1/ffwd/rows")["rows"]
        assert [r["priority"] for r in rows][1] == -5 and rows[-1]["priority"] == 5, rows
        occupant.leave()
    assert done == [-5, 0, 5]


def test_deadlines(one_row):
    # While it waits: the queue is included, and the status tells of it.
    occupant = Occupant(one_row)
    began = time.monotonic()
    for stream in (False, True):
        with pytest.raises(openai.APIStatusError) as e:
            complete(one_row, "a", deadline_ms=300, stream=stream)
        assert e.value.status_code == 504 and e.value.body["code"] == "deadline"
    assert time.monotonic() - began < 5
    occupant.leave()
    assert one_row.load_becomes(0, 0, 5)
    # While it streams: an event, and no [DONE].
    data = json.dumps({**LONG, "stream": True, "deadline_ms": 2000}).encode()
    status, reply = post_raw(one_row, COMPLETIONS, data)
    events = [line[6:] for line in reply.split(b"\n") if line.startswith(b"data: ")]
    assert status == 200 and len(events) > 1 and b"[DONE]" not in reply
    assert json.loads(events[-1])["error"]["code"] == "deadline"
    # One that is long enough changes nothing.
    assert complete(one_row, "1, 2,", deadline_ms=60000).usage.completion_tokens == 8


def test_a_deadline_for_all():
    s = Server("--deadline", "1")
    try:
        status, reply = post_raw(s, COMPLETIONS, json.dumps({**LONG, "n": 8, "deadline_ms": 60000}).encode())
        assert status == 504 and b"deadline" in reply
    finally:
        assert s.stop() == 0


# ---- who shares prefixes ----

def test_salts_keep_prefixes_apart(server):
    text = "Salted. " + TEXT
    assert cached(complete(server, text, cache_salt="anna")) == 0
    assert cached(complete(server, text, cache_salt="anna")) > 30
    assert cached(complete(server, text, cache_salt="bert")) == 0
    assert cached(complete(server, text)) == 0


def test_keys_keep_prefixes_apart(one_row):
    def ask(key, **more):
        client = openai.OpenAI(base_url=one_row.url + "/v1", api_key=key, max_retries=0, timeout=60)
        r = client.completions.create(model="any", prompt=TEXT, max_tokens=2, **more)
        return cached(r)
    assert ask("anna") == 0 and ask("anna") > 30
    assert ask("bert") == 0 and ask("bert") > 30
    assert ask("bert", extra_body={"cache_salt": "x"}) == 0


# ---- echo ----

def test_echo_shows_the_prompt(server):
    plain = complete(server, "The capital of France is", max_tokens=3)
    for prompt in ("The capital of France is", ids_of("The capital of France is")):
        r = complete(server, prompt, max_tokens=3, echo=True)
        assert r.choices[0].text == "The capital of France is" + plain.choices[0].text
        assert r.usage.completion_tokens == 3 and r.usage.prompt_tokens == 5
    r = complete(server, ["a b", "c"], max_tokens=0, echo=True)
    assert [c.text for c in r.choices] == ["a b", "c"] and [c.finish_reason for c in r.choices] == ["length"] * 2
    assert r.usage.completion_tokens == 0 and r.usage.prompt_tokens == len(ids_of("a b")) + 1
    assert r.usage.total_tokens == r.usage.prompt_tokens
    with pytest.raises(openai.BadRequestError) as e:
        complete(server, "a", max_tokens=0)
    assert e.value.param == "max_tokens"


def test_echo_scores_the_prompt(server):
    """Law L1: the score of a prompt token is that of choosing it there, wherever it was computed."""
    ids = ids_of(TEXT)[:40]
    [whole] = complete(server, ids, max_tokens=2, echo=True, logprobs=5).choices
    lp = whole.logprobs
    assert len(lp.tokens) == len(lp.token_logprobs) == len(lp.top_logprobs) == len(lp.text_offset) == len(ids) + 2
    assert lp.token_logprobs[0] is None and lp.top_logprobs[0] is None
    for token, at in zip(lp.tokens, lp.text_offset):
        assert whole.text[at:at + len(token)] == token
    for k in (1, 7, 32, 39):
        [c] = complete(server, ids[:k], max_tokens=1, logprobs=5).choices
        tops = {t: v for t, v in lp.top_logprobs[k].items() if t != lp.tokens[k] or t in c.logprobs.top_logprobs[0]}
        assert tops == c.logprobs.top_logprobs[0]
    [alone] = complete(server, ids, max_tokens=0, echo=True, logprobs=5).choices
    assert alone.logprobs.token_logprobs == lp.token_logprobs[:-2] and alone.text == whole.text[:len(alone.text)]
    text, parts = "", []
    for chunk in complete(server, ids, max_tokens=2, echo=True, logprobs=5, stream=True):
        [c] = chunk.choices
        text += c.text
        parts += [c.logprobs] if c.logprobs else []
    assert text == whole.text
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert sum((getattr(p, name) for p in parts), []) == getattr(lp, name)


def test_the_id_that_ends_a_reply_is_scored(server):
    """lm-eval asks for one token behind what it scores, and leaves out the last logprob, whatever the token is."""
    ids, end = ids_of("The capital of France is Paris."), 2  # <|im_end|>
    how = dict(max_tokens=1, echo=True, logprobs=1)
    [plain] = complete(server, ids, **how).choices
    [whole] = complete(server, ids, logit_bias={str(end): 100}, **how).choices
    assert (plain.finish_reason, whole.finish_reason) == ("length", "stop") and whole.text == "The capital of France is Paris."
    lp = whole.logprobs
    assert lp.tokens[-1] == "<|im_end|>" and lp.text_offset[-1] == len(whole.text) and lp.token_logprobs[-1] < 0
    assert lp.token_logprobs[:-1] == plain.logprobs.token_logprobs[:-1] and len(lp.top_logprobs) == len(ids) + 1
    parts = [c.choices[0].logprobs for c in complete(server, ids, logit_bias={str(end): 100}, stream=True, **how)]
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert sum((getattr(p, name) for p in parts if p), []) == getattr(lp, name)


# ---- what a prompt cost: cases PC2, PC3, PC8 ----

SYSTEM = {"role": "system", "content": "You are the keeper of a small museum. " + TEXT}


def nothing_is_amiss(reply):
    """All that was kept was reused; less than a block of new text is not worth a word."""
    miss = extra(reply)["cache_miss"]
    return miss is None or miss["cause"] == "new text"


def test_pc2_pc3_drift_is_found_and_placed(server):
    """A history that was altered between turns, as by a template that drops or adds parts: where, and why."""
    salt = {"cache_salt": "drift"}
    turn = [SYSTEM, user("What is the oldest thing you have? " + TEXT)]
    first = chat(server, turn, **salt)
    assert extra(first)["cache_miss"] == {"at": 0, "cause": "nothing like it is kept"}
    said = {"role": "assistant", "content": first.choices[0].message.content, "id": first.choices[0].message.id}
    faithful = chat(server, turn + [said, user("And the newest?")], **salt)
    # all of the first turn but the block that was not full yet
    assert nothing_is_amiss(faithful)
    assert cached(faithful) >= first.usage.prompt_tokens - 32
    altered = [SYSTEM, user("What is the newest thing you have? " + TEXT)]
    drifted = chat(server, altered + [said, user("And the oldest?")], **salt)
    miss = extra(drifted)["cache_miss"]
    assert miss["cause"] == "text differs" and miss["at"] == cached(drifted)
    # the place is that of the altered word, to the token
    rendered = [ids_of_chat(turn), ids_of_chat(altered)]
    same = next(i for i, (a, b) in enumerate(zip(*rendered)) if a != b)
    assert miss["at"] == same


def ids_of_chat(messages):
    """SmolLM2's template, spelled out; control tokens are parsed."""
    text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    return json.loads(subprocess.run([FFWD, "tokenize", "-m", MODEL, "-p", text, "--trusted", "--json"], check=True,
                                     capture_output=True).stdout)["ids"]


def test_pc8_an_agent_pays_for_new_tokens_only(server):
    messages = [SYSTEM, user("Step 1.")]
    before = 0
    for step in range(2, 7):
        r = chat(server, messages, max_tokens=40, temperature=1.5, seed=step, ignore_eos=True, cache_salt="agent")
        if step > 2:
            assert cached(r) >= before - 3, (step, r.usage)  # all that was fed before; three ids are not worth a copy
            assert nothing_is_amiss(r)
        before = r.usage.total_tokens - 1
        messages += [r.choices[0].message.model_dump(exclude_none=True), user(f"Step {step}.")]


# ---- prompts that do not fit: cases ML2, ML3 ----

@pytest.mark.parametrize("stream", [False, True])
def test_ml2_ml3_a_prompt_is_refused_and_never_cut(server, stream):
    """Both counts are named; no beginning of a conversation is dropped to make the rest fit."""
    long = [SYSTEM] + [user(TEXT * 4)] * 12
    with pytest.raises(openai.BadRequestError) as e:
        chat(server, long, stream=stream)
    n = len(ids_of_chat(long)) + len(ids_of("assistant")) + 2
    assert e.value.code == "context_length_exceeded" and e.value.param == "messages"
    assert str(CONTEXT) in e.value.body["message"] and str(n) in e.value.body["message"], (n, e.value.body)
    with pytest.raises(openai.BadRequestError) as e:
        complete(server, [5] * (CONTEXT - 10), max_tokens=11)
    assert str(CONTEXT - 10) in e.value.body["message"] and str(CONTEXT) in e.value.body["message"]
    fits = complete(server, [5] * (CONTEXT - 10), max_tokens=10, ignore_eos=True)
    assert fits.usage.prompt_tokens == CONTEXT - 10 and fits.usage.completion_tokens == 10


# ---- clients that leave: case CC4 ----

def test_cc4_a_disconnect_ends_the_work_within_a_step(one_row):
    def rows():
        return one_row.get("/v1/ffwd/rows")["rows"]

    runs, waits = ({**LONG, "stream": stream} for stream in (True, False))
    socks = []
    for i, body in enumerate((runs, waits)):
        data = json.dumps(body).encode()
        socks.append(one_row.connect())
        socks[-1].sendall(head(COMPLETIONS, len(data)) + data)
        assert one_row.load_becomes(1, i, 5)
    assert [r["state"] for r in rows()] == ["running", "waiting"]
    kept = rows()[0]["id"]
    socks[1].close()  # while queued
    assert one_row.load_becomes(1, 0, 1)
    assert [r["id"] for r in rows()] == [kept]
    socks[0].close()  # while running
    assert one_row.load_becomes(0, 0, 1)
    made = rows()
    assert made == []
    view = one_row.get("/v1/ffwd/rows")
    assert view["queued"] == 0 and view["kv"]["used"] == 0 and view["kv"]["blocks"] > 0


def test_rows(server):
    assert server.get("/v1/ffwd/rows")["rows"] == []
    data = json.dumps({**LONG, "n": ROWS + 2, "priority": 3}).encode()
    with server.connect() as sock:
        sock.sendall(head(COMPLETIONS, len(data)) + data)
        assert server.load_becomes(ROWS, 2, 5)
        view = server.get("/v1/ffwd/rows")
        assert len(view["rows"]) == ROWS + 2 and view["queued"] == 2
        assert [r["state"] for r in view["rows"]] == ["running"] * ROWS + ["waiting"] * 2
        for r in view["rows"]:
            assert set(r) == {"id", "state", "priority", "prompt_tokens", "cached_tokens", "fed_tokens", "completion_tokens",
                              "max_tokens", "preemptions", "reader_slow", "age_s"}
            assert r["id"].startswith("cmpl-") and r["priority"] == 3 and r["max_tokens"] == 900
            assert r["prompt_tokens"] == 4 and r["age_s"] >= 0
        assert len({r["id"] for r in view["rows"]}) == ROWS + 2
        assert view["kv"]["used"] >= ROWS
    assert server.load_becomes(0, 0, 5)


