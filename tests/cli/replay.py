"""`bench replay`: recorded replies are what comes, copies save passes, and a bad file is named with its line."""
import json
import os

from kit import any_model, ffwd, temp

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "replay.jsonl")
CLASS_KEYS = {"lines", "left_out", "tokens", "ratio_time", "ratio_time_range", "ratio_steps", "ratio_cost", "off", "on", "by_source"}
MODE_KEYS = {"seconds", "forwards", "head_positions", "computed", "sampled", "prompt_fed"}
COUNTS = {"proposed", "accepted", "rejected", "asserted"}


def cheap():
    """A frozen cost curve under which an id more is almost free, so that every sensible proposal is made."""
    curve = {"points": [{"tokens": 1, "ms": 1.0}, {"tokens": 64, "ms": 1.1}], "head_ms_per_position": 0.001}
    return temp("cheap.json", json.dumps(curve).encode())


def dear():
    """One under which nothing likely pays, so that what the grammar forces is certain, never behind a guess."""
    curve = {"points": [{"tokens": 1, "ms": 1.0}, {"tokens": 64, "ms": 64.0}], "head_ms_per_position": 1.0}
    return temp("dear.json", json.dumps(curve).encode())


def replay(*more):
    r = ffwd("bench", "replay", RECORDED, "-m", any_model(), "--json", *more).ok().json
    assert set(r) == {"model", "isa", "threads", "batch", "pairs", "fill", "cost", "classes"}, r
    for c in r["classes"].values():
        assert set(c) == CLASS_KEYS and set(c["off"]) == set(c["on"]) == MODE_KEYS, c
        low, high = c["ratio_time_range"]
        assert 0 < low <= c["ratio_time"] <= high, c
        for source in c["by_source"].values():
            assert set(source) - {"alone"} == COUNTS, source
            assert source["accepted"] + source["rejected"] <= source["proposed"], source
    return r


def test_bench_replay_counts():
    r = replay("--repeat", 2)
    assert list(r["classes"]) == ["plain", "copy"] and (r["batch"], r["pairs"], r["fill"]) == (1, 2, "lossless"), r
    for c in r["classes"].values():
        off = c["off"]
        assert c["lines"] == 2
        # off: a pass, a head, an id for each token but the first of a reply, and nothing has a source
        assert off["forwards"] == off["head_positions"] == off["computed"] == c["tokens"] - 2, c
        assert off["sampled"] == c["tokens"] and 2 <= off["prompt_fed"] < 2 * 32, c  # prompts are longer than a block
    r = replay("--repeat", 1, "--limit", 1, "--class", "copy")
    assert list(r["classes"]) == ["copy"] and r["classes"]["copy"]["lines"] == 1, r


def test_bench_replay_of_copies_saves_passes():
    r = replay("--repeat", 2, "--cost-file", cheap(), "--each")["classes"]["copy"]
    echo, on, off = r["by_source"]["echo"], r["on"], r["off"]
    assert echo["accepted"] > 0 and on["forwards"] < off["forwards"], r
    assert r["ratio_steps"] < 1 and r["ratio_cost"] < 1, r
    assert on["sampled"] + sum(s["accepted"] for s in r["by_source"].values()) == r["tokens"], r
    assert on["computed"] == off["computed"] + sum(s["rejected"] for s in r["by_source"].values()), r
    assert all(s["alone"]["ratio_steps"] <= 1 for s in r["by_source"].values()), r
    none = replay("--repeat", 1, "--cost-file", cheap(), "--sources", "grammar")["classes"]["copy"]
    assert none["ratio_steps"] == 1 and not any(s["proposed"] for s in none["by_source"].values()), none


def test_bench_replay_in_batches():
    alone, four = replay("--repeat", 1), replay("--repeat", 1, "--batch", 4)
    assert four["batch"] == 4
    for name, c in four["classes"].items():
        assert c["tokens"] == alone["classes"][name]["tokens"], (c, alone)
        assert c["off"]["forwards"] < alone["classes"][name]["off"]["forwards"], (c, alone)


def test_bench_replay_prints_a_table():
    out = ffwd("bench", "replay", RECORDED, "-m", any_model(), "--repeat", 1).ok().out
    for word in ("plain, 2 replies", "copy, 2 replies", "echo", "accepted", "forwards"):
        assert word in out, out


def test_bench_replay_under_a_grammar():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a", "b"],
              "additionalProperties": False}
    line = {"class": "json", "messages": [{"role": "user", "content": "as JSON"}], "reply": '{"a": 12, "b": "x"}',
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}}
    wrong = dict(line, reply='{"a": 12, "b": "z"}')
    path = temp("json.jsonl", "".join(json.dumps(x) + "\n" for x in (line, wrong, line)).encode())
    ran = ffwd("bench", "replay", path, "-m", any_model(), "--json", "--repeat", 1, "--cost-file", dear())
    c = ran.ok().json["classes"]["json"]
    grammar = c["by_source"]["grammar"]
    assert (c["lines"], c["left_out"]) == (2, 1) and "line 2" in ran.err and "does not allow" in ran.err, ran
    assert grammar["asserted"] == grammar["accepted"] > 0 and grammar["rejected"] == 0, c
    assert c["on"]["head_positions"] < c["off"]["head_positions"], c
    only = temp("wrong.jsonl", json.dumps(wrong).encode())
    ffwd("bench", "replay", only, "-m", any_model()).fails(1, "line 1", "does not allow")


def test_bench_replay_names_the_line():
    model = any_model()
    good = b'{"class": "c", "messages": [{"role": "user", "content": "Hi"}], "reply": "Hello"}\n'

    def fails(data, *words):
        ffwd("bench", "replay", temp("bad.jsonl", data), "-m", model).fails(1, "bad.jsonl", *words)

    fails(b"", "empty")
    fails(good + b"{\n", "line 2", "JSON")
    fails(good + b"\n" + good.replace(b'"Hello"', b"5"), "line 3", "reply")
    fails(good.replace(b'"reply"', b'"seed": 1, "reply"'), "line 1", "seed")
    fails(good + good.replace(b'"content": "Hi"', b'"content": 7'), "line 2", "messages[0].content")
    fails(good.replace(b"Hello", b"Hello<|im_end|>"), "line 1", "ends a turn")
    fails(good.replace(b"Hello", b"Hello " * 4000), "line 1", "context")
    ffwd("bench", "replay", temp("absent.jsonl"), "-m", model).fails(1, "absent.jsonl")
    ffwd("bench", "replay", RECORDED, "-m", model, "--class", "poem").fails(1, "poem")
    ffwd("bench", "replay", RECORDED, "-m", model, "--chat-template", temp("t.jinja", b"{% if %}")).fails(1, "t.jinja")


def test_bench_replay_wrong_usage():
    ffwd("bench", "replay").fails(2, "FILE.jsonl", "ffwd help bench replay")
    ffwd("bench", "replay", RECORDED).fails(2, "-m", "ffwd help bench replay")
    ffwd("bench", "replay", RECORDED, RECORDED, "-m", "x").fails(2, "one FILE.jsonl")
    for wrong in ("", "echo,", ",echo", "echo;ngram", "magic"):
        ffwd("bench", "replay", RECORDED, "-m", "x", "--sources", wrong).fails(2, "--sources")
    ffwd("bench", "replay", RECORDED, "-m", "x", "--fill", "off").fails(2, "lossless or strict")
    assert "ffwd bench replay" in ffwd("help", "bench", "replay").ok().out
