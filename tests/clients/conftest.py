"""One server for all clients' tests."""
import json
import os
import sys
import time
import urllib.request

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import served  # noqa: E402


class Server(served.Served):
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
    s = Server("--port", "0", "--ctx", "1024", "--pooling", "mean")
    yield s
    assert s.process.poll() is None, "the server died: " + s.log
    assert s.stop() == 0


def pytest_terminal_summary(terminalreporter):
    n = {k: len(terminalreporter.stats.get(k, [])) for k in ("passed", "failed", "error", "skipped")}
    print(f"\nclients: {n['passed']} passed, {n['failed'] + n['error']} failed, {n['skipped']} skipped")
