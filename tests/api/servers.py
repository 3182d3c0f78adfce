"""The servers that cases are for, each started when a case first needs it.

    plain      needs no key and takes any name for the model
    strict     has the key "secret" and answers for the model "smollm2" alone
    thinking   its model's template opens thinking, between two control tokens

All are SmolLM2, without a prefix cache, so that counts of cached tokens do not depend on which case came before, and without
signs of life in streams that wait.
"""
import os
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../http"), os.path.join(HERE, "../cli")]

import gguf_file  # noqa: E402
from conftest import MODEL, Server  # noqa: E402

TEMPLATE = """{%- if tools %}<|im_start|>system
You may write <tool_call>{"name": ..., "arguments": ...}</tool_call>. Tools: {{ tools | tojson }}<|im_end|>
{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}
{%- for c in m.tool_calls or [] %}
<tool_call>
{"name": {{ c.function.name | tojson }}, "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% else %}<think>
{% endif %}{% endif %}"""
MARKS = {"<filename>": "<think>", "<file_sep>": "</think>"}  # control tokens that no text has


def thinking_model(folder):
    """The model with another template, and its marks among the control tokens."""
    path, old = os.path.join(folder, "thinking.gguf"), gguf_file.File(MODEL)
    names, (kind, tokens) = "tokenizer.ggml.tokens", old.meta["tokenizer.ggml.tokens"][1]
    if not set(MARKS) <= set(tokens):
        raise ValueError(f"{MODEL} has no {' and '.join(MARKS)}")
    changed = {names: (gguf_file.ARRAY, (kind, [MARKS.get(t, t) for t in tokens])),
               "tokenizer.chat_template": (gguf_file.STRING, TEMPLATE)}
    meta = [(key, *value) for key, value in {**old.meta, **changed}.items()]
    return gguf_file.write(path, meta, [(name, *tensor) for name, tensor in old.tensors.items()])


class Servers:
    def __init__(self):
        self.folder, self.running, self.lock = tempfile.TemporaryDirectory(prefix="ffwd-api-"), {}, threading.Lock()

    def _start(self, name):
        common = ["--rows", "8", "--no-prefix-cache", "--keep-alive", "0", "--model-name", "smollm2"]
        if name == "plain":
            return Server(*common)
        if name == "strict":
            keys = os.path.join(self.folder.name, "keys")
            with open(keys, "w", encoding="ascii") as f:
                f.write("secret\n")
            return Server(*common, "--strict-model", "--api-key-file", keys)
        if name == "thinking":
            return Server(*common, "--no-packed-cache", model=thinking_model(self.folder.name))
        raise ValueError(f"there is no server '{name}'")

    def get(self, name):
        with self.lock:
            if name not in self.running:
                self.running[name] = self._start(name)
            return self.running[name]

    def stop(self):
        """What is wrong with how they end; each must be alive and have nothing to do."""
        wrong = []
        for name, s in self.running.items():
            if s.process.poll() is not None:
                wrong.append(f"the server '{name}' died: {s.log}")
            elif s.stop() != 0:
                wrong.append(f"the server '{name}' ended badly: {s.log}")
        self.folder.cleanup()
        return wrong
