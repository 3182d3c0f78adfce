#!/usr/bin/env python3
"""Measures `ffwd serve` against other servers on this machine, and prints which of the project's bars are met.

    bench/servers.py [--ffwd PROGRAM] [--peers DIR] [--threads N] [--rounds N] [--out FILE]

Each server takes its turn (A B C A B C ...) and gets the same requests from `ffwd bench load` over OpenAI's API: the same
prompts, replies of the same length. The other servers are those of bench/peers.sh, ik_llama.cpp's only where it was built;
IK_SERVER names another program. All listen on loopback, one at a time. Needs an otherwise idle machine and says so when
it is not. Writes bench/SERVERS.md. The exit status is 0 when everything was measured, met or not.

BENCH_QUICK=1 runs everything in small, to see that it works: its figures mean nothing and no file is written.
"""
import argparse
import datetime
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import kit

QUICK = os.environ.get("BENCH_QUICK", "") not in ("", "0")
SLOT = 4096       # context of each slot
REPLY = 8 if QUICK else 64  # tokens of each reply
PROMPT = 40       # words of a prompt
LONG = 200 if QUICK else 2000
WHOLE_S = 480     # no further round begins that would end after so long
START_S = 60

# (name, what it is, digits)
FIGURES = [
    ("rate1", "1 client, tok/s", 0),
    ("rate8", "8 clients, tok/s", 0),
    ("rate16", "16 clients on 16 slots, tok/s", 0),
    ("ttft50", "8 clients: first token p50, ms", 0),
    ("ttft95", "first token p95, ms", 0),
    ("itl50", "between tokens p50, ms", 1),
    ("itl95", "between tokens p95, ms", 1),
    ("itl99", "between tokens p99, ms", 1),
    ("long", f"a prompt of {LONG} words among 4 streams: its first token, ms", 0),
    ("gap", "longest gap of the 4 streams meanwhile, ms", 0),
    ("cold", f"{LONG} words of prefix and 20 new: first token the first time, ms", 0),
    ("warm", "first token again, ms", 1),
    ("share", "that in percent of the first time", 1),
]


def ask(url):
    with urllib.request.urlopen(url, timeout=5) as reply:
        return reply.status, reply.read()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server program: how it is started with a number of slots. One runs at a time, within `with server.running(n)`."""

    def __init__(self, name, command):
        self.name, self.command = name, command
        self.process = self.log = self.url = None

    def running(self, slots):
        self.slots = slots
        return self

    def said(self):
        self.log.seek(0)
        lines = self.log.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "nothing"

    def __enter__(self):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.log = tempfile.TemporaryFile()
        program, *options = self.command(port, self.slots)
        self.process = subprocess.Popen([os.path.abspath(program), *options], stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, cwd=tempfile.gettempdir())  # some leave files where they run
        until = time.monotonic() + START_S
        try:
            while not self._healthy():
                if self.process.poll() is not None or time.monotonic() > until:
                    kit.die(f"{self.name} does not start; the last it said: {self.said()}")
                time.sleep(0.05)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _healthy(self):
        try:
            return ask(self.url + "/health")[0] == 200
        except (urllib.error.URLError, OSError):
            return False

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


def flash_attention(program):
    """How ik_llama.cpp's server is told to use it: older ones take -fa alone, newer ones want a word behind it."""
    run = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    return ["-fa", "on"] if re.search(r"--flash-attn\b[^\n]*\bon\b", run.stdout + run.stderr) else ["-fa"]


