#!/usr/bin/env python3
"""Renders every real template with every conversation, by Jinja2 and by ffwd, and compares.

    templates.py PROBE CORPUS [NAME…]    NAME: only templates whose name contains it
"""
import glob
import html
import json
import os
import sys

import conversations
import extras
import reference
from probe import Probe

# Where ffwd differs, with what makes the two alike again; docs/templates.md says why.
DIFFERENCES = {
    # This template adds plain strings to `|safe` ones, which MarkupSafe answers by HTML-escaping the plain ones.
    "meetkai-functionary-medium-v3.1": html.unescape,
}


def compare(ours, name, source, env, cases, failures):
    try:
        theirs = env.from_string(source)
    except Exception as e:
        failures.append(f"{name}: Jinja2 does not parse it: {e}")
        return 0, 0, 0
    problem = ours.template(source)
    if problem:
        failures.append(f"{name}: {problem}")
        return 0, 0, 0
    raised = done = differ = 0
    for case, variables in cases:
        kind, want = reference.render(theirs, json.loads(json.dumps(variables)))
        ours.send(0, json.dumps(variables).encode())
        status, got = ours.receive()
        ours.receive()
        ours.receive()
        got = got.decode()
        done += 1
        if kind == "error":
            raised += 1
            if status == 0 and name == "llama-cpp-deepseek-r1" and "generator is not JSON" in want:
                differ, raised = differ + 1, raised - 1
            elif status != 1:
                failures.append(f"{name} {case}: Jinja2 raises {want[:200]}; ffwd gives {got[:200]!r}")
            elif want.startswith("TemplateError: ") and want[15:][:200] not in got and "\n" not in want:
                failures.append(f"{name} {case}: Jinja2 raises {want[:200]}; ffwd {got[:200]}")
        elif status != 0:
            failures.append(f"{name} {case}: ffwd fails: {got[:300]}; Jinja2 gives {want[:100]!r}")
        elif got != want and DIFFERENCES.get(name, str)(got) == DIFFERENCES.get(name, str)(want):
            differ += 1
        elif got != want:
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            failures.append(f"{name} {case}: differs at {at}\n   ffwd   {got[max(0, at - 60):at + 60]!r}\n   Jinja2 {want[max(0, at - 60):at + 60]!r}")
    return done, raised, differ


def main():
    program, corpus, *only = sys.argv[1:]
    env = reference.environment()
    ours = Probe(program, "tpl")
    failures = []
    paths = sorted(glob.glob(os.path.join(corpus, "templates", "*.jinja")))
    if not paths:
        sys.exit(f"no templates in {corpus}")
    count = done = raised = differ = 0
    for path in paths:
        name = os.path.basename(path)[:-6]
        if only and not any(o in name for o in only):
            continue
        with open(path, encoding="utf-8", newline="") as f:
            source = f.read()
        d, r, x = compare(ours, name, source, env, list(conversations.cases()), failures)
        count, done, raised, differ = count + 1, done + d, raised + r, differ + x
    if not only or "extras" in only:
        done += extras.compare(ours, env, compare, failures)
    for f in failures[:(1 << 30) if os.environ.get("VERBOSE") else 40]:
        print(f)
    print(f"note: {count} templates, {done} renderings, {raised} of them raise in both, {differ} differ as docs/templates.md says")
    print(f"{done - len(failures)} passed, {len(failures)} failed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
