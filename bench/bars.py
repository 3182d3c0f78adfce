"""What compare.py compares: models, figures, what each could be at best on the machine, and the project's bars.

`got` is what was measured of a model: {"isa", "info" (what `ffwd info` says of the model), "figures": {figure: {program:
Figures}}, "probes": {figure: [what limits.c printed in each round]}}.
"""
import collections

import kit
import peers

# title; the int8 product that its weights allow with AVX2; whose bars it has; what it may take beyond weights and KV,
# MB; a rough pace of the slowest program (prompt tokens, decoded tokens a second), to guess the expected time from
Model = collections.namedtuple("Model", "title product bars fixed_mb pace")
MODELS = {
    "smollm2": Model("SmolLM2-135M Q4_1", "two_maddubs", "smollm2", 80, (250, 100)),
    "gemma3-270m": Model("Gemma-3-270M Q4_K_M", "two_maddubs", "gemma", 250, (400, 70)),
    "1b-q4_k_m": Model("1B shape Q4_K_M", "two_maddubs", "1b", 80, (70, 20)),
    "1b-q4_0": Model("1B shape Q4_0", "two_maddubs", "1b", 80, (70, 20)),
    "1b-q8_0": Model("1B shape Q8_0", "maddubs", "1b", 80, (60, 15)),
}
QUICK_MODELS = ["smollm2", "1b-q4_k_m"]

# kind of measurement (peers.KINDS, or one of ALONE); its number; what it is; digits shown; whether less is better
Figure = collections.namedtuple("Figure", "kind n text digits less")
ALONE = ("linear", "own")  # ffwd alone
FIGURES = {
    **{f"prefill-{n}": Figure("prefill", n, f"prefill {n}, tok/s", 0, False) for n in (32, 128, 512, 2048)},
    **{f"decode-{n}": Figure("decode", n, f"decode {peers.DECODE} after {n}, tok/s", 0, False)
       for n in (0, 2048, 8192)},
    **{f"batch-{n}": Figure("batch", n, f"decode, rows: {n}, tok/s", 0, False) for n in (1, 2, 4, 8, 16, 32)},
    **{f"forward-{n}": Figure("forward", n, f"a pass, tokens: {n}, ms", 1, True) for n in (1, 2, 3, 4, 6, 8, 12, 16)},
    **{f"linear-{n}": Figure("linear", n, f"linear layers of a prompt of {n}, GMAC/s", 0, False) for n in (512,)},
    "first-token": Figure("start", 0, "cold process to first token, s", 2, True),
    "memory": Figure("start", 0, "its peak memory, MB", 0, True),
    "fixed": Figure("own", 0, "peak memory beyond weights and KV, MB", 0, True),
    "load": Figure("own", 0, "load, s", 2, True),
    "overhead": Figure("own", 0, "a step's overhead at 32 rows, µs", 0, True),
}
QUICK_FIGURES = ["prefill-512", "decode-0", "batch-8"]

EVERY = ("smollm2", "gemma", "1b")
SMALL = ("smollm2", "gemma")

# figures; whose; ffwd ÷ the better peer is at least; the share of what the machine could do is at least. A pair: with
# AVX2 only, with VNNI.
BARS = [
    (["prefill-512"], ["1b"], 1.35, None),
    (["prefill-512"], SMALL, 1.6, None),
    (["linear-512"], EVERY, None, (0.65, 0.70)),
    (["prefill-2048"], EVERY, 1.2, None),
    (["decode-0"], ["1b", "gemma"], 1.0, 0.88),
    (["decode-0"], ["smollm2"], 1.35, 0.75),
    (["decode-2048", "decode-8192"], ["1b"], 1.1, 0.75),
    (["decode-2048", "decode-8192"], ["smollm2"], 2.5, 0.75),
    (["batch-4"], ["1b"], 1.4, None),
    (["batch-4"], SMALL, 2.0, None),
    (["batch-8", "batch-16"], EVERY, 2.0, None),
    (["forward-4", "forward-6", "forward-8", "forward-12", "forward-16"], ["1b"], (None, 1 / 0.6), None),
    (["first-token"], EVERY, 1 / 0.7, None),
]
LEVELS = {"avx2": 0, "avx512": 1}  # ffwd's kernel levels that bars were set for

# With VNNI a pass over n tokens of the 1B shape takes at most SMOOTH times the larger of a pass over one and of its
# MACs at so many GMAC/s, on a machine whose peak is PEAK GMAC/s.
SMOOTH, PEAK, GMAC_S = 1.15, 453, {4: 200, 8: 280, 12: 300, 16: 300}

OWN_BARS = {"smollm2": {"load": 0.5, "overhead": 150}, "gemma": {"overhead": 150}}  # at most

Check = collections.namedtuple("Check", "text value met")


# ------------------------------------------------------------------------------------------------- what is possible


def kv_bytes(info, position):
    """Keys and values that a token at this position looks at, as f16."""
    return sum(4 * g["layers"] * g["heads"] * g["head_dim"] * (min(g["window"], position) if g["window"] else position)
               for g in info["kv_groups"])


