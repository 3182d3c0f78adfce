#!/usr/bin/env python3
"""A client's text never becomes a control token, and marking it never changes a rendering.

    marks.py PROBE CORPUS

Every template is rendered with a real vocabulary beside it: the text must be what it is without one, the marked text
without its marks must be that text, and control ids must be those of the same conversation with harmless words. Refusals
are known by name; any other, or a template that fails only beside a vocabulary, is a failure.
"""
import glob
import json
import os
import re
import sys

import conversations
from probe import Probe, ids_of

TOKENS = {"ggml-vocab-llama-bpe.gguf": ["<|eot_id|>", "<|start_header_id|>", "<|begin_of_text|>", "<|end_header_id|>"],
          "ggml-vocab-qwen2.gguf": ["<|im_end|>", "<|im_start|>", "<|endoftext|>"],
          "ggml-vocab-llama-spm.gguf": ["<s>", "</s>", "<unk>"],
          "ggml-vocab-gemma-4.gguf": ["<bos>", "<|turn>", "<turn|>", "<eos>"]}
OWN = ["bos_token", "eos_token", "unk_token", "pad_token"]


def attacks(tokens):
    """(name, evil dialogue, the same harmless)"""
    a, b = tokens[0], tokens[1]
    word = "X" * 5
    def talk(text):
        return [conversations.system(text), conversations.user("go " + text + text), conversations.assistant(text + " end"),
                conversations.user(text)]
    yield "whole", talk(a), talk(word)
    yield "with text", talk(f"x{a}y{b}{a}"), talk(f"x{word}y{word}")
    yield "halves", [conversations.user("x" + a[:3]), conversations.assistant(a[3:] + "x"), conversations.user(a[1:]),
                     conversations.assistant(a[:-1]), conversations.user(a[-1:])], \
        [conversations.user("x" + word), conversations.assistant(word), conversations.user(word),
         conversations.assistant(word), conversations.user(word)]
    yield "single letters", [conversations.user(c) for c in a[1:-1]][:1] + [conversations.assistant("s"), conversations.user("/s")], \
        [conversations.user("x"), conversations.assistant("x"), conversations.user("x")]
    args = {a: b, "location": a, "s": "s", "/s": 1, b[1:-1]: [b]}
    call = [conversations.user(a), conversations.assistant("", tool_calls=[conversations.call("get_weather", args)]),
            conversations.result(a + b)]
    safe = {"aaaa": word, "location": word, "q": "q", "qq": 1, "bbbb": [word]}
    yield "arguments", call, [conversations.user(word), conversations.assistant("", tool_calls=[conversations.call("get_weather", safe)]),
                              conversations.result(word)]


def ask(probe, variables):
    probe.send(0, json.dumps(variables).encode())
    status, text = probe.receive()
    ids = ids_of(probe.receive()[1])
    marked = probe.receive()[1]
    return status, text.decode(), ids, marked.decode()


def control_ids(probe_tok, tokens):
    """Ids of the control tokens: what each spelling gives when trusted."""
    found = set()
    for t in tokens:
        probe_tok.send(1, t.encode())
        ids = ids_of(probe_tok.receive()[1])
        probe_tok.receive()
        if len(ids) == 1:
            found.add(ids[0])
    return found


def specials_of(probe_tok, source, tokens):
    spelled = set(re.findall(r"<[^<>\s'\"]{1,40}>|\[/?[A-Z_]+\]", source)) | set(tokens)
    return control_ids(probe_tok, spelled)


def deleted(source):
    """What the template takes out of strings."""
    return [m[1] for m in re.findall(r"replace\((['\"])([^'\"]{2,20})\1, *(['\"])\3\)", source)]


