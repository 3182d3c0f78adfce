"""Clients that misbehave, by mistake or on purpose: the server answers with a 4xx or hangs up, and lives."""
import copy
import http.client
import json
import random
import socket
import time

import pytest

from conftest import ROWS, head, post_raw, read_all

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
LONG = json.dumps({"prompt": "Once upon a time", "max_tokens": 900, "ignore_eos": True}).encode()
LONG_STREAM = json.dumps({**json.loads(LONG), "stream": True}).encode()


def message(text):
    return b'{"max_tokens":1,"messages":[{"role":"user","content":"' + text + b'"}]}'


# ---- leaving ----

@pytest.mark.parametrize("body", [LONG, LONG_STREAM])
def test_a_client_that_leaves_ends_its_request(server, body):
    sock = server.connect()
    sock.sendall(head(COMPLETIONS, len(body)) + body)
    assert server.load_becomes(1, 0, 5)
    if body is LONG_STREAM:
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
    sock.close()
    assert server.load_becomes(0, 0, 1)


def test_leaving_while_queued(server):
    socks = []
    for i in range(ROWS + 2):
        socks.append(server.connect())
        socks[-1].sendall(head(COMPLETIONS, len(LONG)) + LONG)
    assert server.load_becomes(ROWS, 2, 5)
    socks.pop().close()
    assert server.load_becomes(ROWS, 1, 1)
    socks.pop().close()
    assert server.load_becomes(ROWS, 0, 1)
    for sock in socks:
        sock.close()
    assert server.load_becomes(0, 0, 1)


def test_one_leaves_the_others_stay(server):
    body = json.dumps({"prompt": "1, 2, 3,", "max_tokens": 40, "temperature": 0}).encode()
    _, alone = post_raw(server, COMPLETIONS, body)
    leaver, stayer = server.connect(), server.connect()
    leaver.sendall(head(COMPLETIONS, len(LONG_STREAM)) + LONG_STREAM)
    leaver.recv(100)
    stayer.sendall(head(COMPLETIONS, len(body), "Connection: close") + body)
    leaver.close()
    reply = read_all(stayer).partition(b"\r\n\r\n")[2]
    stayer.close()
    assert json.loads(reply)["choices"] == json.loads(alone)["choices"]


def test_a_reset_mid_stream(server):
    sock = server.connect()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.sendall(head(COMPLETIONS, len(LONG_STREAM)) + LONG_STREAM)
    sock.recv(100)
    sock.close()
    assert server.load_becomes(0, 0, 1)


# ---- bodies ----

