"""Conversations to render every template with: (name, variables). Written for what templates branch on."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Current weather for a place.\nUse it \"sparingly\" & <politely>.",
    "parameters": {"type": "object", "properties": {
        "location": {"type": "string", "description": "City, e.g. 東京"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": "integer", "minimum": 1, "maximum": 9007199254740993}},
        "required": ["location"]}}}
ORDER = {"type": "function", "function": {
    "name": "place_order", "description": "Places an order",
    "parameters": {"type": "object", "properties": {
        "items": {"type": "array", "items": {"type": "object", "properties": {
            "sku": {"type": "string"}, "price": {"type": "number", "default": 0.1}}, "required": ["sku"]}},
        "express": {"type": "boolean", "description": "Sooner"},
        "note": {"type": ["string", "null"]}, "mode": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "nested": {"type": "object", "additionalProperties": {"type": "number"}}},
        "required": ["items", "express"]}}}
PING = {"type": "function", "function": {"name": "ping", "description": "No arguments",
                                         "parameters": {"type": "object", "properties": {}}}}
TOOLS = [WEATHER, ORDER, PING]


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text, id="call00001", name="get_weather"):
    return {"role": "tool", "tool_call_id": id, "name": name, "content": text}


ARGS = {"location": "Paris, \"FR\"", "days": 3, "unit": None}
ARGS2 = {"items": [{"sku": "a<b>&'c'", "price": 1.0}, {"sku": "ü", "price": 1e-7}], "express": True}

DIALOGUES = [
    ("user", [user("Hello!")]),
    ("system", [system("You are terse."), user("Hello!")]),
    ("turns", [system("  You are terse.\n"), user("Hi"), assistant("Hello. "), user(" What is 2+2?\n"), assistant("4"),
               user("And 3+3?")]),
    ("ends-with-assistant", [user("Say a"), assistant("a")]),
    ("blank", [user(""), assistant(""), user(" ")]),
    ("odd-text", [user("<b>&amp; 'q' \"d\" \\n {{ x }} {% if %}\ttab\r\nCR \u0000nul \u2028 é e\u0301 🤖 \x1c end\x1f")]),
    ("two-users", [user("one"), user("two")]),
    ("two-assistants", [user("one"), assistant("a"), assistant("b"), user("go on")]),
    ("system-late", [user("one"), assistant("a"), system("Be brief."), user("two")]),
    ("developer", [{"role": "developer", "content": "Obey."}, user("Hi")]),
    ("unknown-role", [user("Hi"), {"role": "narrator", "content": "Meanwhile"}]),
    ("assistant-first", [assistant("Welcome"), user("Hi")]),
    ("parts", [user([{"type": "text", "text": "Look "}, {"type": "text", "text": "here"}]),
               assistant([{"type": "text", "text": "ok"}]), user("more")]),
    ("image", [user([{"type": "image"}, {"type": "text", "text": "What is it?"}])]),
    ("null-content", [user("weather?"), assistant(None, tool_calls=[call("get_weather", ARGS)]), result("{\"t\": 21.5}")]),
    ("call", [system("Use tools."), user("weather?"), assistant("", tool_calls=[call("get_weather", ARGS)]),
              result("21 °C"), assistant("It is 21 °C."), user("Thanks")]),
    ("call-string-arguments", [user("weather?"), assistant("", tool_calls=[call("get_weather", "{\"location\": \"Paris\"}")]),
                               result("21")]),
    ("call-no-arguments", [user("ping"), assistant("", tool_calls=[call("ping", {})]), result("pong", name="ping")]),
    ("calls", [user("both"), assistant("I will.", tool_calls=[call("get_weather", ARGS, "call00001"),
                                                            call("place_order", ARGS2, "call00002")]),
               result("21", "call00001"), result("{\"ok\": true}", "call00002", "place_order"), assistant("Done")]),
    ("calls-in-a-row", [user("a"), assistant("", tool_calls=[call("ping", {}, "aaaaaaaa1")]), result("x", "aaaaaaaa1", "ping"),
                        assistant("", tool_calls=[call("ping", {}, "aaaaaaaa2")]), result("y", "aaaaaaaa2", "ping")]),
    ("tool-result-object", [user("w"), assistant("", tool_calls=[call("get_weather", ARGS)]),
                            {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": {"t": 1.5, "l": [1, True, None]}}]),
    ("tool-result-parts", [user("w"), assistant("", tool_calls=[call("get_weather", ARGS)]),
                           {"role": "tool", "tool_call_id": "call00001", "name": "get_weather",
                            "content": [{"type": "text", "text": "21"}, {"type": "text", "text": "C"}]}]),
    ("reasoning", [user("2+2?"), assistant("4", reasoning_content="Easy.\nTwo and two."), user("3+3?"),
                   assistant("6", reasoning_content="Six.")]),
    ("thinking-key", [user("2+2?"), assistant("4", thinking="Easy."), user("3+3?"), assistant("6", reasoning="Six.")]),
    ("think-tags", [user("2+2?"), assistant("<think>\nEasy.\n</think>\n\n4"), user("3+3?"), assistant("<think>Six</think>6"), user("!")]),
    ("reasoning-and-call", [user("w"), assistant("", reasoning_content="I need data.", tool_calls=[call("get_weather", ARGS)]),
                            result("21"), assistant("21", reasoning_content="Now say it."), user("and tomorrow?")]),
    ("think-parts", [user("2+2?"), assistant([{"type": "thinking", "thinking": "Easy."}, {"type": "text", "text": "4"}]), user("3?")]),
    ("empty", []),
    ("names", [{"role": "user", "name": "Ann", "content": "Hi"}, {"role": "assistant", "name": "Bot", "content": "Hello"},
               user("x")]),
    ("no-content", [user("Hi"), {"role": "assistant", "tool_calls": [call("ping", {})]}, result("pong", name="ping")]),
]

OPTIONS = [
    ("prompt", dict(add_generation_prompt=True)),
    ("no-prompt", dict(add_generation_prompt=False)),
    ("tools", dict(add_generation_prompt=True, tools=TOOLS)),
    ("think", dict(add_generation_prompt=True, enable_thinking=True, thinking=True, reasoning_effort="high")),
    ("no-think", dict(add_generation_prompt=True, enable_thinking=False, thinking=False, tools=[WEATHER])),
    ("kwargs", dict(add_generation_prompt=True, documents=[{"title": "T", "text": "Body", "doc_id": 1}], custom_tools=None,
                    date_string="26 Jul 2024", tools=None, model_identity="You are Test.", builtin_tools=["python"],
                    xml_tools=True, preserve_thinking=True, keep_past_thinking=True, clear_thinking=False)),
]


def cases():
    for name, messages in DIALOGUES:
        for option, variables in OPTIONS:
            yield f"{name}/{option}", dict(messages=messages, bos_token="<s>", eos_token="</s>", **variables)
