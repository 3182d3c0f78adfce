"""bench/compare.py: what it makes of other programs' output, ratios, limits, bars, the report and its exit status.

The programs it runs are scripts that answer as the real ones would, with round numbers.
"""
import json
import os
import subprocess
import sys
import tempfile
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))

import bars  # noqa: E402
import compare  # noqa: E402
import kit  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402

TEMP = tempfile.TemporaryDirectory(prefix="ffwd-compare-")

# 2 layers of 4 KV heads of 64 that see everything, and 1 with a window of 512: 2,048 + 1,024 bytes a position.
INFO = {"isa": "avx2", "why": "avx2, because this is a test.", "model": {
    "token_bytes": 100_000_000, "token_macs": 90_000_000, "head_macs": 10_000_000, "weight_bytes": 120_000_000,
    "kv_position_bytes": 3072, "kv_groups": [{"layers": 2, "heads": 4, "head_dim": 64, "window": 0},
                                             {"layers": 1, "heads": 4, "head_dim": 64, "window": 512}]}}
PROBE = {"threads": 2, "read_gb_s": 20.0, "vpdpbusd_gmac_s": None, "maddubs_gmac_s": 200.0, "two_maddubs_gmac_s": 250.0,
         "fma_gmac_s": 100.0, "barrier_us": 0.1}

FAKE_FFWD = f"""
args = sys.argv[1:]
def number(name, other=0):
    return int(args[args.index(name) + 1]) if name in args else other
if args[0] == "pull":
    print({os.path.join(TEMP.name, "model.gguf")!r})
elif args[0] == "info":
    print(json.dumps({INFO!r}))
elif args[0] == "run":
    print("x" if "--json" not in args else json.dumps({{"usage": {{"prompt_tokens": 6, "completion_tokens": 32,
          "peak_bytes": 150_000_000, "load_seconds": 0.25}}}}))
elif "--profile" in args:
    print(json.dumps({{"overhead_us": {{"p50": 70}}}}))
else:
    pp, batch = number("--pp"), number("--batch", 1)
    print(json.dumps({{"pp": {{"median": 2000.0 if pp > 16 else 100.0}}, "tg": {{"median": 150.0 * batch}}}}))
"""

# With repacked weights prompts are faster, and decoding slower.
FAKE_BENCH = """
args = dict(zip(sys.argv[1::2], sys.argv[2::2]))
repacked = int(args.get("--repack", args.get("-rtr")))
tests = [(int(p), 0) for p in args["-p"].split(",") if p != "0"]
if "-gp" in args:
    tests.append(tuple(map(int, args["-gp"].split(","))))
elif args["-n"] != "0":
    tests.append((0, int(args["-n"])))
decoding = tests[0][1] > 0
rate = ([100.0, 80.0] if decoding else [400.0, 500.0])[repacked] * SCALE
samples = [1.0] * (0 if decoding else DROP)
samples += [rate] * (int(args["-r"]) - len(samples))
print(json.dumps([{"n_prompt": p, "n_gen": n, "samples_ts": samples} for p, n in tests]))
"""

FAKE_BATCHED = """
sys.stdout = getattr(sys, WHERE)
rows = [int(n) for n in sys.argv[sys.argv.index("-npl") + 1].split(",")]
print("|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |")
print("|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|")
for b in rows:
    print(f"|   128 |     32 | {b:4} | {160 * b:6} |    1.000 |   512.00 |    1.000 | {60.0 * b:8.2f} |    2.000 |   320.00 |")
"""


# Knows two of the programs, and "builds" those it is asked for.
FAKE_CMAKE = """
import os
args = sys.argv[1:]
if args[0] == "--build" and args[-1] == "help":
    print("... all\\n... llama-bench\\n... llama-cli\\n... llama-other")
elif args[0] == "--build":
    os.makedirs(args[1] + "/bin")
    for name in args[args.index("--target") + 1:]:
        open(f"{args[1]}/bin/{name}", "w").close()
"""


def script(path, text, **values):
    path = os.path.join(TEMP.name, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"#!{sys.executable}\nimport json, sys\n" + "".join(f"{k} = {v!r}\n" for k, v in values.items()) + text)
    os.chmod(path, 0o755)


def make_programs():
    open(os.path.join(TEMP.name, "model.gguf"), "wb").close()
    script("build/ffwd", FAKE_FFWD)
    script("build/bench/limits", f"print(json.dumps({{'runs': [{PROBE!r}]}}))\n")
    for folder, answer, scale, drop in (("llama", "llama-completion", 1, 0), ("ik", "llama-cli", 2, 1)):
        script(f"{folder}/llama-bench", FAKE_BENCH, SCALE=scale, DROP=drop)
        script(f"{folder}/llama-batched-bench", FAKE_BATCHED, WHERE="stderr" if drop else "stdout")
        script(f"{folder}/{answer}", "print('y')\n")


