"""Who is let in without a key: names against DNS rebinding, pages of other origins, addresses that others can reach; and
the ids that requests carry."""
import http.client
import re
import socket
import stat

import pytest

from conftest import Server, post_raw, read_all

BODY = b'{"prompt": "Once", "max_tokens": 1}'
PAGE = "https://example.com"


def ask(server, method="GET", path="/v1/models", **headers):
    """(status, headers, body); Host is what is given, or what the address is."""
    c = http.client.HTTPConnection(server.host, server.port, timeout=30)
    c.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        c.putheader(name.replace("_", "-"), value)
    if method == "POST":
        c.putheader("Content-Length", str(len(BODY)))
    c.endheaders(BODY if method == "POST" else None)
    reply = c.getresponse()
    text = reply.read().decode()
    c.close()
    return reply.status, reply.headers, text


def test_names_that_nobody_else_can_point_here(server):
    for good in ("127.0.0.1", "127.0.0.1:8080", "[::1]:80", "[fe80::1]", "localhost", "LOCALHOST:1", "localhost.", "a.localhost",
                 "192.168.1.5:8080"):
        assert ask(server, Host=good)[0] == 200, good
    for bad in ("evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "xlocalhost", "2130706433",
                "[evil]", "example.com."):
        for method, path in (("GET", "/v1/models"), ("GET", "/"), ("POST", "/v1/completions"), ("GET", "/health")):
            status, _, text = ask(server, method, path, Host=bad)
            assert status == 403 and "does not answer to the name" in text, (bad, path)
    for none in ("localhost:x", "[::1", "a" * 300, "user@localhost:1@evil"):
        assert ask(server, Host=none)[0] == 400, none
    with server.connect() as sock:
        sock.sendall(b"GET /v1/models HTTP/1.0\r\n\r\n")
        assert b" 200 " in read_all(sock).split(b"\r\n")[0], "HTTP/1.0 knows no Host"


def test_pages_of_other_origins(server):
    port = server.port
    for origin in (PAGE, "http://localhost", "http://127.0.0.1:1", "null", "https://127.0.0.1.evil.example:" + str(port)):
        status, headers, text = ask(server, "POST", "/v1/completions", Origin=origin, Content_Type="text/plain")
        assert status == 403 and "--cors" in text and not headers["Access-Control-Allow-Origin"], origin
        assert ask(server, "OPTIONS", "/v1/completions", Origin=origin, Access_Control_Request_Method="POST")[0] == 403
    for origin in (f"http://127.0.0.1:{port}", "app://editor", "vscode-webview://1"):
        assert ask(server, "POST", "/v1/completions", Origin=origin)[0] == 200, origin


@pytest.fixture(scope="module")
def cors():
    s = Server("--rows", "2", "--cors", PAGE, "--cors", "http://localhost:3000", "--allow-host", "Models.lan")
    yield s
    assert s.stop() == 0, s.log


def test_cors(cors):
    status, headers, text = ask(cors, "OPTIONS", "/v1/completions", Origin=PAGE, Access_Control_Request_Method="POST",
                                Access_Control_Request_Headers="authorization,content-type,x-stainless-os")
    assert status == 204 and not text and headers["Access-Control-Allow-Origin"] == PAGE
    assert "POST" in headers["Access-Control-Allow-Methods"] and int(headers["Access-Control-Max-Age"]) > 0
    assert headers["Access-Control-Allow-Headers"] == "authorization,content-type,x-stainless-os"
    status, headers, _ = ask(cors, "POST", "/v1/completions", Origin="http://localhost:3000")
    assert status == 200 and headers["Access-Control-Allow-Origin"] == "http://localhost:3000" and headers["Vary"] == "Origin"
    assert "Retry-After" in headers["Access-Control-Expose-Headers"]
    status, headers, _ = ask(cors, "POST", "/no/such", Origin=PAGE)
    assert status == 404 and headers["Access-Control-Allow-Origin"] == PAGE, "a page reads errors, too"
    for origin in ("https://example.com.evil.example", "https://example.com:444", "http://example.com"):
        status, headers, _ = ask(cors, "POST", "/v1/completions", Origin=origin)
        assert status == 403 and not headers["Access-Control-Allow-Origin"], origin
    assert ask(cors)[1]["Vary"] == "Origin"


def test_more_names(cors):
    assert ask(cors, Host="models.lan:80")[0] == 200 and ask(cors, Host="models.lan.evil.example")[0] == 403


