"""The page's files as the server hands them out: types, policy, entity tags, and nothing that a browser would refuse."""
import pathlib
import re
import urllib.error
import urllib.request

import pytest

from conftest import Server

WEB = pathlib.Path(__file__).resolve().parents[2] / "web"
FILES = sorted(p.relative_to(WEB).as_posix() for p in WEB.rglob("*")
               if p.suffix in (".html", ".css", ".js", ".mjs", ".svg") and "node_modules" not in p.parts)
OURS = [f for f in FILES if not f.startswith("vendor/")]


def fetch(server, path, method="GET", **headers):
    """(status, headers, body), whatever the status."""
    request = urllib.request.Request(server.url + path, headers={k.replace("_", "-"): v for k, v in headers.items()},
                                     method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as reply:
        return reply.code, reply.headers, reply.read()


def test_every_file_is_served_as_it_is(server):
    types = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".mjs": "text/javascript",
             ".svg": "image/svg+xml"}
    assert "index.html" in FILES and "vendor/purify.es.mjs" in FILES
    for name in FILES:
        status, headers, body = fetch(server, "/web/" + name)
        assert status == 200 and body == (WEB / name).read_bytes(), name
        assert headers["Content-Type"].startswith(types[pathlib.Path(name).suffix]), name
        assert headers["X-Content-Type-Options"] == "nosniff", name
    assert fetch(server, "/")[2] == (WEB / "index.html").read_bytes()


def test_policy_is_strict(server):
    rules = dict(rule.strip().split(" ", 1) for rule in fetch(server, "/")[1]["Content-Security-Policy"].split(";"))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert {rules[r] for r in ("script-src", "style-src", "img-src", "connect-src")} == {"'self'"}
    assert rules["require-trusted-types-for"] == "'script'" and rules["trusted-types"] == "dompurify"


def test_page_keeps_to_the_policy():
    """No script or style inside the page, no address elsewhere, no string that becomes markup."""
    html = (WEB / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", html)
    for name in OURS:
        text = (WEB / name).read_text()
        assert not re.search(r"(src|href)=\"(https?:)?//|@import|url\(", text), name
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), name


def test_what_files_name_is_there():
    for name in OURS:
        folder = (WEB / name).parent
        named = re.findall(r'from "(\.[^"]+)"', (WEB / name).read_text())
        if name == "index.html":
            named = [n.removeprefix("web/") for n in re.findall(r'(?:src|href)="(web/[^"]+)"', (WEB / name).read_text())]
            assert len(named) >= 5
        for other in named:
            assert (folder / other).is_file(), f"{name} names {other}"


def test_entity_tag(server):
    status, headers, body = fetch(server, "/web/main.js")
    tag = headers["ETag"]
    assert re.fullmatch(r'"[0-9a-f]{16}"', tag) and tag != fetch(server, "/web/api.js")[1]["ETag"]
    for named in (tag, f'"other", {tag}', "W/" + tag):
        status, headers, body = fetch(server, "/web/main.js", If_None_Match=named)
        assert (status, body, headers["ETag"]) == (304, b"", tag)
    assert fetch(server, "/web/main.js", If_None_Match='"other"')[0] == 200
    status, headers, body = fetch(server, "/web/main.js", method="HEAD")
    assert status == 200 and body == b"" and int(headers["Content-Length"]) == (WEB / "main.js").stat().st_size


@pytest.mark.parametrize("path", ["/web/", "/web", "/web/nothing.js", "/web/../src/server/web.c", "/web/%2e%2e/README.md",
                                  "/web/package.json", "/index.html", "//"])
def test_nothing_else_is_there(server, path):
    assert fetch(server, path)[0] == 404


def test_wrong_method(server):
    status, headers, _ = fetch(server, "/", method="POST")
    assert status == 405 and headers["Allow"] == "GET, HEAD, OPTIONS"


def test_switched_off():
    s = Server("--no-web")
    try:
        assert fetch(s, "/")[0] == fetch(s, "/web/main.js")[0] == 404
        assert fetch(s, "/v1/models")[0] == 200
    finally:
        assert s.stop() == 0, s.log
