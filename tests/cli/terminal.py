"""Running ffwd on a pseudo-terminal."""
import os
import pty
import select
import subprocess

from kit import FFWD


def on_terminal(env, text, *args):
    """Runs ffwd on a terminal where somebody has typed `text`; what it said, and its status."""
    master, slave = pty.openpty()
    child = subprocess.Popen([FFWD, *args], env=dict(os.environ, **env), stdin=slave, stdout=slave, stderr=slave,
                             close_fds=True)
    os.close(slave)
    said = b""
    os.write(master, text)
    while select.select([master], [], [], 10)[0]:
        try:
            piece = os.read(master, 4096)
        except OSError:  # how a terminal ends
            break
        said += piece
    os.close(master)
    return said.decode(), child.wait(timeout=10)
