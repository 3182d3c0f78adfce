"""GET /metrics, read by Prometheus' own parser."""
import json
import pathlib
import re
import time
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from conftest import Server, head

HISTOGRAMS = ["time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds",
              "request_queue_time_seconds", "step_time_seconds"]
COUNTERS = ["prompt_tokens", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits", "num_preemptions",
            "request_success", "steps", "engine_seconds", "requests_refused", "source_proposed_tokens",
            "source_accepted_tokens", "source_rejected_tokens", "source_asserted_tokens"]
GAUGES = ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "build_info"]


def read(server):
    """Families by name, and samples by name and labels."""
    with urllib.request.urlopen(server.url + "/metrics", timeout=20) as reply:
        assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        families = list(text_string_to_metric_families(reply.read().decode()))
    samples = {}
    for f in families:
        assert f.documentation and f.type != "unknown", f
        for s in f.samples:
            key = (s.name, tuple(sorted(s.labels.items())))
            assert key not in samples, key
            samples[key] = s.value
    return {f.name: f for f in families}, samples


def get(samples, name, **labels):
    return samples[("ffwd:" + name, tuple(sorted(labels.items())))]


def test_families(server):
    families, samples = read(server)
    for names, kind in ((HISTOGRAMS, "histogram"), (COUNTERS, "counter"), (GAUGES, "gauge")):
        for name in names:
            assert families["ffwd:" + name].type == kind, name
    assert 0 < time.time() - samples[("process_start_time_seconds", ())] < 3600
    [build] = families["ffwd:build_info"].samples
    assert build.value == 1 and build.labels["version"] and build.labels["isa"] in ("ref", "avx2", "avx512", "neon")
    for name in HISTOGRAMS:
        buckets = [s for s in families["ffwd:" + name].samples if s.name.endswith("_bucket")]
        counts, bounds = [s.value for s in buckets], [float(s.labels["le"]) for s in buckets]
        assert counts == sorted(counts) and bounds == sorted(set(bounds)) and bounds[-1] == float("inf")
        assert counts[-1] == get(samples, name + "_count") and get(samples, name + "_sum") >= 0


def test_what_requests_add(server):
    def ask(**more):
        return server.client.completions.create(model="any", prompt="One, two, three, four, five", temperature=0, **more)
    _, a = read(server)
    one = ask(max_tokens=5)
    ask(max_tokens=5, stop=",")
    _, b = read(server)

    def grew(name, **labels):
        return get(b, name, **labels) - get(a, name, **labels)
    assert grew("prompt_tokens_total") == 2 * one.usage.prompt_tokens
    assert grew("generation_tokens_total") > 5 and grew("steps_total") > 5
    assert grew("request_success_total", finished_reason="length") == 1
    assert grew("request_success_total", finished_reason="stop") == 1
    assert grew("request_success_total", finished_reason="error") == 0
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds"):
        assert grew(name + "_count") == 2
    assert grew("inter_token_latency_seconds_count") == grew("generation_tokens_total") - 2
    assert grew("engine_seconds_total", part="forward") > 0
    assert grew("prefix_cache_queries_total") >= one.usage.prompt_tokens


def test_load_and_refusals():
    s = Server("--rows", "1", "--queue", "1")
    try:
        body = json.dumps({"prompt": "a", "max_tokens": 900, "ignore_eos": True}).encode()
        socks = []
        for i in range(2):
            socks.append(s.connect())
            socks[-1].sendall(head("/v1/completions", len(body)) + body)
            assert s.load_becomes(1, i, 5)
        with s.connect() as refused:
            refused.sendall(head("/v1/completions", len(body)) + body)
            assert refused.recv(100).startswith(b"HTTP/1.1 429 ")
        _, samples = read(s)
        assert get(samples, "num_requests_running") == 1 and get(samples, "num_requests_waiting") == 1
        assert 0 < get(samples, "kv_cache_usage_perc") <= 1 and get(samples, "requests_refused_total") == 1
        for sock in socks:
            sock.close()
        assert s.load_becomes(0, 0, 2)
        _, samples = read(s)
        assert get(samples, "request_success_total", finished_reason="abort") == 2
        steps = get(samples, "steps_total")
        time.sleep(0.2)
        assert get(read(s)[1], "steps_total") == steps, "it computes for nobody"
    finally:
        assert s.stop() == 0


def test_the_dashboard_asks_for_what_there_is(server):
    """docs/grafana.json: every metric and label in it is served."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs/grafana.json").read_text()
    panels = json.loads(text)["panels"]
    expressions = [t["expr"] for p in panels for t in p["targets"]]
    _, samples = read(server)
    names = {name for name, _ in samples}
    asked = set(re.findall(r"ffwd:\w+", " ".join(expressions)))
    assert len(asked) > 15 and not asked - names, asked - names
    for label, name in re.findall(r"by \((\w+)\) \(rate\((ffwd:\w+)", " ".join(expressions)):
        assert any(n == name and label in dict(labels) for n, labels in samples), (name, label)
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels]
    assert len(set(places)) == len(places) and len({p["id"] for p in panels}) == len(panels)
