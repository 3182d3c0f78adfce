"""Many clients at once: nobody is left out, nothing is left behind. `load.py short|long`; called by run.sh and long.sh.

Every check takes the tier's numbers from TIERS, starts its own server and stops it. The short tier asserts only what
holds on a machine that is busy with something else.
"""
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))

from conftest import FFWD, MODEL, Server, head  # noqa: E402

BLOCK = 32           # tokens of a block of keys and values: prefixes are kept in whole ones
STEP_BUDGET_MS = 50  # what a step with running streams may take: the default of the server's --itl
GAP_FACTOR = 1.2     # of it, between two tokens of a stream while another's prompt is read
MB = 1 << 20
RSS_GROWTH = 4 * MB  # over the requests after the first third

TIERS = {
    "short": {"crowd": ("--requests", "128"), "words": 14, "long_prompt": 1800, "context": 4096, "requests": 300,
              "agents": 3, "turns": 3},
    "long": {"crowd": ("--seconds", "60"), "words": 40, "long_prompt": 4000, "context": 8192, "requests": 2000,
             "agents": 10, "turns": 8},
}


class Skip(Exception):
    pass


def note(text):
    print("note: " + text, flush=True)


# ------------------------------------------------------------------------------------------------------------ helpers


def drive(server, *options, limit=120):
    """The report of `ffwd bench load`."""
    command = [FFWD, "bench", "load", "--url", server.url, "--json", *map(str, options)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    assert run.returncode == 0, f"{' '.join(command)}: status {run.returncode}, {run.stderr}"
    return json.loads(run.stdout)


def sockets(server):
    """How many sockets the server has open."""
    folder, found = f"/proc/{server.process.pid}/fd", 0
    for name in os.listdir(folder):
        try:
            found += os.readlink(os.path.join(folder, name)).startswith("socket:")
        except OSError:
            pass  # closed meanwhile
    return found


def resident(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS:"))


class Running:
    """A server for one check: afterwards it must be alive, idle, without connections, and end as it should."""

    def __init__(self, *options):
        self.server = Server(*options)
        self.before = sockets(self.server)

    def __enter__(self):
        return self.server

    def __exit__(self, kind, *_):
        s = self.server
        try:
            if kind is None:
                assert s.process.poll() is None, "the server died: " + s.log
                assert s.load_becomes(0, 0, 10), f"a request is left: {s.get('/health')}"
                until = time.monotonic() + 10
                while sockets(s) > self.before and time.monotonic() < until:
                    time.sleep(0.05)
                assert sockets(s) <= self.before, f"{sockets(s) - self.before} connections are left"
                assert s.stop() == 0, s.log
        finally:
            if s.process.poll() is None:
                s.process.kill()
                s.process.wait()


class Leavers:
    """Clients that come and leave again at some moment, until told to stop: within the request, right after it, or
    within the reply, by closing or by a reset."""

    def __init__(self, server, seed):
        self.server, self.rng, self.left, self.stop = server, random.Random(seed), 0, threading.Event()
        self.trouble = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive() and self.trouble is None, self.trouble

    def _run(self):
        try:
            while not self.stop.wait(self.rng.uniform(0.02, 0.4)):
                self._come_and_leave()
                self.left += 1
        except Exception as e:  # pylint: disable=broad-except
            self.trouble = repr(e)

    def _come_and_leave(self):
        words = " ".join(str(self.rng.randrange(1000)) for _ in range(self.rng.randint(1, 15)))
        body = json.dumps({"prompt": words, "max_tokens": 60, "ignore_eos": True, "stream": self.rng.random() < 0.7}).encode()
        request = head("/v1/completions", len(body)) + body
        with self.server.connect() as sock:
            moment = self.rng.randrange(4)
            sock.sendall(request[:self.rng.randrange(len(request))] if moment == 0 else request)
            if moment >= 2:
                sock.settimeout(self.rng.uniform(0.01, 1))
                try:
                    sock.recv(self.rng.randint(1, 2000))
                except TimeoutError:
                    pass
            if moment == 3:  # a reset
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


# ------------------------------------------------------------------------------------------------------------- checks


def check_a_crowd_is_served_fairly(tier):
    """64 clients on 8 rows, prompts of many lengths, and others that leave at any moment."""
    with Running("--rows", "8") as server, Leavers(server, 1) as leavers:
        r = drive(server, "--clients", 64, *tier["crowd"], "--mode", "completion", "--prompt-tokens",
                  tier["words"], "--prompt-spread", 80, "--max-tokens", 6, "--ignore-eos", "--seed", 11, limit=240)
        assert r["errors"] == 0, r["error_list"]
        assert r["requests"] >= 2 * 64, r
        assert r["jain"] >= 0.9, r["jain"]
        assert r["token_source"].startswith("usage") and r["ttft_ms"]["n"] >= r["requests"] * 0.9, r
    assert leavers.left > 3, leavers.left
    note(f"64 clients: {r['requests']} requests, {r['tokens_per_s']:.0f} tok/s, fairness {r['jain']:.3f}, "
         f"{leavers.left} others left")


def long_prompt(server, tier, seed, *more):
    """A long prompt among four streams: the report."""
    return drive(server, "--clients", 4, "--seconds", 2, "--max-tokens", 100, "--ignore-eos", "--long-prompt",
                 tier["long_prompt"], "--long-at", 1, "--seed", seed, *more)


def check_streams_go_on_while_a_long_prompt_is_read(tier):
    """The others are not made to wait for the whole of it: their longest gap is well below its time."""
    with Running("--ctx", str(tier["context"])) as server:
        r = long_prompt(server, tier, 21)
        assert r["errors"] == 0, r["error_list"]
        long = r["long"]
        assert long["prompt_tokens"] >= tier["long_prompt"] and long["total_ms"] >= long["ttft_ms"], long
        assert long["longest_gap_ms"] < long["ttft_ms"] / 2, long
    note(f"a prompt of {long['prompt_tokens']} tokens: first token after {long['ttft_ms']:.0f} ms, longest gap of four "
         f"streams {long['longest_gap_ms']:.0f} ms")


def check_a_long_prompt_keeps_to_the_step_budget(tier):
    """The same by the clock. Something else on the machine can only make a gap longer, so the best of three counts."""
    known = subprocess.run([FFWD, "help", "serve"], capture_output=True, text=True, check=True).stdout
    if "--itl" not in known:
        raise Skip("this server has no --itl")
    gaps, most = [], GAP_FACTOR * STEP_BUDGET_MS
    with Running("--ctx", str(tier["context"]), "--itl", str(STEP_BUDGET_MS)) as server:
        while len(gaps) < 3 and not (gaps and min(gaps) <= most):
            # gaps between tokens: those between pieces of text may span several
            r = long_prompt(server, tier, 31 + len(gaps), "--each-token")
            assert r["errors"] == 0, r["error_list"]
            gaps.append(r["long"]["longest_gap_ms"])
    note(f"longest gaps under a step budget of {STEP_BUDGET_MS} ms: {', '.join(f'{g:.1f}' for g in gaps)} ms")
    assert min(gaps) <= most, f"the longest gap is {min(gaps):.1f} ms at best, more than {most:.0f}"


class Encodes:
    """Sends prompts of 64 KB, one after the other, while `on`: more tokens than the context holds, so all that happens is
    that they are encoded."""

    def __init__(self, server):
        words = " ".join(f"word{i * 7919 % 1000} and more text, {i}." for i in range(4000))[:64 << 10]
        body = json.dumps({"prompt": words}).encode()
        self.server, self.request, self.sent = server, head("/v1/completions", len(body)) + body, 0
        self.on, self.stop = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.on.set()
        self.thread.join(30)

    def _run(self):
        while self.on.wait() and not self.stop.is_set():
            with self.server.connect() as sock:
                sock.sendall(self.request)
                assert b" 400 " in sock.recv(4096)
            self.sent += 1


def rates(server, seconds, n, switch):
    """Tokens per second of one stream, in n spans of time; `switch` is set in every second of them."""
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": 6000, "ignore_eos": True, "stream": True,
                       "ffwd": {"fill": "off"}}).encode()
    found, tokens, until = [], 0, None
    with server.connect() as sock, sock.makefile("rb") as lines:
        sock.sendall(head("/v1/completions", len(body)) + body)
        while len(found) < n:
            tokens += lines.readline().startswith(b"data: {")
            now = time.monotonic()
            until = until or now + seconds
            if now >= until:
                found.append(tokens / (seconds + now - until))
                (switch.set if len(found) % 2 else switch.clear)()
                tokens, until = 0, now + seconds
    switch.clear()
    return found