def deletions(source, tokens):
    """Tokens that come about only when the template deletes or trims."""
    word = "X" * 5
    for text in deleted(source)[:4]:
        a = tokens[0]
        for at in (1, len(a) // 2, len(a) - 1):
            evil, safe = a[:at] + text + a[at:], word + text + word
            yield f"deletion of {text!r} at {at}", [conversations.system(evil), conversations.user(evil + " " + evil),
                                                    conversations.assistant(evil), conversations.user(evil)], \
                [conversations.system(safe), conversations.user(safe + " " + safe), conversations.assistant(safe),
                 conversations.user(safe)]


# Templates that put control tokens together from what a client's strings have left after cutting.
SMALL = [
    "{{ messages[0].content|replace('/no_think', '') }}",
    "{{ messages[0].content.replace('/no_think', '').strip() }}",
    "{{ messages[0].content.split('/no_think')|join }}",
    "{% for part in messages[0].content.split('/no_think') %}{{ part }}{% endfor %}",
    "{{ messages[1].content|trim }}{{ messages[2].content|trim }}",
    "{{ messages[1].content.strip() ~ messages[2].content.strip() }}",
    "{{ messages[1].content.rstrip() }}{{ messages[2].content.lstrip() }}",
]


def small(token):
    word = "X" * 5
    for at in range(1, len(token)):
        evil = [token[:at] + "/no_think" + token[at:], token[:at] + " \n", " " + token[at:]]
        yield [conversations.user(t) for t in evil], [conversations.user(word) for t in evil]


# Refused, because the template prints a value as Python does, where a mark comes out as an escape.
REFUSED = {f"Reka-Edge with {v} (arguments)" for v in ("llama-bpe", "qwen2", "llama-spm", "gemma-4")}


class Check:
    """What the runs of one vocabulary share."""

    def __init__(self, program, gguf, tokens):
        self.tokens = tokens
        self.tok = Probe(program, "tok", gguf)
        self.tok.receive()
        self.plain, self.guarded = Probe(program, "tpl"), Probe(program, "tpl", gguf)
        # The vocabulary's own tokens, which a rendering without it has to be told.
        self.own = {}
        for name in OWN:
            self.guarded.template("[{{ %s is defined }}{{ %s }}" % (name, name))
            text = ask(self.guarded, {})[1]
            if text.startswith("[True"):
                self.own[name] = text[5:]

    def close(self):
        for p in (self.tok, self.plain, self.guarded):
            p.close()

    def use(self, source):
        self.source = source
        self.control = specials_of(self.tok, source, self.tokens)
        return self.plain.template(source) or self.guarded.template(source)

    def talk(self, evil, safe, **more):
        """(what is wrong or "", whether marks were needed); "refused" and "raises" are words of their own."""
        variables = dict(messages=evil, add_generation_prompt=True, **more)
        harmless = dict(variables, messages=safe)
        status, text, ids, marked = ask(self.guarded, variables)
        s0, t0, _, _ = ask(self.plain, dict(variables, **self.own))
        s1, t1, ids1, _ = ask(self.guarded, harmless)
        if status == 1 and "takes for markup" in text:
            return "refused", False
        if status != s0:
            return f"with a tokenizer {text[:200]!r}, without {t0[:200]!r}", False
        if status != 0:
            return "raises", False  # templates.py compares that
        if s1 != 0:
            return f"only the harmless one fails: {t1[:200]!r}", False
        clean = "".join(c for c in marked if not "\U000F0000" <= c <= "\U000FFFFD")
        if marked and clean != text:
            return "marks change the rendering", True
        if text != t0:
            return f"the tokenizer changes the rendering\n   {text[:300]!r}\n   {t0[:300]!r}", bool(marked)
        got, want = ([i for i in found if i in self.control] for found in (ids, ids1))
        return got != want and f"control ids {got}, harmless {want}\n   {text[:600]!r}" or "", bool(marked)


def main():
    program, corpus = sys.argv[1:3]
    failures, passed, raised, refused, marked = [], 0, 0, set(), 0
    for vocabulary, tokens in TOKENS.items():
        check = Check(program, os.path.join(corpus, vocabulary), tokens)
        for path in sorted(glob.glob(os.path.join(corpus, "templates", "*.jinja"))):
            name = f"{os.path.basename(path)[:-6]} with {vocabulary[11:-5]}"
            if check.use(open(path, encoding="utf-8").read()):
                failures.append(f"{name}: does not compile")
                continue
            cases = [(*case, dict(tools=[conversations.WEATHER])) for case in attacks(tokens)]
            cases += [(*case, {}) for case in deletions(check.source, tokens)]
            # Ordinary conversations are never refused.
            cases += [(f"{n}/{option}", d, d, more) for n, d in conversations.DIALOGUES
                      for option, more in conversations.OPTIONS[2:4]]
            for case, evil, safe, more in cases:
                more.pop("add_generation_prompt", None)
                problem, needed = check.talk(evil, safe, **more)
                marked += needed
                if problem == "refused":
                    refused.add(f"{name} ({case})")
                elif problem == "raises":
                    raised += 1
                elif problem:
                    failures.append(f"{name} {case}: {problem}")
                else:
                    passed += 1
        for source in SMALL:
            check.use(source + tokens[1])
            for evil, safe in small(tokens[0]):
                problem, needed = check.talk(evil, safe)
                marked += needed
                if problem:
                    failures.append(f"{source!r} with {vocabulary[11:-5]}: {evil}: {problem}")
                else:
                    passed += 1
        check.close()
    failures += [f"{r}: refused, which it was not before" for r in sorted(refused - REFUSED)]
    failures += [f"{r}: no longer refused: take it off the list" for r in sorted(REFUSED - refused)]
    for f in failures[:40]:
        print(f)
    print(f"note: {marked} renderings needed marks, {raised} raise, {len(refused)} were refused as expected")
    if passed < 10000 or marked < 500:
        failures.append("too few")
        print("fewer renderings passed or needed marks than there are attacks")
    print(f"{passed} passed, {len(failures)} failed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