def servers_of(args, model):
    threads, common = str(args.threads), ["-m", model, "--host", "127.0.0.1"]

    def ours(port, slots):
        return [args.ffwd, "serve", *common, "--port", str(port), "--threads", threads, "--rows", str(slots), "--ctx", str(SLOT)]

    def theirs(program, *more):
        return lambda port, slots: [program, *common, "--port", str(port), "-t", threads, "-np", str(slots), "-c",
                                    str(slots * SLOT), *more]

    found = [Server("ffwd", ours),
             Server("llama.cpp", theirs(os.path.join(kit.llama_cpp(args.peers, "llama-server"), "llama-server"), "-fa", "on"))]
    named, built = os.environ.get("IK_SERVER", ""), kit.peer_folder("ik")
    if named and not os.access(named, os.X_OK):
        kit.die(f"IK_SERVER: {named} is no program")
    ik = named or (os.path.join(built, "llama-server") if built and not kit.lacks(built, ["llama-server"]) else "")
    if ik:
        found.append(Server("ik_llama.cpp", theirs(ik, *flash_attention(ik), "-rtr")))
    else:
        kit.say("ik_llama.cpp is left out: its llama-server was not built (bench/peers.sh), and IK_SERVER names none")
    return found


# ------------------------------------------------------------------------------------------------------- measuring


