"""`ffwd chat`, from a pipe and on a terminal."""
import json
import os
import re
import signal
import stat
import termios
import time

from kit import GEMMA, SMOLLM2, any_model, ffwd, need, temp, tiny
from terminal import Terminal, plain

STATE = {"XDG_STATE_HOME": temp("state"), "NO_COLOR": ""}


def history_file(name="state"):
    return os.path.join(temp(name), "ffwd", "chat.history")


def talk(*inputs, args=()):
    """A conversation from a pipe with three tokens for each reply: how it ended, and what /save wrote."""
    path = temp(f"talk-{time.monotonic_ns()}.json")
    ended = ffwd("chat", "-m", any_model(), "-n", 3, *args, stdin="\n".join([*inputs, "/save " + path, ""]).encode())
    with open(path, encoding="utf-8") as f:
        return ended, [(m["role"], m["content"]) for m in json.load(f)["messages"]]


def questions(messages):
    return [text for role, text in messages if role == "user"]


# -------------------------------------------------------------------------------------------------------- from a pipe


def test_chat_from_a_pipe():
    model = any_model()
    ended = ffwd("chat", "-m", model, "-n", "4", stdin="Grüße\n\n/clear\nthe sea\n/quit\nnot read\n".encode()).ok()
    assert ended.err.count("first token") == 2 and "forgotten" in ended.err, ended


def test_chat_without_n_takes_what_the_context_holds():
    ended = ffwd("chat", "-m", any_model(), "--ctx", "128", stdin=b"the sea\n").ok()
    assert "first token" in ended.err, ended


def test_chat_needs_a_template():
    ffwd("chat", "-m", need(GEMMA, "Gemma is not in the cache"), stdin=b"Hi\n").fails(1, "chat template")


def test_chat_inputs_of_several_lines():
    ended, messages = talk("one\\", "two\\", "", '"""', "/clear", "  is text", '"""', '"""a"""', "/etc/passwd", "/ x", "Grüße")
    assert ended.code == 0 and questions(messages) == ["one\ntwo\n", "/clear\n  is text", "a", "/etc/passwd", "/ x", "Grüße"]
    ended = ffwd("chat", "-m", any_model(), "-n", 1, stdin=b'"""never\nclosed').ok()
    assert ended.err.count("first token") == 1, ended
    ended = ffwd("chat", "-m", any_model(), "-n", 1, stdin=b"x" * (5 << 20) + b"\nthe sea\n")
    assert ended.code == 1 and "4194304" in ended.err and "first token" not in ended.err, ended


def test_chat_undo_and_retry():
    ended, messages = talk("/system Be kind.", "one", "two", "/undo", "three")
    assert [m for m in messages if m[0] != "assistant"] == [("system", "Be kind."), ("user", "one"), ("user", "three")]
    ended, messages = talk("one", "/undo", "/undo")
    assert messages == [] and "no question to take back" in ended.err and ended.code == 1, ended
    hot = ("--temp", 2, "--seed", 3)
    seeds = [talk("one", args=("--temp", 2, "--seed", 3 + i))[1] for i in range(3)]
    assert seeds[0] != seeds[1] and seeds[1] != seeds[2], "the draws of three seeds should differ"
    assert talk("one", "/retry", args=hot)[1] == seeds[1] and talk("one", "/retry", "/retry", args=hot)[1] == seeds[2]
    assert talk("zero", "/retry", "/undo", "one", args=hot)[1] == seeds[0], "a new question begins with the first seed"
    ended, messages = talk("one", "/retry")
    assert "temperature 0" in ended.err and messages == talk("one")[1], ended
    ended, messages = talk("/retry")
    assert "no question to ask again" in ended.err and messages == [], ended


