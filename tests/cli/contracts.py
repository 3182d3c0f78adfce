"""Statuses, sentences and shapes: the contracts that scripts rely on."""
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request

from kit import FFWD, GEMMA, SMOLLM2, any_model, ffwd, need, temp, tiny

VERBS = ["run", "chat", "serve", "pull", "ls", "rm", "bench", "perplexity", "tokenize", "template", "info", "fit",
         "quantize", "logits"]
HI = json.dumps([{"role": "user", "content": "Hi <|im_end|> there"}]).encode()


def with_model(path):
    """Every verb that opens a model, asked to open this one."""
    chat, text = temp("hi.json", HI), temp("text.txt", b"Some words to score.")
    return [["run", "-m", path, "-p", "Hi"], ["chat", "-m", path], ["serve", "-m", path, "--port", "0"],
            ["bench", "-m", path], ["perplexity", "-m", path, "-f", text], ["tokenize", "-m", path, "-p", "Hi"],
            ["template", "-m", path, "--chat", chat], ["info", "-m", path], ["fit", "-m", path],
            ["quantize", "-m", path, "-o", temp("other.gguf"), "--type", "Q8_0"], ["logits", "-m", path, "--ids", "1"]]


# ----------------------------------------------------------------------------------------------------------- usage


def test_help_names_every_verb():
    out = ffwd("help").ok().out
    assert all(re.search(rf"^ +{verb} ", out, re.M) for verb in VERBS), out
    for verb in VERBS:
        assert f"ffwd {verb}" in ffwd("help", verb).ok().out
        assert f"ffwd {verb}" in ffwd(verb, "--help").ok().out
    assert "ffwd bench load" in ffwd("help", "bench", "load").ok().out
    assert "ffwd bench load" in ffwd("bench", "load", "--help").ok().out


def test_version():
    assert re.fullmatch(r"ffwd \d+\.\d+\.\d+\n", ffwd("--version").ok().out)


def test_wrong_usage_is_status_2():
    ffwd().fails(2, "ffwd help")
    ffwd("frobnicate").fails(2, "frobnicate")
    ffwd("help", "frobnicate").fails(2, "frobnicate")
    for verb in VERBS:
        ffwd(verb, "--frobnicate").fails(2, "--frobnicate", f"ffwd help {verb}")
        if verb not in ("pull", "rm"):  # they take names
            ffwd(verb, "word").fails(2, "word", f"ffwd help {verb}")
    ffwd("pull", "--quiet=1").fails(2, "--quiet")
    ffwd("pull", *["smollm2"] * 17).fails(2, "NAME", "16")
    ffwd("run", "-m").fails(2, "-m", "FILE")
    ffwd("run", "-p", "x", "--temp", "hot").fails(2, "--temp", "hot")
    ffwd("run", "-p", "x", "--temp", "nan").fails(2, "--temp")
    ffwd("run", "-p", "x", "--temp=-1").fails(2, "--temp")
    ffwd("run", "-p", "x", "-n", "12x").fails(2, "-n", "12x")
    ffwd("run", "-p", "x", "--seed", "18446744073709551616").fails(2, "--seed")
    ffwd("run", "-p", "x", "--threads", "0").fails(2, "--threads")
    ffwd("run", "-p", "x", "--kv", "f64").fails(2, "--kv", "f16 or f32", "f64")
    ffwd("run", "-p", "x", "--json=yes").fails(2, "--json")
    ffwd("run", "-p", "x", "--raw", "--system", "y").fails(2, "--raw", "--system")
    ffwd("run", "-p", "x", *["--stop", "s"] * 17).fails(2, "--stop", "16")
    for bias in ("5", "x=1", "=1", "5=", "-1=1", "5=1x", "5=nan", "5=101"):
        ffwd("run", "-p", "x", "--logit-bias", bias).fails(2, "bias")
    ffwd("run", "-p", "x", "--samplers", "top_k;greedy").fails(2, "samplers", "greedy")
    ffwd("run", "-p", "x", "--samplers", "top_k", "--temp", "0.5").fails(2, "temperature", "samplers")
    ffwd("chat", "--mirostat", "2", "--top-k", "40").fails(2, "top_k", "mirostat")
    for args in (["logits", "-m", "x"], ["logits", "--ids", "1"], ["bench"], ["perplexity", "-m", "x"], ["tokenize"],
                 ["template", "-m", "x"]):
        ffwd(*args).fails(2, "missing")
    for ids in ("", ",", "1,", "1,,2", "1 2", "-1", "x", "99999999999"):
        ffwd("logits", "-m", "x", "--ids", ids).fails(2, "--ids")
    ffwd("bench", "-m", "x", "--pp", "0", "--tg", "0").fails(2, "--pp")
    ffwd("bench", "load").fails(2, "--url", "ffwd help bench load")
    ffwd("bench", "load", "-m", "x").fails(2, "-m", "ffwd help bench load")
    ffwd("bench", "load", "--url", "http://x", "--clients", "513").fails(2, "--clients", "512")
    ffwd("bench", "load", "--url", "http://x", "--mode", "poem").fails(2, "chat or completion")
    ffwd("bench", "load", "--url", "http://x", "--seconds", "2", "--long-prompt", "9").fails(2, "--long-at")
    ffwd("bench", "load", "--url", "http://x", "--requests", "2", "--long-prompt", "9").fails(2, "--seconds")