def drive(args, server, seed, *options):
    command = [args.ffwd, "bench", "load", "--url", server.url, "--json", "--ignore-eos", "--seed", str(seed),
               *map(str, options)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    except subprocess.TimeoutExpired:
        kit.die(f"{server.name}: no end of {' '.join(command[3:])}")
    if run.returncode:
        kit.die(f"{server.name}: {run.stderr.strip()}")
    report = json.loads(run.stdout)
    if report["errors"] or not report["requests"]:
        first = report["error_list"][0]["text"] if report["error_list"] else "no request ended"
        kit.die(f"{server.name}: {report['errors']} errors: {first}")
    return report


def several(args, server, seed, clients, turns):
    return drive(args, server, seed, "--clients", clients, "--requests", clients * turns, "--prompt-tokens", PROMPT,
                 "--max-tokens", REPLY)


def measure_eight(args, server, seed):
    """What is measured on a server with 8 slots."""
    drive(args, server, seed + 9, "--clients", 1, "--requests", 1, "--max-tokens", 8)  # first use of its memory
    one = several(args, server, seed, 1, 1 if QUICK else 3)
    eight = several(args, server, seed + 1, 8, 1 if QUICK else 3)
    among = drive(args, server, seed + 2, "--clients", 4, "--seconds", 2 if QUICK else 4, "--prompt-tokens", PROMPT,
                  "--max-tokens", 2 * REPLY, "--long-prompt", LONG, "--long-at", 1)
    long = among["long"]
    if long["ttft_ms"] is None or long["longest_gap_ms"] is None:
        kit.die(f"{server.name}: the long prompt had no first token, or no stream ran beside it")
    prefix = ("--clients", 1, "--shared-prefix", LONG, "--prompt-tokens", 20, "--max-tokens", 4)
    cold = drive(args, server, seed + 3, *prefix, "--requests", 1)["ttft_ms"]["max"]
    warm = drive(args, server, seed + 3, *prefix, "--requests", 5)["ttft_ms"]["p50"]
    ttft, itl = eight["ttft_ms"], eight["itl_ms"]
    return {"rate1": one["tokens_per_s"], "rate8": eight["tokens_per_s"], "ttft50": ttft["p50"], "ttft95": ttft["p95"],
            "itl50": itl["p50"], "itl95": itl["p95"], "itl99": itl["p99"], "long": long["ttft_ms"],
            "gap": long["longest_gap_ms"], "cold": cold, "warm": warm, "share": 100 * warm / cold}


def measure(args, server, seed):
    with server.running(8):
        got = measure_eight(args, server, seed)
    with server.running(16):
        got["rate16"] = several(args, server, seed + 4, 16, 1 if QUICK else 2)["tokens_per_s"]
    return got


def measure_all(args, servers):
    """{server's name: {figure's name: Figures}}, and how many rounds there was time for."""
    got = {s.name: {name: kit.Figures() for name, *_ in FIGURES} for s in servers}
    start = time.monotonic()
    for i in range(args.rounds):
        for s in servers:
            kit.say(f"  round {i + 1} of {args.rounds}: {s.name}")
            for name, value in measure(args, s, 100 * i).items():
                got[s.name][name].add(value)
        spent = time.monotonic() - start
        if i + 1 < args.rounds and spent / (i + 1) * (i + 2) > WHOLE_S:
            kit.say(f"servers: a further round would end after {WHOLE_S} s: {i + 1} of {args.rounds} measured")
            return got, i + 1
    return got, args.rounds


# ------------------------------------------------------------------------------------------------------- reporting


def against_best(got, name, less_is_better):
    """(Figures of ours / theirs round by round, the peer): theirs is the peer with the better median."""
    peer = kit.better({p: got[p][name] for p in got if p != "ffwd"}, less_is_better)
    return kit.ratios(got["ffwd"][name], got[peer][name]), peer


def bars_of(got):
    """(what, value as text, bar as text, met)."""
    rows = []
    for what, name, less, bar in (("8 clients, tok/s", "rate8", False, 1.5),
                                  ("longest gap of streams while a long prompt arrives", "gap", True, 0.1),
                                  ("that prompt's first token", "long", True, 1)):
        ratio, peer = against_best(got, name, less)
        met = ratio.median <= bar if less else ratio.median >= bar
        rows.append((f"{what}, ratio to {peer}", ratio.text(2), f"{'≤' if less else '≥'} {bar}", met))
    share = got["ffwd"]["share"]
    rows.append(("a repeated prefix: first token in percent of the first time", share.text(1), "≤ 5", share.median <= 5))
    return rows


def report(got, args, rounds, info, busy):
    names = list(got)
    head = [
        "# ffwd's server and others on one machine", "",
        f"Written by `bench/servers.py` on {datetime.date.today().isoformat()}. {kit.processor()}; {args.threads} threads. "
        f"Kernels of ffwd: {info['why'].rstrip('.')}. SmolLM2-135M Q4_1, {SLOT} tokens of context in each slot, 8 slots "
        f"unless said; replies of {REPLY} tokens to prompts of about {PROMPT} that begin differently, streamed, at "
        f"temperature 0, from `ffwd bench load` on the same machine. llama.cpp is the copy in llama-cpp-python 0.3.36, built "
        f"natively, with `-fa on`" + (", ik_llama.cpp with `-fa -rtr`" if "ik_llama.cpp" in got else "") +
        f". Medians of {rounds} alternating rounds [range].", ""]
    if "ik_llama.cpp" not in got:
        head += ["ik_llama.cpp was not there, so the better peer is llama.cpp.", ""]
    head += kit.busy_text(busy)
    rows = [(what, value, bar, kit.met_text(met)) for what, value, bar, met in bars_of(got)]
    figures = [(what, *(got[n][name].text(digits) for n in names)) for name, what, digits in FIGURES]
    return "\n".join(head + ["## Bars", "", kit.table(("", "measured", "bar", ""), rows), "",
                             "## Figures", "", kit.table(("", *names), figures), ""])


def main():
    want = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    want.add_argument("--ffwd", default=os.environ.get("FFWD", os.path.join(kit.ROOT, "build/ffwd")))
    want.add_argument("--peers", default="", help="folder of llama.cpp's programs (default: where bench/peers.sh puts them)")
    want.add_argument("--threads", type=int, default=2)
    want.add_argument("--rounds", type=int, default=1 if QUICK else 3)
    want.add_argument("--out", default="-" if QUICK else os.path.join(kit.HERE, "SERVERS.md"), help="- writes no file")
    args = want.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server under way is ended
    model = kit.known_model(args.ffwd, "smollm2")
    servers = servers_of(args, model)
    busy = kit.busy()
    if QUICK:
        kit.say("servers: BENCH_QUICK: the figures mean nothing")
    kit.read_whole(model)
    info = json.loads(kit.output([args.ffwd, "info", "--json"]))
    got, rounds = measure_all(args, servers)
    text = report(got, args, rounds, info, busy)
    if args.out != "-":
        kit.write_text(args.out, text)
    else:
        print(text)
    for what, value, bar, met in bars_of(got):
        print(f"{'met   ' if met else 'MISSED'}  {info['isa']}: {what}: {value} (bar {bar})")


if __name__ == "__main__":
    main()