def work(figure, info):
    """(bytes that must be read, MACs that must be made) for one pass of a figure: a prompt, or a decoding step."""
    f, head = FIGURES[figure], info["head_macs"]
    if f.kind == "decode":
        return info["token_bytes"] + kv_bytes(info, f.n + peers.DECODE // 2), info["token_macs"] + head
    if f.kind == "batch":
        each = kv_bytes(info, peers.BATCH_PROMPT + peers.BATCH_TOKENS // 2)
        return info["token_bytes"] + f.n * each, f.n * (info["token_macs"] + head)
    return info["token_bytes"], f.n * info["token_macs"] + head


def pass_seconds(figure, value):
    """Seconds of that pass, from a figure's value."""
    f = FIGURES[figure]
    if f.kind == "forward":
        return value / 1e3
    return (1 if f.kind == "decode" else f.n) / value


def int8_peak(model, isa, probe):
    """GMAC/s of the product that this level of kernels uses; None where it was not probed."""
    product = {"avx512": "vpdpbusd", "avx2": MODELS[model].product}.get(isa)
    return probe.get(f"{product}_gmac_s")


def limit_seconds(figure, model, info, isa, probe):
    """The least time of a pass: memory at its bandwidth, products at their peak."""
    read, macs = work(figure, info)
    peak = int8_peak(model, isa, probe)
    return max(read / (probe["read_gb_s"] * 1e9), macs / (peak * 1e9) if peak else 0)


def shares(figure, model, got):
    """What share of the machine's best each round reached; None for figures that have no such limit."""
    if FIGURES[figure].kind in ("start", "own"):
        return None
    if FIGURES[figure].kind == "linear":
        peaks = [int8_peak(model, got["isa"], probe) for probe in got["probes"][figure]]
        return kit.Figures(v / p for v, p in zip(got["figures"][figure]["ffwd"].values, peaks)) if all(peaks) else None
    return kit.Figures(limit_seconds(figure, model, got["info"], got["isa"], probe) / pass_seconds(figure, value)
                       for value, probe in zip(got["figures"][figure]["ffwd"].values, got["probes"][figure]))


# ------------------------------------------------------------------------------------------------------ what is asked


def bars_for(figure, model, isa):
    """(ratio to the better peer, share of the limit) that the project asks for; None where it asks for nothing."""
    if isa in LEVELS:
        for figures, whose, *both in BARS:
            if figure in figures and MODELS[model].bars in whose:
                return [bar[LEVELS[isa]] if isinstance(bar, tuple) else bar for bar in both]
    return [None, None]


def ratio_to_better(figure, programs):
    """(ffwd ÷ the better peer pair by pair, above 1 is better; that peer's name), or None without a peer."""
    less = FIGURES[figure].less
    peer = kit.better({name: f for name, f in programs.items() if name != "ffwd"}, less)
    return (kit.ratios(programs["ffwd"], programs[peer], less), peer) if peer else None


def at_least(text, value, bar, digits=2):
    return Check(f"{text} ≥ {bar:.{digits}f}", value, value >= bar)


def at_most(text, value, bar, digits=2):
    return Check(f"{text} ≤ {bar:.{digits}f}", value, value <= bar)


def memory_check(model, got):
    """At most what the better peer takes, or weights, KV and the fixed part, where those are more."""
    programs = got["figures"]["memory"]
    info = got["info"]
    allowed = (info["weight_bytes"] + 32 * info["kv_position_bytes"]) / 1e6 + MODELS[model].fixed_mb
    theirs = [f.median for name, f in programs.items() if name != "ffwd"]
    return at_most("MB", programs["ffwd"].median, max([allowed, *([min(theirs)] if theirs else [])]), 0)


def smooth_check(figure, model, got):
    """How a pass over some tokens compares with one over a single token, where that was measured."""
    n = FIGURES[figure].n
    if MODELS[model].bars != "1b" or got["isa"] != "avx512" or n not in GMAC_S or "forward-1" not in got["figures"]:
        return None
    peak = kit.Figures(int8_peak(model, got["isa"], p) for p in got["probes"][figure]).median
    one, here = (got["figures"][f]["ffwd"].median for f in ("forward-1", figure))
    least = max(one, work(figure, got["info"])[1] / (GMAC_S[n] * peak / PEAK * 1e6))
    return at_most("t(n) ÷ max(t(1), MACs ÷ g)", here / least, SMOOTH)


def checks(figure, model, got):
    """What the project asks of this figure, and whether it is met."""
    whose, programs, made = MODELS[model].bars, got["figures"][figure], []
    if figure == "memory":
        return [memory_check(model, got)]
    if figure == "fixed":
        return [at_most("", max(programs["ffwd"].values), MODELS[model].fixed_mb, 0)]
    own = OWN_BARS.get(whose, {}).get(figure)
    if own:
        return [at_most("", programs["ffwd"].median, own, 1 if own < 1 else 0)]
    ratio, share = ratio_to_better(figure, programs), shares(figure, model, got)
    ratio_bar, share_bar = bars_for(figure, model, got["isa"])
    if ratio_bar and ratio:
        made.append(at_least("ratio", ratio[0].median, ratio_bar))
    if share_bar:
        made.append(at_least("of the limit", share.median, share_bar))
    smooth = smooth_check(figure, model, got)
    return made + ([smooth] if smooth else [])
