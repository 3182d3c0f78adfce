#!/usr/bin/env python3
"""Requests that schemathesis makes of docs/openapi.json, against a running server.

    fuzz.py MODEL PROGRAM...

No request may bring the server down or be answered with a 5xx, and what comes back has to be as the file says: status,
Content-Type, shape; what the file forbids has to be refused. Each program gets a round with numbers of its own.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../http"), os.path.join(HERE, "../lib")]
import description  # noqa: E402
import served  # noqa: E402

SCHEMATHESIS = os.path.join(os.path.dirname(sys.executable), "schemathesis")
CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
          "negative_data_rejection", "use_after_free"]
EXAMPLES = 40  # made at random of each operation at a time, beside those that try every member
SECONDS = int(os.environ.get("OPENAPI_SECONDS", "100"))  # of a round, in which as many requests are made as it allows
LEAST = 2000   # requests that it has to have


def fuzzed(doc):
    """The description without what schemathesis would misread: a deadline may well end in a 504, and what a stream's text
    is it would take for what each event is."""
    del doc["components"]["schemas"]["Serving"]["properties"]["deadline_ms"]
    for _, _, op in description.operations(doc):
        for media in op["responses"]["200"]["content"].values():
            if "x-item" in media:
                del media["schema"]
    return description.flat(doc, doc)


def run_schemathesis(folder, url, seed):
    """(exit status, output)"""
    path = os.path.join(folder, "openapi.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(fuzzed(description.load()), f)
    command = [SCHEMATHESIS, "--no-color", "run", path, "--url", url, "--checks", ",".join(CHECKS), "--phases",
               "examples,coverage,fuzzing,stateful", "--mode", "all", "--max-examples", str(EXAMPLES), "--seed", str(seed),
               "--max-time", str(SECONDS), "--workers", "1", "--continue-on-failure", "--request-timeout", "60"]
    try:
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=2 * SECONDS + 120)
    except subprocess.TimeoutExpired as e:
        return 1, (e.stdout or b"").decode("utf-8", "replace") + "\nschemathesis did not end in time"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def statuses(path):
    """status -> requests, as the server's own log has them."""
    count = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            status = json.loads(line)["status"]
            count[status] = count.get(status, 0) + 1
    return count


def stopped(server):
    """The exit status; of one that had to be killed, that."""
    try:
        return server.stop()
    except subprocess.TimeoutExpired:
        return server.process.returncode


def fuzz(program, model, seed):
    """What went wrong, a text each."""
    with tempfile.TemporaryDirectory(prefix="ffwd-openapi-") as folder:
        requests = os.path.join(folder, "requests.jsonl")
        # of a short context, so that no reply is long
        server, wrong = served.Served("--port", "0", "--ctx", "256", "--rows", "4", "--no-packed-cache", "--pooling", "mean",
                                      "--log-requests", requests, program=program, model=model, start_s=120, end_s=60), []
        code, output = run_schemathesis(folder, server.url, seed)
        alive = server.process.poll() is None
        if not alive or stopped(server) != 0:
            server.reader.join(10)
            wrong.append(f"the server {'ended badly' if alive else 'died'}:\n" + server.log[-8000:])
        if code:
            wrong.append(output)
        count = statuses(requests)
        total, failed = sum(count.values()), {s: n for s, n in count.items() if s >= 500}
        print(f"note: {program}: {total} requests, seed {seed}, by status {dict(sorted(count.items()))}")
        if total < LEAST:
            wrong.append(f"only {total} requests were made")
        if failed:
            wrong.append(f"5xx: {failed}")
        return wrong


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    failed = 0
    for seed, program in enumerate(sys.argv[2:], 1):
        wrong = fuzz(program, sys.argv[1], seed)
        failed += bool(wrong)
        for text in wrong:
            print(f"{program}: {text}")
    print(f"openapi: {len(sys.argv) - 2 - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
