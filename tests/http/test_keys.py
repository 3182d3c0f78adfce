"""API keys: who is let in, what each key may use, and changes of the file while the server runs."""
import hashlib
import http.client
import json
import os
import signal
import threading
import time

import anthropic_errors
import openai
import pytest

from conftest import Server

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
SMALL = {"prompt": "Once", "max_tokens": 4, "temperature": 0}
FILE = f"""# who may come
key-of-anna name=anna
sha256:{hashlib.sha256(b"key-of-ben").hexdigest()} \tname=ben  # only its hash

few rpm=2
slow tpm=60
one  name=one concurrent=1
fresh rpm=30 tpm=6000
"""


def ask(server, key=None, path=COMPLETIONS, body=None, method="POST", **headers):
    """(status, headers, JSON or text)"""
    c = http.client.HTTPConnection(server.host, server.port, timeout=30)
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    if key is not None:
        headers["Authorization"] = "Bearer " + key
    c.request(method, path, json.dumps(body or SMALL) if method == "POST" else None, headers)
    reply = c.getresponse()
    text = reply.read().decode()
    c.close()
    return reply.status, reply.headers, json.loads(text) if "json" in reply.headers.get("Content-Type", "") else text


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(FILE)
    s = Server("--rows", "2", "--api-key-file", str(file))
    s.file = file
    yield s
    assert s.stop() == 0, s.log


def test_who_is_let_in(keyed):
    assert ask(keyed, "key-of-anna")[0] == 200 and ask(keyed, "key-of-ben")[0] == 200
    assert ask(keyed, X_Api_Key="key-of-anna")[0] == 200
    for wrong in ("key-of-ann", "key-of-annaa", "KEY-OF-ANNA", "name=anna", "x" * 20000,
                  "sha256:" + hashlib.sha256(b"key-of-ben").hexdigest()):
        status, headers, body = ask(keyed, wrong)
        assert status == 401 and headers["WWW-Authenticate"] == "Bearer" and "not known" in body["error"]["message"]
        assert body["error"]["code"] == "invalid_api_key" and body["error"]["type"] == "invalid_request_error"
    status, _, body = ask(keyed)
    assert status == 401 and "missing" in body["error"]["message"]


def test_every_address_but_three_needs_a_key(keyed):
    for path in ("/v1/models", "/metrics", "/v1/ffwd/rows", "/no/such"):
        assert ask(keyed, path=path, method="GET")[0] == 401, path
    assert ask(keyed, "key-of-anna", "/v1/models", method="GET")[0] == 200
    for path in ("/health", "/", "/web/main.js"):
        assert ask(keyed, path=path, method="GET")[0] == 200, path