def check_long_encodes_make_way_for_steps(tier):
    """By the clock, and on one processor, where encodes and steps can only take it from each other. Alike they would have
    half of it each."""
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        raise Skip("the clients need a processor too")
    os.sched_setaffinity(0, {min(cpus)})
    running = Running("--threads", "1", "--ctx", str(tier["context"]))
    os.sched_setaffinity(0, cpus - {min(cpus)})
    try:
        with running as server, Encodes(server) as encodes:
            found = rates(server, 1.5, 12, encodes.on)
    finally:
        os.sched_setaffinity(0, cpus)
    left = statistics.median(b / a for a, b in zip(found[::2], found[1::2]))
    note(f"while {encodes.sent} prompts of 64 KB are encoded, {left:.0%} of the decoding speed is left on one processor")
    assert left > 0.75, found


def check_memory_does_not_grow(tier):
    """Keys and values have little room, so that they are all touched soon; after that a request costs nothing for good."""
    third = tier["requests"] // 3
    with Running("--kv-budget", "48") as server:
        options = ("--clients", 8, "--mode", "completion", "--prompt-tokens", tier["words"], "--max-tokens", 4, "--ignore-eos")
        sizes = [resident(server)]
        for seed, n in ((41, third), (42, tier["requests"] - third)):
            r = drive(server, *options, "--requests", n, "--seed", seed, limit=600)
            assert (r["errors"], r["requests"]) == (0, n), r
            sizes.append(resident(server))
    note(f"resident: {sizes[0] / MB:.1f} MB at start, {sizes[1] / MB:.1f} after {third} requests, {sizes[2] / MB:.1f} after "
         f"{tier['requests']}")
    assert sizes[2] - sizes[1] < RSS_GROWTH, f"grew by {(sizes[2] - sizes[1]) / MB:.1f} MB"


