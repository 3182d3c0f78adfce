"""The end of a server: signals, the time that requests get to finish, the log file."""
import http.client
import json
import os
import re
import signal
import threading
import time

import pytest

from conftest import Server, head, post_raw, read_all

COMPLETIONS = "/v1/completions"
LONG = {"prompt": "Once upon a time", "max_tokens": 1000, "ignore_eos": True, "temperature": 0}


def body(**more):
    return json.dumps({**LONG, **more}).encode()


class Stream:
    """A streamed completion, read by a thread of its own until the server closes."""

    def __init__(self, server, **more):
        data = body(stream=True, **more)
        self.sock = server.connect(60)
        self.sock.sendall(head(COMPLETIONS, len(data)) + data)
        self.reply = self.sock.recv(1000)
        assert self.reply.startswith(b"HTTP/1.1 200 "), self.reply
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        self.reply += read_all(self.sock)

    def end(self, seconds=30):
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "the stream goes on"
        self.sock.close()
        return self.reply


def health(server, connection=None):
    c = connection or http.client.HTTPConnection(server.host, server.port, timeout=10)
    c.request("GET", "/health")
    reply = c.getresponse()
    return reply.status, json.loads(reply.read()), reply.headers


def stopping_within(server, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        status, said, _ = health(server)
        if status == 503:
            return said
        time.sleep(0.002)
    raise AssertionError("/health still says ok")


def test_health_says_stopping_while_a_stream_goes_on(own):
    s = own()
    kept = http.client.HTTPConnection(s.host, s.port, timeout=10)
    assert health(s, kept)[0] == 200
    stream = Stream(s, max_tokens=300)
    s.process.send_signal(signal.SIGTERM)
    said = stopping_within(s, 2)
    assert said == {"status": "stopping", "running": 1, "waiting": 0}
    status, _, headers = health(s, kept)  # a connection from before
    assert status == 503 and headers["Connection"] == "close"
    c = http.client.HTTPConnection(s.host, s.port, timeout=10)
    for method, path, data in (("POST", COMPLETIONS, body()), ("POST", "/v1/chat/completions", b"{}"),
                               ("GET", "/v1/models", None)):
        c.request(method, path, body=data)
        reply = c.getresponse()
        error = json.loads(reply.read())["error"]
        assert reply.status == 503 and int(reply.headers["Retry-After"]) >= 1, (path, reply.status)
        assert "stopping" in error["message"] and error["type"] == "overloaded_error"
        c.close()
    reply = stream.end()
    assert reply.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n") and b'"error"' not in reply
    assert b'"finish_reason":"length"' in reply
    assert s.process.wait(5) == 0, s.log


def test_a_request_in_the_queue_is_served_too(own):
    s = own("--rows", "1")
    first, replies = Stream(s, max_tokens=200), []
    waiter = threading.Thread(target=lambda: replies.append(post_raw(s, COMPLETIONS, body(max_tokens=5))))
    waiter.start()
    assert s.load_becomes(1, 1, 5)
    s.process.send_signal(signal.SIGINT)
    waiter.join(30)
    assert first.end().count(b"[DONE]") == 1
    assert replies[0][0] == 200 and json.loads(replies[0][1])["usage"]["completion_tokens"] == 5
    assert s.process.wait(5) == 0, s.log


def test_an_idle_server_ends_at_once(own):
    s = own("--grace", "600")
    idle = s.connect()  # says nothing, and must not hold the end up
    began = time.monotonic()
    s.process.send_signal(signal.SIGTERM)
    assert s.process.wait(10) == 0 and time.monotonic() - began < 5
    idle.close()


def test_a_request_that_has_begun_to_arrive_is_answered(own):
    s = own()
    data = body(max_tokens=2)
    with s.connect(20) as sock:
        sock.sendall(head(COMPLETIONS, len(data), "Connection: close") + data[:20])
        time.sleep(0.3)
        s.process.send_signal(signal.SIGTERM)
        stopping_within(s, 2)
        time.sleep(0.5)
        assert s.process.poll() is None
        sock.sendall(data[20:])
        assert read_all(sock).startswith(b"HTTP/1.1 503 ")
    assert s.process.wait(10) == 0, s.log


def test_the_grace_ends(own):
    s = own("--grace", "1", "--rows", "1")
    stream, replies = Stream(s), []
    waiter = threading.Thread(target=lambda: replies.append(post_raw(s, COMPLETIONS, body(max_tokens=900))))
    waiter.start()
    assert s.load_becomes(1, 1, 5)
    s.process.send_signal(signal.SIGTERM)
    reply = stream.end()
    waiter.join(10)
    event = reply.rsplit(b"data: ", 1)[1].split(b"\n\n")[0]
    assert "stopping" in json.loads(event)["error"]["message"] and b"[DONE]" not in reply
    status, whole = replies[0]
    assert status == 503 and "stopping" in json.loads(whole)["error"]["message"]
    assert s.process.wait(10) == 0, s.log


def test_a_second_signal_ends_it(own):
    s = own()
    stream = Stream(s)
    first = time.monotonic()
    s.process.send_signal(signal.SIGTERM)
    stopping_within(s, 2)
    if time.monotonic() - first < 0.3:
        s.process.send_signal(signal.SIGTERM)  # sent on twice by a parent: one wish
    time.sleep(0.7)
    assert s.process.poll() is None
    began = time.monotonic()
    s.process.send_signal(signal.SIGINT)
    assert s.process.wait(10) == -signal.SIGINT and time.monotonic() - began < 5
    assert b'data: {"error":{"message":"the server is stopping"' in stream.end()


def test_the_log_file_is_opened_anew(own, tmp_path):
    log, moved = tmp_path / "ffwd.log", tmp_path / "ffwd.log.1"
    s = own("--log-file", str(log))
    assert "listening on" in log.read_text()
    log.rename(moved)
    s.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + 5
    while not (log.exists() and "opened anew" in log.read_text()):
        assert time.monotonic() < until, s.log
        time.sleep(0.01)
    assert "opened anew" not in moved.read_text()
    # Where the file cannot be opened, lines go where they went.
    log.rename(moved)
    log.mkdir()
    s.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + 5
    while "cannot open the log file" not in moved.read_text():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert health(s)[0] == 200 and post_raw(s, COMPLETIONS, body(max_tokens=1))[0] == 200
    assert post_raw(s, "/no/such\n/address", b"{}")[0] >= 400
    assert s.stop() == 0
    lines = moved.read_text().splitlines()
    assert any(re.search(r"Z POST /v1/completions 200 cmpl-[0-9a-f]{24} \d+\.\d{3} s$", line) for line in lines), lines
    assert not any("/health" in line or "such" in line for line in lines)
    assert moved.read_text().endswith(" stopped\n")


def test_without_a_log_file_a_hang_up_ends_it(own):
    s = own()
    s.process.send_signal(signal.SIGHUP)
    assert s.process.wait(10) == -signal.SIGHUP


def test_a_log_file_that_cannot_be_had(tmp_path):
    with pytest.raises(AssertionError, match="cannot open the log file"):
        Server("--log-file", os.path.join(tmp_path, "no", "such", "folder"))
