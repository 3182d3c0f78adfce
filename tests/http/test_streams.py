"""Streams of connections that stay open, which one thread sends for all (src/server/http/streams.h)."""
import json
import re
import socket
import threading
import time

import pytest

from conftest import Server, head

PATH = "/v1/completions"
SHORT = {"prompt": "1, 2, 3,", "max_tokens": 30, "temperature": 0, "ignore_eos": True, "stream": True}
LONG = {**SHORT, "max_tokens": 900}
END = b"\r\n0\r\n\r\n"


def ask(sock, body, *headers):
    data = json.dumps(body).encode()
    sock.sendall(head(PATH, len(data), *headers) + data)


def read_reply(sock):
    """The whole of one chunked reply: its head, its chunks."""
    reply = b""
    while not reply.endswith(END):
        part = sock.recv(65536)
        assert part, reply[-100:]
        reply += part
    top, _, rest = reply.partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 200 ") and b"transfer-encoding: chunked" in top.lower()
    chunks = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        n = int(size, 16)
        assert size == b"%X" % n
        assert rest[n:n + 2] == b"\r\n"
        chunks.append(rest[:n])
        rest = rest[n + 2:]
    assert chunks.pop() == b""
    return chunks


def events_of(chunks):
    """Without what differs from one reply to the next."""
    text = b"".join(chunks)
    return re.sub(rb'"(id|created)":("[^"]*"|\d+)', b"", text).split(b"\n\n")


def test_the_bytes_are_those_of_a_connection_of_its_own(server):
    with server.connect() as sock:
        ask(sock, SHORT, "Connection: close")
        alone = events_of(read_reply(sock))
    with server.connect() as sock:
        for _ in range(2):  # the second finds the connection as the first left it
            ask(sock, SHORT)
            assert events_of(read_reply(sock)) == alone


def test_many_at_once(server):
    def client(i):
        with server.connect() as sock:
            ask(sock, {**SHORT, "prompt": f"{i}, "})
            got[i] = events_of(read_reply(sock))
    got = {}
    for _ in range(2):
        before, got = got, {}
        threads = [threading.Thread(target=client, args=(i,)) for i in range(9)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(got) == 9 and (not before or got == before)


def test_a_client_that_reads_late_gets_all(server):
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(30)
        sock.connect((server.host, server.port))
        ask(sock, {**LONG, "logprobs": 5})
        for _ in range(20):
            time.sleep(0.2)
            assert sock.recv(3000)
        rest = b""
        while not rest.endswith(END):
            part = sock.recv(65536)
            assert part
            rest += part
    assert b"data: [DONE]\n\n" in rest and b'"error"' not in rest


@pytest.mark.parametrize("n", [1, 2])
def test_silence_is_told_again_and_again(n):
    server = Server("--rows", "1", "--keep-alive", "1")
    try:
        before = [server.connect() for _ in range(3)]  # one of them alone may be too quick
        for sock in before:
            ask(sock, LONG)
        assert before[0].recv(1000)
        with server.connect() as last:
            ask(last, {**SHORT, "n": n})
            reply, began = b"", time.monotonic()
            while reply.count(b": still here\n\n") < 3:
                part = last.recv(1000)
                assert part, reply
                reply += part
            assert 2.8 < time.monotonic() - began < 8 and b"data: " not in reply
            for sock in before:
                sock.close()
            while not reply.endswith(END):
                part = last.recv(65536)
                assert part, reply
                reply += part
        assert b"data: [DONE]\n\n" in reply
    finally:
        assert server.stop() == 0, server.log