def test_the_official_client_sees_its_own_errors(keyed):
    client = openai.OpenAI(base_url=keyed.url + "/v1", api_key="nobody", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        client.models.list()
    client = openai.OpenAI(base_url=keyed.url + "/v1", api_key="key-of-anna", max_retries=0)
    assert client.models.list().data


def test_errors_in_the_shape_of_the_messages_api(keyed):
    status, headers, body = ask(keyed, path="/v1/messages", X_Api_Key="nobody", anthropic_version="2023-06-01")
    assert status == 401 and anthropic_errors.check(body, headers) == "authentication_error"


def test_errors_in_the_shape_of_ollama(keyed):
    status, _, body = ask(keyed, path="/api/tags", method="GET")
    assert status == 401 and set(body) == {"error"} and "missing" in body["error"]


def test_requests_a_minute(keyed):
    assert [ask(keyed, "few")[0] for _ in range(3)] == [200, 200, 429]
    status, headers, body = ask(keyed, "few")
    assert status == 429 and 20 <= int(headers["Retry-After"]) <= 30
    assert body["error"]["code"] == "rate_limit_exceeded" and body["error"]["type"] == "rate_limit_error"
    status, headers, body = ask(keyed, path="/v1/messages", X_Api_Key="few", anthropic_version="2023-06-01")
    assert status == 429 and anthropic_errors.check(body, headers) == "rate_limit_error" and headers["Retry-After"]
    assert ask(keyed, "few", "/v1/models", method="GET")[0] == 200, "looking is free"
    assert ask(keyed, "key-of-anna")[0] == 200, "others do not notice"


def limits(headers):
    return {k.lower().removeprefix("x-ratelimit-"): v for k, v in headers.items() if k.lower().startswith("x-ratelimit-")}


def test_headers_tell_what_is_left(keyed):
    status, headers, _ = ask(keyed, "fresh")
    assert status == 200
    assert limits(headers) == {"limit-requests": "30", "remaining-requests": "29", "reset-requests": "2s",
                               "limit-tokens": "6000", "remaining-tokens": "6000", "reset-tokens": "0s"}
    left = limits(ask(keyed, "fresh")[1])
    assert left["remaining-requests"] == "28" and 5900 < int(left["remaining-tokens"]) < 6000, left
    _, headers, _ = ask(keyed, "few")
    assert {"limit-requests", "remaining-requests", "reset-requests"} == limits(headers).keys()
    assert not limits(ask(keyed, "key-of-anna")[1]), "without limits there is nothing to tell"


def test_tokens_a_minute(keyed):
    """One token a second: 80 used at once are a debt of twenty seconds and more."""
    status, _, body = ask(keyed, "slow", body={**SMALL, "max_tokens": 80, "ignore_eos": True})
    assert status == 200
    used = body["usage"]["prompt_tokens"] + 80
    status, headers, body = ask(keyed, "slow")
    assert status == 429 and used - 60 - 10 <= int(headers["Retry-After"]) <= used - 60 + 1
    assert "60 tokens a minute" in body["error"]["message"]


def test_requests_at_the_same_time(keyed):
    long = {**SMALL, "max_tokens": 900, "ignore_eos": True, "stream": True}
    c = http.client.HTTPConnection(keyed.host, keyed.port, timeout=30)
    c.request("POST", COMPLETIONS, json.dumps(long), {"Authorization": "Bearer one"})
    reply = c.getresponse()
    assert reply.status == 200
    status, headers, body = ask(keyed, "one")
    assert status == 429 and headers["Retry-After"] == "1" and "1 requests under way" in body["error"]["message"]
    reply.close()
    c.close()
    until = time.monotonic() + 10
    while ask(keyed, "one")[0] == 429:  # whoever leaves gives the place back
        assert time.monotonic() < until
        time.sleep(0.02)


def becomes(server, key, status, seconds=10):
    until = time.monotonic() + seconds
    while ask(server, key, "/v1/models", method="GET")[0] != status:
        assert time.monotonic() < until, server.log
        time.sleep(0.05)


def replace(file, text):
    new = file.with_suffix(".new")
    new.write_text(text)
    os.replace(new, file)


def test_the_file_may_change(keyed):
    """Without a signal, and requests under way go on."""
    replies = []
    body = {**SMALL, "max_tokens": 300, "ignore_eos": True}
    thread = threading.Thread(target=lambda: replies.append(ask(keyed, "key-of-anna", body=body)))
    thread.start()
    assert keyed.load_becomes(1, 0, 10)
    replace(keyed.file, "new-key\nfew rpm=2\n")
    becomes(keyed, "new-key", 200)
    assert ask(keyed, "key-of-anna")[0] == 401
    assert ask(keyed, "few")[0] == 429, "what it used is not forgotten"
    thread.join(60)
    assert replies[0][0] == 200 and replies[0][2]["usage"]["completion_tokens"] == 300
    for wrong, said in (("new-key rpm=0\n", "line 1: rpm must be"), ("a\nb\na\n", "line 3: this key was there"),
                        ("# nobody\n", "there is no key"), ("a colour=red\n", "behind its key a line has only"),
                        ("sha256:12\n", "64 digits"), ("a" * 600000, "more than 524288 bytes")):
        replace(keyed.file, wrong)
        keyed.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + 10
        while said not in keyed.log:
            assert time.monotonic() < until, keyed.log
            time.sleep(0.02)
        assert ask(keyed, "new-key")[0] == 200, "a file that is wrong changes nothing"
    replace(keyed.file, FILE)
    becomes(keyed, "key-of-anna", 200)


def test_as_many_keys_as_there_may_be(keyed):
    replace(keyed.file, "".join(f"key{i}\n" for i in range(1024)))
    becomes(keyed, "key1023", 200)
    replace(keyed.file, "".join(f"other{i}\n" for i in range(1025)))
    keyed.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + 10
    while "more than 1024 keys" not in keyed.log:
        assert time.monotonic() < until
        time.sleep(0.02)
    replace(keyed.file, "".join(f"other{i}\n" for i in range(1024)))
    becomes(keyed, "other0", 200)
    becomes(keyed, "key0", 401)


def test_it_does_not_start_with_a_wrong_file(tmp_path):
    (tmp_path / "keys").write_text("good\nbad rpm=x\n")
    for path, said in ((tmp_path / "keys", "line 2: rpm must be a whole number"), (tmp_path / "none", "cannot open")):
        with pytest.raises(AssertionError, match=said):
            Server("--api-key-file", str(path))