def run(*args):
    """(exit status, stdout, stderr) of compare.py among those programs; other peers than those named are nowhere."""
    env = dict(os.environ, BUILD=os.path.join(TEMP.name, "build"), FFWD=os.path.join(TEMP.name, "build/ffwd"),
               PEERS_DIR=os.path.join(TEMP.name, "none"), IK_BUILD="")
    got = subprocess.run([sys.executable, "-B", os.path.join(ROOT, "bench/compare.py"), *args], env=env, capture_output=True,
                         text=True, timeout=100, check=False)
    return got.returncode, got.stdout, got.stderr


LLAMA = ["--peers", os.path.join(TEMP.name, "llama")]
IK = ["--ik", os.path.join(TEMP.name, "ik")]


def measured(isa="avx2", probe=None, **figures):
    """What compare.measure() returns, of given figures: {name with _ for -: (ffwd's values, llama.cpp's)}."""
    named = {name.replace("_", "-"): pair for name, pair in figures.items()}
    return {"isa": isa, "threads": 2, "info": INFO["model"], "settings": ["llama.cpp: weights repacked for prefill"],
            "figures": {name: {"ffwd": kit.Figures(ours), "llama.cpp": kit.Figures(theirs)} for name, (ours, theirs) in named.items()},
            "probes": {name: [dict(PROBE, **(probe or {}))] * len(ours) for name, (ours, _) in named.items()}}


# -------------------------------------------------------------------------------------------------------------- the tests


def test_ratios_are_taken_pair_by_pair_and_above_1_is_better():
    ours, theirs = kit.Figures([10, 20, 30]), kit.Figures([10, 10, 20])
    assert kit.ratios(ours, theirs).values == [1, 2, 1.5]
    assert kit.ratios(ours, theirs, less_is_better=True).values == [1, 0.5, 2 / 3]
    assert kit.ratios(ours, theirs).text(1) == "1.5 [1.0–2.0]"


def test_the_better_peer_is_the_one_with_the_better_median():
    programs = {"ffwd": kit.Figures([4, 4]), "a": kit.Figures([1, 3]), "b": kit.Figures([2, 2.5])}
    assert bars.ratio_to_better("prefill-512", programs)[1] == "b"
    assert bars.ratio_to_better("first-token", programs)[1] == "a"
    assert bars.ratio_to_better("prefill-512", {"ffwd": kit.Figures([4])}) is None


def test_tables_of_batches_are_read():
    text = "main: n_kv_max = 9\n|    PP |     TG |    B |\n|-------|--------|------|\n" \
           "|   128 |     32 |    8 |   1280 |    1.5 |   682.67 |    0.5 |   512.25 |    2.0 |   640.00 |\n\nllama_print_timings:\n"
    assert peers.batch_rates(text) == {8: 512.25}


def test_a_decoded_token_reads_weights_and_the_keys_it_sees():
    assert bars.kv_bytes(INFO["model"], 100) == 100 * 3072
    assert bars.kv_bytes(INFO["model"], 2112) == 2112 * 2048 + 512 * 1024
    read, macs = bars.work("decode-2048", INFO["model"])
    assert (read, macs) == (100_000_000 + bars.kv_bytes(INFO["model"], 2112), 100_000_000)
    assert bars.work("prefill-512", INFO["model"])[1] == 512 * 90_000_000 + 10_000_000
    assert bars.work("batch-4", INFO["model"])[1] == 400_000_000


def test_the_share_of_the_limit_is_of_memory_or_of_products():
    got = measured(decode_0=([100], [1]), prefill_512=([2000], [1]))
    read = bars.work("decode-0", INFO["model"])[0]
    assert abs(bars.shares("decode-0", "smollm2", got).median - read / 20e9 * 100) < 1e-9
    least = (512 * 90e6 + 10e6) / 250e9
    assert abs(bars.shares("prefill-512", "smollm2", got).median - least / (512 / 2000)) < 1e-9
    assert abs(bars.shares("prefill-512", "1b-q8_0", got).median - least * 1.25 / (512 / 2000)) < 1e-9  # one maddubs
    assert bars.shares("memory", "smollm2", measured(memory=([1], [1]))) is None


def test_bars_differ_between_levels_and_models():
    assert bars.bars_for("prefill-512", "smollm2", "avx2") == [1.6, 0.65]
    assert bars.bars_for("prefill-512", "1b-q4_0", "avx512") == [1.35, 0.70]
    assert bars.bars_for("forward-8", "1b-q4_0", "avx2") == [None, None]
    assert bars.bars_for("forward-8", "1b-q4_0", "avx512") == [1 / 0.6, None]
    assert bars.bars_for("forward-8", "smollm2", "avx512") == [None, None]
    assert bars.bars_for("decode-0", "smollm2", "neon") == [None, None]


