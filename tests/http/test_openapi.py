"""docs/openapi.json against the sources and against the server: every address, every member that a request may have, every
limit, and the shape of what comes back."""
import json
import urllib.request

import jsonschema
import openapi_spec_validator
import pytest

import conftest
import description
from conftest import Server, post_raw, read_all
from description import SCHEMA

DOC = description.load()
SCHEMAS = DOC["components"]["schemas"]
LIMITS = description.limits()

# Which sources read the members of which bodies, all as `root` or `options`; what they read of other bodies besides; what
# a source reads that is about all bodies.
SAMPLING = ["openai_sampling", "openai_constraint", "openai_extra"]
VECTORS = ["openai_vectors", "../vectors"]
READ = [
    ({"ChatRequest"}, ["openai_chat", "openai_accepted", "openai_fields", "openai_tools", *SAMPLING],
     {"include_obfuscation"}, {"messages", "tools", "chat_template_kwargs"}),
    ({"TextRequest"}, ["openai_completions", "openai_accepted", "openai_fields", *SAMPLING],
     {"messages", "include_obfuscation"}, set()),
    ({"ResponseRequest"},
     ["responses", "responses_fields", "responses_items", "responses_tools", "openai_fields", *SAMPLING],
     {"include_obfuscation", "return_progress"}, set()),
    ({"MessageRequest"}, ["anthropic", "anthropic_fields", "anthropic_tools", "anthropic_turns", "openai_extra"],
     set(), {"model"}),
    ({"CompletionRequest"}, ["native_completion", *SAMPLING], {"messages"}, {"prompt"}),
    ({"InfillTexts"}, ["native_infill"], set(), set()),
    ({"OllamaChatRequest", "OllamaTextRequest", "OllamaOptions"},
     ["ollama", "ollama_fields", "ollama_turns", "openai_sampling", "openai_tools", "openai_extra"], {"name"}, set()),
    ({"OllamaShowRequest"}, ["ollama_models"], set(), set()),
    ({"OllamaVectorsRequest", "OllamaVectorRequest"}, ["ollama_embed", *VECTORS], set(), set()),
    ({"VectorRequest"}, ["openai_embeddings", *VECTORS], set(), set()),
    ({"NativeVectorRequest"}, ["native_embedding", "../vectors"], set(), set()),
    ({"RankRequest"}, ["native_rerank", "../vectors"], set(), set()),
    ({"TokenizeRequest", "DetokenizeRequest", "CountRequest"}, ["native_text", "openai_tools"],
     set(), {"model", "prompt", "chat_template_kwargs", "reasoning_effort"}),
]
TABLES = {
    "openai_chat": ["refused", "known"], "openai_completions": ["refused", "known"], "openai_fields": ["refused"],
    "openai_sampling": ["openai_sampling_names"], "openai_constraint": ["top"],
    "responses_fields": ["refused", "known", "moved"], "anthropic_fields": ["fields", "known"],
    "native_completion": ["refused", "known"], "native_infill": ["refused"],
    "ollama_fields": ["refused", "refused_options", "known", "known_chat", "known_generate", "known_options", "numbers",
                      "switches"],
    "ollama_models": ["refused", "known"],
    "openai_accepted": ["texts"], "openai_embeddings": ["known"], "native_embedding": ["known"],
    "native_rerank": ["known"], "ollama_embed": ["known", "known_embed"],  # the latter and what stands on its line
}
NEUTRAL = {"NULL": "OnlyNull", "FALSE": "OnlyFalse", "ZERO": "OnlyZero", "ONE": "OnlyOne", "EMPTY": "OnlyEmpty"}
CEILINGS = [  # where a limit that is no integer's stands
    ("LIMIT_INFILL_FILES", "input_extra", "maxItems"), ("LIMIT_STOPS", "Stops", "maxItems"),
    ("LIMIT_BIAS", "Bias", "maxProperties"),
    ("LIMIT_TOKENIZE", "content", "maxLength"), ("LIMIT_BREAKERS", "dry_sequence_breakers", "maxItems"),
    ("LIMIT_SALT", "cache_salt", "maxLength"), ("LIMIT_REPLAY_NAME", "prompt_cache_key", "maxLength"),
    ("LIMIT_TOOLS", "tools", "maxItems"), ("LIMIT_MESSAGES", "Messages", "maxItems"),
    ("LIMIT_METADATA", "Metadata", "maxProperties"), ("LIMIT_METADATA_KEY", "key", "maxLength"),
    ("LIMIT_METADATA_VALUE", "value", "maxLength"), ("LIMIT_RESPONSE_USER", "user", "maxLength"),
]