def test_chat_params():
    ended, messages = talk("/params temp 2 seed=4", "one", "/params")
    assert messages == talk("one", args=("--temp", 2, "--seed", 4))[1]
    assert re.findall(r"temp 2, seed 4, top-k 0,", ended.err) == ["temp 2, seed 4, top-k 0,"] * 2, ended
    assert "max-tokens 3," in ended.err and "fill lossless" in ended.err, ended
    for wrong, words in (("temp", "names and values"), ("tmep 1", "--temp is"), ("temp hot", '"hot"'), ("help 1", "help"),
                         ("top-k 5 mirostat 1", "mirostat"), ("stop x", "--stop is not"), ("seed 1 " * 17, "at most 16")):
        ended, _ = talk("/params " + wrong, "/params")
        assert ended.code == 1 and words in ended.err and "temp 0, seed 0, top-k 0" in ended.err, (wrong, str(ended))
    biased = talk("/params temp 0.5", "one", args=("--logit-bias", "40=100"))
    assert biased[1] == talk("one", args=("--logit-bias", "40=100", "--temp", 0.5))[1] != talk("one", args=("--temp", 0.5))[1]


def test_chat_saves_and_loads():
    path, other = temp("kept.json"), temp("other.json", b"{}")
    ended, messages = talk("/system Grüße", "one", f"/save {path}", "two", "/save", "/clear", "/load", f"/save {other}")
    assert ended.code == 1 and "there is such a file" in ended.err and open(other, "rb").read() == b"{}", ended
    assert len(messages) == 5 and json.load(open(path, encoding="utf-8"))["messages"][0]["content"] == "Grüße", messages
    assert ffwd("template", "-m", any_model(), "--chat", path).ok().out.count("<|im_start|>user") == 2
    again, more = talk("three", args=("--load", path))
    assert again.code == 0 and more[:5] == messages and questions(more) == ["one", "two", "three"]
    assert talk(f"/load {path}", "three")[1] == more, "a loaded conversation goes on as it would have"
    assert not [n for n in os.listdir(temp("")) if n.startswith("kept.json.")], "what was written beside it is gone"
    for text in (b"", b"7", b"{", b'{"messages": 3}', b'[{"role": 3}]', b'[{"role": "user", "content": 7}]', b"\xff"):
        ended, messages = talk("one", "/load " + temp("bad.json", text))
        assert ended.code == 1 and "bad.json" in ended.err and questions(messages) == ["one"], (text, str(ended))
    ffwd("chat", "-m", any_model(), "--load", temp("bad.json", b"7"), stdin=b"one\n").fails(1, "bad.json")
    ended, _ = talk("/save " + temp("no/such/folder.json"), "/load", "/save")
    assert "No such file" in ended.err and ended.err.count("name of a file is missing") == 2, ended


def test_chat_a_failed_turn_changes_nothing():
    ended, messages = talk("one", "the sea " * 200, "two", args=("--ctx", 128))
    assert ended.code == 1 and "128" in ended.err and questions(messages) == ["one", "two"], ended


THINKS = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>{{ m.reasoning_content }}"
          "</think>{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n<think>")


def test_chat_keeps_reasoning_apart():
    model, path = tiny("smollm2", THINKS), temp("thought.json")
    with Terminal("chat", "-m", model, "-n", "3", env=STATE) as t:
        t.prompt()
        thought = re.search(r"\x1b\[2m(.*)\x1b\[0m\r\n\[", t.line("one"))[1]
        t.line(f"/save {path}")
        t.type("\x04")
        assert t.end() == 0
    kept = json.load(open(path, encoding="utf-8"))["messages"][1]
    assert kept == {"role": "assistant", "content": "", "reasoning_content": thought} and thought, kept
    assert f"<think>{thought}</think>" in ffwd("template", "-m", model, "--chat", path).ok().out
    piped = ffwd("chat", "-m", model, "-n", "3", stdin=b"one\n").ok()
    assert piped.out == "\n", piped


def test_chat_unknown_commands():
    ended, messages = talk("/lod x", "/frobnicate", "/clear all", "/origin maybe", "/system x", "/system -", "/system")
    assert messages == [] and ended.code == 1, ended
    for words in ("/lod is not a command, but /load is", "/frobnicate is not a command; see /help", "/clear takes nothing",
                  '"maybe"', "system message from now on: x"):
        assert words in ended.err, (words, str(ended))
    assert ended.err.count("there is no system message") == 2, ended
    ended, _ = talk("/system a\x1b]0;b\x07\x9bc", "/load " + temp("no\x1b[2Jfile"))
    assert "a ]0;b  c]" in ended.err and "no [2Jfile" in ended.err, ended
    told = ffwd("chat", "-m", any_model(), stdin=b"/help\n").ok().err
    about = " ".join(ffwd("chat", "--help").ok().out.split())
    for name in re.findall(r"^  (/[a-z]+)", told, re.M):
        assert name in about, name