# --------------------------------------------------------------------------------------------------------- bad files


def test_files_that_are_no_models():
    cases = [(temp("absent.gguf"), "absent.gguf"), (temp("empty.gguf", b""), "empty.gguf"),
             (temp("foreign.gguf", b"%PDF-1.7\n" * 100), "foreign.gguf"),
             (temp("magic.gguf", b"GGUF" + bytes(2000)), "magic.gguf"), (temp(""), os.path.basename(temp("")[:-1]))]
    for path, name in cases:
        for args in with_model(path):
            ffwd(*args).fails(1, name)


def test_a_name_that_is_neither_file_nor_model():
    ffwd("info", "-m", "nosuchmodel").fails(1, "nosuchmodel")


def test_truncated_files():
    whole = open(any_model(), "rb").read()
    for part in (len(whole) - 1, len(whole) // 2, 3000, 20):
        path = temp("truncated.gguf", whole[:part])
        for args in with_model(path):
            ffwd(*args).fails(1, "truncated.gguf")


def test_an_unknown_architecture_is_named():
    path = temp("unknown.gguf", open(tiny("llama"), "rb").read().replace(b"llama", b"lxama"))
    for args in with_model(path):
        if args[0] not in ("tokenize", "template", "quantize"):
            ffwd(*args).fails(1, "lxama")


def test_a_level_this_machine_lacks():
    ffwd("info", env={"FFWD_CPU": "avx9"}).fails(1, "FFWD_CPU", "avx9")
    ffwd("logits", "-m", any_model(), "--ids", "1", env={"FFWD_CPU": "avx9"}).fails(1, "FFWD_CPU", "avx9")


# ------------------------------------------------------------------------------------------------------------ stdout


def cheap_verbs(model):
    text, chat = temp("text.txt", b"Some words to score."), temp("hi.json", HI)
    return [["help"], ["help", "run"], ["--version"], ["info"], ["info", "-m", model, "--json"],
            ["run", "-m", model, "--raw", "-p", "the", "-n", "3"],
            ["run", "-m", model, "--raw", "-p", "the", "-n", "3", "--json"], ["tokenize", "-m", model, "-p", "Hi"],
            ["template", "-m", model, "--chat", chat], ["logits", "-m", model, "--ids", "9,10"],
            ["perplexity", "-m", model, "-f", text], ["bench", "-m", model, "--pp", "4", "--tg", "2", "--reps", "1"]]


def test_a_full_disk_behind_stdout_is_status_1():
    for args in cheap_verbs(any_model()):
        with open("/dev/full", "wb") as full:
            ended = ffwd(*args, stdout=full)
        assert ended.code == 1 and "stdout" in ended.err and "\n" not in ended.err.strip(), ended


def test_a_closed_pipe_behind_stdout_is_status_1():
    for args in cheap_verbs(any_model()):
        read, write = os.pipe()
        os.close(read)
        ended = ffwd(*args, stdout=write)
        os.close(write)
        assert ended.code == 1 and "stdout" in ended.err, ended


# --------------------------------------------------------------------------------------------------------------- run


def test_run_json():
    model = any_model()
    args = ["run", "-m", model, "--raw", "-p", "the king sang to", "-n", "12", "--threads", "2", "--json"]
    got = ffwd(*args).ok().json
    assert list(got)[:5] == ["prompt_ids", "ids", "text", "finish_reason", "usage"]
    assert got["finish_reason"] in ("stop", "length") and len(got["ids"]) <= 12
    usage = got["usage"]
    assert usage["prompt_tokens"] == len(got["prompt_ids"])
    # The end token counts as completed, but is neither text nor listed.
    assert usage["completion_tokens"] == len(got["ids"]) + (got["finish_reason"] == "stop")
    assert all(usage[k] >= 0 for k in ("load_seconds", "prefill_seconds", "decode_seconds", "first_token_seconds"))
    again = ffwd(*args, "--kv", "f16", "--ctx", "64").ok().json
    assert again["ids"] == got["ids"] and again["text"] == got["text"]
    plain = ffwd(*args[:-1]).ok()
    assert plain.out == got["text"] + ("" if got["text"].endswith("\n") else "\n")
    assert re.search(r"^\[.*tok/s.*\]$", plain.err, re.M), plain


def test_run_draws_by_seed_alone():
    args = ["run", "-m", any_model(), "--raw", "-p", "the", "-n", "16", "--temp", "1.5", "--json", "--seed"]
    one, same, other = (ffwd(*args, seed).ok().json["ids"] for seed in (1, 1, 2))
    assert one == same and one != other


def test_run_reads_stdin():
    model = any_model()
    by_option = ffwd("run", "-m", model, "--raw", "-p", "the sea", "-n", "4", "--json").ok().json
    by_stdin = ffwd("run", "-m", model, "--raw", "-n", "4", "--json", stdin=b"the sea").ok().json
    assert by_option["ids"] == by_stdin["ids"] and by_option["prompt_ids"] == by_stdin["prompt_ids"]


def test_run_raw_means_control_tokens_and_a_chat_does_not():
    model = any_model()
    raw = ffwd("run", "-m", model, "--raw", "-p", "<|im_end|>", "-n", "1", "--json").ok().json["prompt_ids"]
    chat = ffwd("run", "-m", model, "-p", "<|im_end|>", "-n", "1", "--json").ok().json["prompt_ids"]
    assert len(raw) == 1 and chat.count(raw[0]) == chat.count(raw[0] - 1) - 1, (raw, chat)


def test_run_stops_at_a_text():
    model = need(SMOLLM2, "SmolLM2 is not in the cache")
    args = ["run", "-m", model, "--raw", "-p", "The capital of France is", "-n", "8", "--json"]
    whole = ffwd(*args).ok().json
    assert whole["prompt_ids"] == [504, 3575, 282, 4649, 314] and "Paris" in whole["text"], whole
    cut = ffwd(*args, "--stop", "aris").ok().json
    assert cut["finish_reason"] == "stop" and cut["text"] == whole["text"].split("aris")[0], cut


def test_run_answers_in_chat_form():
    model = need(SMOLLM2, "SmolLM2 is not in the cache")
    got = ffwd("run", "-m", model, "-p", "Explain in two sentences why the sky is blue.", "-n", "40",
               "--logprobs", "3", "--json").ok().json
    assert "blue" in got["text"] and "light" in got["text"], got["text"]
    assert [t["id"] for t in got["logprobs"]] == got["ids"] and all(len(t["top"]) == 3 for t in got["logprobs"])
    assert all(t["id"] == t["top"][0]["id"] and t["logprob"] <= 0 for t in got["logprobs"]), "greedy takes the likeliest"


def test_run_without_a_template_continues_the_text():
    model = need(GEMMA, "Gemma is not in the cache")
    ended = ffwd("run", "-m", model, "-p", "The capital of France is", "-n", "4", "--json").ok()
    assert ended.json["prompt_ids"] == [2, 818, 5279, 529, 7001, 563] and "no chat template" in ended.err, ended
    ffwd("run", "-m", model, "--system", "x", "-p", "y").fails(1, "--system", "chat template")


def test_run_refuses_a_prompt_beyond_the_context():
    model = any_model()
    for verb in (["run", "-m", model, "--raw", "--ctx", "32", "-p", "the sea " * 60],):
        ended = ffwd(*verb).fails(1, "32")
        assert len(re.findall(r"\d+", ended.err)) >= 2, f"both counts: {ended}"


def test_without_n_a_reply_takes_what_the_context_holds():
    model = any_model()
    for ctx in (64, 512):
        got = ffwd("run", "-m", model, "--ctx", ctx, "--raw", "-p", "the sea and the king", "--json").ok().json
        total = got["usage"]["prompt_tokens"] + got["usage"]["completion_tokens"]
        assert total == ctx if got["finish_reason"] == "length" else total < ctx, got
    ffwd("run", "-m", model, "--ctx", "64", "--raw", "-p", "the sea", "-n", "512").fails(1, "512", "64")
    ended = ffwd("chat", "-m", model, "--ctx", "128", stdin=b"the sea\n").ok()
    assert "first token" in ended.err, ended


def test_run_ends_in_order_when_interrupted():
    model = need(SMOLLM2, "SmolLM2 is not in the cache")
    child = subprocess.Popen([FFWD, "run", "-m", model, "--raw", "-p", "1 2 3 4 5 6 7", "-n", "2000", "--json"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1.5)
    child.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGINT)  # as a parent does that hands it on while the terminal sends it, too
    out, err = child.communicate(timeout=30)
    assert child.returncode == 0, (child.returncode, err)
    assert json.loads(out)["finish_reason"] in ("cancelled", "stop"), out


# ------------------------------------------------------------------------------------------------------------- serve


def start_server(*more, model=None):
    child = subprocess.Popen([FFWD, "serve", "-m", model or any_model(), "--host", "127.0.0.1", *more],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    line = child.stderr.readline().decode()
    found = re.fullmatch(r"listening on (http://127\.0\.0\.1:(\d+))\n", line)
    if not found:
        child.kill()
    assert found, line
    return child, found.group(1), int(found.group(2))


def test_serve_until_a_signal():
    for sig in (signal.SIGTERM, signal.SIGINT):
        child, url, _ = start_server("--port", "0")
        with urllib.request.urlopen(url + "/health", timeout=10) as reply:
            assert reply.status == 200
        child.send_signal(sig)
        out, err = child.communicate(timeout=20)
        assert child.returncode == 0 and out == b"", (child.returncode, err)


def test_serve_ends_at_once_at_the_second_signal():
    model = need(SMOLLM2, "SmolLM2 is not in the cache")
    child, url, port = start_server("--port", "0", model=model)
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": 8000, "ignore_eos": True}).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        until = time.monotonic() + 10
        while True:
            with urllib.request.urlopen(url + "/health", timeout=10) as reply:
                if json.load(reply)["running"] == 1:
                    break
            assert time.monotonic() < until, "the request does not begin"
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        time.sleep(1.0)
        assert child.poll() is None, "the first signal should have let the request run on"
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=3)
    assert child.returncode == -signal.SIGTERM and b"stopping" in err, (child.returncode, err)


def test_serve_says_when_the_port_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ffwd("serve", "-m", any_model(), "--port", port).fails(1, port)


# ------------------------------------------------------------------------------------------------ the measuring verbs


def test_logits_shape():
    got = ffwd("logits", "-m", any_model(), "--ids", "9,10,11", "--top", "3", "--json").ok().json
    assert [p["position"] for p in got["positions"]] == [0, 1, 2] and [p["id"] for p in got["positions"]] == [9, 10, 11]
    for p in got["positions"]:
        assert re.fullmatch("[0-9a-f]{16}", p["hash"]) and len(p["top"]) == 3
        assert p["top"] == sorted(p["top"], key=lambda t: (-t["logit"], t["id"]))
    assert ffwd("logits", "-m", any_model(), "--ids", "-", "--top", "3", "--json", stdin=b"9,10,11\n").ok().json == got
    plain = ffwd("logits", "-m", any_model(), "--ids", "9,10,11", "--top", "3").ok().out.splitlines()
    assert [line.split()[2] for line in plain] == [p["hash"] for p in got["positions"]]
    everything = ffwd("logits", "-m", any_model(), "--ids", "9", "--top", "1000000", "--json").ok().json
    assert len(everything["positions"][0]["top"]) == everything["vocab"]
    assert everything["positions"][0]["top"][:3] == got["positions"][0]["top"]


def test_logits_refuses_what_the_model_lacks():
    model = any_model()
    ffwd("logits", "-m", model, "--ids", "1,2000000000").fails(1, "--ids", "2000000000")
    ffwd("logits", "-m", model, "--ids", "-", stdin=b",".join([b"9"] * 200000)).fails(1, "--ids", "200000")
    ffwd("logits", "-m", model, "--ids", "-", stdin=b"9 10").fails(2, "--ids")


def test_bench_shape():
    model = any_model()
    got = ffwd("bench", "-m", model, "--pp", "8", "--tg", "4", "--batch", "2", "--depth", "5", "--reps", "3",
               "--threads", "2", "--json").ok().json
    assert got["threads"] == 2 and got["batch"] == 2 and got["depth"] == 5 and got["token_bytes"] > 0 and got["isa"]
    assert got["pp"]["linear_gmac_s"] > 0
    for series in (got["pp"], got["tg"]):
        assert 0 < series["min"] <= series["median"] <= series["max"] and len(series["runs"]) == 3
    assert "pp" not in ffwd("bench", "-m", model, "--pp", "0", "--tg", "2", "--reps", "1", "--json").ok().json
    ffwd("bench", "-m", model, "--pp", "16000000").fails(1, "16000000")
    context = ffwd("info", "-m", model, "--json").ok().json["model"]["context"]
    beyond = ["bench", "-m", model, "--pp", "0", "--tg", "2", "--depth", context, "--reps", "1", "--no-probe", "--json"]
    ffwd(*beyond).fails(1, str(context))
    assert ffwd(*beyond, "--ctx", context + 2).ok().json["tg"]["median"] > 0
    ffwd(*beyond, "--ctx", context + 1).fails(1, str(context + 1))


LOAD_KEYS = {"url", "mode", "clients", "seconds", "ended_by", "requests", "cancelled", "errors", "error_list", "token_source",
             "tokens_in", "tokens_cached", "tokens_out", "tokens_per_s", "requests_per_s", "ttft_ms", "itl_ms", "e2e_ms", "jain"}


def load(url, *more):
    r = ffwd("bench", "load", "--url", url, *more, "--json").ok().json
    assert set(r) - {"long"} == LOAD_KEYS, r
    for name in ("ttft_ms", "itl_ms", "e2e_ms"):
        s = r[name]
        assert set(s) == {"n", "p50", "p95", "p99", "max"}, s
        assert s["n"] == 0 or 0 <= s["p50"] <= s["p95"] <= s["p99"] <= s["max"], s
    assert r["errors"] == sum(e["count"] for e in r["error_list"]), r
    return r


def test_bench_load_counts():
    child, url, _ = start_server("--port", "0", "--ctx", "1024", model=need(SMOLLM2, "SmolLM2"))
    try:
        r = load(url, "--clients", 3, "--requests", 7, "--max-tokens", 5, "--ignore-eos")
        assert (r["requests"], r["errors"], r["cancelled"], r["ended_by"]) == (7, 0, 0, "requests"), r
        assert r["tokens_out"] == 35 and r["token_source"] == "usage" and r["mode"] == "chat", r
        assert r["ttft_ms"]["n"] == 7 and 14 <= r["itl_ms"]["n"] <= 28, r  # some tokens have no text of their own
        assert abs(r["tokens_per_s"] * r["seconds"] - 35) < 0.01 and r["seconds"] > 0 and 0.3 < r["jain"] <= 1, r
        again = load(url, "--clients", 3, "--requests", 7, "--max-tokens", 5, "--ignore-eos")
        assert again["tokens_in"] == r["tokens_in"] and again["tokens_cached"] > r["tokens_cached"], (r, again)
        r = load(url, "--clients", 2, "--requests", 4, "--max-tokens", 1, "--mode", "completion", "--prompt-tokens", 20,
                 "--shared-prefix", 100, "--seed", 9)
        assert 4 * 120 <= r["tokens_in"] <= 5 * 120 and r["itl_ms"] == {"n": 0, "p50": None, "p95": None, "p99": None,
                                                                      "max": None}, r
        assert r["tokens_cached"] >= 2 * 96, r  # of 100 words three blocks of 32
        r = load(url, "--clients", 1, "--seconds", 1, "--max-tokens", 8, "--long-prompt", 300, "--long-at", 0)
        assert r["long"]["prompt_tokens"] > 300 and 0 < r["long"]["ttft_ms"] <= r["long"]["total_ms"], r
        assert r["ended_by"] == "seconds" and 1 <= r["seconds"] < 20, r
        table = ffwd("bench", "load", "--url", url + "/v1", "--requests", 1, "--clients", 1).ok().out
        assert "1 requests, 0 cut off, 0 errors" in table and "first token" in table, table
    finally:
        child.kill()
        child.wait()


def test_bench_load_says_what_failed():
    child, url, port = start_server("--port", "0", "--ctx", "128", model=need(SMOLLM2, "SmolLM2"))
    try:
        ffwd("bench", "load", "--url", f"localhost:{port}").fails(1, "--url", "http://")
        ffwd("bench", "load", "--url", url + "/elsewhere", "--requests", 2).fails(1, "404", "nothing at this address")
        ffwd("bench", "load", "--url", url, "--requests", 2, "--prompt-tokens", 400).fails(1, "400", "context")
        # about half of the prompts are too long: the others are answered
        r = load(url, "--requests", 30, "--clients", 3, "--prompt-tokens", 90, "--prompt-spread", 90, "--max-tokens", 1)
        assert r["requests"] + r["errors"] == 30 and 0 < r["errors"] < 30, r
        assert {e["status"] for e in r["error_list"]} == {400} and "context" in r["error_list"][0]["text"], r
        r = load(url, "--requests", 30, "--clients", 1, "--prompt-tokens", 90, "--prompt-spread", 90, "--max-tokens", 1,
                 "--max-errors", 1)
        assert r["ended_by"] == "errors" and r["errors"] == 1 and r["requests"] < 30, r
    finally:
        child.kill()
        child.wait()
    ffwd("bench", "load", "--url", url, "--requests", 1).fails(1, "Connection refused")


class Canned:
    """A server whose reply to any POST is given: bytes after the status line; the connection ends with it."""

    def __init__(self, reply):
        self.socket, self.reply = socket.create_server(("127.0.0.1", 0)), reply
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            with peer:
                peer.recv(65536)
                peer.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + self.reply)


