"""Starts servers and ends them again; raw sockets for what a client library would not send."""
import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request

import openai
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
sys.path[:0] = [GOLDEN, os.path.join(HERE, "../lib")]
import families  # noqa: E402
import served  # noqa: E402
import tiny_gguf  # noqa: E402

FFWD, MODEL = os.environ["FFWD"], os.environ["SMOLLM2"]
CONTEXT, ROWS = 1024, 4


class Server(served.Served):
    """One that is asked over HTTP. Unless `tcp`, the options say where it listens."""

    def __init__(self, *options, tcp=True, context=CONTEXT, **more):
        port = ["--port", "0"] if tcp else []
        super().__init__(*port, "--ctx", str(context), *options, **more)
        if self.url.startswith("unix:"):
            return
        self.host, self.port = "127.0.0.1", int(self.url.rsplit(":", 1)[1])
        self.client = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=60)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=20) as reply:
            return json.load(reply)

    def connect(self, timeout=30):
        return socket.create_connection((self.host, self.port), timeout=timeout)

    def load_becomes(self, running, waiting, seconds):
        """Whether /health says so within that time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            health = self.get("/health")
            if (health["running"], health["waiting"]) == (running, waiting):
                return True
            time.sleep(0.005)
        return False


@pytest.fixture(scope="session")
def server():
    s = Server("--rows", str(ROWS))
    yield s
    assert s.process.poll() is None, "the server died: " + s.log
    assert s.stop() == 0, s.log


@pytest.fixture(autouse=True)
def idle_afterwards(server):
    """No test may leave a request behind."""
    yield
    assert server.process.poll() is None, "the server died: " + server.log
    assert server.load_becomes(0, 0, 10), "a request is left: " + str(server.get("/health"))


@pytest.fixture
def own():
    """Starts servers that end with the test."""
    servers = []

    def start(*options, **more):
        servers.append(Server("--rows", "2", *options, **more))
        return servers[-1]
    yield start
    for s in servers:
        if s.process.poll() is None:
            s.process.kill()
        s.process.wait(10)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Starts servers of tiny models for vectors or ranks, which end with the module."""
    servers = []

    def start(name, *options):
        family = next(f for f in families.VECTORS if f.name == name)
        path = tmp_path_factory.mktemp("tiny") / (name + ".gguf")
        path.write_bytes(tiny_gguf.build(family))
        servers.append(Server(*options, model=str(path), context=512))
        return servers[-1]
    yield start
    for s in servers:
        assert s.process.poll() is None and s.stop() == 0, s.log


def head(path, length, *more):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {length}", *more, "", ""]).encode()


def read_all(sock):
    data = b""
    while True:
        part = sock.recv(65536)
        if not part:
            return data
        data += part


def ask(server, path, body=None, method=None):
    """(status, headers, bytes) of a request whose body, where it has one, is JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        reply = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as e:
        reply = e
    with reply:
        return reply.status, reply.headers, reply.read()


def post_json(server, path, body):
    """(status, JSON)."""
    status, _, text = ask(server, path, body)
    return status, json.loads(text)


def post_raw(server, path, body, *more):
    """Status and body of a request whose bytes are sent as they are."""
    with server.connect() as sock:
        sock.sendall(head(path, len(body), "Connection: close", *more) + body)
        reply = read_all(sock)
    top, _, rest = reply.partition(b"\r\n\r\n")
    return int(top.split(b" ")[1]), rest


def pytest_terminal_summary(terminalreporter):
    n = {k: len(terminalreporter.stats.get(k, [])) for k in ("passed", "failed", "error", "skipped")}
    print(f"\nhttp: {n['passed']} passed, {n['failed'] + n['error']} failed, {n['skipped']} skipped")
