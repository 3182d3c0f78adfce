"""Requests and replies as bytes on the wire: slow, in pieces, several at once, cut off, too large, malformed; in every API.

What single addresses say to well-formed requests is in tests/api.
"""
import json
import re
import socket

import pytest

from conftest import head, post_raw, read_all

HI = [{"role": "user", "content": "Name a colour."}]
CHAT = {"messages": HI, "max_tokens": 8, "temperature": 0}
RAW = {"prompt": "Once", "max_tokens": 8, "temperature": 0}
# What each address answers with a text, and the end of its streams.
SPOKEN = {
    "/v1/chat/completions": (CHAT, b"data: [DONE]\n\n"),
    "/v1/completions": (RAW, b"data: [DONE]\n\n"),
    "/v1/responses": ({"input": "Name a colour.", "max_output_tokens": 8, "temperature": 0}, b"}}\n\n"),
    "/v1/messages": (CHAT, b'{"type":"message_stop"}\n\n'),
    "/api/chat": ({"messages": HI, "options": {"temperature": 0, "num_predict": 8}}, b"}\n"),
    "/api/generate": ({"prompt": "Once", "options": {"temperature": 0, "num_predict": 8}}, b"}\n"),
    "/completion": ({"prompt": "Once", "n_predict": 8, "temperature": 0}, b"}\n\n"),
}
# What takes a body and answers without the model.
ASKED = ["/v1/responses/input_tokens", "/v1/messages/count_tokens", "/api/show", "/tokenize", "/detokenize", "/apply-template",
         "/v1/ffwd/count", "/v1/ffwd/explain"]
HIDDEN = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"  # what no reply may come to


def encoded(path, **more):
    return json.dumps(SPOKEN[path][0] | more).encode()


def request(path, body, *more, end=True):
    return head(path, len(body), *more, *["Connection: close"] * end) + body


def take_reply(file, bodiless=False):
    """(status, headers, body) of the next reply of a connection that may hold more."""
    status = int(file.readline().split(b" ")[1])
    headers = {}
    while (line := file.readline().strip()):
        name, _, value = line.decode().partition(": ")
        headers[name.lower()] = value
    if bodiless or status in (100, 204):
        return status, headers, b""
    if headers.get("transfer-encoding") != "chunked":
        return status, headers, file.read(int(headers["content-length"]))
    body = b""
    while (size := int(file.readline(), 16)):
        body += file.read(size)
        assert file.readline() == b"\r\n"
    assert file.readline() == b"\r\n"
    return status, headers, body


def texts(body):
    """What a streamed or whole reply says."""
    return b"".join(re.findall(rb'"(?:content|text|response|delta)":"((?:[^"\\]|\\.)*)"', body))


def is_refusal(path, text):
    """Whether an error has the shape of the address's API."""
    said = json.loads(text)
    if path.startswith("/api/"):
        return list(said) == ["error"] and isinstance(said["error"], str)
    if path.startswith("/v1/messages"):
        return said["type"] == "error" and said["error"].keys() == {"type", "message"} and said["request_id"]
    return said["error"].keys() == {"message", "type", "param", "code"}


# ---- slow ----

@pytest.mark.parametrize("path", SPOKEN)
def test_a_request_that_comes_byte_by_byte(server, path):
    with server.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request(path, encoded(path, stream=False)):
            sock.sendall(bytes([byte]))
        reply = read_all(sock)
    assert reply.startswith(b"HTTP/1.1 200 ") and texts(reply)


@pytest.mark.parametrize("path", SPOKEN)
def test_a_stream_that_is_read_byte_by_byte(server, path):
    body, last = encoded(path, stream=True), SPOKEN[path][1]
    said = []
    for size in (65536, 1):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)  # the smallest there is
        sock.settimeout(30)
        with sock, sock.makefile("rb", buffering=0) as file:
            sock.connect((server.host, server.port))
            sock.sendall(request(path, body))
            reply = b""
            while (part := file.read(size)):
                reply += part
        assert last + b"\r\n0\r\n\r\n" in reply
        said.append(texts(reply))
    assert said[0] == said[1] != b""


# ---- several requests of one connection ----

def test_requests_of_all_kinds_at_once_are_answered_in_order(server):
    asked = [(path, stream) for path in SPOKEN for stream in (False, True)]
    data = b"".join(request(path, encoded(path, stream=stream), end=False) for path, stream in asked)
    data += b"HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n" + request("/v1/nothing", b"{}", end=False)
    with server.connect(60) as sock, sock.makefile("rb") as file:
        sock.sendall(data)
        for path, stream in asked:
            status, headers, body = take_reply(file)
            assert status == 200 and texts(body), path
            assert ("transfer-encoding" in headers) == stream and (not stream or body.endswith(SPOKEN[path][1])), path
        assert take_reply(file, bodiless=True)[0] == 200
        assert take_reply(file)[0] == 404


