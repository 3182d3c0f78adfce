"""Conversations that are no tool calls, from the repository's own files and from words: each function gives
(messages, response_format or None, reply) in a fixed order, whatever machine it runs on."""
import json
import os
import random
import re

import records

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENDS = ("<|", "|>", "<end_of_turn>", "</s>")  # spellings of control tokens: a reply cannot hold them


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def files(*patterns):
    """Paths under the root, sorted."""
    out = []
    for pattern in patterns:
        folder, ending = pattern.rsplit("/", 1)
        out += [f"{folder}/{name}" for name in os.listdir(os.path.join(ROOT, folder)) if name.endswith(ending)]
    return sorted(out)


def user(text):
    return [{"role": "user", "content": text}]


def usable(text):
    return not any(end in text for end in ENDS)


# ---------------------------------------------------------------------------------------------------------- plain chat


def paragraphs(path):
    """(heading, text of the section's paragraphs) of a page, tables, lists and code left out."""
    heading, kept = "", []
    text = re.sub(r"```.*?```", "", read(path), flags=re.S)
    for block in text.split("\n\n"):
        block = block.strip()
        if block.startswith("#"):
            if kept:
                yield heading, "\n\n".join(kept)
            heading, kept = block.split("\n")[0].lstrip("# "), []
        elif block and block[0] not in "|-*<" and not block[0].isdigit():
            kept.append(" ".join(block.split()))
    if kept:
        yield heading, "\n\n".join(kept)


def chat():
    for path in files("docs/.md") + ["CONTRIBUTING.md", "README.md"]:
        for heading, text in paragraphs(path):
            if 300 <= len(text) and usable(text):
                yield user(f"In a few paragraphs: what should I know about “{heading.lower()}” in ffwd?"), None, text[:1600]


# ---------------------------------------------------------------------------------------------------------------- code


def sources(low, high):
    for path in files("src/base/.c", "src/kv/.c", "src/sample/.c", "src/weights/.c", "src/cli/.c"):
        text = read(path)
        end = text.rfind("\n}\n", 0, high)
        if end > low and usable(text):
            yield path, text[:end + 3]


def code():
    for path, text in sources(1200, 2600):
        about, _, rest = text.partition("*/\n")
        about = " ".join(about.replace("/*", "").replace(" * ", " ").replace("\n *", "\n").split())
        yield (user(f"Write the C11 file {path}. Its job is: {about}"), None,
               f"Here is the file:\n\n```c\n{rest.lstrip()}```\n")


# ---------------------------------------------------------------------------------------------------------------- edits


def renamed(text):
    """The name of the first static function, and the text with another for it and a constant changed."""
    found = re.search(r"^static [\w *]*?(\w+)\(", text, re.M)
    if not found:
        return None
    old = found.group(1)
    new = old + "_checked"
    out = re.sub(rf"\b{old}\b", new, text)
    lines = out.split("\n")
    lines.insert(len(lines) // 2, "")  # as people do
    return old, new, "\n".join(lines)


def edits():
    for path, text in sources(900, 2400):
        change = renamed(text)
        if change:
            old, new, after = change
            yield (user(f"This is {path}:\n\n```c\n{text}```\n\nRename {old} to {new}. Print the whole file."), None,
                   f"```c\n{after}```\n")


# --------------------------------------------------------------------------------------------------------- near copies


NOUNS = ("engine bridge harbour garden letter market captain teacher window river mountain village doctor farmer station "
         "library kitchen forest castle painter soldier merchant valley island tower").split()
VERBS = "crossed painted repaired described followed visited remembered measured guarded entered copied studied".split()
ADJECTIVES = "old quiet narrow bright heavy distant famous empty green broken early silver patient hidden".split()
PLACES = "in spring|at noon|before winter|near the coast|after the storm|without a word|for many years|by the road".split("|")


def sentence(draw):
    return (f"The {draw.choice(ADJECTIVES)} {draw.choice(NOUNS)} {draw.choice(VERBS)} the {draw.choice(ADJECTIVES)} "
            f"{draw.choice(NOUNS)} {draw.choice(PLACES)} and {draw.choice(VERBS)} the {draw.choice(NOUNS)}.").split(" ")


def near_copy(words, draw):
    """The same words but for one in each 9 to 12: long enough to look like a copy, and then it is none."""
    out, left = list(words), draw.randint(9, 12)
    for i, word in enumerate(words):
        left -= 1
        if left <= 0 and word.strip(".").isalpha() and word[0].islower() and len(word) > 3:
            out[i] = draw.choice([w for w in NOUNS + ADJECTIVES if w != word.strip(".")]) + "." * word.endswith(".")
            left = draw.randint(9, 12)
    return out


def near_copies():
    for seed in range(24):
        draw = random.Random(seed)
        base = [word for _ in range(10) for word in sentence(draw)]
        variants = [" ".join(near_copy(base, draw)) for _ in range(5)]
        numbered = "\n\n".join(f"Version {i + 1}: {text}" for i, text in enumerate(variants))
        yield (user(f"{numbered}\n\nWrite one more version that differs from all of these."), None,
               " ".join(near_copy(base, draw)))


# ---------------------------------------------------------------------------------------------------------- extraction


def labelled(value, name):
    """A record as the sentences of a letter that it is to be taken from."""
    if isinstance(value, dict):
        return " ".join(labelled(v, f"{name} {k}".strip()) for k, v in value.items())
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        return " ".join(labelled(v, f"{name} {i + 1}") for i, v in enumerate(value))
    if isinstance(value, list):
        return f"{name.replace('_', ' ').capitalize()}: {', '.join(map(str, value))}."
    if value is None or isinstance(value, bool):
        value = {True: "yes", False: "no", None: "not given"}[value]
    return f"{name.replace('_', ' ').capitalize()}: {value}."


def extraction():
    """Each record twice: written over lines, and in one line with spaces, which are the two ways models write JSON."""
    for name, schema, record in records.RECORDS:
        for indent in (2, None):
            asked = f"Extract the {name.replace('_', ' ')} as JSON from this text:\n\n{labelled(record, '')}"
            form = {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}
            yield user(asked), form, json.dumps(record, ensure_ascii=False, indent=indent)
