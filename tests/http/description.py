"""docs/openapi.json, and what the C sources say about the same things: routes, names of members, limits."""
import json
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATH = os.path.join(ROOT, "docs/openapi.json")
SCHEMA = "#/components/schemas/"


def no_twins(pairs):
    assert len({k for k, _ in pairs}) == len(pairs), "a name comes twice: " + str([k for k, _ in pairs])
    return dict(pairs)


def load():
    with open(PATH, encoding="utf-8") as f:
        return json.load(f, object_pairs_hook=no_twins)


def named(ref):
    return ref.rsplit("/", 1)[1]


def operations(doc):
    """(method, path, operation) of all."""
    return [(method.upper(), path, op) for path, item in doc["paths"].items() for method, op in item.items()]


def asked(op):
    """The name of the schema of an operation's body, or None."""
    return named(op["requestBody"]["content"]["application/json"]["schema"]["$ref"]) if "requestBody" in op else None


def members(doc, schema):
    """name -> schemas of the members that an object may have, through references, allOf and anyOf."""
    if "$ref" in schema:
        return members(doc, doc["components"]["schemas"][named(schema["$ref"])])
    found = {name: [one] for name, one in schema.get("properties", {}).items()}
    for part in schema.get("allOf", []) + schema.get("anyOf", []):
        for name, some in members(doc, part).items():
            found.setdefault(name, []).extend(some)
    return found


def flat(doc, schema):
    """The same with each allOf made one object. For readers that look at its parts one by one."""
    if isinstance(schema, list):
        return [flat(doc, one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "allOf" not in schema:
        return {k: flat(doc, v) for k, v in schema.items()}
    whole = {k: v for k, v in schema.items() if k != "allOf"} | {"type": "object", "properties": {}, "required": []}
    for part in schema["allOf"]:
        if "$ref" in part:
            part = doc["components"]["schemas"][named(part["$ref"])]
        part = flat(doc, part)
        whole["properties"].update(part["properties"])
        whole["required"] += part.get("required", [])
    return whole


# ------------------------------------------------------------------------------------------------------------- sources


def source(path):
    """A C file without its comments."""
    with open(os.path.join(ROOT, "src", path), encoding="utf-8") as f:
        return re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)


def routes():
    """(method, path) -> whether it needs no key, of src/server/routes.c."""
    found = re.findall(r'\{"(GET|POST|DELETE)", "([^"]+)", \w+, ([^}]*)\}', source("server/routes.c"))
    return {(method, path): "HTTP_OPEN" in flags for method, path, flags in found}


def limits():
    """name -> value of the ceilings."""
    values = {"INT32_MAX": 2 ** 31 - 1, "INT32_MIN": -2 ** 31, "UINT32_MAX": 2 ** 32 - 1,
              "INT64_MAX": 2 ** 63 - 1, "INT64_MIN": -2 ** 63}
    for path in ("base/limits.h", "server/limits.h"):
        for name, text in re.findall(r"#define (LIMIT_\w+)\s+(.+)", source(path)):
            values[name] = value(text, values)
    return values


def value(text, values):
    """What a constant expression of C comes to, or None."""
    text = re.sub(r"\((?:size_t|uint64_t)\)", "", text)
    text = re.sub(r"\b(\d+)u\b", r"\1", text)
    return eval(text, {"__builtins__": {}}, values) if re.fullmatch(r"[\w\s()+*/<-]+", text) and all(
        name in values for name in re.findall(r"[A-Za-z_]\w*", text)) else None


def tables(text):
    """name -> body of the arrays that a source defines."""
    return dict(re.findall(r"\b(\w+)\[\](?:\[\w*\])? = \{(.*?)\};", text, re.S))


def refused(text):
    """name -> the value that asks for nothing, of the tables of what is refused."""
    return dict(re.findall(r'\{"(\w+)", NEUTRAL_(\w+)\}', text))


def read_members(text, objects):
    """Names that a source reads of the objects that have these names in it."""
    found = set()
    for m in re.finditer(r"\b\w+\((?:job->)?(?:%s), (?:\"(\w+)\"|(\w+)[,)])" % objects, text):
        if m.group(1):
            found.add(m.group(1))
        else:  # the name of an array that was defined before
            found.update(re.findall(r'\b%s\[\] = "(\w+)"' % m.group(2), text[:m.start()])[-1:])
    return found


def listed(text, *names):
    """All strings in those tables, of pairs the first."""
    found, all_tables = set(), tables(text)
    for name in names:
        body = re.sub(r'\{"(\w+)"[^{}]*\}', r'"\1"', all_tables[name])
        found.update(re.findall(r'"(\w+)"', body))
    return found


def integers(text, values):
    """(name, least, most) of integers that a source reads within constant bounds."""
    for name, low, high in re.findall(r'http_get_int\(\w+, "(\w+)", ([^,]+), ([^,]+), &', text):
        bounds = value(low, values), value(high, values)
        if None not in bounds:
            yield (name, *bounds)


def ranges(text):
    """(name, least, most, whether these are excluded) of the numbers in openai_sampling.c."""
    row = r'\{"(\w+)", AT\(\w+\), (-?\d+), (\d+), (true|false), (true|false)\}'
    for name, low, high, low_open, high_open in re.findall(row, text):
        yield name, float(low), float(high), low_open == "true", high_open == "true"
