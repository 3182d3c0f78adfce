"""Writes a reply down as the cases show it: JSON laid out, and a name instead of each value that no two runs share.

A name stands only for a value that is what it should be (an id of 24 digits, a time close to now, a count of nanoseconds);
any other is written as it is, and then differs from what the case expects.
"""
import datetime
import json
import re
import time

HEADERS = ("Content-Type", "Allow", "Retry-After", "Cache-Control", "X-Accel-Buffering", "WWW-Authenticate")
WIDTH = 140
ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{24}(?![0-9a-f])")
NAME = re.compile(r"<id \d+>")
SOON = 600  # seconds


def is_count(v):
    return isinstance(v, int) and not isinstance(v, bool) and v >= 0


def is_measured(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool) and v >= 0


def is_time(v):
    if isinstance(v, str):
        if not v.endswith("Z"):
            return False
        try:
            v = datetime.datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", v[:-1]) + "+00:00").timestamp()
        except ValueError:
            return False
    return is_measured(v) and abs(v - time.time()) < SOON


def is_own(v):
    """usage.ffwd, which says how a reply came about and may differ with what else runs; of /api/version the version."""
    if isinstance(v, str):
        return re.fullmatch(r"\d+\.\d+\.\d+", v)
    return isinstance(v, dict) and all(is_count(v.get(key)) for key in ("sampled", "steps", "replayed_ids"))


VARYING = [("time", is_time, "created created_at completed_at"), ("ffwd", is_own, "ffwd"),
           ("ns", is_count, "total_duration prompt_eval_duration eval_duration"),
           ("ms", is_measured, "prompt_ms prompt_per_token_ms predicted_ms predicted_per_token_ms"),
           ("rate", is_measured, "prompt_per_second predicted_per_second"),
           ("file", lambda v: isinstance(v, str) and re.fullmatch(r"(sha256:)?[0-9a-f]{64}", v), "digest"),
           ("file", lambda v: isinstance(v, str) and v[:2] == "20", "modified_at")]
RULES = {key: (name, fits) for name, fits, keys in VARYING for key in keys.split()}


class Names:
    """The ids of one case in the order they came; the same id has the same name."""

    def __init__(self):
        self.known = {}

    def hide(self, text):
        return ID.sub(lambda m: self.known.setdefault(m.group(), f"<id {len(self.known) + 1}>"), text)

    def fill_in(self, text):
        """A request's text with the ids that earlier replies gave."""
        values = {name: value for value, name in self.known.items()}
        return NAME.sub(lambda m: values.get(m.group(), m.group()), text)

    def hide_all(self, value, key=""):
        name, fits = RULES.get(key, ("", None))
        if fits and fits(value):
            return f"<{name}>"
        if isinstance(value, dict):
            return {k: self.hide_all(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [self.hide_all(v) for v in value]
        return self.hide(value) if isinstance(value, str) else value


def once(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member comes twice")
    return members


def parse(text):
    return json.loads(text, object_pairs_hook=once)


def lay_out(value, indent=0, begun=0, first=""):
    """JSON on one line where it fits behind `begun` columns, else over several; `first` comes before an object's members."""
    flat = json.dumps(value, ensure_ascii=False)
    if first:
        flat = "{" + first + (", " if value else "") + flat[1:]
    nested = isinstance(value, dict) or isinstance(value, list) and any(isinstance(v, (dict, list)) for v in value)
    if indent + begun + len(flat) <= WIDTH or not nested:
        return flat
    inner, pad = indent + 2, " " * (indent + 2)
    if isinstance(value, list):
        lines = [pad + lay_out(v, inner) for v in value]
        return "[\n" + ",\n".join(lines) + "\n" + " " * indent + "]"
    keys = {k: json.dumps(k, ensure_ascii=False) + ": " for k in value}
    lines = [pad + first] * bool(first) + [pad + keys[k] + lay_out(v, inner, len(keys[k])) for k, v in value.items()]
    return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"


class Events:
    """The objects of a stream. "..." stands for the members that are as they were in the object before."""

    def __init__(self, names):
        self.names, self.before = names, None

    def tell(self, text, begun):
        try:
            value = self.names.hide_all(parse(text))
        except ValueError as e:
            return text if text == "[DONE]" else f"{text}   (no JSON: {e})"
        before, self.before = self.before, value
        if isinstance(value, dict) and isinstance(before, dict) and before.keys() <= value.keys():
            news = {k: v for k, v in value.items() if k not in before or before[k] != v}
            if len(news) < len(value):
                return lay_out(news, 0, begun, "...")
        return lay_out(value, 0, begun)


def tell_events(text, names):
    """Server-sent events, each an `event:` line or none and a `data:` line; blank lines are left out. What is otherwise
    is marked."""
    events, lines = Events(names), []
    *blocks, rest = text.split("\n\n")
    for block in blocks:
        for i, line in enumerate(block.split("\n")):
            if line.startswith("data: ") and (i == 0 or lines[-1].startswith("event: ")):
                lines.append("data: " + events.tell(line[6:], 6))
            else:
                lines.append(line if i == 0 and line.startswith("event: ") else f"odd line: {line!r}")
    return "\n".join(lines + ([f"cut short: {rest!r}"] if rest else []))


def tell_lines(text, names):
    events = Events(names)
    *lines, rest = text.split("\n")
    return "\n".join([events.tell(line, 0) for line in lines] + ([f"cut short: {rest!r}"] if rest else []))


def tell(status, headers, body, names):
    """The reply's text in a case. `headers` has get()."""
    kind = headers.get("Content-Type") or ""
    head = [f"<-- {status}"] + [f"{h}: {headers.get(h)}" for h in HEADERS if headers.get(h) is not None]
    text = body.decode("utf-8", "backslashreplace")
    if kind == "text/event-stream":
        text = tell_events(text, names)
    elif kind == "application/x-ndjson":
        text = tell_lines(text, names)
    elif kind == "application/json" and text:
        try:
            text = lay_out(names.hide_all(parse(text)))
        except ValueError as e:
            text += f"   (no JSON: {e})"
    return "\n".join([*head, "", text] if text else head) + "\n"