# ------------------------------------------------------------------------------------------------------ on a terminal


def test_chat_on_a_terminal():
    with Terminal("chat", "-m", any_model(), "-n", "3", env=STATE) as t:
        t.prompt()
        t.type("é日x\x7f")  # the x is rubbed out again
        t.wait("日")
        t.type("\x03")      # throws the line away
        t.prompt()
        assert "tok/s" in t.line("the sea")
        assert "\x1b[?2004h" in t.seen.decode() and "\x1b[?2004l" in t.seen.decode()
        t.type("/quit\r")
        assert t.end() == 0, t.seen


def test_chat_lines_come_back():
    path = history_file("come-back")
    env = {"XDG_STATE_HOME": temp("come-back")}
    with Terminal("chat", "-m", any_model(), "-n", "1", env=env) as t:
        t.prompt()
        t.line("/system é日")
        t.line("/undo")
        t.type("\x1b[A\x1b[A\r")  # up, up
        assert "from now on: é日" in t.prompt()
        t.type("\x12und\r")  # searched backwards
        assert "no question to take back" in t.prompt()
        t.type("\x04")
        assert t.end() == 0, t.seen
    with open(path, encoding="utf-8") as f:
        assert [json.loads(line) for line in f] == ["/system é日", "/undo", "/system é日", "/undo"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    with open(path, "ab") as f:
        f.write(b'not JSON\n7\n"\\u0000"\n"/system \\"later\\"\\nand more"\n"half')
    with Terminal("chat", "-m", any_model(), "-n", "1", env=env) as t:
        t.prompt()
        t.type("\x1b[A\r")
        assert 'from now on: "later"\nand more' in plain(t.prompt())
        t.type("\x04")
        t.end()
    before = open(path, "rb").read()
    with Terminal("chat", "-m", any_model(), "-n", "1", "--no-history", env=env) as t:
        t.prompt()
        assert "no system message" in t.line("\x1b[A/system")
        t.type("\x04")
        t.end()
    assert open(path, "rb").read() == before


def test_chat_history_is_bounded():
    path = history_file("bounded")
    os.makedirs(os.path.dirname(path))
    lines = [json.dumps(f"/system {i:06}") for i in range(40000)]
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    env = {"XDG_STATE_HOME": temp("bounded")}
    with Terminal("chat", "-m", any_model(), "-n", "1", env=env) as t:
        t.prompt()
        assert os.path.getsize(path) <= 256 << 10
        t.type("\x1b[A\r")
        assert "039999" in t.prompt()
        t.line("/undo " + "x" * 17000)  # too long to be kept
        t.type("\x04")
        t.end()
    with open(path, encoding="utf-8") as f:
        kept = f.read().splitlines()
    assert 10000 < len(kept) and kept == (lines + lines[-1:])[-len(kept):], (len(kept), kept[-3:])
    os.remove(path)
    os.mkfifo(path)
    with Terminal("chat", "-m", any_model(), "-n", "1", env=env) as t:
        t.prompt()
        assert b"not a file" in t.seen
        t.type("\x04")
        assert t.end() == 0


def test_chat_pastes_and_long_lines():
    path = temp("pasted.json")
    long = "the sea and the king " * 300
    with Terminal("chat", "-m", any_model(), "-n", "1", env=STATE) as t:
        t.prompt()
        t.type("before \x1b[200~one\rtwo\rthr\x1bee\t日\r\x1b[201~ behind\r")
        t.prompt()
        t.type("four\x1b\rfive\r")
        t.prompt()
        t.type('"""six\r')
        t.wait(". ")
        t.type('seven"""\r')
        t.prompt()
        t.type("\x1b[200~/system " + long + "\x1b[201~\r")
        t.prompt()
        t.type("\x1b[200~/system a\rb\x1b[201~")
        t.wait("b")
        t.type("\x03")
        t.prompt()
        t.line(f"/save {path}")
        t.type("\x04")
        assert t.end() == 0
    messages = [(m["role"], m["content"]) for m in json.load(open(path, encoding="utf-8"))["messages"]]
    assert questions(messages) == ["before one\ntwo\nthree\t日 behind", "four\nfive", "six\nseven"], messages
    assert messages[0] == ("system", long.strip()), messages


def test_chat_tab_completes_commands():
    with Terminal("chat", "-m", any_model(), "-n", "1", env=STATE) as t:
        t.prompt()
        t.type("/sy\tx\r")
        assert "from now on: x" in t.prompt()
        t.type("/l\t\t\x7f\x7f\x7f\x7f\x7fq\t\r")  # /load, rubbed out, /quit
        assert t.end() == 0


def test_chat_comes_back_after_a_stop():
    """As after Ctrl-Z and `fg`: the shell has given the terminal its own mode meanwhile."""
    with Terminal("chat", "-m", any_model(), "-n", "1", env=STATE) as t:
        t.prompt()
        raw = termios.tcgetattr(t.fd)
        t.type("/system on")
        t.wait("on")
        os.kill(t.pid, signal.SIGSTOP)
        cooked = list(raw)
        cooked[3] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(t.fd, termios.TCSANOW, cooked)
        os.kill(t.pid, signal.SIGCONT)
        t.wait("> /system on")
        t.type("e\r")
        assert "from now on: one" in t.prompt()
        os.kill(t.pid, signal.SIGTERM)
        assert t.end() == 0 and termios.tcgetattr(t.fd)[3] & termios.ICANON, "it leaves the terminal as it was"
        assert t.seen.rstrip().endswith(b"\x1b[?2004l"), t.seen


def test_chat_on_a_dumb_terminal():
    with Terminal("chat", "-m", any_model(), "-n", "1", "--origin", env={**STATE, "TERM": "dumb", "NO_COLOR": "1"}) as t:
        t.prompt()
        t.line("the sea")
        t.type("/quit\r")
        assert t.end() == 0 and b"\x1b[?2004" not in t.seen and b"\x1b[3" not in t.seen, t.seen


def test_chat_ctrl_c_ends_a_reply_which_stays():
    model, path = need(SMOLLM2, "SmolLM2 is not in the cache"), temp("stopped.json")
    with Terminal("chat", "-m", model, "-n", "3000", "--min-tokens", "3000", env=STATE) as t:
        t.prompt()
        t.type("Write a long story about the sea.\r")
        t.wait("\x1b[?2004l")  # what was typed, the reply follows
        t.wait(" the ")
        t.type("\x03")
        assert "cancelled" in t.prompt()
        t.line(f"/save {path}")
        kept = json.load(open(path, encoding="utf-8"))["messages"]
        assert [m["role"] for m in kept] == ["user", "assistant"] and " the " in kept[1]["content"], kept
        long = "the sea and the king sang to all " * 250
        t.type("\x1b[200~" + long + "\x1b[201~\r")
        time.sleep(1.0)  # its prompt takes seconds
        t.type("\x03")
        assert "interrupted before the reply began" in t.prompt()
        t.line(f"/save {path}")
        assert json.load(open(path, encoding="utf-8"))["messages"] == kept, "the question is taken back"
        t.type("/quit\r")
        assert t.end() == 0


def test_chat_colours_by_origin():
    model = need(SMOLLM2, "SmolLM2 is not in the cache")
    question = "Write this list again, word for word: " + ", ".join(["seven silver swans"] * 7) + "."  # a reply of many copies
    with Terminal("chat", "-m", model, "-n", "60", env=STATE) as t:
        t.prompt()
        shown = t.line(question)
        assert not re.search(r"\x1b\[3\dm", shown) and "[sampled" not in shown, shown
        assert "have the colours" in t.line("/origin on")
        t.line("/undo")
        coloured = t.line(question)
        assert re.search(r"\x1b\[3\dm", coloured) and re.search(r"\[sampled, .*(echo|ngram)", coloured), coloured
        reply = [plain(s.split("\x1b[?2004l")[1]).split("\n[")[0] for s in (shown, coloured)]
        assert reply[0] == reply[1], reply
        assert "have no colours" in t.line("/origin")
        t.type("/quit\r")
        assert t.end() == 0
