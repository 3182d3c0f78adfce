"""`info --cost`, `serve --cost-file`, `bench --profile`."""
import json
import subprocess

from kit import FFWD, any_model, ffwd, temp


def test_info_cost_and_the_file_it_makes():
    got = ffwd("info", "-m", any_model(), "--cost", "--json").ok().json
    tokens, ms = [p["tokens"] for p in got["points"]], [p["ms"] for p in got["points"]]
    assert tokens[0] == 1 and tokens == sorted(set(tokens)) and len(tokens) >= 5
    assert all(m > 0 for m in ms) and ms == sorted(ms)
    assert got["head_ms_per_position"] > 0 and got["attention_ms_per_mkey"] > 0 and got["isa"] and got["threads"]
    assert "head: " in ffwd("info", "-m", any_model(), "--cost").ok().out
    path = temp("cost.json", json.dumps(got).encode())
    child = subprocess.Popen([FFWD, "serve", "-m", any_model(), "--port", "0", "--cost-file", path],
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        assert child.stderr.readline().startswith(b"listening on ")
    finally:
        child.terminate()
        assert child.wait(20) == 0
        child.stderr.close()
    ffwd("info", "--cost").fails(2, "-m")


def test_a_cost_file_that_is_wrong():
    good = {"points": [{"tokens": 1, "ms": 1.0}, {"tokens": 8, "ms": 2.0}], "head_ms_per_position": 0.5}
    for change, word in [({"points": []}, "points"), ({"points": [{"tokens": 1.5, "ms": 1}]}, "points[0].tokens"),
                         ({"points": [{"tokens": 4, "ms": 1}, {"tokens": 4, "ms": 2}]}, "points[1].tokens"),
                         ({"points": [{"tokens": 4, "ms": -1}]}, "points[0].ms"), ({"points": [{"ms": 1}]}, "tokens"),
                         ({"head_ms_per_position": 0}, "head_ms_per_position"),
                         ({"attention_ms_per_mkey": "x"}, "attention_ms_per_mkey")]:
        path = temp("wrong.json", json.dumps(dict(good, **change)).encode())
        ffwd("serve", "-m", any_model(), "--port", "0", "--cost-file", path).fails(1, word, "wrong.json")
    ffwd("serve", "-m", any_model(), "--port", "0", "--cost-file", temp("no.json", b"{")).fails(1, "JSON")
    ffwd("serve", "-m", any_model(), "--port", "0", "--cost-file", temp("none.json")).fails(1, "none.json")


def test_bench_profile():
    got = ffwd("bench", "-m", any_model(), "--profile", "--batch", "6", "--tg", "20", "--json").ok().json
    assert got["rows"] == 6 and got["steps"] >= 20
    assert 0 < got["overhead_us"]["p50"] <= got["overhead_us"]["p95"]
    assert got["forward_ms"] > 0 and got["head_ms"] > 0 and got["sample_ms"] > 0
    ffwd("bench", "-m", any_model(), "--profile", "--tg", "0").fails(2, "--tg")
