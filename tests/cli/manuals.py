"""Help, suggestions, and what is made of the option tables: manual pages, and completions in three shells."""
import os
import re
import shutil
import subprocess
import sys

from kit import FFWD, Skip, ffwd, temp

FOLDER = temp("share")


def tables():
    """[(verb, its table)] of every verb, those of two words included."""
    names = [v["name"] for v in ffwd("--help=json").ok().json["verbs"]]
    return [(name, ffwd(*name.split(), "--help=json").ok().json) for name in names]


def made(path):
    """The text of a file that the tool writes; it runs once."""
    if not os.path.exists(FOLDER):
        subprocess.run([sys.executable, "tools/manual.py", FFWD, FOLDER], check=True)
    with open(os.path.join(FOLDER, path), encoding="utf-8") as f:
        return f.read()


def need_program(name):
    if not shutil.which(name):
        raise Skip(f"{name} is not installed")


def shell(*args, text=None):
    """What a shell prints; it finds the program by its name, and has nothing to say on stderr."""
    path = os.path.dirname(os.path.abspath(FFWD)) + os.pathsep + os.environ["PATH"]
    run = subprocess.run(args, input=text, capture_output=True, text=True, timeout=60, check=False,
                         env=dict(os.environ, PATH=path, HOME=temp("")))
    assert run.returncode == 0 and run.stderr == "", run
    return run.stdout


# -------------------------------------------------------------------------------------------------------------- help


def test_help_and_tables_say_the_same():
    overview = ffwd("help").ok().out
    for name, table in tables():
        assert table["name"] == name and re.search(rf"^  {name}  ", overview, re.M), name
        text = ffwd("help", *name.split()).ok().out
        assert text.startswith(f"usage: ffwd {name} {table['usage']}\n"), text
        flat = " ".join(text.split())
        for option in table["options"]:
            left = " ".join(filter(None, ["--" + option["name"] if option["name"] else "", option["value"]]))
            assert f"{left} {' '.join(option['help'].split())}" in flat, (name, option)
        assert max(map(len, text.splitlines())) <= 100, name
        assert len({o["name"] for o in table["options"]}) == len(table["options"]), f"{name}: a name twice"
        letters = [o["letter"] for o in table["options"] if o["letter"]]
        assert len(set(letters)) == len(letters) and "h" not in letters, f"{name}: a letter twice"


def test_the_nearest_name_is_suggested():
    ffwd("rnu").fails(2, '"rnu" is not a verb, but "run" is')
    ffwd("perplexty").fails(2, '"perplexity" is')
    ffwd("help", "chta").fails(2, '"chat" is')
    ffwd("bench", "laod").fails(2, '"laod" does not follow it, but "load" does', "ffwd help bench")
    ffwd("run", "--tmep", "1").fails(2, "--tmep is not an option, but --temp is")
    ffwd("run", "--max-token=3").fails(2, "--max-token is not an option, but --max-tokens is")
    ffwd("serve", "--prot", "1").fails(2, "--port is")
    ffwd("bench", "load", "--ulr", "x").fails(2, "--url is", "ffwd help bench load")
    for words in (["frobnicate"], ["x"], ["run", "--frobnicate"], ["run", "-x"]):
        assert ", but" not in ffwd(*words).fails(2, "is not").err


def test_the_document_has_every_verb_and_command():
    with open("docs/cli.md", encoding="utf-8") as f:
        text = f.read()
    for name, table in tables():
        assert re.search(rf"`ffwd {name}[ `]|`{name}`|\[{name}\]", text), name
        assert not table["name"] == "chat" or all(f"`{c}" in text for c in re.findall(r"/[a-z]+", table["about"]))
    options = {f"--{o['name']}" for _, table in tables() for o in table["options"]} | {"--help", "--version"}
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text)) - {"--tmep", "--name"}
    assert named <= options, f"no verb has {named - options}"


# ------------------------------------------------------------------------------------------------------ manual pages


def test_manual_pages_hold_every_option():
    overview = made("man/man1/ffwd.1").replace("\\-", "-")
    for name, table in tables():
        page = "ffwd-" + name.replace(" ", "-")
        assert f"\\fB{page}\\fR(1)" in overview, page
        text = made(f"man/man1/{page}.1").replace("\\-", "-")
        for option in table["options"]:
            assert not option["name"] or f"\\fB--{option['name']}\\fR" in text, (page, option)
            assert not option["letter"] or f"\\fB-{option['letter']}\\fR, " in text, (page, option)


