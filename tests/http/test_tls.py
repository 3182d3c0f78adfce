"""HTTPS with certificates that openssl makes here: who is trusted, replacing the certificate, what is refused."""
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

from conftest import Server

BODY = {"prompt": "Once upon a time", "max_tokens": 5, "temperature": 0}

pytestmark = [pytest.mark.skipif(not shutil.which("openssl"), reason="note: there is no openssl to make certificates with"),
              pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # versions that the server is to refuse


def make(folder, name, *kind):
    """A self-signed certificate of that name for 127.0.0.1: (certificate, key)."""
    cert, key = folder / (name + ".pem"), folder / (name + ".key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", *(kind or ("rsa:2048",)), "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)], check=True,
                   capture_output=True)
    return cert, key


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    return {"one": make(folder, "one"), "two": make(folder, "two", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"), "folder": folder}


def use(pairs, name, folder):
    """Puts a pair where the server looks, the way certbot does: each file is replaced."""
    for source, target in zip(pairs[name], ("cert.pem", "key.pem")):
        shutil.copy(source, folder / "new")
        os.replace(folder / "new", folder / target)


@pytest.fixture
def tls(pairs, own, tmp_path):
    use(pairs, "one", tmp_path)
    s = own("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    s.folder = tmp_path
    return s


def connect(server, cert):
    context = ssl.create_default_context(cafile=str(cert))
    return http.client.HTTPSConnection(server.host, server.port, timeout=30, context=context)


def ask(connection, body=None):
    connection.request("POST", "/v1/completions", json.dumps(body or BODY))
    reply = connection.getresponse()
    return reply.status, reply.read()


def name_of(server):
    """The name in the certificate that a new connection gets."""
    pem = ssl.get_server_certificate((server.host, server.port), timeout=30)
    text = subprocess.run(["openssl", "x509", "-noout", "-subject"], input=pem, capture_output=True, text=True, check=True).stdout
    return text.rsplit("=", 1)[1].strip()


def test_requests(tls, pairs):
    assert tls.url.startswith("https://127.0.0.1:")
    c = connect(tls, pairs["one"][0])
    assert ask(c)[0] == 200 and ask(c)[0] == 200
    status, text = ask(c, {**BODY, "stream": True})
    assert status == 200 and text.endswith(b"data: [DONE]\n\n")
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(connect(tls, pairs["two"][0]))
    assert tls.stop() == 0, tls.log


def test_a_client_that_leaves_is_noticed(tls, pairs):
    context = ssl.create_default_context(cafile=str(pairs["one"][0]))
    c = connect(tls, pairs["one"][0])
    body = json.dumps({**BODY, "max_tokens": 900, "ignore_eos": True, "stream": True})
    c.request("POST", "/v1/completions", body)
    reply = c.getresponse()
    reply.fp.readline()
    reply.close()
    c.close()
    until = time.monotonic() + 10
    while True:
        other = http.client.HTTPSConnection(tls.host, tls.port, timeout=30, context=context)
        other.request("GET", "/health")
        if json.loads(other.getresponse().read())["running"] == 0:
            break
        assert time.monotonic() < until, "it computes for nobody"
    assert tls.stop() == 0


def test_the_certificate_may_change(tls, pairs):
    """Without a signal, and neither a stream nor a kept connection notices."""
    kept, streaming, got = connect(tls, pairs["one"][0]), connect(tls, pairs["one"][0]), []
    assert ask(kept)[0] == 200 and name_of(tls) == "one"
    long = {**BODY, "max_tokens": 700, "ignore_eos": True, "stream": True}
    thread = threading.Thread(target=lambda: got.append(ask(streaming, long)))
    thread.start()
    use(pairs, "two", tls.folder)
    until = time.monotonic() + 10
    while name_of(tls) != "two":
        assert time.monotonic() < until, tls.log
        time.sleep(0.1)
    assert ask(kept)[0] == 200 and ask(connect(tls, pairs["two"][0]))[0] == 200
    thread.join(60)
    assert got[0][0] == 200 and got[0][1].endswith(b"data: [DONE]\n\n")


def test_a_wrong_certificate_changes_nothing(tls, pairs):
    shutil.copy(pairs["two"][0], tls.folder / "cert.pem")  # the key is still that of the other
    tls.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + 10
    while "is not that of the certificate" not in tls.log:
        assert time.monotonic() < until, tls.log
        time.sleep(0.02)
    assert name_of(tls) == "one"
    shutil.copy(pairs["two"][1], tls.folder / "key.pem")
    tls.process.send_signal(signal.SIGHUP)
    while name_of(tls) != "two":
        assert time.monotonic() < until, tls.log
        time.sleep(0.02)


def test_what_is_no_tls(tls, pairs):
    """Plain HTTP, noise, a handshake that stops half-way: none of it keeps others out."""
    hello = ssl.create_default_context(cafile=str(pairs["one"][0]))
    half = socket.create_connection((tls.host, tls.port), timeout=30)
    half.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
    for data in (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", bytes(range(256)) * 20, b"\x16\x03\x01\xff\xff" + b"\0" * 70000):
        with socket.create_connection((tls.host, tls.port), timeout=30) as sock:
            try:
                sock.sendall(data)
                while sock.recv(65536):
                    pass
            except ConnectionError:
                pass
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with socket.create_connection((tls.host, tls.port), timeout=30) as sock, pytest.raises((ssl.SSLError, ConnectionError)):
        old.wrap_socket(sock)
    with hello.wrap_socket(socket.create_connection((tls.host, tls.port)), server_hostname="127.0.0.1") as sock:
        assert sock.version() == "TLSv1.3"
    half.close()
    assert ask(connect(tls, pairs["one"][0]))[0] == 200


def test_it_does_not_start_with_a_wrong_pair(pairs, tmp_path):
    one, two = [[str(p) for p in pairs[n]] for n in ("one", "two")]
    (tmp_path / "many").write_text((pairs["one"][0]).read_text() * 100)
    for cert, key, said in ((one[0], two[1], "is not that of the certificate"), (one[1], one[0], "no certificate and key in PEM"),
                            (str(tmp_path / "none"), one[1], "cannot open"), (str(tmp_path / "many"), one[1], "more than 65536 bytes")):
        with pytest.raises(AssertionError, match=said):
            Server("--tls-cert", cert, "--tls-key", key)
    with pytest.raises(AssertionError, match="belong together"):
        Server("--tls-cert", one[0])
