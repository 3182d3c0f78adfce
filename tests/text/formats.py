#!/usr/bin/env python3
"""Finds the format of every real template, and reads back the calls that the template itself writes.

    formats.py PROBE CORPUS [NAME…]    NAME: only templates whose name contains it
"""
import glob
import json
import os
import sys

import reference
from conversations import PING, WEATHER, call, user
from probe import Probe

# Which format and which reasoning tags; a template that is not here writes calls in a way that is not known.
FORMATS = {
    "hermes": ("Bielik", "MiMo-VL", "NousResearch-Hermes", "Qwen-Qw", "Reka", "ibm-granite-granite-4", "google-gemma-2",
               "llama-cpp-rwkv", "microsoft-Phi"),
    "qwen-xml": ("NVIDIA-Nemotron-3", "Qwen3-Coder", "Qwen3.5", "StepFun"),
    "seed": ("ByteDance",),
    "glm": ("GLM", "Spark", "inclusionai-ling", "poolside"),
    "llama3": ("meta-llama-Llama-3",),
    "mistral": ("mistralai-Mistral-Nemo",),
    "mistral-args": ("Mistral-Small", "mistralai-Ministral", "unsloth-mistral"),
    "gemma": ("google-gemma-4",),
    "deepseek": ("deepseek-ai-DeepSeek-R1", "llama-cpp-deepseek-r1"),
    "deepseek-v3.1": ("deepseek-ai-DeepSeek-V3.1",),
    "deepseek-v3.2": ("deepseek-ai-DeepSeek-V3.2",),
    "deepseek-v4": ("deepseek-ai-DeepSeek-V4",),
}
# Templates that write no second call, or none that can be read.
ONE_CALL = ("meta-llama", "deepseek-ai-DeepSeek-R1", "llama-cpp-deepseek-r1")
PYTHON_LISTS = ("ByteDance",)  # prints lists as Python does, which is not JSON
NOT_JINJA = ("llama-cpp-deepseek-r1",)  # written for llama.cpp: Jinja2 raises (docs/templates.md)
NO_TOOLS = ("google-gemma-2", "llama-cpp-rwkv", "microsoft-Phi")

TOOLS = [WEATHER, PING, {"type": "function", "function": {"name": "place_order", "description": "Places an order", "parameters": {
    "type": "object", "properties": {"items": {"type": "array", "items": {"type": "object"}}, "express": {"type": "boolean"}}}}}]
CALLS = {
    "one": [call("get_weather", {"location": "Paris", "days": 3})],
    "text": [call("get_weather", {"location": 'a "b"\n<c>\\ \u00fc'})],
    "empty": [call("ping", {})],
    "two": [call("get_weather", {"location": "Paris"}, "call00001"),
            call("place_order", {"items": [{"sku": "x", "price": 1.5}], "express": True}, "call00002")],
}
KINDS = ["reasoning", "content", "begin", "arguments", "end", "broken"]


def expected(name):
    for form, names in FORMATS.items():
        if any(name.startswith(n) for n in names):
            return form
    return "-"


def events(ours, reply):
    ours.send(0, reply.encode())
    content, calls, broken = "", [], 0
    for line in ours.receive()[1].decode().splitlines():
        kind, _, text = line.partition(" ")
        kind, text = KINDS[int(kind)], bytes.fromhex(text)
        if kind == "content":
            content += text.decode("utf-8", "replace")
        elif kind == "begin":
            calls.append([text.decode(), b""])
        elif kind == "arguments":
            calls[-1][1] += text
        broken += kind == "broken"
    return content, [(n, json.loads(a)) for n, a in calls], broken


def render(template, messages, prompt):
    for content in (None, ""):  # templates differ in which they take
        for arguments in (lambda a: a, json.dumps):
            said = json.loads(json.dumps(messages))
            for m in said:
                if m["role"] == "assistant":
                    m["content"] = m["content"] or content
                for c in m.get("tool_calls", []):
                    c["function"]["arguments"] = arguments(c["function"]["arguments"])
            kind, text = reference.render(template, {
                "messages": said, "tools": TOOLS, "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>"})
            if kind == "text":
                return text
    return None


def check(ours, name, template, failures):
    """Calls as the template writes them, behind the common beginning of prompt and conversation."""
    done = 0
    for case, calls in CALLS.items():
        if case == "two" and name.startswith(ONE_CALL + PYTHON_LISTS):
            continue
        asked = [user("Weather?")]
        prompt = render(template, asked, True)
        whole = render(template, asked + [{"role": "assistant", "content": "", "tool_calls": calls}], False)
        plain = render(template, asked + [{"role": "assistant", "content": "QQ"}], False)
        if whole is None or prompt is None:
            continue
        done += 1
        at = len(os.path.commonprefix([prompt, whole]))
        if at < len(prompt):  # not in the middle of a tag
            at = max(whole.rfind(end, 0, at) + 1 for end in ">\n")
        ours.send(2, whole[:at].encode())
        ours.receive()
        reply, tail = whole[at:], plain.rsplit("QQ", 1)[1] if plain else ""
        if tail and reply.endswith(tail):
            reply = reply[:-len(tail)]
        content, got, broken = events(ours, reply)
        want = [(c["function"]["name"], c["function"]["arguments"]) for c in calls]
        if got != want or broken:
            failures.append(f"{name} {case}: {got} broken {broken}, content {content!r}, reply {reply!r}")
    return done


def main():
    program, corpus, *only = sys.argv[1:]
    env = reference.environment()
    ours = Probe(program, "fmt")
    failures, done, read = [], 0, 0
    for path in sorted(glob.glob(os.path.join(corpus, "templates", "*.jinja"))):
        name = os.path.basename(path)[:-6]
        if only and not any(o in name for o in only):
            continue
        with open(path, encoding="utf-8", newline="") as f:
            source = f.read()
        ours.send(1, source.encode())
        form, _ = ours.receive()[1].decode().split()
        done += 1
        if form != expected(name):
            failures.append(f"{name}: {form}, expected {expected(name)}")
        if form != "-" and not name.startswith(NO_TOOLS):
            n = check(ours, name, env.from_string(source), failures)
            if n == 0 and name not in NOT_JINJA:
                failures.append(f"{name}: renders no call at all")
            read += n
    for f in failures:
        print(f)
    print(f"note: {done} templates, {read} replies with calls read back")
    print(f"{done + read - len(failures)} passed, {len(failures)} failed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
