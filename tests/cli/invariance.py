"""Law L1: the logits of a position have the same bits whatever the chunk, the threads, the kernels and the company."""
import os

from kit import GEMMA, SMOLLM2, ffwd, need, tiny

TINY = ["llama", "smollm2", "mistral", "llama_linear", "llama_yarn", "llama256", "qwen2", "qwen3", "gemma3",
        "gemma3_256"]
PROSE = "docs/architecture.md"
REF_TOKENS = 16
LEVELS = ("avx2", "avx512", "neon")


def levels():
    """Kernel levels of this machine, apart from ref."""
    return [level for level in LEVELS if ffwd("info", env={"FFWD_CPU": level}).code == 0]


def hashes(model, ids, *args, level=None):
    env = {"FFWD_CPU": level} if level else None
    got = ffwd("logits", "-m", model, "--ids", ",".join(map(str, ids)), "--top", "2", "--json", *args, env=env,
               timeout=300).ok().json
    return [(p["hash"], tuple((t["id"], t["logit"]) for t in p["top"])) for p in got["positions"]]


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)


def check(model, ids, ref_tokens, short):
    """Every way to compute the same positions. The slow ones do the first `short`: equal prefixes have equal hashes."""
    want = hashes(model, ids, "--threads", "2")
    assert len(set(h for h, _ in want)) > len(ids) // 2, "the hashes should differ between positions"
    whole, used = len(ids), ffwd("info", "--json").ok().json["isa"]
    ways = [(short, ["--chunk", "1"], None), (short, ["--chunk", "7"], None), (whole, ["--chunk", "64"], None),
            (whole, ["--threads", "1"], None), (whole, ["--beside", "3"], None),
            (short, ["--beside", "3", "--chunk", "7"], None),
            (short, ["--threads", "3", "--chunk", "33", "--beside", "2"], None)]
    for level in levels():
        ways += [(whole if level != used else short, [], level), (short, ["--chunk", "5", "--beside", "1"], level)]
    for n, args, level in ways + [(ref_tokens, [], "ref")]:
        got = hashes(model, ids[:n], *args, level=level)
        at = first_difference(got, want)
        assert len(got) == min(n, whole) and at is None, (
            f"{os.path.basename(model)} {' '.join(args)} {level or ''}: position {at} differs")


def prose_ids(model, n):
    with open(PROSE, "rb") as f:
        ids = ffwd("tokenize", "-m", model, "--json", stdin=f.read()).ok().json["ids"]
    assert len(ids) >= n
    return ids[:n]


def tiny_case(family):
    def case():
        model = tiny(family)
        context = ffwd("info", "-m", model, "--json").ok().json["model"]["context"]
        n = min(300, context)  # beyond one attention partial, and many windows
        check(model, [(31 * i * i + 17 * i + 5) % 500 + 8 for i in range(n)], 32, n)
    case.__name__ = f"the_bits_of_tiny_{family}"
    return case


def the_bits_of_smollm2():
    model = need(SMOLLM2, "SmolLM2 is not in the cache")
    check(model, prose_ids(model, 270), REF_TOKENS, 80)


def the_bits_of_gemma():
    model = need(GEMMA, "Gemma is not in the cache")
    check(model, prose_ids(model, 530), REF_TOKENS // 2, 60)  # the window of 512 is crossed


def the_same_with_f32_keys_and_values():
    model = tiny("gemma3")
    ids = [(31 * i * i + 17 * i + 5) % 500 + 8 for i in range(70)]
    want = hashes(model, ids, "--kv", "f32")
    assert hashes(model, ids, "--kv", "f32", "--chunk", "9", "--beside", "2") == want
    assert hashes(model, ids) != want, "f16 and f32 should not agree bit by bit"


def say_levels():
    have = levels()
    print("note: kernel levels compared: ref, " + ", ".join(have))
    missing = [level for level in LEVELS if level not in have]
    if missing:
        print("note: not on this machine: " + ", ".join(missing))


def tests():
    return [tiny_case(f) for f in TINY] + [the_bits_of_smollm2, the_bits_of_gemma, the_same_with_f32_keys_and_values]