def test_bars_are_met_or_missed():
    def met(figure, model, got):
        return [c.met for c in bars.checks(figure, model, got)]

    assert met("prefill-512", "smollm2", measured(prefill_512=([2000], [1000]))) == [True, True]
    assert met("prefill-512", "smollm2", measured(prefill_512=([1500], [1000]))) == [False, False]
    assert met("first-token", "smollm2", measured(first_token=([0.6], [1]))) == [True]
    assert met("first-token", "smollm2", measured(first_token=([0.8], [1]))) == [False]
    assert met("prefill-32", "smollm2", measured(prefill_32=([2000], [1000]))) == []
    # memory: 120 MB of weights, 0.1 of KV, 80 more; or what the peer takes
    assert met("memory", "smollm2", measured(memory=([199], [100]))) == [True]
    assert met("memory", "smollm2", measured(memory=([201], [100]))) == [False]
    assert met("memory", "smollm2", measured(memory=([201], [300]))) == [True]
    assert met("overhead", "smollm2", measured(overhead=([149], [1]))) == [True]
    assert met("overhead", "smollm2", measured(overhead=([151], [1]))) == [False]


def test_short_passes_must_rise_smoothly_with_vnni():
    def met(eight, isa="avx512"):  # 730 MMAC at 280 GMAC/s: 2.6 ms, less than the 10 ms of one token
        got = measured(isa, {"vpdpbusd_gmac_s": 453.0}, forward_1=([10], [10]), forward_8=([eight], [100]))
        return [c.met for c in bars.checks("forward-8", "1b-q4_k_m", got)]

    assert met(11.4) == [True, True] and met(11.6) == [True, False] and met(11.6, "avx2") == []


def test_sections_are_replaced_and_others_kept():
    old = "# Old head\n\ntext\n\n## Bars\n\nold\n\n## 1B shape Q4_0\n\nkept\n\n## Fast-forwarding\n\nof replay.py\n\n### deeper\n\nx\n"
    new = report.merged(old, {"SmolLM2-135M Q4_1": "## SmolLM2-135M Q4_1\n\nnew\n"})
    assert new.startswith(report.HEAD) and "Old head" not in new and "## Bars" not in new
    tail = "## SmolLM2-135M Q4_1\n\nnew\n\n## 1B shape Q4_0\n\nkept\n\n## Fast-forwarding\n\nof replay.py\n\n### deeper\n\nx\n"
    assert new.endswith("\n\n" + tail), new
    assert report.merged(new, {}) == new
    assert kit.with_section("", "A", "## A\n\nx\n") == "## A\n\nx\n"


def test_no_round_begins_that_would_end_too_late():
    part, last = compare.Part(["a"], 30, 3), compare.Part(["b"], 30, 3)
    plan = compare.Plan([part, last], 100)
    plan.left.remove(part)
    assert plan.minutes() == 1.5 and plan.another(part)
    plan.guessed, plan.spent = 30, 60  # twice as slow as thought
    assert plan.minutes() == 3 and not plan.another(part)
    assert compare.Plan([part], 0).another(part)


def test_figures_are_chosen_by_name_or_kind():
    got = compare.chosen("decode-0,start", bars.FIGURES, "figures", compare.is_figure)
    assert got == ["decode-0", "first-token", "memory"]
    code, _, err = run("--figures", "prefil")
    assert code == 1 and "prefil is none of" in err, err


def test_a_quick_run_names_the_peer_that_is_not_there():
    code, out, err = run("--quick", "--json", "--models", "smollm2", *LLAMA)
    assert code == 3 and "skipped: ik_llama.cpp" in err, err
    got = json.loads(out)
    # prompts at 500 with repacked weights, decoding at 100 without
    assert got["ratios"] == {"smollm2/prefill-512": 4, "smollm2/decode-0": 1.5, "smollm2/batch-8": 2.5}, got
    assert got["isa"] == "avx2" and got["limits"]["machine"]["read_gb_s"] == 20 and list(got["skipped"]) == ["ik_llama.cpp"]
    assert got["limits"]["reached"]["smollm2/decode-0"] == round(150 * bars.work("decode-0", INFO["model"])[0] / 20e9, 3)


def test_without_peers_there_are_no_ratios():
    code, out, err = run("--quick", "--json", "--models", "smollm2")
    assert code == 3 and "skipped: llama.cpp" in err and "skipped: ik_llama.cpp" in err, err
    got = json.loads(out)
    assert got["ratios"] == {} and len(got["limits"]["reached"]) == 3