# -------------------------------------------------------------------------------------------------------- conversations


SYSTEM = "You are one of several agents that work on one task. " + " ".join(
    f"Rule {i}: when asked about part {i}, answer shortly and name the part." for i in range(1, 13))


def tokens_of_system_prompt():
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump([{"role": "system", "content": SYSTEM}], f)
        f.flush()
        text = subprocess.run([FFWD, "template", "-m", MODEL, "--chat", f.name, "--no-generation"], capture_output=True,
                              check=True).stdout
    ids = subprocess.run([FFWD, "tokenize", "-m", MODEL, "--trusted", "--no-bos", "--json"], input=text,
                         capture_output=True, check=True).stdout
    return len(json.loads(ids)["ids"])


class Agent:
    """One conversation. `asked` is what each of its requests had: (prompt tokens, of them cached)."""

    def __init__(self, server, number):
        self.server, self.number, self.asked, self.trouble = server, number, [], None
        self.messages = [{"role": "system", "content": SYSTEM}]

    def turn(self):
        self.messages.append({"role": "user", "content": f"Agent {self.number}, turn {len(self.asked)}: tell me of part "
                                                         f"{self.number + 3 * len(self.asked)}."})
        body = json.dumps({"messages": self.messages, "max_tokens": 24, "temperature": 0}).encode()
        request = urllib.request.Request(self.server.url + "/v1/chat/completions", body,
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            reply = json.load(answer)
        self.messages.append({"role": "assistant", "content": reply["choices"][0]["message"]["content"]})
        usage = reply["usage"]
        self.asked.append((usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]))

    def turns(self, n):
        try:
            for _ in range(n):
                self.turn()
        except Exception as e:  # pylint: disable=broad-except
            self.trouble = repr(e)


def check_agents_pay_for_what_is_new(tier):
    """Agents that share a system prompt and take turns, more of them than rows: each request finds what was sent before."""
    system = tokens_of_system_prompt()
    with Running("--ctx", "4096", "--rows", "2", "--kv-budget", "512") as server:
        agents = [Agent(server, i) for i in range(tier["agents"])]
        agents[0].turn()  # brings the system prompt
        threads = [threading.Thread(target=a.turns, args=(tier["turns"] - len(a.asked),), daemon=True) for a in agents]
        for t in threads:
            t.start()
        for t in threads:
            t.join(300)
        assert not any(t.is_alive() for t in threads), "agents did not end within 300 s"
        assert not any(a.trouble for a in agents), [a.trouble for a in agents]
    fed = new = requests = 0
    for a in agents:
        before = 0 if a is agents[0] else system
        for prompt, cached in a.asked:
            assert cached >= before // BLOCK * BLOCK, f"agent {a.number}: {cached} cached of {before} sent before: {a.asked}"
            assert before < prompt
            fed, new, requests, before = fed + prompt - cached, new + prompt - before, requests + 1, prompt
    assert requests == tier["agents"] * tier["turns"]
    note(f"{tier['agents']} agents, {requests} requests: {new} new tokens, {fed} fed")
    assert fed <= new + BLOCK * requests, (fed, new, requests)


# ---------------------------------------------------------------------------------------------------------------- main


CHECKS = [check_a_crowd_is_served_fairly, check_streams_go_on_while_a_long_prompt_is_read, check_memory_does_not_grow,
          check_agents_pay_for_what_is_new]
BY_THE_CLOCK = [check_a_long_prompt_keeps_to_the_step_budget, check_long_encodes_make_way_for_steps]


def main():
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in TIERS:
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers are ended
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for check in CHECKS + (BY_THE_CLOCK if name == "long" else []):
        what, start = check.__name__[6:].replace("_", " "), time.monotonic()
        try:
            check(TIERS[name])
            count["passed"] += 1
        except Skip as why:
            count["skipped"] += 1
            note(f"skipped: {what}: {why}")
        except Exception:  # pylint: disable=broad-except
            count["failed"] += 1
            print(f"FAILED: {what}\n{traceback.format_exc(limit=-3)}")
        print(f"{time.monotonic() - start:6.1f} s  {what}", flush=True)
    print("load: {passed} passed, {failed} failed, {skipped} skipped".format(**count))
    return count["failed"] != 0


if __name__ == "__main__":
    sys.exit(main())