@pytest.mark.parametrize("body", [
    b"", b"{", b"nonsense", b"[]", b"5", b'"a"', b"null", b"{}", b'{"messages":null}', b"\xff\xfe{}", b"\xef\xbb\xbf{}",
    b'{"messages":[{"role":"user","content":"a"}],}', b"[" * 100000, b'{"a":' * 1000, b"{" + b'"a":1,' * 100,
    message(b"\xff"), message(b"\xed\xa0\x80"), message(b"\\ud800"), message(b"\\udc00x"), message(b"\x00"), message(b"\n"),
    b'{"max_tokens":1,"max_tokens":2,"messages":[{"role":"user","content":"a"}]}',
    b'{"seed":1e999,"messages":[{"role":"user","content":"a"}]}',
    b'{"seed":' + b"9" * 400 + b',"messages":[{"role":"user","content":"a"}]}',
])
def test_bodies_that_are_refused(server, body):
    status, reply = post_raw(server, CHAT, body)
    assert status == 400, reply
    error = json.loads(reply)["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["message"]


@pytest.mark.parametrize("body", [
    message(b"\\u0000"), message(b"\\ud83d\\ude00"), message(b"\xf0\x9f\x98\x80\xef\xbf\xbe"), message(b"\\/\\b\\f"),
    b' \r\n\t{"max_tokens" : 1 , "messages":[{"role":"user","content":"a","x":18446744073709551615,"y":1E5}]}\n',
])
def test_bodies_that_are_accepted(server, body):
    status, reply = post_raw(server, CHAT, body)
    assert status == 200, reply


def test_malformed_json_says_where(server):
    status, reply = post_raw(server, CHAT, b'{\n  "messages": oops\n}')
    assert status == 400 and "line 2" in json.loads(reply)["error"]["message"]


def test_huge_bodies(server):
    status, reply = post_raw(server, CHAT, message(b"a" * (33 << 20)))
    assert status == 413 and json.loads(reply)["error"]["code"] == "too_long"
    with server.connect() as sock:
        sock.sendall(head(CHAT, 10 ** 12, "Expect: 100-continue"))
        assert b" 413 " in sock.recv(1000)


def test_chunked_bodies(server):
    body = message(b"hello")
    chunks = b"".join(b"%x;ext=1\r\n%s\r\n" % (1, body[i:i + 1]) for i in range(len(body))) + b"0\r\nTrailer: x\r\n\r\n"
    with server.connect() as sock:
        sock.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        sock.sendall(chunks)
        assert read_all(sock).startswith(b"HTTP/1.1 200 ")


# ---- HTTP ----

def test_methods(server):
    c = http.client.HTTPConnection(server.host, server.port, timeout=20)
    for method, path, status in (("HEAD", "/health", 200), ("HEAD", "/v1/models", 200), ("GET", CHAT, 405),
                                 ("PUT", CHAT, 405), ("POST", "/health", 405), ("OPTIONS", CHAT, 204),
                                 ("GET", "/nothing", 404), ("GET", "/v1/models/%00", 404), ("POST", "/v1/nothing", 404)):
        c.request(method, path, body=b"{}" if method in ("PUT", "POST") else None)
        reply = c.getresponse()
        content = reply.read()
        assert reply.status == status, (method, path, reply.status)
        if status == 405:
            assert "POST" in reply.headers["Allow"] or "GET" in reply.headers["Allow"]
        if status >= 400:
            assert json.loads(content)["error"]["type"] == "invalid_request_error"
    c.close()


def test_half_sent_requests(server):
    request = head(CHAT, 500) + message(b"a")
    for n in list(range(0, len(request), 7)) * 3:
        with server.connect() as sock:
            sock.sendall(request[:n])
    assert server.get("/health")["status"] == "ok"


def test_more_connections_than_places(server):
    socks = []
    for _ in range(300):
        try:
            socks.append(server.connect(2))
        except OSError:
            break
    for sock in socks:
        sock.close()
    until = time.monotonic() + 10
    while True:
        try:
            assert server.get("/health")["status"] == "ok"
            break
        except OSError:
            assert time.monotonic() < until


@pytest.mark.parametrize("request_", [
    b"\r\n\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,
    b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 20000 + b"\r\n", b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n{}",
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
    b"GET /health\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", bytes(range(256)) * 50,
])
def test_what_is_not_http(server, request_):
    with server.connect(5) as sock:
        try:
            sock.sendall(request_)
            sock.shutdown(socket.SHUT_WR)
            reply = read_all(sock)
        except OSError:
            reply = b""
    assert not reply.startswith(b"HTTP/1.1 5") or b" 505 " in reply[:20] or b" 501 " in reply[:20], reply[:100]
    assert server.get("/health")["status"] == "ok"


# ---- a thousand hostile requests ----

ODD = [None, True, False, 0, 1, -1, 0.5, -0.0, 1e308, 1 << 53, 1 << 64, "", "a", "\0", "\U0001F600", [], {}, [[]], [{}],
       {"type": "text"}, {"a": {"b": []}}, "x" * 3000, [1] * 200, ["a"] * 40, [None], "auto", "none", "text"]
FIELDS = """model messages prompt temperature top_p top_k min_p repetition_penalty seed stop stream stream_options logprobs
top_logprobs n tools tool_choice parallel_tool_calls response_format chat_template_kwargs user best_of echo suffix
ignore_eos presence_penalty frequency_penalty logit_bias modalities store unknown repeat_penalty repeat_last_n dry_multiplier
dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers typical_p xtc_probability xtc_threshold top_n_sigma
mirostat mirostat_tau mirostat_eta dynatemp_range dynatemp_exponent samplers min_tokens
priority cache_salt prompt_cache_key ffwd""".split()


def places(value, path=()):
    """Every (container, key) below value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from places(inner)


def hostile(rng):
    """A request that was fine, changed in one to four places; sometimes its bytes as well."""
    body = {"max_tokens": 1, "temperature": 0, "stop": ["a", "b"], "stream": rng.random() < 0.3,
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "u"}]},
                         {"role": "assistant", "tool_calls": [{"id": "1", "type": "function",
                                                               "function": {"name": "f", "arguments": "{\"a\":1}"}}]}],
            "prompt": "p", "chat_template_kwargs": {"a": 1}}
    for _ in range(rng.randint(1, 4)):
        if rng.random() < 0.4:
            body[rng.choice(FIELDS)] = copy.deepcopy(rng.choice(ODD))
        else:
            container, key = rng.choice(list(places(body)))
            container[key] = copy.deepcopy(rng.choice(ODD))
    body["max_tokens"] = 1
    data = json.dumps(body, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    if rng.random() < 0.3:
        at = rng.randrange(len(data))
        data = rng.choice([data[:at], data[:at] + bytes([rng.randrange(256)]) + data[at + 1:],
                           data[:at] + data[at:at + 9] + data[at:]])
    return data


def generates_little(data):
    """Whether no reading of the body lets it run for long: those are left out."""
    try:
        return json.loads(data).get("max_tokens") == 1
    except (ValueError, AttributeError):
        return True


def test_a_thousand_hostile_requests(server):
    rng, seen, sent = random.Random(3), {}, 0
    c = http.client.HTTPConnection(server.host, server.port, timeout=30)
    while sent < 1000:
        data, path = hostile(rng), rng.choice([CHAT, COMPLETIONS])
        if not generates_little(data):
            continue
        sent += 1
        c.request("POST", path, body=data)
        reply = c.getresponse()
        content = reply.read()
        seen[reply.status] = seen.get(reply.status, 0) + 1
        assert reply.status in (200, 400), (reply.status, data, content)
        if reply.status == 400:
            assert json.loads(content)["error"]["message"]
        elif reply.headers["Content-Type"] == "application/json":
            assert json.loads(content)["choices"]
        else:
            assert content.endswith(b"data: [DONE]\n\n")
    c.close()
    assert seen[200] > 50 and seen[400] > 300, seen
