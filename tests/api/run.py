#!/usr/bin/env python3
"""Plays the text cases against real servers: each reply must be what its case says, byte by byte but for named values.

    tests/api/run.py [--update] [WORD...]

WORDs choose cases whose names contain one of them. --update writes what the servers reply into the cases; read the
difference before it is committed, for a case says what the API's documentation says, not what a server does.
FFWD is the program, SMOLLM2 the model. Closes with "N passed, N failed".
"""
import argparse
import concurrent.futures
import difflib
import glob
import http.client
import os
import sys

import told
from case import Case
from servers import HERE, Servers

AT_ONCE = 8
SECONDS = 60
MOST_BYTES = 4 << 20


def request_bytes(exchange, names):
    """As the case writes it. HTTP/1.1, Host, Connection and the body's length and type are added where it does not say."""
    line, body = exchange.line, names.fill_in(exchange.body).encode()
    headers = [names.fill_in(h) for h in exchange.headers]
    given = {h.partition(":")[0].lower() for h in headers}
    usual = [("Host", "localhost"), ("Connection", "close")]
    if body:
        usual.append(("Content-Type", "application/json"))
    if body and "transfer-encoding" not in given:
        usual.append(("Content-Length", str(len(body))))
    headers += [f"{name}: {value}" for name, value in usual if name.lower() not in given]
    line = names.fill_in(line) + ("" if " HTTP/" in line else " HTTP/1.1")
    return "\r\n".join([line, *headers, "", ""]).encode() + body


def play(exchange, server, names):
    """The text of the reply."""
    try:
        with server.connect(SECONDS) as sock:
            sock.sendall(request_bytes(exchange, names))
            reply = http.client.HTTPResponse(sock, method=exchange.line.split()[0])
            reply.begin()
            body = reply.read(MOST_BYTES)
            return told.tell(reply.status, reply.headers, body, names)
    except (OSError, http.client.HTTPException) as e:
        return f"<-- none: {type(e).__name__}: {e}\n"


def run(case, servers):
    """The replies' texts, in order."""
    names, server = told.Names(), servers.get(case.server)
    return [play(e, server, names) for e in case.exchanges]


def difference(case, replies):
    """What a reader sees of a case that fails."""
    lines = [f"{case.name}: {case.about}"]
    for exchange, reply in zip(case.exchanges, replies):
        if exchange.reply != reply:
            lines += ["  --> " + exchange.line] + ["  " + d for d in difflib.unified_diff(
                exchange.reply.splitlines(), reply.splitlines(), "expected", "replied", lineterm="", n=2)]
    return "\n".join(lines)


def judge(case, replies, update):
    """Whether the case passes; with `update` it always does, and the file may change."""
    if all(e.reply == r for e, r in zip(case.exchanges, replies)):
        return True
    if not update:
        print(difference(case, replies) + "\n", flush=True)
        return False
    for exchange, reply in zip(case.exchanges, replies):
        exchange.reply = reply
    case.write()
    print(f"rewritten: {case.name}")
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--update", action="store_true")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    root = os.path.join(HERE, "cases")
    named = {os.path.relpath(p, root)[:-4]: p for p in sorted(glob.glob(root + "/*/*.txt"))}
    cases = [Case(p, name) for name, p in named.items() if not args.words or any(w in name for w in args.words)]
    servers, failed = Servers(), 0
    try:
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for case, replies in zip(cases, pool.map(lambda c: run(c, servers), cases)):
                failed += not judge(case, replies, args.update)
    finally:
        wrong = servers.stop()
    print("\n".join(wrong) + f"\napi: {len(cases) - failed} passed, {failed + len(wrong)} failed")
    return 1 if failed or wrong or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
