#!/usr/bin/env python3
"""What constrained decoding writes for a schema is valid for the schema, or the schema is refused with a reason.

    tests/schema/run.py SAMPLE TOKENIZER.gguf [--samples N] [--every K] [--tools K] [--file SCHEMAS.jsonl] [--verbose]

SAMPLE is tests/schema/sample.c, built. For each schema of the official suite (draft 2020-12) and of the functions in
bfcl-eval's data a random model writes N texts; each has to parse and to validate with `jsonschema`. --every and --tools
take each K-th schema of the two, --file other schemas, one a line. Closes with "N passed, N failed": one for each schema.
"""
import argparse
import collections
import decimal
import glob
import json
import os
import re
import subprocess
import sys

import jsonschema

import fetch

sys.set_int_max_str_digits(0)
sys.setrecursionlimit(10000)
# Numbers are compared as they are written, not as doubles.
decimal.getcontext().prec = 4000
decimal.getcontext().Emax = decimal.MAX_EMAX
decimal.getcontext().Emin = decimal.MIN_EMIN

CHECKED = jsonschema.FormatChecker(formats=["date", "email", "ipv4", "ipv6", "uuid"])
# bfcl-eval names types as Python, Java and JavaScript do.
TYPES = {"dict": "object", "hashmap": "object", "float": "number", "double": "number", "long": "integer",
         "byte": "integer", "short": "integer", "tuple": "array", "list": "array", "arraylist": "array", "set": "array",
         "char": "string", "bigint": "integer", "int": "integer", "bool": "boolean", "str": "string",
         "queue": "array", "stack": "array"}
UNCHECKED = "a pattern that Python's re cannot read"
KNOWN = {"null", "boolean", "integer", "number", "string", "array", "object"}


def official(every):
    # `content` and `format` of the suite are about annotations; they are schemas like others here.
    schemas = []
    for path in sorted(glob.glob(fetch.suite() + "/**/*.json", recursive=True)):
        name = os.path.relpath(path, fetch.suite())[:-5]
        with open(path, encoding="utf-8") as f:
            for group in json.load(f, parse_float=decimal.Decimal):
                schemas.append((f"{name}: {group['description']}", group["schema"]))
    return schemas[::every]


def json_types(node):
    """A function's parameters with the types of JSON Schema."""
    if isinstance(node, list):
        return [json_types(n) for n in node]
    if not isinstance(node, dict):
        return node
    out = {}
    for key, value in node.items():
        if key == "type" and isinstance(value, str):
            name = TYPES.get(value.lower(), value.lower())
            if name in KNOWN:
                out[key] = name
        elif key == "properties" and isinstance(value, dict):
            out[key] = {name: json_types(v) for name, v in value.items()}
        elif key in ("items", "additionalProperties"):
            out[key] = json_types(value)
        elif key in ("required", "enum", "minItems", "maxItems", "minimum", "maximum", "pattern", "format", "description"):
            out[key] = value
    if not isinstance(out.get("required", []), list):
        del out["required"]
    return out


def functions(every):
    seen, schemas = set(), []
    for path in sorted(glob.glob(fetch.tools() + "/BFCL_v4_*.json")):
        with open(path, encoding="utf-8") as f:
            for line in f:
                if not line.startswith('{"id"'):
                    continue
                for function in json.loads(line, parse_float=decimal.Decimal).get("function", []):
                    schema = json_types(function.get("parameters", {}))
                    text = dumps(schema)
                    if text not in seen:
                        seen.add(text)
                        schemas.append((f"{os.path.basename(path)[8:-5]}: {function.get('name')}", schema))
    return schemas[::every]


def dumps(schema):
    def plain(x):
        if isinstance(x, decimal.Decimal):
            return "%DECIMAL%" + str(x) + "%DECIMAL%"
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items()}
        return [plain(v) for v in x] if isinstance(x, list) else x
    return json.dumps(plain(schema)).replace('"%DECIMAL%', "").replace('%DECIMAL%"', "")


def verdict(schema, sample):
    """None, or what is wrong with a text."""
    if sample.get("broken"):
        return sample["broken"]
    if not sample["done"]:
        return None
    try:
        value = json.loads(sample["text"], parse_float=decimal.Decimal)
    except (ValueError, TypeError) as e:
        return f"not JSON: {e}"
    try:
        errors = list(jsonschema.Draft202012Validator(schema, format_checker=CHECKED).iter_errors(value))
    except re.error:
        return UNCHECKED
    return errors[0].message[:200] if errors else None


def masks_are_quick(sample, tokenizer, schemas):
    """SO6: finding which tokens may come next takes less than a millisecond of a processor, 99 times of 100."""
    lines = "".join(dumps(schema) + "\n" for _, schema in schemas)
    run = subprocess.run([sample, "time", tokenizer, "2"], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    print("note: " + run.stdout.decode().strip())
    found = re.match(r"(\d+) masks, .*p99 ([\d.]+) us", run.stdout.decode())
    return int(found[1]) > 1000 and float(found[2]) < 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sample")
    parser.add_argument("tokenizer")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--tools", type=int, default=1)
    parser.add_argument("--file")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if args.file:
        with open(args.file, encoding="utf-8") as f:
            schemas = [(f"line {i + 1}", json.loads(line, parse_float=decimal.Decimal)) for i, line in enumerate(f)]
    else:
        schemas = official(args.every) + functions(args.tools)
    lines = "".join(dumps(schema) + "\n" for _, schema in schemas)
    run = subprocess.run([args.sample, "write", args.tokenizer, str(args.samples)], input=lines.encode(),
                         stdout=subprocess.PIPE, check=True)
    answers = run.stdout.decode().rstrip("\n").split("\n")
    if len(answers) != len(schemas):
        sys.exit(f"{len(answers)} answers to {len(schemas)} schemas")
    total, failed, slow = collections.Counter(), 0, 0.0
    for (name, schema), line in zip(schemas, answers):
        answer = json.loads(line)
        total[answer["status"]] += 1
        slow = max(slow, answer["ms"])
        if answer["status"] != "ok":
            bad = answer["status"] not in ("unsupported", "argument", "too_long") or not answer.get("why")
            if bad or args.verbose:
                print(f"{name}: {answer['status']}: {answer.get('why')}")
            failed += bad
            continue
        wrong = []
        for sample in answer["samples"]:
            total["texts"] += 1
            total["tokens"] += sample["tokens"]
            total["forced"] += sample["forced"]
            total["complete" if sample["done"] and not sample["cut"] else "cut, then closed" if sample["done"] else
                  "never closed"] += 1
            why = verdict(schema, sample)
            if why == UNCHECKED:
                total["not checked"] += 1
            elif why:
                wrong.append((why, sample["text"]))
        if wrong or len(answer["samples"]) != args.samples:
            failed += 1
            print(f"WRONG {name}\n  {dumps(schema)[:600]}")
            for why, text in wrong[:2]:
                print(f"  {why}\n  {text!r:.400}")
    print("note: " + ", ".join(f"{n} {what}" for what, n in sorted(total.items())) + f"; slowest compilation {slow:.0f} ms")
    if total["complete"] * 2 < total["texts"]:
        failed += 1
        print("too few texts were complete")
    if not args.file and not masks_are_quick(args.sample, args.tokenizer, functions(10 * args.tools)):
        failed += 1
        print("masks take too long")
    print(f"{len(schemas) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
