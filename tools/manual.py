#!/usr/bin/env python3
"""Writes the program's manual pages and what completes its command line in shells, from the program's own tables.

    tools/manual.py PROGRAM FOLDER

`PROGRAM --help=json` lists the verbs, `PROGRAM VERB --help=json` a verb's options. FOLDER gets what is installed below
share/: man/man1/*.1, bash-completion/completions/ffwd, zsh/site-functions/_ffwd, fish/vendor_completions.d/ffwd.fish.
"""
import json
import os
import re
import subprocess
import sys


def ask(program, *words):
    return json.loads(subprocess.run([program, *words, "--help=json"], check=True, stdout=subprocess.PIPE).stdout)


def tables(program):
    """The overview, with each verb's table under "verbs" in place of its name and its line."""
    top = ask(program)
    top["verbs"] = [dict(ask(program, *v["name"].split()), line=v["about"]) for v in top["verbs"]]
    return top


def spellings(option):
    """["-m", "--model"], or nothing for what is no option but a word."""
    return [dashes + option[key] for dashes, key in (("-", "letter"), ("--", "name")) if option[key]]


def takes_file(option):
    return option["kind"] in ("text", "list") and re.search("FILE|PATH|DIR", option["value"] or "") is not None


def words_of(verb):
    """What stands for a word that is no option, or None."""
    return next((o for o in verb["options"] if not o["name"]), None)


HELP = {"name": "help", "letter": "h", "kind": "flag", "value": None, "help": "print this and do nothing else"}


def options_of(verb):
    return [o for o in verb["options"] if o["name"]] + [HELP]


# ------------------------------------------------------------------------------------------------------ manual pages


def roff(text):
    """Text of a page: nothing in it is a request, hyphens can be copied, `this` is bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("...", ".\\|.\\|.")
    text = re.sub("`([^`]*)`", r"\\fB\1\\fR", text)
    return "\\&" + text if text[:1] in (".", "'") else text


def page_head(name, line, version):
    return [f'.TH {name.upper()} 1 "" "ffwd {version}" "ffwd"', ".SH NAME", f"{name} \\- {roff(line)}"]


def page_option(option):
    names = ", ".join(f"\\fB{roff(s)}\\fR" for s in spellings(option))
    value = f"\\fI{roff(option['value'])}\\fR" if option["value"] else ""
    return [".TP", " ".join(filter(None, (names, value))), roff(option["help"])]


def verb_page(verb, version):
    name = "ffwd-" + verb["name"].replace(" ", "-")
    lines = page_head(name, verb["line"], version)
    lines += [".SH SYNOPSIS", f".B ffwd {roff(verb['name'])}", roff(verb["usage"])]
    lines += [".SH DESCRIPTION", roff(verb["about"]), ".SH OPTIONS"]
    for option in [o for o in [words_of(verb)] if o] + options_of(verb):
        lines += page_option(option)
    lines += [".SH EXIT STATUS", "0 fine, 1 failed, 2 wrong usage.", ".SH SEE ALSO", ".BR ffwd (1)"]
    return name, "\n".join(lines) + "\n"


def main_page(top):
    lines = page_head("ffwd", "run and serve language models on the CPU", top["version"])
    lines += [".SH SYNOPSIS", ".B ffwd", "\\fIVERB\\fR [\\fIOPTIONS\\fR]", ".br", ".B ffwd help", "[\\fIVERB\\fR]", ".br",
              ".B ffwd \\-\\-version", ".SH VERBS"]
    for verb in top["verbs"]:
        page = "ffwd-" + verb["name"].replace(" ", "-")
        lines += [".TP", f"\\fB{roff(page)}\\fR(1)", roff(verb["line"])]
    lines += [".SH ENVIRONMENT"]
    for name, text in re.findall(r"^  (\w+) +(.*)$", top["environment"], re.M):
        lines += [".TP", f".B {name}", roff(text)]
    lines += [".SH EXIT STATUS", "0 fine, 1 failed, 2 wrong usage. Errors are one sentence on stderr."]
    return "ffwd", "\n".join(lines) + "\n"


# -------------------------------------------------------------------------------------------------------- completions


def groups(top):
    """First words, and by first word the second ones: {"run": [], "bench": ["load", "replay"]}."""
    found = {}
    for verb in top["verbs"]:
        first, *second = verb["name"].split()
        found.setdefault(first, []).extend(second)
    return found


BASH = """# Completes ffwd's command line in bash. Made by tools/manual.py.
_ffwd() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} words='' files=''
    if [ "$word" = = ]; then
        word=''
    elif [ "$before" = = ]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [ "$COMP_CWORD" -eq 1 ]; then
        before=''
        verb=''
    fi
    case "$verb ${COMP_WORDS[2]}" in
    %(seconds)s) [ "$COMP_CWORD" -gt 2 ] && verb="$verb ${COMP_WORDS[2]}" ;;
    esac
    case "$verb:$before" in
%(values)s
    *)
        case "$verb" in