def test_a_refusal_leaves_the_connection_open(server):
    with server.connect() as sock, sock.makefile("rb") as file:
        for path, body, status in (("/tokenize", b"{", 400), ("/v1/models", b"{}", 405), ("/nothing", b"{}", 404),
                                   ("/tokenize", b'{"content":"a"}', 200)) * 2:
            sock.sendall(request(path, body, end=False))
            assert take_reply(file)[0] == status


@pytest.mark.parametrize("line, status", [("GET /v1/models", 200), ("HEAD /v1/models", 200), ("OPTIONS /v1/models", 204),
                                          ("DELETE /v1/responses/resp_1", 404), ("POST /nothing", 404), ("CONNECT /health", 405)])
def test_a_body_that_nobody_wants_is_no_request(server, line, status):
    with server.connect() as sock, sock.makefile("rb") as file:
        for framed in (b"Content-Length: %d\r\n\r\n%s" % (len(HIDDEN), HIDDEN), b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)):
            sock.sendall(f"{line} HTTP/1.1\r\nHost: localhost\r\n".encode() + framed + request("/tokenize", b'{"content":"a"}', end=False))
            assert take_reply(file, bodiless=line.startswith("HEAD"))[0] == status
            assert b'"tokens"' in take_reply(file)[2]


def test_head_announces_what_get_sends(server):
    with server.connect() as sock, sock.makefile("rb") as file:
        for path in ("/v1/models", "/api/version", "/health", "/v1/models/other"):
            sock.sendall(f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\nGET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            asked, sent = take_reply(file, bodiless=True), take_reply(file)
            assert asked[0] == sent[0] and int(asked[1]["content-length"]) == len(sent[2])


# ---- bodies in pieces ----

def test_a_client_that_asks_before_it_sends(server):
    body = b'{"content":"a"}'
    with server.connect() as sock, sock.makefile("rb") as file:
        sock.sendall(head("/tokenize", len(body), "Expect: 100-continue"))
        assert take_reply(file)[0] == 100
        sock.sendall(body)
        assert take_reply(file)[0] == 200
        sock.sendall(head("/nothing", len(body), "Expect: 100-continue"))
        assert take_reply(file)[0] == 404, "it need not send what nobody takes"


def chunked(path, data):
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + data


@pytest.mark.parametrize("path", SPOKEN)
def test_bodies_in_chunks(server, path):
    body = encoded(path, stream=False)
    data = b"".join(b"%X\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]) for i in range(0, len(body), 7)) + b"0\r\n\r\n"
    with server.connect() as sock:
        sock.sendall(chunked(path, data))
        assert read_all(sock).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("data", [b"zz\r\n", b"-1\r\n{}\r\n0\r\n\r\n", b"fffffffffffffffff\r\n{}", b"2\r\n{}0\r\n\r\n", b"1\r\n{}\r\n0\r\n\r\n"])
def test_chunks_that_are_none(server, data):
    with server.connect(5) as sock:
        sock.sendall(chunked("/tokenize", data))
        sock.shutdown(socket.SHUT_WR)
        reply = read_all(sock)
    assert not reply or reply.startswith(b"HTTP/1.1 4"), reply[:100]


def test_chunks_without_end(server):
    """More than a body may have, though no length announced it."""
    part = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with server.connect() as sock:
        sock.sendall(chunked("/tokenize", b""))
        for _ in range(520):
            sock.sendall(part)
        sock.sendall(b"0\r\n\r\n")
        reply = read_all(sock)
    assert reply.startswith(b"HTTP/1.1 413 ") and is_refusal("/tokenize", reply.partition(b"\r\n\r\n")[2])


def test_http_1_0(server):
    for path in SPOKEN:
        body = encoded(path, stream=True)
        with server.connect() as sock:
            sock.sendall(f"POST {path} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            top, _, rest = read_all(sock).partition(b"\r\n\r\n")
        assert b" 200 " in top.split(b"\r\n")[0] and b"chunked" not in top.lower(), path
        assert rest.endswith(SPOKEN[path][1]) and texts(rest), path


# ---- malformed ----

@pytest.mark.parametrize("path", [*SPOKEN, *ASKED])
def test_bodies_that_are_no_json_objects(server, path):
    text = json.dumps(SPOKEN.get(path, (CHAT,))[0]).encode()
    for body in (b"", b" ", b"{", text[:-1], text + b"}", text + b"\0", b"[]", b"[" + text + b"]", b"null", b"1", b'"a"', b"\xef\xbb\xbf" + text,
                 text.decode().encode("utf-16"), text[:-1] + b',"x":"\xff"}', text[:-1] + b',"x":"\xed\xa0\x80"}', text[:-1] + b',"x":"\\ud800"}',
                 text[:-1] + b',"x":"\\udc00\\ud800"}', text[:-1] + b',"x":"\0"}', text[:-1] + b',"x":1e999}', text[:-1] + b',"x":01}',
                 text[:-1] + b',"x":NaN}', text[:-1] + b',"x":1,"x":1}', text[:-1] + b',"x":{"y":1,"y":1}}', text[:-1] + b",}",
                 text[:-1] + b',"x":' + b"[" * 200 + b"]" * 200 + b"}", text.replace(b'"', b"'")):
        status, said = post_raw(server, path, body)
        assert status == 400 and is_refusal(path, said), (body[:80], status, said)


def test_depth(server):
    for depth, status in ((127, 200), (128, 400)):  # the object around counts, too
        body = b'{"content":"a","x":' + b"[" * depth + b"]" * depth + b"}"
        assert post_raw(server, "/tokenize", body)[0] == status, depth


def test_many_values(server):
    status, said = post_raw(server, "/tokenize", b'{"content":"a","x":[' + b"1," * (1 << 20) + b"1]}")
    assert status == 400 and "values" in json.loads(said)["error"]["message"]


@pytest.mark.parametrize("line, headers, status", [
    ("GET /v1/models?" + "a" * 20000, "", 200), ("GET /v1/models?" + "a" * 40000, "", 414),
    ("GET /v1/models", "X: " + "a" * 20000 + "\r\n", 200), ("GET /v1/models", "X: " + "a" * 40000 + "\r\n", 431),
    ("GET /v1/models", "X: y\r\n" * 100, 200), ("GET /v1/models", "X: y\r\n" * 10000, 431), ("GET /v1/models", "X" * 40000 + ": y\r\n", 431),
])
def test_heads_of_all_sizes(server, line, headers, status):
    with server.connect() as sock:
        sock.sendall(f"{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n".encode())
        assert read_all(sock).startswith(b"HTTP/1.1 %d " % status)


# ---- two readings of one head (RFC 9112) ----

@pytest.mark.parametrize("headers, status", [
    (b"Host: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
    (b"Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
    (b"Host: localhost\r\nContent-Length: 5\r\nContent-Length: 0\r\n", 400),
    (b"Host: localhost\r\nContent-Length : 5\r\n", 400),
    (b"Host: localhost\r\nTransfer-Encoding : chunked\r\n", 400),
    (b"Host: localhost\r\nTransfer-Encoding: xchunked\r\n", 501),
    (b"Host: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", 501),
    (b"Host: localhost\r\nHost: evil.example\r\nContent-Length: 5\r\n", 400),
    (b"Host: localhost\r\nContent-Length\xa0: 5\r\n", 400),
    (b"Content-Length: 5\r\n", 400),
])
def test_nothing_is_smuggled(server, headers, status, version=b"1.1"):
    """The connection ends with the refusal: what could be a second request is none."""
    with server.connect(5) as sock:
        sock.sendall(b"POST /tokenize HTTP/" + version + b"\r\n" + headers + b"\r\n0\r\n\r\n" + HIDDEN)
        reply = read_all(sock)
    assert reply.startswith(b"HTTP/1.1 %d " % status) and b"\r\nConnection: close\r\n" in reply and reply.count(b"HTTP/1.1 ") == 1
    assert is_refusal("/tokenize", reply.partition(b"\r\n\r\n")[2])


def test_a_folded_name_is_no_name(server):
    with server.connect(5) as sock:
        sock.sendall(b'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-: 15\r\n Length\r\n\r\n{"content":"a"}')
        assert read_all(sock).startswith(b"HTTP/1.1 400 ")


def test_other_versions(server):
    test_nothing_is_smuggled(server, b"Host: localhost\r\nTransfer-Encoding: chunked\r\n", 400, b"1.0")
    test_nothing_is_smuggled(server, b"Content-Length: 5\r\n", 400, b"1.2")
    with server.connect(5) as sock:
        sock.sendall(b"GET /health HTTP/1.2\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert read_all(sock).startswith(b"HTTP/1.1 200 ")


# ---- cut off ----

@pytest.mark.parametrize("path", SPOKEN)
def test_a_client_that_leaves_in_the_middle_of_a_stream(server, path):
    long = {"max_tokens": 900, "ignore_eos": True, "stream": True, "n_predict": 900}
    long |= {"max_output_tokens": long.pop("max_tokens")} if path == "/v1/responses" else {}
    body = encoded(path, **long, options={"num_predict": 900, "ignore_eos": True}) if "/api/" in path else encoded(path, **long)
    with server.connect() as sock:
        sock.sendall(request(path, body))
        assert sock.recv(100).startswith(b"HTTP/1.1 200 ")
    assert server.load_becomes(0, 0, 2), path


@pytest.mark.parametrize("path", SPOKEN)
def test_a_client_that_leaves_in_the_middle_of_its_body(server, path):
    data = request(path, encoded(path))
    for n in (len(data) - 1, len(data) - 20):
        with server.connect() as sock:
            sock.sendall(data[:n])
    assert server.load_becomes(0, 0, 2) and server.get("/health")["status"] == "ok"
