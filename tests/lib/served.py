"""served: a running `ffwd serve`, for suites that have Pythons of their own: it needs no packages."""
import os
import re
import signal
import subprocess
import threading


class Served:
    """`log` is what it wrote to stderr so far, `url` where it listens. FFWD and SMOLLM2 are the program and the model unless
    others are named."""

    def __init__(self, *options, program=None, model=None, start_s=60, end_s=40, **more):
        command = [program or os.environ["FFWD"], "serve", "-m", model or os.environ["SMOLLM2"], *options]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        **more)
        self.log, self.url, self.end_s, ready = "", None, end_s, threading.Event()
        self.reader = threading.Thread(target=self._read, args=(ready,), daemon=True)
        self.reader.start()
        assert ready.wait(start_s), "the server does not start: " + self.log
        assert self.url, "the server ended: " + self.log

    def _read(self, ready):
        for line in self.process.stderr:
            self.log += line.decode("utf-8", "replace")
            found = re.search(r"listening on ((?:https?|unix):\S+)", self.log)
            if found:
                self.url = found.group(1)
                ready.set()
        ready.set()

    def stop(self):
        """The exit status after SIGTERM; one that does not end is an error."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(self.end_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
