#!/usr/bin/env python3
"""Makes the corpus of recorded conversations that `ffwd bench replay` measures with.

    bench/corpus/make.py [--out build/bench/replay.jsonl] [--lines 24] [--tool-lines 120] [--format hermes] [--seed 1]

Each line is a conversation, what the request asked for, and the reply the model is taken to write. Classes:

    tools_required  function calls under tool_choice "required": nothing but the calls
    tools_auto      the same under "auto": calls, some after a sentence, and answers without any
    chat            prose, from this repository's pages
    code            this repository's C files
    near_copies     text that begins like something in the prompt again and again, and then differs
    edit            a file in the prompt, and the whole file with a function renamed
    extraction      records of ten schemas under response_format json_schema, in two spacings

Calls, questions and tools are those of the PyPI package bfcl-eval, multi-turn ones with the results of their simulated
tools. Calls are spelt as the chat templates that --format names spell them. The same arguments and the same state of the
repository give the same bytes.
"""
import argparse
import collections
import itertools
import json
import os
import random

import bfcl
import texts

ONE_TURN = ["simple_python", "live_simple", "multiple", "live_multiple", "parallel", "parallel_multiple", "live_parallel",
            "live_parallel_multiple"]
NO_CALL = ["irrelevance", "live_irrelevance"]
MOST_TOOLS, MOST_TOOL_CHARS, MOST_CHARS, MOST_REPLY = 8, 5000, 5000, 3000

BEFORE = ["I'll look that up for you.", "Let me check.", "Sure, one moment.",
          "To answer this I need to call a tool first.", "Okay, I will take care of it now."]
REFUSALS = ["I'm afraid I can't help with that: none of the tools I have here fits this request.",
            "That is outside of what I can do with the functions available to me. Could you rephrase what you need?",
            "I don't have a tool for this. If you can give me more details, I can try to answer from what I know.",
            "None of the available functions can be used to answer your question."]


def dumps(value):
    """As Jinja's tojson in chat templates does it."""
    return json.dumps(value, ensure_ascii=False)


# How templates write calls: the text of [(name, arguments), ...].
FORMATS = {
    "hermes": lambda calls: "\n".join(
        f'<tool_call>\n{{"name": "{name}", "arguments": {dumps(args)}}}\n</tool_call>' for name, args in calls),
    "llama3": lambda calls: "; ".join(f'{{"name": "{name}", "parameters": {dumps(args)}}}' for name, args in calls),
    "mistral": lambda calls: "[TOOL_CALLS] [" + ", ".join(
        f'{{"name": "{name}", "arguments": {dumps(args)}}}' for name, args in calls) + "]",
}


def fits(messages, tools):
    return (len(dumps(messages)) <= MOST_CHARS and len(tools) <= MOST_TOOLS and len(dumps(tools)) <= MOST_TOOL_CHARS
            and messages[-1]["role"] in ("user", "tool") and all(isinstance(m["content"], str) for m in messages))


def takes_turns(groups):
    """One of each group in turn until all are used up."""
    for row in itertools.zip_longest(*groups):
        yield from (item for item in row if item is not None)


def called(draw):
    """(messages, tools, calls) of the data's calls, kinds of questions in turn, half of each kind left for the other class."""
    groups = []
    for source in [bfcl.single_turns([name]) for name in ONE_TURN] + [bfcl.multi_turns(MOST_TOOLS)]:
        items = [(messages, tools, calls) for _, messages, tools, calls in source if calls and fits(messages, tools)]
        draw.shuffle(items)
        groups.append(items)
    return [list(takes_turns([items[half::2] for items in groups])) for half in (0, 1)]


def tool_line(cls, choice, messages, tools, reply):
    return {"class": cls, "messages": messages, "tools": tools, "tool_choice": choice, "reply": reply}


def required(items, write):
    for messages, tools, calls in items:
        yield tool_line("tools_required", "required", messages, tools, write(calls))


def auto(items, write, draw):
    """Of four: two calls alone, one after a sentence, one answer without a call."""
    plain = [(m, t) for _, m, t, _ in bfcl.single_turns(NO_CALL) if fits(m, t)]
    draw.shuffle(plain)
    plain = iter(plain)
    for i, (messages, tools, calls) in enumerate(items):
        if i % 4 == 3:
            messages, tools = next(plain)
            yield tool_line("tools_auto", "auto", messages, tools, draw.choice(REFUSALS))
        else:
            before = draw.choice(BEFORE) + "\n" if i % 4 == 1 else ""
            yield tool_line("tools_auto", "auto", messages, tools, before + write(calls))


def text_lines(cls, made):
    for messages, form, reply in made:
        line = {"class": cls, "messages": messages}
        if form:
            line["response_format"] = form
        yield dict(line, reply=reply)


def spread(lines, n):
    """n of them, evenly over the whole."""
    lines = [line for line in lines if len(line["reply"]) <= MOST_REPLY]
    return [lines[i * len(lines) // n] for i in range(n)] if len(lines) > n else lines


def corpus(args):
    draw, write = random.Random(args.seed), FORMATS[args.format]
    first, second = called(draw)
    made = list(itertools.islice((line for line in required(first, write) if len(line["reply"]) <= MOST_REPLY),
                                 args.tool_lines))
    made += itertools.islice((line for line in auto(second, write, draw) if len(line["reply"]) <= MOST_REPLY),
                             args.tool_lines)
    for cls, source in [("chat", texts.chat()), ("code", texts.code()), ("near_copies", texts.near_copies()),
                        ("edit", texts.edits()), ("extraction", texts.extraction())]:
        made += spread(text_lines(cls, source), args.lines)
    return made


def main():
    ask = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    ask.add_argument("--out", default=os.path.join(texts.ROOT, "build/bench/replay.jsonl"))
    ask.add_argument("--lines", type=int, default=24, help="of each class that is no tool call, at most")
    ask.add_argument("--tool-lines", type=int, default=120, help="of each of the two classes of tool calls")
    ask.add_argument("--format", choices=sorted(FORMATS), default="hermes", help="how calls are spelt")
    ask.add_argument("--seed", type=int, default=1)
    args = ask.parse_args()
    made = corpus(args)
    os.makedirs(os.path.dirname(os.path.abspath(args.out)), exist_ok=True)
    with open(args.out + ".new", "w", encoding="utf-8") as f:
        f.writelines(dumps(line) + "\n" for line in made)
    os.replace(args.out + ".new", args.out)
    counts = collections.Counter(line["class"] for line in made)
    print(f"{args.out}: " + ", ".join(f"{n} {cls}" for cls, n in counts.items()))


if __name__ == "__main__":
    main()
