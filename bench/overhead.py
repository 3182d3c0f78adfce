#!/usr/bin/env python3
"""What `ffwd serve` costs beside the engine: parsing, tokenising, templates, writing events.

    bench/overhead.py [--ffwd PROGRAM] [--threads N] [--streams N] [--rounds N] [--json]

Processor time, not the clock: that of the whole process without the threads of the engine (ffwd-engine, ffwd-work-N), so
that a busy machine and slow clients change it little. SmolLM2 on loopback, `ffwd bench load` as the clients. One load has
replies of one token, another of many; from both follow the cost of a request and of a streamed token. A single stream at
full speed gives what share of the engine's own time that is. The exit status is 0 when it was measured, met or not.
"""
import argparse
import glob
import json
import os
import time

import kit
import servers

REPLY = 65            # tokens of a long reply
TURNS = 3             # requests of each client
IDLE_S = 0.5
REQUEST_US, TOKEN_US, SHARE = 300, 15, 0.01  # bars


def cpu_seconds(pid):
    """Of a process, ended threads included."""
    return time.clock_gettime(~pid << 3 | 2)


def engine_seconds(pid):
    """Of its threads that compute."""
    spent = 0
    for task in glob.glob(f"/proc/{pid}/task/*"):
        try:
            if kit.read_text(f"{task}/comm").startswith(("ffwd-engine", "ffwd-work")):
                spent += int(kit.read_text(f"{task}/schedstat").split()[0]) / 1e9
        except (FileNotFoundError, ProcessLookupError):  # a connection's thread that has just ended
            pass
    return spent


def wait_idle(pid):
    """Until the server has done what it prepares in the background, a grammar of the vocabulary, which is no request's."""
    since = -1
    while cpu_seconds(pid) - since > IDLE_S / 100:
        since = cpu_seconds(pid)
        time.sleep(IDLE_S)


def cost(args, server, clients, tokens, seed):
    """(seconds beside the engine, seconds of the engine) of a load of streams."""
    pid = server.process.pid
    since = cpu_seconds(pid), engine_seconds(pid)
    servers.drive(args, server, seed, "--clients", clients, "--requests", clients * TURNS, "--prompt-tokens", servers.PROMPT,
                  "--max-tokens", tokens)
    engine = engine_seconds(pid) - since[1]
    return cpu_seconds(pid) - since[0] - engine, engine


def measure(args, server, seed):
    """{"request", "token": microseconds, "share": of the engine's time that one stream's tokens cost beside it}."""
    n = args.streams * TURNS
    wait_idle(server.process.pid)
    cost(args, server, 1, 8, seed)  # first use of its memory
    short, _ = cost(args, server, args.streams, 1, seed + 1)
    long, _ = cost(args, server, args.streams, REPLY, seed + 2)
    one, engine = cost(args, server, 1, 4 * REPLY, seed + 3)
    token = (long - short) / (n * (REPLY - 1))
    return {"request": 1e6 * (short / n - token), "token": 1e6 * token, "share": one / engine}


def main():
    ask = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    ask.add_argument("--ffwd", default=os.environ.get("FFWD", os.path.join(kit.BUILD, "ffwd")))
    ask.add_argument("--threads", type=int, default=2)
    ask.add_argument("--streams", type=int, default=64)
    ask.add_argument("--rounds", type=int, default=3)
    ask.add_argument("--json", action="store_true", help="prints one JSON object and nothing else")
    args = ask.parse_args()
    model = kit.known_model(args.ffwd, "smollm2")
    server = servers.Server("ffwd", lambda port, slots: [
        args.ffwd, "serve", "-m", model, "--host", "127.0.0.1", "--port", str(port), "--threads", str(args.threads), "--rows",
        str(slots), "--ctx", "512"])
    got = {name: kit.Figures() for name in ("request", "token", "share")}
    with server.running(args.streams):
        for i in range(args.rounds):
            for name, value in measure(args, server, 100 * i).items():
                got[name].add(value)
    if args.json:
        print(json.dumps({name: f.median for name, f in got.items()} | {"streams": args.streams, "rounds": args.rounds}))
        return
    for name, what, bar, scale, digits in (
            ("request", f"a request, {args.streams} clients, µs beside the engine", REQUEST_US, 1, 0),
            ("token", f"a streamed token, {args.streams} streams, µs beside the engine", TOKEN_US, 1, 1),
            ("share", "one stream: percent of the engine's time", SHARE, 100, 2)):
        f = kit.Figures(scale * v for v in got[name].values)
        print(f"{what}: {f.text(digits)}, bar ≤ {scale * bar:g}: {kit.met_text(f.median <= scale * bar)}".replace("**", ""))


if __name__ == "__main__":
    main()
