"""Reads and writes the text cases; README.md describes them."""
import re

ARROW = re.compile(r"(-->|<--) (\S.*)")


class Exchange:
    """A request as the case writes it, and the text of its reply: first line, headers, body."""

    def __init__(self, line, headers, body):
        self.line, self.headers, self.body, self.reply = line, headers, body, ""

    def request_text(self):
        head = [f"--> {self.line}", *self.headers]
        return "\n".join([*head, "", self.body] if self.body else head) + "\n"


class Case:
    """`server` names one of servers.py. What is wrong with the file is a ValueError."""

    def __init__(self, path, name):
        self.path, self.name, self.server, self.exchanges = path, name, "plain", []
        with open(path, encoding="utf-8") as f:
            about, *sections = self._sections(f.read())
        self.about = about.strip()
        named = re.search(r"^server: (\w+)$", self.about, re.M)
        if named:
            self.server = named.group(1)
        if not self.about or not sections:
            raise ValueError(f"{path}: a sentence about the case and a request are needed")
        for arrow, line, text in sections:
            if arrow == "-->":
                self.exchanges.append(self._request(line, text))
            elif not self.exchanges or self.exchanges[-1].reply:
                raise ValueError(f"{path}: a reply to no request: {line}")
            else:
                self.exchanges[-1].reply = f"<-- {line}\n{text}".strip("\n") + "\n"

    @staticmethod
    def _sections(text):
        """The text before the first arrow, then (arrow, rest of its line, lines below it)."""
        parts = [""]
        for line in text.split("\n"):
            arrow = ARROW.fullmatch(line)
            if arrow:
                parts.append((*arrow.groups(), ""))
            elif len(parts) == 1:
                parts[0] += line + "\n"
            else:
                parts[-1] = (*parts[-1][:2], parts[-1][2] + line + "\n")
        return parts

    @staticmethod
    def _request(line, text):
        head, _, body = text.partition("\n\n") if not text.startswith("\n") else ("", "", text)
        return Exchange(line, [h for h in head.split("\n") if h], body.strip("\n"))

    def write(self):
        """The file anew, with the replies that are in the exchanges now."""
        parts = [self.about + "\n"] + [e.request_text() + "\n" + e.reply for e in self.exchanges]
        with open(self.path, "w", encoding="utf-8") as f:
            f.write("\n".join(parts))
