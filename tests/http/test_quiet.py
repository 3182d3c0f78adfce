"""Streams that have nothing to say for long: comments, or empty chunks, keep what stands between from taking them for dead."""
import json
import time

import pytest

from conftest import Server, head, read_all

LONG = {"prompt": "Once upon a time", "max_tokens": 1000, "ignore_eos": True, "stream": True, "temperature": 0}
COMMENT = b": still here\n\n"
EMPTY = {"/api/chat": b'"content":""},"done":false}\n', "/api/generate": b'"response":"","done":false}\n'}
WAITERS = {
    "/v1/completions": ({"prompt": "Hi", "max_tokens": 3}, b"data: [DONE]\n\n"),
    "/v1/chat/completions": ({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}, b"data: [DONE]\n\n"),
    "/v1/responses": ({"input": "Hi", "max_output_tokens": 16}, b"event: response.output_text.done\n"),
    "/completion": ({"prompt": "Hi", "n_predict": 3}, b'"stop":true'),
    "/api/chat": ({"messages": [{"role": "user", "content": "Hi"}], "options": {"num_predict": 3}}, b'"done":true'),
    "/api/generate": ({"prompt": "Hi", "options": {"num_predict": 3}}, b'"done":true'),
    "/v1/messages": ({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}, b"event: message_stop\n"),
}


@pytest.fixture(scope="module")
def busy():
    """One row, which is taken: whoever comes waits."""
    s = Server("--rows", "1", "--keep-alive", "1")
    yield s
    assert s.stop() == 0, s.log


def send(server, path, body):
    sock, data = server.connect(60), json.dumps(body).encode()
    sock.sendall(head(path, len(data), "Connection: close") + data)
    return sock


@pytest.mark.parametrize("path", sorted(WAITERS))
def test_a_stream_that_waits(busy, path):
    body, end = WAITERS[path]
    quiet = EMPTY.get(path, COMMENT)
    with send(busy, "/v1/completions", LONG) as first:
        assert first.recv(1000).startswith(b"HTTP/1.1 200 ")
        began = time.monotonic()
        with send(busy, path, {**body, "stream": True}) as second:
            reply = second.recv(1000)
            while quiet not in reply:
                more = second.recv(1000)
                assert more, reply
                reply += more
            assert 0.9 < time.monotonic() - began < 4 and reply.startswith(b"HTTP/1.1 200 ")
            first.close()
            reply += read_all(second)
    events = reply.partition(b"\r\n\r\n")[2]
    assert events.count(quiet) <= 5 and end in events and b'"error":{' not in events


def test_an_error_behind_comments_is_an_event(busy):
    with send(busy, "/v1/completions", LONG) as first:
        assert first.recv(1000).startswith(b"HTTP/1.1 200 ")
        with send(busy, "/v1/completions", {"prompt": "Hi", "stream": True, "deadline_ms": 1500}) as second:
            reply = read_all(second)
    assert reply.startswith(b"HTTP/1.1 200 ") and COMMENT in reply and b'"code":"deadline"' in reply


def test_a_whole_reply_has_none(busy):
    with send(busy, "/v1/completions", LONG) as first:
        assert first.recv(1000).startswith(b"HTTP/1.1 200 ")
        with send(busy, "/v1/completions", {"prompt": "Hi", "max_tokens": 3}) as second:
            time.sleep(1.3)
            first.close()
            reply = read_all(second)
    assert reply.startswith(b"HTTP/1.1 200 ") and b"still here" not in reply and b'"usage"' in reply