def dialect(name):
    return description.source(f"server/dialect/{name}.c")


def closed(schema):
    """A schema that knows no members but those it names."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    more = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {}
    return more | {k: closed(v) for k, v in schema.items()}


CLOSED = closed(DOC["components"])


def check(value, schema):
    jsonschema.Draft202012Validator({**schema, "components": CLOSED}).validate(value)


# ---- the file ----

def test_the_file_is_valid():
    openapi_spec_validator.validate(DOC)


def test_every_address_is_there():
    in_file = {(method, path[:path.find("{")] if "{" in path else path): op.get("security") == []
               for method, path, op in description.operations(DOC)}
    assert in_file == description.routes()


def test_every_schema_is_used():
    text = json.dumps(DOC)
    assert [name for name in SCHEMAS if f'"{SCHEMA}{name}"' not in text] == []


def members(schemas):
    """name -> schemas of a member, in any of those."""
    found = {}
    for schema in schemas:
        for name, some in description.members(DOC, SCHEMAS[schema]).items():
            found.setdefault(name, []).extend(some)
    return found


@pytest.mark.parametrize("schemas, sources, others, beside", READ, ids=lambda x: "-".join(sorted(x)))
def test_every_member_is_there(schemas, sources, others, beside):
    """Those that the parsers know, and no others."""
    read = set(beside)
    for name in sources:
        text = dialect(name)
        read |= description.read_members(text, "root|options") | description.listed(text, *TABLES.get(name, []))
    if "CompletionRequest" in schemas:
        read |= set(description.refused(dialect("openai_fields")))
    assert set(members(schemas)) == read - others


@pytest.mark.parametrize("schemas, sources", [(r[0], r[1]) for r in READ], ids=lambda x: "-".join(sorted(x)))
def test_what_is_refused_and_what_is_bounded(schemas, sources):
    known = members(schemas)
    for name in sources:
        text = dialect(name)
        for member, neutral in description.refused(text).items():
            assert {"$ref": SCHEMA + NEUTRAL[neutral]} in known[member], member
        for member, least, most in description.integers(text, LIMITS):
            bounds = [(s["minimum"], s["maximum"]) for s in map(resolved, known.get(member, [])) if "minimum" in s]
            assert not bounds or (least, most) in bounds, member


def test_numbers_have_their_ranges():
    found = list(description.ranges(dialect("openai_sampling")))
    assert len(found) == 17
    for name, *want in found:
        one = SCHEMAS["Sampling"]["properties"][name]
        low_open, high_open = "exclusiveMinimum" in one, "exclusiveMaximum" in one
        low = one["exclusiveMinimum" if low_open else "minimum"]
        assert [low, one["exclusiveMaximum" if high_open else "maximum"], low_open, high_open] == want, name


def test_ceilings_are_those_of_the_sources():
    everything = {**SCHEMAS}
    for schemas, *_ in READ:
        everything.update({name: resolved(some[0]) for name, some in members(schemas).items() if name not in everything})
    everything["user"] = SCHEMAS["ResponseCounted"]["properties"]["user"]
    everything["input_extra"] = SCHEMAS["InfillTexts"]["properties"]["input_extra"]
    everything["content"] = SCHEMAS["TokenizeRequest"]["properties"]["content"]
    everything["key"] = SCHEMAS["Metadata"]["propertyNames"]
    everything["value"] = SCHEMAS["Metadata"]["additionalProperties"]
    in_file = {limit: everything[name][keyword] for limit, name, keyword in CEILINGS}
    assert in_file == {limit: LIMITS[limit] for limit in in_file}
    assert SCHEMAS["Stops"]["maxLength"] == LIMITS["LIMIT_STOP_BYTES"] - 1
    texts = [some for some in SCHEMAS["VectorTexts"]["anyOf"] if "maxItems" in some] + members({"RankRequest"})["documents"]
    assert [some["maxItems"] for some in texts] == [LIMITS["LIMIT_VECTOR_TEXTS"]] * 2
    assert f'{LIMITS["LIMIT_VECTOR_TOKENS"]:,} tokens' in SCHEMAS["VectorTexts"]["description"]


# ---- the server ----

LOOK = {"type": "object", "properties": {"at": {"enum": ["a", "b"]}}}
TOOL = {"name": "look", "description": "Looks.", "parameters": LOOK}
FUNCTION = {"type": "function", "function": TOOL}
SAY = [{"role": "user", "content": "Hello"}]
TRACED = {"plan": True, "trace": True}
MORE = [  # requests beside the file's own examples; each is asked for whole and streamed
    ("/v1/chat/completions",
     {"messages": SAY, "max_tokens": 6, "n": 2, "logprobs": True, "top_logprobs": 2, "ffwd": TRACED}),
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 60, "tools": [FUNCTION], "tool_choice": "required"}),
    ("/v1/completions",
     {"prompt": ["Once", "Twice"], "max_tokens": 4, "n": 2, "echo": True, "logprobs": 2, "ffwd": TRACED}),
    ("/v1/responses",
     {"input": "Hello", "max_output_tokens": 6, "include": ["message.output_text.logprobs"], "ffwd": TRACED}),
    ("/v1/responses", {"input": SAY, "max_output_tokens": 60, "tools": [{"type": "function", **TOOL}],
                       "tool_choice": "required"}),
    ("/v1/messages", {"messages": SAY, "max_tokens": 6, "stop_sequences": ["e"], "ffwd": TRACED}),
    ("/v1/messages", {"messages": SAY, "max_tokens": 60, "tool_choice": {"type": "any"},
                      "tools": [{"name": "look", "input_schema": LOOK}]}),
    ("/v1/completions", {"prompt": "Once", "max_tokens": 2, "return_progress": True}),
    ("/completion", {"prompt": "Twice", "n_predict": 2, "return_progress": True}),
    ("/completion", {"prompt": ["Once", "Twice"], "n_predict": 4, "n_probs": 2, "return_tokens": True, "ffwd": TRACED}),
    ("/api/chat", {"messages": SAY, "options": {"num_predict": 6}, "logprobs": True, "top_logprobs": 2, "ffwd": TRACED}),
    ("/api/chat", {"messages": SAY, "options": {"num_predict": 60}, "tools": [FUNCTION], "tool_choice": "required"}),
    ("/api/generate", {"prompt": "Hello", "raw": True, "format": "json", "options": {"num_predict": 6}}),
    ("/v1/chat/completions", {"messages": SAY, "max_tokens": 2, "user": "me", "metadata": {"a": "b"}, "service_tier": "auto",
                              "safety_identifier": "me", "prompt_cache_retention": "24h",
                              "prediction": {"type": "content", "content": "Hello"}}),
    ("/v1/embeddings", {"input": "A text", "encoding_format": "base64", "dimensions": 576, "user": "me", "priority": 1}),
    ("/v1/embeddings", {"input": ["A text", [5, 6]]}),
    ("/embedding", {"input": [5, 6], "embd_normalize": 2, "cache_salt": "a"}),
    ("/v1/rerank", {"query": "birds", "documents": ["a duck", "a cat"], "return_documents": True}),
    ("/api/embed", {"input": ""}),
    ("/api/embed", {"input": [[5, 6]], "truncate": False, "dimensions": 576, "keep_alive": "5m"}),
    ("/api/embeddings", {}),
]
FOR_VECTORS = [path for _, path, op in description.operations(DOC) if op["tags"] == ["vectors"]]
RANKING = [path for path in FOR_VECTORS if "rank" in path]


@pytest.fixture(scope="module")
def serving(server, tiny):
    """The server that does what an address is for."""
    vectors = Server("--rows", "2", "--pooling", "mean")
    ranks = tiny("qwen3_rank")
    yield lambda path: ranks if path in RANKING else vectors if path in FOR_VECTORS else server
    assert vectors.process.poll() is None and vectors.stop() == 0, vectors.log


def is_valid(value, schema):
    return jsonschema.Draft202012Validator({**schema, "components": DOC["components"]}).is_valid(value)


OPERATIONS = {path: op for method, path, op in description.operations(DOC) if method == "POST"}
EXAMPLES = [(path, op["requestBody"]["content"]["application/json"]["example"]) for path, op in OPERATIONS.items()
            if path != "/infill"]  # for which this model has no tokens


def resolved(schema):
    return SCHEMAS[description.named(schema["$ref"])] if "$ref" in schema else schema


def ask(server, method, path, body=None):
    """(status, Content-Type, body)."""
    status, headers, text = conftest.ask(server, path, body, method)
    return status, headers["Content-Type"], text


def content(op, status):
    """What the file says of a reply: Content-Type -> media type object."""
    found = op["responses"][str(status)]
    if "$ref" in found:
        found = DOC["components"]["responses"][description.named(found["$ref"])]
    return found.get("content", {})


def check_reply(op, status, kind, body):
    """That the reply is as the file has it; returns the objects of a stream."""
    said = content(op, status)[kind]
    if kind == "application/json":
        check(json.loads(body), said["schema"])
    if "x-item" not in said:
        return None
    lines = body.decode().splitlines()
    data = [line[6:] for line in lines if line.startswith("data: ")] if kind == "text/event-stream" else lines
    objects = [json.loads(one) for one in data if one != "[DONE]"]
    for one in objects:
        check(one, said["x-item"])
    return objects


def test_the_file_is_served(own, tmp_path):
    (tmp_path / "keys").write_text("secret\n")
    s = own("--api-key-file", str(tmp_path / "keys"), "--no-web")
    status, kind, body = ask(s, "GET", "/openapi.json")
    assert (status, kind, json.loads(body)) == (200, "application/json", DOC)
    assert DOC["info"]["version"] == json.loads(ask_with_key(s, "/api/version"))["ffwd"]
    for method, path, op in description.operations(DOC):
        status, kind, body = ask(s, method, path.replace("{", "x").replace("}", ""), None if method != "POST" else {})
        assert status == 401 if op.get("security") != [] else status in (200, 404), path
        check_reply(op, status, kind, body)


def ask_with_key(s, path):
    request = urllib.request.Request(s.url + path, headers={"Authorization": "Bearer secret"})
    with urllib.request.urlopen(request, timeout=20) as reply:
        return reply.read()


GOT = [path for method, path, _ in description.operations(DOC) if method == "GET" and "{" not in path]


@pytest.mark.parametrize("path", GOT)
def test_what_can_be_got(server, path):
    op = DOC["paths"][path]["get"]
    status, kind, body = ask(server, "GET", path)
    assert status == 200 and body
    check_reply(op, status, kind, body)


def test_what_servers_of_vectors_tell(serving, tiny):
    for s in serving("/v1/embeddings"), serving("/v1/rerank"), tiny("gemma_embedding"):
        for path in GOT:
            status, kind, body = ask(s, "GET", path)
            assert status == 200
            check_reply(DOC["paths"][path]["get"], status, kind, body)
        status, kind, body = ask(s, "POST", "/api/show", {"model": "any"})
        assert status == 200
        check_reply(OPERATIONS["/api/show"], status, kind, body)


@pytest.mark.parametrize("path, body", EXAMPLES + MORE)
def test_replies_have_their_shape(serving, path, body):
    op = OPERATIONS[path]
    assert is_valid(body, {"$ref": SCHEMA + description.asked(op)})
    kinds = content(op, 200)
    for stream in (False, True) if len(kinds) > 1 else (None,):
        status, kind, text = ask(serving(path), "POST", path, body if stream is None else body | {"stream": stream})
        assert status == 200 and (kind != "application/json") == bool(stream), text
        assert bool(check_reply(op, status, kind, text)) == bool(stream)


@pytest.mark.parametrize("path", FOR_VECTORS)
def test_a_model_that_makes_no_vectors(server, path):
    op = OPERATIONS[path]
    status, kind, text = ask(server, "POST", path, op["requestBody"]["content"]["application/json"]["example"])
    assert status == 400 and "this model" in text.decode(), text
    check_reply(op, status, kind, text)


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
def test_a_request_to_load_the_model(server, path):
    status, kind, text = ask(server, "POST", path, {"model": "any"})
    assert (status, kind, json.loads(text)["done_reason"]) == (200, "application/json", "load")
    check_reply(OPERATIONS[path], status, kind, text)


def test_kept_responses(server):
    ident = json.loads(ask(server, "POST", "/v1/responses", {"input": "Hello", "max_output_tokens": 2})[2])["id"]
    for method, want in (("GET", 200), ("DELETE", 200), ("GET", 404), ("DELETE", 404)):
        status, kind, body = ask(server, method, "/v1/responses/" + ident)
        assert status == want
        check_reply(DOC["paths"]["/v1/responses/{response_id}"][method.lower()], status, kind, body)


@pytest.mark.parametrize("path", OPERATIONS)
def test_refusals_have_their_shape(server, path):
    for body in (b"", b"{", b"[]", b'{"a": 1, "a": 2}', b'{"model": 5}', b"\xff"):
        status, reply = post_raw(server, path, body)
        assert status == 400, (body, reply)
        check_reply(OPERATIONS[path], status, "application/json", reply)


@pytest.mark.parametrize("path", OPERATIONS)
@pytest.mark.parametrize("header, want", [("Content-Encoding: gzip", 415), ("Transfer-Encoding: xchunked", 501)])
def test_bodies_that_nobody_reads(server, path, header, want):
    with server.connect() as sock:
        sock.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\nConnection: close\r\n\r\n".encode())
        top, _, reply = read_all(sock).partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 %d " % want), top
    check_reply(OPERATIONS[path], want, "application/json", reply)


def wrong_values(schema):
    """Values that a member of that schema may not have; none where any may be."""
    schema = resolved(schema)
    if "minimum" in schema or "exclusiveMinimum" in schema:
        yield schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1) - 1
    if "maximum" in schema or "exclusiveMaximum" in schema:
        yield schema.get("maximum", schema.get("exclusiveMaximum", 0) - 1) + 1
    if "maxItems" in schema and schema.get("items"):
        yield ["a"] * (schema["maxItems"] + 1)
    if "maxProperties" in schema:
        value = "a" if schema["additionalProperties"]["type"] == "string" else 0
        yield {str(i): value for i in range(schema["maxProperties"] + 1)}
    if "maxLength" in schema:
        yield "a" * (schema["maxLength"] + 1)
    if schema.get("minLength") == 1:
        yield ""
    if "type" in schema or "enum" in schema:
        yield from (one for one in ("?", 1.5, True, ["?"], {"?": {}}) if not is_valid(one, schema))


ONE_KIND = [path for path, op in OPERATIONS.items() if "anyOf" not in SCHEMAS[description.asked(op)]]


@pytest.mark.parametrize("path", ONE_KIND)
def test_what_the_file_forbids_is_refused(serving, path):
    """Every member by itself, in a request that is fine without it; the refusal names it."""
    op = OPERATIONS[path]
    example = op["requestBody"]["content"]["application/json"]["example"]
    known = [((name,), some[0]) for name, some in members({description.asked(op)}).items()]
    if "options" in example:
        known += [(("options", name), some[0]) for name, some in members({"OllamaOptions"}).items()]
    tried = 0
    for where, schema in known:
        for value in wrong_values(schema):
            body = {**example, where[0]: {where[1]: value} if where[1:] else value}
            status, kind, text = ask(serving(path), "POST", path, body)
            assert status == 400 and where[-1] in text.decode(), (where, value, text)
            check_reply(op, status, kind, text)
            tried += 1
    assert tried > len(known)