def test_bench_load_reads_other_servers():
    events = b'data: {"choices":[{"delta":{"content":"a"}}]}\r\n\r\ndata: {"choices":[{"delta":{"content":"b"}}]}\r\n\r\n'
    head = b"Content-Type: text/event-stream; charset=utf-8\r\n\r\n"
    one = ("--requests", 1, "--clients", 1)
    r = load(Canned(head + events + b"data: [DONE]\r\n\r\n").url, *one)
    assert (r["requests"], r["tokens_out"], r["token_source"], r["itl_ms"]["n"]) == (1, 2, "chunks", 1), r
    for reply, words in ((head + events, "before [DONE]"), (head + events + b"data: {]\n\n", "not a JSON object"),
                         (head + events + b'data: {"error":{"message":"melted"}}\n\n', "melted")):
        r = load(Canned(reply).url, *one)
        assert (r["requests"], r["errors"], r["tokens_out"]) == (0, 1, 2) and words in r["error_list"][0]["text"], r
    ffwd("bench", "load", "--url", Canned(b"Content-Type: application/json\r\n\r\n{}").url, *one).fails(1, "stream")


def test_bench_load_of_a_silent_server():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        ffwd("bench", "load", "--url", url, "--seconds", 1, "--clients", 2).fails(1, "no request was answered in time")


