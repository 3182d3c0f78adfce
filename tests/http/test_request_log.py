"""The request log: a line of JSON for each request, its trace, and nothing of what was said unless asked."""
import http.client
import json
import re
import signal
import time

import pytest

from conftest import Server, post_raw

SECRET = "Once upon a time in Heidelberg"
BODY = {"prompt": SECRET, "max_tokens": 5, "temperature": 0}
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def ask(server, body=None, path="/v1/completions", **headers):
    c = http.client.HTTPConnection(server.host, server.port, timeout=30)
    c.request("POST", path, json.dumps(body or BODY), {k.replace("_", "-"): v for k, v in headers.items()})
    reply = c.getresponse()
    text = reply.read().decode()
    c.close()
    return reply, text


def lines(file, n):
    """The log's first n lines, once they are there: a line is written when the reply is over."""
    until = time.monotonic() + 10
    while not file.exists() or file.read_text().count("\n") < n:
        assert time.monotonic() < until, file.read_text() if file.exists() else "no file"
        time.sleep(0.01)
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_what_a_line_holds(own, tmp_path):
    log, keys = tmp_path / "requests.jsonl", tmp_path / "keys"
    keys.write_text("secret name=anna\n")
    s = own("--log-requests", str(log), "--api-key-file", str(keys))
    key = {"Authorization": "Bearer secret"}
    reply, text = ask(s, X_Request_Id="mine", traceparent=f"00-{TRACE}-{SPAN}-01", **key)
    usage = json.loads(text)["usage"]
    ask(s, {**BODY, "stream": True}, **key)
    ask(s)
    ask(s, path="/no/such?secret=1", **key)
    ask(s, {"prompt": 5}, **key)
    for path in ("/health", "/health"):
        s.get(path)
    found = lines(log, 5)  # in the order of their ends, which is not quite that of their replies
    by = {(line["path"], line["status"], line["stream"]): line for line in found}
    first, stream, wrong = (by["/v1/completions", *rest] for rest in ((200, False), (200, True), (400, False)))
    keyless, nowhere = by["/v1/completions", 401, False], by["/no/such", 404, False]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    assert first["trace_id"] == TRACE and first["parent_id"] == SPAN and re.fullmatch("[0-9a-f]{16}", first["span_id"])
    assert first["span_id"] != SPAN and first["client_request_id"] == "mine" and first["request_id"] == json.loads(text)["id"]
    assert (first["method"], first["path"], first["status"], first["stream"]) == ("POST", "/v1/completions", 200, False)
    assert first["key"] == "anna" and first["peer"] == "127.0.0.1" and first["finish"] == "length" and first["failure"] is None
    assert first["prompt_tokens"] == usage["prompt_tokens"] and first["completion_tokens"] == 5
    assert 0 < first["prefill_seconds"] + first["decode_seconds"] <= first["seconds"] < 60
    assert stream["stream"] and stream["completion_tokens"] == 5 and stream["trace_id"] != TRACE and stream["parent_id"] is None
    assert keyless["status"] == 401 and keyless["key"] is None and keyless["completion_tokens"] == 0
    assert wrong["status"] == 400 and wrong["prompt_tokens"] == 0 and wrong["finish"] is None
    assert "Heidelberg" not in log.read_text() and "secret" not in log.read_text() and "/health" not in log.read_text()
    assert log.stat().st_mode & 0o007 == 0, "not for everybody"


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "requests.jsonl"
    s = Server("--rows", "2", "--log-requests", str(log), "--log-content")
    s.file = log
    yield s
    assert s.stop() == 0, s.log


def last(server, n):
    return lines(server.file, n)[-1]


def test_content_when_asked(content):
    _, text = ask(content)
    line = last(content, 1)
    assert json.loads(line["request"]) == BODY and json.loads(line["reply"]) == json.loads(text) and not line["cut"]
    _, text = ask(content, {**BODY, "stream": True})
    line = last(content, 2)
    assert line["reply"] == text and text.endswith("data: [DONE]\n\n")
    assert post_raw(content, "/v1/completions", b"\xff\0\"" * 500000)[0] == 400
    line = last(content, 3)
    assert line["cut"] and len(line["request"]) == 1 << 20 and line["request"].startswith("\ufffd\0\"")


@pytest.mark.parametrize("given", ["", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{SPAN}-01",
                                   f"00-{TRACE}-{SPAN}-01-more", f"00-{TRACE.upper()}-{SPAN}-01", f"00-{TRACE}0-{SPAN}-01",
                                   f"00-{TRACE}-{SPAN}", f"0-{TRACE}-{SPAN}-01", "x" * 5000])
def test_traces_that_are_none(content, given):
    n = content.file.read_text().count("\n")
    ask(content, {"prompt": 5}, traceparent=given)
    line = last(content, n + 1)
    assert line["trace_id"] != TRACE and re.fullmatch("[0-9a-f]{32}", line["trace_id"]) and line["parent_id"] is None


def test_a_later_version_of_the_header_counts(content):
    n = content.file.read_text().count("\n")
    ask(content, {"prompt": 5}, traceparent=f"01-{TRACE}-{SPAN}-01-more")
    assert last(content, n + 1)["trace_id"] == TRACE


def test_a_client_that_leaves(content):
    n = content.file.read_text().count("\n")
    c = http.client.HTTPConnection(content.host, content.port, timeout=30)
    c.request("POST", "/v1/completions", json.dumps({**BODY, "max_tokens": 900, "ignore_eos": True, "stream": True}))
    c.getresponse().close()
    c.close()
    line = last(content, n + 1)
    assert line["failure"] and 0 < line["completion_tokens"] < 900 and line["prompt_tokens"] > 0


def test_it_is_opened_anew(content):
    moved = content.file.with_suffix(".1")
    content.file.rename(moved)
    content.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + 5
    while not content.file.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    n = moved.read_text().count("\n")
    ask(content)
    assert last(content, 1)["status"] == 200 and moved.read_text().count("\n") == n


def test_wrong_options(tmp_path):
    with pytest.raises(AssertionError, match="--log-content belongs to --log-requests"):
        Server("--log-content")
    with pytest.raises(AssertionError, match="cannot open the log file"):
        Server("--log-requests", str(tmp_path / "no" / "folder"))