def test_a_whole_run_writes_the_model_s_section():
    path = os.path.join(TEMP.name, "RESULTS.md")
    kit.write_text(path, "## Fast-forwarding\n\nkept\n")
    code, out, err = run("--models", "smollm2", "--rounds", "1", "--out", path, *LLAMA, *IK)
    assert code == 0 and "skipped" not in err, err
    text = kit.read_text(path)
    rows = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if line.startswith("| ")}
    del rows[""]  # the head
    assert [f.text for f in bars.FIGURES.values()] == list(rows), list(rows)
    # ik_llama.cpp's first sample is not counted, and it is the better one: 2,000 against 1,000
    assert "| 2000 [2000–2000] | 500 [500–500] | 1000 [1000–1000] | 2.00 [2.00–2.00] |" in rows["prefill 512, tok/s"], rows
    assert "ratio ≥ 1.60: 2.00, met" in rows["prefill 512, tok/s"]
    assert "ratio ≥ 1.35: 0.75, **missed**" in rows["decode 128 after 0, tok/s"]
    assert "| 40.0 [40.0–40.0] | 8.0 [8.0–8.0] | 4.0 [4.0–4.0] | 0.10 [0.10–0.10] |" in rows["a pass, tokens: 4, ms"]
    assert "llama.cpp: weights repacked for prefill, short passes" in text and "as in the file for decode" in text
    assert text.endswith("\n## Fast-forwarding\n\nkept\n") and "SmolLM2-135M Q4_1\n  prefill 32" in out


def test_ik_llama_cpp_is_built_from_a_given_source_or_taken_as_it_is():
    root = os.path.join(TEMP.name, "peers")
    for tool in ("bench", "batched-bench", "cli", "completion", "server", "perplexity", "tokenize"):
        script(f"peers/build-0.3.36/bin/llama-{tool}", "")  # llama.cpp is there already
    for tool in ("g++", "make"):
        script(f"tools/{tool}", "")
    script("tools/cmake", FAKE_CMAKE)
    kit.write_text(os.path.join(TEMP.name, "ik/CMakeLists.txt"), "")

    def shell(*args, **more):
        env = dict(os.environ, PEERS_DIR=root, PATH=os.path.join(TEMP.name, "tools") + ":" + os.environ["PATH"], **more)
        env = {key: value for key, value in env.items() if key not in ("IK_SOURCE", "IK_BUILD") or key in more}
        got = subprocess.run([os.path.join(ROOT, "bench/peers.sh"), *args], env=env, capture_output=True, text=True,
                             timeout=60, check=False)
        return got.returncode, got.stdout.strip(), got.stderr

    assert shell("where", "ik")[0] == 1 and "IK_SOURCE" in shell("where", "ik")[2]
    assert shell("build", IK_SOURCE=root)[0] == 1 and "holds no source" in shell("build", IK_SOURCE=root)[2]
    code, out, err = shell(IK_SOURCE=os.path.join(TEMP.name, "ik"))
    assert code == 0 and out == root + "/build-0.3.36/bin", err
    assert shell("where", "ik")[:2] == (0, root + "/build-ik/bin")
    # only what the source has: no llama-sweep-bench
    assert sorted(os.listdir(root + "/build-ik/bin")) == ["llama-bench", "llama-cli"]
    assert shell("where", "ik", IK_BUILD=root + "/build-0.3.36")[:2] == (0, root + "/build-0.3.36/bin")
    assert shell("where", "llama")[:2] == (0, root + "/build-0.3.36/bin") and shell("where", "other")[0] == 1


def test_the_chart_is_drawn():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    path = os.path.join(TEMP.name, "results.png")
    file = os.path.join(TEMP.name, "drawn.md")
    report.write(file, {"smollm2": measured(prefill_512=([2000], [1000]), first_token=([0.5], [1]))}, "why", 0)
    report.write(file, {"1b-q8_0": measured(prefill_512=([300], [200]))}, "why", 0)
    text = kit.read_text(file)
    assert report.ratios_in(text) == {"smollm2": {"prefill-512": 2, "first-token": 2}, "1b-q8_0": {"prefill-512": 1.5}}
    report.draw(path, text)
    with open(path, "rb") as f:
        assert f.read(8) == b"\x89PNG\r\n\x1a\n"
    return True


def main():
    make_programs()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for test in [f for name, f in globals().items() if name.startswith("test_")]:
        name = test.__name__.replace("_", " ")
        try:
            skipped = test() is False
            counts["skipped" if skipped else "passed"] += 1
            if skipped:
                print(f"note: skipped: {name}: matplotlib is missing (bench/requirements.txt)")
        except Exception:  # the others are still to run
            counts["failed"] += 1
            print(f"FAIL {name}\n{traceback.format_exc()}")
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    return counts["failed"] != 0


if __name__ == "__main__":
    sys.exit(main())