def test_with_a_key_any_name_and_any_page(own, tmp_path):
    """A page has no key, so nothing has to be kept from it."""
    (tmp_path / "keys").write_text("secret\n")
    s = own("--api-key-file", str(tmp_path / "keys"), "--cors", "*")
    auth = {"Authorization": "Bearer secret"}
    assert ask(s, Host="models.example", **auth)[0] == 200
    status, headers, _ = ask(s, "POST", "/v1/completions", Origin=PAGE, **auth)
    assert status == 200 and headers["Access-Control-Allow-Origin"] == "*"
    status, headers, _ = ask(s, "OPTIONS", "/v1/completions", Origin=PAGE, Access_Control_Request_Method="POST")
    assert status == 204 and headers["Access-Control-Allow-Origin"] == "*", "a preflight brings no key"
    status, headers, _ = ask(s, "POST", "/v1/completions", Origin=PAGE)
    assert status == 401 and headers["Access-Control-Allow-Origin"] == "*"


def test_addresses_that_others_can_reach(own, tmp_path):
    for host in ("0.0.0.0", "::"):
        with pytest.raises(AssertionError, match=r"without API keys anybody who reaches \S+ could use the model; give --api-key-file"):
            Server("--host", host)
    assert ask(own("--host", "0.0.0.0", "--without-keys"))[0] == 200
    (tmp_path / "keys").write_text("secret\n")
    assert ask(own("--host", "0.0.0.0", "--api-key-file", str(tmp_path / "keys")))[0] == 401
    with pytest.raises(AssertionError, match="contradict"):
        Server("--without-keys", "--api-key-file", str(tmp_path / "keys"))


# ---- a UNIX socket ----

def over_unix(path, host=b"anything.example"):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(path))
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY)
                     + BODY)
        return read_all(sock)


def test_unix_socket(own, tmp_path):
    path = tmp_path / "ffwd.sock"
    s = own("--unix", str(path), "--unix-mode", "620", tcp=False)
    assert s.url == f"unix:{path}" and stat.S_IMODE(path.stat().st_mode) == 0o620
    assert over_unix(path).startswith(b"HTTP/1.1 200 ")
    with pytest.raises(AssertionError, match="something is there already"):
        Server("--unix", str(path), tcp=False)
    s.process.kill()
    s.process.wait(10)
    assert path.exists()
    s = own("--unix", str(path), tcp=False)  # what a dead server left is replaced
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and over_unix(path).startswith(b"HTTP/1.1 200 ")
    assert s.stop() == 0 and not path.exists()
    path.write_text("mine")
    with pytest.raises(AssertionError, match="something is there already"):
        Server("--unix", str(path), tcp=False)
    assert path.read_text() == "mine"
    with pytest.raises(AssertionError, match="1 to 107 bytes, not 200"):
        Server("--unix", "/" + "x" * 199, tcp=False)


def test_a_successor_keeps_its_unix_socket(own, tmp_path):
    path = tmp_path / "sock"
    first = own("--unix", str(path), tcp=False)
    path.unlink()
    own("--unix", str(path), tcp=False)
    assert first.stop() == 0
    assert over_unix(path).startswith(b"HTTP/1.1 200 ")


def test_wrong_usage_of_addresses():
    for options, said in ((("--unix", "x", "--host", "::1"), "takes the place of --host"), (("--unix-mode", "600"), "belongs to --unix"),
                          (("--unix", "x", "--unix-mode", "888"), "in octal"), (("--unix", "x", "--unix-mode", "1777"), "in octal")):
        with pytest.raises(AssertionError, match=said):
            Server(*options, tcp=False)


# ---- ids ----

def test_request_ids(server):
    _, headers, _ = ask(server, X_Request_Id="mine-1.2:3_4")
    assert headers["X-Request-Id"] == "mine-1.2:3_4" and re.fullmatch("req_[0-9a-f]{24}", headers["Request-Id"])
    for bad in ("a b", "x" * 129, "<script>", "\xfc"):
        _, headers, _ = ask(server, X_Request_Id=bad)
        assert re.fullmatch("req_[0-9a-f]{24}", headers["X-Request-Id"]), bad
    status, text = post_raw(server, "/v1/completions", BODY)
    assert status == 200 and re.search(rb'"id":"cmpl-[0-9a-f]{24}"', text)
    _, headers, text = ask(server, "POST", "/v1/completions")
    assert f'"id":"{headers["X-Request-Id"]}"' in text
    assert ask(server)[1]["X-Request-Id"] != ask(server)[1]["X-Request-Id"]