%(options)s
        esac
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    if [ "$files" ]; then
        compopt -o filenames 2>/dev/null
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -F _ffwd ffwd
"""


def bash_values(verb):
    """A case for each way in which values of options are completed."""
    cases = {}
    for option in options_of(verb):
        if option["kind"] != "flag":
            found = f" words='{' '.join(option['words'])}'" if "words" in option else " files=1" if takes_file(option) else ""
            cases.setdefault(found, []).extend(f"'{verb['name']}:{s}'" for s in spellings(option))
    return [f"    {'|'.join(names)}){found} ;;" for found, names in cases.items()]


def bash(top):
    values, options = [], []
    first = groups(top)
    for verb in top["verbs"]:
        values += bash_values(verb)
        words = [s for o in options_of(verb) for s in spellings(o) if s.startswith("--")] + first.get(verb["name"], [])
        files = " files=1" if words_of(verb) and takes_file(words_of(verb)) else ""
        options.append(f"        '{verb['name']}') words='{' '.join(words)}'{files} ;;")
    options.append(f"        help) words='{' '.join(first)}' ;;")
    options.append(f"        '') words='{' '.join([*first, 'help', '--version', '--help'])}' ;;")
    seconds = "|".join(f"'{v['name']}'" for v in top["verbs"] if " " in v["name"])
    return BASH % {"seconds": seconds, "values": "\n".join(values), "options": "\n".join(options)}


ZSH = """#compdef ffwd
# Completes ffwd's command line in zsh. Made by tools/manual.py.
local -a verbs=(
%(verbs)s
    'help:list the verbs, or the options of one'
)
if (( CURRENT == 2 )); then
    _describe verb verbs
    return
fi
local verb=$words[2]
shift words
(( CURRENT-- ))
case "$verb $words[2]" in
%(seconds)s)
    if (( CURRENT > 2 )); then
        verb="$verb $words[2]"
        shift words
        (( CURRENT-- ))
    fi
    ;;
esac
case $verb in
%(options)s
help) _describe verb verbs ;;
esac
"""


def shell_quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_told(text):
    """Text within a specification of _arguments or _describe."""
    return re.sub(r"([\\\[\]:])", r"\\\1", text)


def zsh_option(option):
    takes = option["kind"] != "flag"
    action = f"({' '.join(option['words'])})" if "words" in option else "_files" if takes_file(option) else " "
    value = f":{zsh_told(option['value'])}:{action}" if takes else ""
    before = "*" if option["kind"] == "list" else f"({' '.join(spellings(option))})"
    return ["    " + shell_quoted(f"{before}{s}{'=' if takes and s.startswith('--') else ''}[{zsh_told(option['help'])}]{value}")
            for s in spellings(option)]


def zsh(top):
    verbs = [f"    {shell_quoted(v['name'] + ':' + zsh_told(v['line']))}" for v in top["verbs"] if " " not in v["name"]]
    options = []
    for verb in top["verbs"]:
        specs = [s for o in options_of(verb) for s in zsh_option(o)]
        words = words_of(verb)
        if words:
            specs.append(f"    '*:{words['value']}:{'_files' if takes_file(words) else ' '}'")
        second = groups(top).get(verb["name"])
        if second:
            specs.append(f"    '1:kind:({' '.join(second)})'")
        options.append(f"{shell_quoted(verb['name'])}) _arguments \\\n" + " \\\n".join(specs) + "\n    ;;")
    seconds = "|".join(shell_quoted(v["name"]) for v in top["verbs"] if " " in v["name"])
    return ZSH % {"verbs": "\n".join(verbs), "seconds": seconds, "options": "\n".join(options)}


FISH = """# Completes ffwd's command line in fish. Made by tools/manual.py.
function __ffwd_verb --description 'The verb, of one word or two, that the command line begins with'
    set -l words (commandline -opc)
    switch "$words[2] $words[3]"
        case %(seconds)s
            echo "$words[2] $words[3]"
        case '*'
            echo "$words[2]"
    end
end
function __ffwd_is
    test (__ffwd_verb) = "$argv"
end
complete -c ffwd -f
"""


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_option(verb, option):
    words = [f"complete -c ffwd -n {fish_quoted('__ffwd_is ' + verb['name'])}"]
    words += [f"{key} {option[name]}" for key, name in (("-s", "letter"), ("-l", "name")) if option[name]]
    if "words" in option:
        words.append(f"-x -a {fish_quoted(' '.join(option['words']))}")
    elif option["kind"] != "flag":
        words.append("-r -F" if takes_file(option) else "-x")
    return " ".join(words + [f"-d {fish_quoted(option['help'])}"])


def fish(top):
    first = groups(top)
    lines = [FISH % {"seconds": " ".join(fish_quoted(v["name"]) for v in top["verbs"] if " " in v["name"])}]
    for verb in top["verbs"]:
        *before, last = verb["name"].split()
        where = "__ffwd_is " + (" ".join(before) if before else '""')
        lines.append(f"complete -c ffwd -n {fish_quoted(where)} -a {last} -d {fish_quoted(verb['line'])}\n")
        lines += [fish_option(verb, o) + "\n" for o in options_of(verb)]
        if words_of(verb) and takes_file(words_of(verb)):
            lines.append(f"complete -c ffwd -n {fish_quoted('__ffwd_is ' + verb['name'])} -F\n")
    lines.append(f"complete -c ffwd -n '__ffwd_is help' -a {fish_quoted(' '.join(first))}\n")
    lines.append("complete -c ffwd -n '__ffwd_is \"\"' -a help -d 'list the verbs, or the options of one'\n")
    return "".join(lines)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    top = tables(sys.argv[1])
    files = {"bash-completion/completions/ffwd": bash(top), "zsh/site-functions/_ffwd": zsh(top),
             "fish/vendor_completions.d/ffwd.fish": fish(top)}
    for name, text in [main_page(top)] + [verb_page(v, top["version"]) for v in top["verbs"]]:
        files[f"man/man1/{name}.1"] = text
    for path, text in files.items():
        path = os.path.join(sys.argv[2], path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()