def test_bench_load_believes_no_more_than_was_asked_for():
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":%d}}\n\ndata: [DONE]\n\n'
    head = b"Content-Type: text/event-stream\r\n\r\n" + b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n' * 5
    for said, want in ((10**15, 8), (2, 2), (5, 5)):
        r = load(Canned(head + usage % said).url, "--requests", 1, "--clients", 1, "--max-tokens", 8)
        assert r["tokens_out"] == want and r["token_source"] == "usage", r


def test_bench_load_ends_when_interrupted():
    child, url, _ = start_server("--port", "0", model=need(SMOLLM2, "SmolLM2"))
    try:
        driver = subprocess.Popen([FFWD, "bench", "load", "--url", url, "--seconds", "600", "--json"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1.5)
        driver.send_signal(signal.SIGINT)
        out, err = driver.communicate(timeout=20)
        r = json.loads(out)
        assert driver.returncode == 0 and r["ended_by"] == "interrupted" and r["seconds"] < 20, (r, err)
        assert r["errors"] == 0 and r["requests"] + r["cancelled"] >= 8, r
    finally:
        child.kill()
        child.wait()


def test_perplexity_shape():
    model, text = any_model(), temp("text.txt", ("the sea and the king sang to all " * 12).encode())
    whole = ffwd("perplexity", "-m", model, "-f", text, "--json").ok().json
    assert whole["windows"] == 1 and whole["scored"] == whole["tokens"] - 1 and whole["nll"] > 0
    parts = ffwd("perplexity", "-m", model, "-f", text, "--ctx", "16", "--json").ok().json
    assert parts["windows"] > 1 and parts["scored"] == parts["tokens"] - 1, parts
    least = ffwd("perplexity", "-m", model, "-f", text, "--ctx", "2", "--json").ok().json
    assert least["windows"] == least["scored"] == least["tokens"] - 1, least
    by_stdin = ffwd("perplexity", "-m", model, "-f", "-", "--json", stdin=open(text, "rb").read()).ok().json
    assert by_stdin == whole
    assert "scored" in ffwd("perplexity", "-m", model, "-f", text).ok().out
    ffwd("perplexity", "-m", model, "-f", temp("absent.txt")).fails(1, "absent.txt")
    ffwd("perplexity", "-m", model, "-f", temp("none.txt", b"")).fails(1, "none.txt")
    ffwd("perplexity", "-m", model, "-f", text, "--ctx", "16000000").fails(1, "--ctx")


# ------------------------------------------------------------------------------------------------------ text verbs


def test_tokenize():
    model = any_model()
    ids = ffwd("tokenize", "-m", model, "-p", "the sea", "--json").ok().json["ids"]
    assert ffwd("tokenize", "-m", model, "--json", stdin=b"the sea").ok().json["ids"] == ids
    assert ffwd("tokenize", "-m", model, "-p", "the sea").ok().out.split() == [str(i) for i in ids]
    assert len(ffwd("tokenize", "-m", model, "-p", "<|im_end|>", "--trusted", "--json").ok().json["ids"]) == 1
    assert len(ffwd("tokenize", "-m", model, "-p", "<|im_end|>", "--json").ok().json["ids"]) > 1
    assert ffwd("tokenize", "-m", model, "-p", "", "--json").ok().json["ids"] == []
    gemma = need(GEMMA, "Gemma is not in the cache")
    assert ffwd("tokenize", "-m", gemma, "-p", "The capital").ok().out.split() == ["2", "818", "5279"]
    assert ffwd("tokenize", "-m", gemma, "-p", "The capital", "--no-bos").ok().out.split() == ["818", "5279"]


def test_template():
    model = any_model()
    array = temp("array.json", HI)
    request = temp("object.json", b'{"messages": ' + HI + b"}")
    text = ffwd("template", "-m", model, "--chat", array).ok().out
    assert "Hi <|im_end|> there" in text and text.endswith("<|im_start|>assistant\n"), text
    assert ffwd("template", "-m", model, "--chat", request).ok().out == text
    assert ffwd("template", "-m", model, "--chat", "-", stdin=HI).ok().out == text
    closed = ffwd("template", "-m", model, "--chat", array, "--no-generation").ok().out
    assert text == closed + "<|im_start|>assistant\n"
    for bad in (b"", b"[", b"{}", b"7", b'[{"role": 3}]', b'{"messages": "x"}', b"\xff\xfe"):
        ffwd("template", "-m", model, "--chat", temp("bad.json", bad)).fails(1, "bad.json")
    ffwd("template", "-m", model, "--chat", temp("absent.json")).fails(1, "absent.json")


def test_weights_lie_in_huge_pages():
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as f:
        given = "[never]" not in f.read()
    model = ffwd("info", "-m", need(SMOLLM2, "no SmolLM2"), "--json").ok().json["model"]
    if given:
        assert model["huge_page_bytes"] > model["weight_bytes"] / 2, model
    else:
        assert model["huge_page_bytes"] == 0, model


def test_info():
    machine = ffwd("info", "--json").ok().json
    assert machine["isa"] in ("ref", "avx2", "avx512", "neon") and machine["why"] and machine["threads"] >= 1
    nodes = len(glob.glob("/sys/devices/system/node/node[0-9]*"))
    assert ("node" in machine["home"]) and (nodes > 1 or machine["home"] == "there is one memory node"), machine
    got = ffwd("info", "-m", any_model(), "--json").ok().json
    assert got["model"]["layers"] > 0 and got["metadata"]["general.architecture"] == got["model"]["architecture"]
    ends = [(t["id"], t["text"]) for t in got["tokens"] if t["role"] == "end"]
    assert (got["metadata"]["tokenizer.ggml.eos_token_id"] in [str(i) for i, _ in ends]) and ends == sorted(ends), got
    chat = ffwd("info", "-m", need(SMOLLM2, "no SmolLM2"), "--json").ok().json["chat"]
    assert chat == {"template": True, "tools": "hermes", "reasoning": None}, chat
    plain = ffwd("info", "-m", any_model()).ok().out
    assert "isa: " + machine["isa"] in plain and "general.architecture" in plain


def test_the_public_header_is_c_and_cxx():
    source = temp("use.c", b"#include <ffwd.h>\nint main(void) { return ffwd_version() == 0; }\n")
    flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Iinclude", "-fsyntax-only"]
    for compiler in (["gcc", "-std=c99"], ["gcc", "-std=c11"], ["g++", "-xc++", "-std=c++98"], ["g++", "-xc++", "-std=c++17"]):
        if shutil.which(compiler[0]):
            made = subprocess.run([*compiler, *flags, source], capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stderr
