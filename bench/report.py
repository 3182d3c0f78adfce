"""How compare.py says what it measured: lines, the sections of RESULTS.md, and the chart."""
import datetime
import os
import re

import bars
import kit
import peers

NAMES = ["ffwd", "llama.cpp", "ik_llama.cpp"]
HEAD = """# ffwd and its peers on one machine

`make bench` measures again and rewrites this file (`bench/compare.py`). Each section says when, where and with which
kernels it was measured. [SERVERS.md](SERVERS.md) has the server under load, beside other servers.

- The programs take turns. Figures are medians over the rounds [range]; ratios are taken within a round, to the peer with
  the better median, and above 1 is better for ffwd.
- "Of the limit" is the share of what memory bandwidth and int8 products, probed in the same round (`bench/limits.c`),
  would allow: a pass takes at least the larger of bytes ÷ bandwidth and MACs ÷ peak. Bytes are weights, keys and values.
- The peers are built natively (`bench/peers.sh`), llama.cpp from the source in llama-cpp-python 0.3.36. Both run with
  flash attention and with weights repacked or not, whichever a short trial found better for that kind of figure.
- "1B shape": the shape of Llama 3.2 1B with random weights (`tools/synth_model.py`).
- Prompts and passes begin at an empty context and take the head of their last token, as `llama-bench -p N` does; rows
  that are decoded together have prompts of {BATCH} tokens. Keys and values are f16. A cold process finds its files in the
  system's cache and has a context of {CONTEXT} tokens. A round has one start of each program, or, where a section counts
  more rounds than one number, five.

![ratios to the better peer](results.png)
""".replace("{BATCH}", str(peers.BATCH_PROMPT)).replace("{CONTEXT}", str(peers.START_CONTEXT))
KEPT = ["Fast-forwarding"]  # sections of other scripts
COLUMNS, RATIO = 1 + len(NAMES) + 3, 1 + len(NAMES)  # of figure_row()


def check_text(check):
    return f"{check.text}: {check.value:.{0 if check.value >= 20 else 2}f}, ".lstrip(" ") + kit.met_text(check.met)


def figure_row(figure, model, got):
    """Cells of a table: what, a value of each program, ratio, share of the limit, bars."""
    f, programs = bars.FIGURES[figure], got["figures"][figure]
    ratio, share = bars.ratio_to_better(figure, programs), bars.shares(figure, model, got)
    values = [programs[name].text(f.digits) if name in programs else "" for name in NAMES]
    return (f.text, *values, ratio[0].text(2) if ratio else "", f"{100 * share.median:.0f} %" if share else "",
            "; ".join(map(check_text, bars.checks(figure, model, got))))


def machine_text(got):
    """What the probes of all rounds found, as ranges."""
    probes = [p for each in got["probes"].values() for p in each]
    said = []
    for key, what in (("read_gb_s", "GB/s read"), ("vpdpbusd_gmac_s", "GMAC/s vpdpbusd"),
                      ("two_maddubs_gmac_s", "two maddubs"), ("maddubs_gmac_s", "maddubs"), ("fma_gmac_s", "f32 FMA")):
        if probes[0][key] is not None:
            said.append(f"{kit.Figures(p[key] for p in probes).text()} {what}")
    return ", ".join(said) + f"; barrier {kit.Figures(p['barrier_us'] for p in probes).median:.2f} µs"


def section(model, got, why, busy):
    rounds = {len(f.values) for programs in got["figures"].values() for f in programs.values()}
    head = [f"## {bars.MODELS[model].title}", "",
            f"Written by `bench/compare.py` on {datetime.date.today().isoformat()}. {kit.processor()}; {got['threads']} "
            f"threads. Kernels: {why.rstrip('.')}. {'–'.join(map(str, sorted(rounds)))} rounds. "
            f"{'. '.join([*got['settings'], 'Probed: ' + machine_text(got)])}.", "", *kit.busy_text(busy)]
    rows = [figure_row(figure, model, got) for figure in got["figures"]]
    return "\n".join(head + [kit.table(("", *NAMES, "ratio", "of the limit", "bars"), rows), ""])


def merged(old, sections):
    """The file's new text: its head, each model's section, new or as it was, and those of other scripts."""
    text = HEAD
    for title in [m.title for m in bars.MODELS.values()] + KEPT:
        kept = kit.section_of(old, title)
        made = sections.get(title) or (kept and f"## {title}\n\n{kept}\n")
        text = kit.with_section(text, title, made) if made else text
    return text


def write(path, results, why, busy):
    sections = {bars.MODELS[m].title: section(m, got, why, busy) for m, got in results.items()}
    kit.write_text(path, merged(kit.read_text(path), sections))


def lines(results):
    """What was measured, a line for each figure."""
    said = []
    for model, got in results.items():
        said.append(bars.MODELS[model].title)
        for figure in got["figures"]:
            what, *values, ratio, share, asked = figure_row(figure, model, got)
            given = "; ".join(f"{name} {value}" for name, value in zip(NAMES, values) if value)
            more = [f"ratio {ratio}"] * bool(ratio) + [f"{share} of the limit"] * bool(share) + [asked] * bool(asked)
            said.append(f"  {what}: {given}" + "".join("; " + m for m in more).replace("**", ""))
    return said


def ratios_in(text):
    """{model: {figure: ratio to the better peer}} of the tables in a RESULTS.md, which may be of several runs."""
    named, found = {f.text: name for name, f in bars.FIGURES.items()}, {}
    for model, about in bars.MODELS.items():
        for line in kit.section_of(text, about.title).splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            ratio = re.match(r"[\d.]+(?= \[)", cells[RATIO]) if len(cells) == COLUMNS else None
            if ratio and cells[0] in named:
                found.setdefault(model, {})[named[cells[0]]] = float(ratio[0])
    return found


def draw(path, text):
    """The chart of a RESULTS.md: for each figure that has a peer, how many times the better peer's each model's is."""
    try:
        import matplotlib
    except ImportError:
        kit.say(f"no chart: matplotlib is missing (pip install -r {os.path.relpath(kit.HERE)}/requirements.txt)")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot
    found = ratios_in(text)
    figures = [f for f in bars.FIGURES if any(f in ratios for ratios in found.values())]
    if not figures:
        return
    chart, axes = pyplot.subplots(figsize=(9, 0.32 * len(figures) + 1.2), layout="constrained")
    for (model, ratios), mark in zip(found.items(), "osD^v"):
        here = [f for f in figures if f in ratios]
        axes.plot([ratios[f] for f in here], [figures.index(f) for f in here], mark, label=bars.MODELS[model].title,
                  alpha=0.8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_yticks(range(len(figures)), [re.sub(",[^,]*$", "", bars.FIGURES[f].text) for f in figures])
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("ffwd ÷ the better of llama.cpp and ik_llama.cpp (times inverted): right of 1 is better")
    chart.legend(loc="outside upper center", ncols=len(found), fontsize="small")
    chart.savefig(path, dpi=110, metadata={"Software": None})