def test_manual_pages_are_well_formed():
    need_program("groff")
    made("man/man1/ffwd.1")
    for name in sorted(os.listdir(FOLDER + "/man/man1")):
        text = shell("groff", "-man", "-ww", "-Tascii", "-P-cbou", f"{FOLDER}/man/man1/{name}")
        verb = name[5:-2].replace("-", " ")
        flat = re.sub(r"-\s+|\s", "", text)  # groff may break words at line ends
        assert ("ffwd" + (verb or "VERB")).replace(" ", "") in flat and "EXIT STATUS" in text, text
        if verb:
            help_text = ffwd("help", *verb.split()).ok().out
            for line in re.findall(r"^ +(?:-\w, )?--[a-z-]+", help_text, re.M):
                assert line.strip() in text, (name, line)


# ------------------------------------------------------------------------------------------------------- completions


def in_bash(line):
    """What bash offers where the line ends, as it would split it."""
    made("bash-completion/completions/ffwd")
    words = [w for w in re.split(r"\s+|(=)", line) if w]
    if line.endswith((" ", "=")):
        words += [""] if line.endswith(" ") else []
    quoted = " ".join("'" + w + "'" for w in words)
    out = shell("bash", "--norc", "-c", f"set -u; . {FOLDER}/bash-completion/completions/ffwd; COMP_WORDS=({quoted} ''); "
                f"COMP_CWORD={len(words) - 1}; _ffwd; for found in \"${{COMPREPLY[@]}}\"; do echo \"$found\"; done")
    return out.splitlines()


def in_fish(line):
    made("fish/vendor_completions.d/ffwd.fish")
    out = shell("fish", "--no-config", "-c", f"source {FOLDER}/fish/vendor_completions.d/ffwd.fish; complete -C'{line}'")
    return [found.split("\t")[0] for found in out.splitlines()]


def check_offers(offers, equals):
    """`equals`: how a value behind "=" is offered."""
    verbs = {name.split()[0] for name, _ in tables()}
    assert verbs | {"help"} <= set(offers("ffwd ")) and offers("ffwd ru") == ["run"]
    assert set(offers("ffwd help ")) == verbs, offers("ffwd help ")
    assert {"load", "replay"} <= set(offers("ffwd bench ")) and offers("ffwd bench l") == ["load"]
    assert offers("ffwd run --sch") == ["--schema"] and offers("ffwd bench --sch") == []
    assert "--url" in offers("ffwd bench load --") and "--url" not in offers("ffwd bench --")
    assert "--help" in offers("ffwd run --")
    assert offers("ffwd run --kv ") == ["f16", "f32"] and offers("ffwd bench load --mode ch") == ["chat"]
    assert offers("ffwd run --fill=st") == [equals + "strict"], offers("ffwd run --fill=st")
    temp("model one.gguf", b"x")
    assert offers("ffwd run -m " + temp("model")) == [temp("model one.gguf")], offers("ffwd run -m " + temp("model"))
    assert offers("ffwd run -n ") == []
    for name, table in tables():
        all_of = [o for o in offers(f"ffwd {name} --") if o.startswith("--")]
        assert sorted(all_of) == sorted(["--" + o["name"] for o in table["options"] if o["name"]] + ["--help"]), name


def test_bash_completes():
    check_offers(in_bash, "")


def test_fish_completes():
    need_program("fish")
    check_offers(in_fish, "--fill=")


def test_zsh_reads_its_completions():
    """Every verb's specifications, run with an _arguments that prints what it is given."""
    need_program("zsh")
    made("zsh/site-functions/_ffwd")
    said = "_describe() { print -r -- describe $1 }; _arguments() { print -rl -- \"$@\" }; "
    for name, table in tables():
        words = " ".join(["ffwd", *name.split(), "''"])
        out = shell("zsh", "-f", "-c", f"{said} words=({words}); CURRENT={len(words.split())}; "
                    f"complete() {{ . {FOLDER}/zsh/site-functions/_ffwd }}; complete")
        for option in table["options"]:
            assert not option["name"] or re.search(rf"^[*(].*--{option['name']}[=\[]", out, re.M), (name, option, out)
        assert re.search(r"^.*--kv=\[.*\]:f16\|f32:\(f16 f32\)$", out, re.M) or "--kv" not in str(table), out
