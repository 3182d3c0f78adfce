"""Talks to the C program `probe`."""
import array
import struct
import subprocess


class Probe:
    def __init__(self, program, *args):
        self.process = subprocess.Popen([program, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, kind, data):
        self.process.stdin.write(struct.pack("<II", kind, len(data)) + data)
        self.process.stdin.flush()

    def receive(self):
        head = self.process.stdout.read(8)
        if len(head) != 8:
            raise SystemExit(f"{' '.join(self.process.args)} ended with {self.process.wait()}")
        kind, n = struct.unpack("<II", head)
        return kind, self.process.stdout.read(n)

    def template(self, source):
        """Uses a template from here on; its error, or None."""
        self.send(1, source.encode())
        status, words = self.receive()
        return words.decode() if status else None

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def ids_of(data):
    ids = array.array("i")
    ids.frombytes(data)
    return ids.tolist()
