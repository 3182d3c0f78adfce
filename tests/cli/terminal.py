"""The program on a pseudo-terminal."""
import os
import pty
import re
import select
import signal
import time

from kit import FFWD


class Terminal:
    """Runs it; what it writes there, to stdout or stderr, collects in `seen`."""

    def __init__(self, *args, env=None):
        self.seen, self.at = b"", 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm", **(env or {})})
            os.execv(FFWD, [FFWD, *map(str, args)])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def _read(self, seconds):
        """False at the end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            more = os.read(self.fd, 65536)
        except OSError:
            more = b""
        self.seen += more
        return bool(more)

    def type(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        while data:
            data = data[os.write(self.fd, data[:512]):]
            self._read(0)  # a terminal takes in no more than some thousand bytes that nobody reads

    def wait(self, what, seconds=40):
        """What is written from the last wait's end on to the end of `what` (or the first match of bytes); it has to come."""
        pattern = re.compile(what if isinstance(what, bytes) else re.escape(what.encode()))
        end = time.monotonic() + seconds
        while not (found := pattern.search(self.seen, self.at)):
            left = end - time.monotonic()
            assert left > 0 and self._read(left), f"{what!r} did not come: {self.seen[self.at:]!r}"
        start, self.at = self.at, found.end()
        return self.seen[start:self.at].decode("utf-8", "replace")

    def prompt(self):
        """Until a prompt that stands at the beginning of a line, as none does that is merely drawn anew."""
        return self.wait(rb"(?:^|\n|\r\x1b\[K)(?:\x1b\[\?2004h)?> ")

    def line(self, text):
        """Types a line; what comes until the next prompt."""
        self.type(text + "\r")
        return self.prompt()

    def end(self, seconds=40):
        """The exit status."""
        end = time.monotonic() + seconds
        while self._read(0.2):
            assert time.monotonic() < end, f"it did not end: {self.seen[self.at:]!r}"
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)


def on_terminal(env, text, *args):
    """Runs ffwd on a terminal where somebody has typed `text`; what it said, and its status."""
    with Terminal(*args, env=env) as t:
        t.type(text)
        status = t.end()
        return t.seen.decode(), status


def plain(text):
    """Without what moves a terminal's cursor or colours its text."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\x08", "", text)
