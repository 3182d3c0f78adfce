"""One server for all clients' tests."""
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request

import pytest


class Server:
    """A running `ffwd serve` and its address."""

    def __init__(self):
        command = [os.environ["FFWD"], "serve", "-m", os.environ["SMOLLM2"], "--port", "0", "--ctx", "1024", "--pooling",
                   "mean"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.log, self.url, ready = "", None, threading.Event()
        threading.Thread(target=self._read, args=(ready,), daemon=True).start()
        assert ready.wait(60) and self.url, "the server does not start: " + self.log

    def _read(self, ready):
        for line in self.process.stderr:
            self.log += line.decode("utf-8", "replace")
            found = re.search(r"listening on (http://\S+)", self.log)
            if found:
                self.url = found.group(1)
                ready.set()
        ready.set()

    def becomes_idle(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with urllib.request.urlopen(self.url + "/health", timeout=20) as reply:
                if json.load(reply)["running"] == 0:
                    return True
            time.sleep(0.02)
        return False


@pytest.fixture(scope="session")
def server():
    s = Server()
    yield s
    assert s.process.poll() is None, "the server died: " + s.log
    s.process.send_signal(signal.SIGTERM)
    assert s.process.wait(40) == 0


def pytest_terminal_summary(terminalreporter):
    n = {k: len(terminalreporter.stats.get(k, [])) for k in ("passed", "failed", "error", "skipped")}
    print(f"\nclients: {n['passed']} passed, {n['failed'] + n['error']} failed, {n['skipped']} skipped")
