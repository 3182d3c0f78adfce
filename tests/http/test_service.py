"""The server under a service manager: the socket it is passed, what it tells, locked memory."""
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import time

import pytest

from conftest import FFWD, MODEL, Server

READY = 60


def passed(sockets, **more):
    """Starts a server that finds the sockets from descriptor 3 on, as systemd passes them."""
    def place():
        held = [os.dup(s.fileno()) for s in sockets]
        for i, fd in enumerate(held):
            high = os.dup2(fd, 100 + i)
            os.dup2(high, 3 + i)
            os.set_inheritable(3 + i, True)
        os.environ["LISTEN_PID"] = str(os.getpid())
    fds = tuple(s.fileno() for s in sockets) + tuple(range(3, 3 + len(sockets)))
    # The shell's own id is the program's once it is replaced, which is what LISTEN_PID has to say.
    command = ["sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", FFWD, "serve", "-m", MODEL, "--ctx", "512", *more.pop("options", ())]
    env = {**os.environ, "LISTEN_FDS": str(len(sockets)), **more.pop("env", {})}
    return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=fds, preexec_fn=place, text=True)


def listener(family=socket.AF_INET, address=("127.0.0.1", 0)):
    sock = socket.socket(family)
    sock.bind(address)
    sock.listen(16)
    return sock


def line_with(process, text):
    """stderr up to a line that has the text."""
    seen = ""
    for line in process.stderr:
        seen += line
        if text in line:
            return seen
    raise AssertionError(seen)


def end(process):
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def get(address, path="/health"):
    c = http.client.HTTPConnection(*address, timeout=30)
    c.request("GET", path)
    reply = c.getresponse()
    return reply.status, reply.read()


def status_over(connection):
    connection.request("GET", "/health")
    reply = connection.getresponse()
    reply.read()
    return reply.status


def test_a_socket_that_is_passed():
    """It outlives the server: whoever connects while there is none is served by the next."""
    with listener() as sock:
        address = sock.getsockname()
        for _ in range(2):
            p = passed([sock])
            assert f"http://127.0.0.1:{address[1]}" in line_with(p, "listening on")
            assert get(address)[0] == 200
            end(p)
        early = socket.create_connection(address, timeout=60)
        early.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        p = passed([sock])
        assert early.recv(1000).startswith(b"HTTP/1.1 200 ")
        early.close()
        end(p)


def test_who_connects_while_it_stops_waits_for_the_next():
    with listener() as sock:
        address = sock.getsockname()
        p = passed([sock])
        line_with(p, "listening on")
        kept, busy = (http.client.HTTPConnection(*address, timeout=30) for _ in range(2))
        assert status_over(kept) == 200
        busy.request("POST", "/v1/completions", json.dumps({"prompt": "Once", "max_tokens": 400, "ignore_eos": True, "stream": True}))
        stream = busy.getresponse()
        p.send_signal(signal.SIGTERM)
        line_with(p, "stopping")
        time.sleep(0.5)
        early = socket.create_connection(address, timeout=60)
        early.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert status_over(kept) == 503 and p.poll() is None
        assert stream.read().endswith(b"[DONE]\n\n") and p.wait(20) == 0
        p = passed([sock])
        assert early.recv(1000).startswith(b"HTTP/1.1 200 ")
        early.close()
        end(p)


def test_a_unix_socket_that_is_passed(tmp_path):
    path = str(tmp_path / "sock")
    with listener(socket.AF_UNIX, path) as sock:
        p = passed([sock])
        line_with(p, "listening on unix:")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"GET /health HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
        end(p)
        assert os.path.exists(path), "the file is the service manager's"


def test_sockets_that_will_not_do():
    with listener() as one, listener() as two, socket.socket() as deaf, listener(address=("0.0.0.0", 0)) as wide:
        for sockets, options, said in (([one, two], (), "2 sockets were passed"), ([deaf], (), "no stream socket that listens"),
                                       ([one], ("--port", "0"), "--port"), ([wide], (), "without API keys")):
            p = passed(sockets, options=options)
            assert said in p.communicate(timeout=60)[1] and p.returncode in (1, 2)


def test_sockets_for_another_process():
    """LISTEN_PID names somebody else: a parent's variables, which are not for us."""
    s = Server("--rows", "1", env={**os.environ, "LISTEN_PID": "1", "LISTEN_FDS": "1"})
    assert s.get("/health")["status"] == "ok" and s.stop() == 0


@pytest.mark.parametrize("abstract", [False, True])
def test_what_it_tells(own, tmp_path, abstract):
    path = f"\0ffwd-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(path)
        told.settimeout(READY)
        s = own("--api-key-file", str(keys), env={**os.environ, "NOTIFY_SOCKET": path.replace("\0", "@")})
        assert told.recv(1000) == b"READY=1"
        s.process.send_signal(signal.SIGHUP)
        reloading = told.recv(1000).split(b"\n")
        assert reloading[0] == b"RELOADING=1" and reloading[1].startswith(b"MONOTONIC_USEC=")
        assert abs(int(reloading[1].split(b"=")[1]) - time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000) < 10_000_000
        assert told.recv(1000) == b"READY=1"
        s.process.send_signal(signal.SIGTERM)
        assert told.recv(1000) == b"STOPPING=1"
        assert s.process.wait(20) == 0


def locked_kb(process):
    with open(f"/proc/{process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmLck:"))


def may_lock():
    """Whether this process has CAP_IPC_LOCK, or no limit."""
    with open("/proc/self/status") as f:
        effective = next(int(line.split()[1], 16) for line in f if line.startswith("CapEff:"))
    return effective >> 14 & 1 or resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY


def test_locked_memory(own):
    if not may_lock():
        pytest.skip("note: this process may not lock memory")
    assert locked_kb(own("--mlock").process) > 100_000
    assert locked_kb(own().process) == 0


def test_memory_that_may_not_be_locked():
    """As a user without privileges and with the limit that systems have by default."""
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    command = ["prlimit", "--memlock=65536:65536", *drop, FFWD, "serve", "-m", MODEL, "--port", "0", "--mlock"]
    p = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert p.returncode == 1 and "cannot lock the memory: this process may lock 0 MB" in p.stderr, p.stderr
