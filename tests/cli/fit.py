"""`ffwd fit`: what a model needs, and whether this machine has it."""
import os

import gguf_file
from kit import GEMMA, SMOLLM2, any_model, ffwd, need, temp


def fit(*args):
    return ffwd("fit", "--json", *args).ok().json


def made_up(name, kind, layers):
    """A model of 0.19 GB a layer in Q8_0, twice that in F16, all of it holes."""
    meta, tensors = gguf_file.llama(layers, 4096, 11008, 32, 8, 32000, 65536)
    return gguf_file.write(temp(name), meta, [(n, dims, "F32" if len(dims) == 1 else kind, None) for n, dims in tensors])


def test_fit_agrees_with_info():
    for path in (any_model(), need(SMOLLM2, "SmolLM2 is not in the cache"), need(GEMMA, "Gemma is not in the cache")):
        info, got = ffwd("info", "-m", path, "--json").ok().json["model"], fit("-m", path)
        assert got["memory"]["weights"] == info["weight_bytes"], path
        assert got["types"] == info["types"] and got["context"] == info["context"]
        assert got["fits"] is True and got["largest_context"] == info["context"]


def test_fit_sums_up():
    path = any_model()
    got = fit("-m", path, "--ctx", "64")
    m = got["memory"]
    assert m["needed"] == sum(m[k] for k in ("weights", "kv", "scratch", "logits", "program"))
    assert m["needed"] <= m["available"] <= m["machine"]
    assert got["rows"] == 1 and got["context"] == 64 and got["kv"] == "f16"
    more = fit("-m", path, "--ctx", "64", "--rows", "4", "--kv", "f32")["memory"]
    assert more["kv"] == 8 * m["kv"] and more["weights"] == m["weights"]
    assert all(v > 0 for v in got["speed"].values()) and all(got["machine"].values())
    assert got["speed"]["decode_tokens_per_s_at_context"] <= got["speed"]["decode_tokens_per_s"]


def test_fit_of_models_beyond_this_machine():
    machine = fit("-m", any_model())["memory"]["machine"]
    layers = max(2, round(machine / 1.88e8 * 1.2))  # a layer has 1.88e8 bytes
    if layers <= 512:
        path = made_up("huge.gguf", "Q8_0", layers)
        end = ffwd("fit", "-m", path, "--json")
        assert end.code == 1 and end.err == "", end
        assert end.json["fits"] is False and end.json["largest_context"] == 0
        assert end.json["memory"]["weights"] > machine
        end = ffwd("fit", "-m", path)
        assert end.code == 1 and "it does not fit, whatever the context" in end.out, end
        os.unlink(path)
    small = made_up("wide.gguf", "Q8_0", 4)
    got = fit("-m", small, "--ctx", "4096")
    rows = got["memory"]["available"] // (got["memory"]["kv"] * 16) + 1
    if rows <= 64:
        end = ffwd("fit", "-m", small, "--rows", str(rows), "--json")
        assert end.code == 1 and end.json["fits"] is False, end
        largest = end.json["largest_context"]
        assert 0 < largest < 65536
        fit("-m", small, "--rows", str(rows), "--ctx", str(int(largest * 0.9)))  # free memory is never quite the same
        assert ffwd("fit", "-m", small, "--rows", str(rows), "--ctx", str(int(largest * 1.1))).code == 1
    # decode is bound by memory: half the bytes, nearly twice the speed
    assert 1.4 < got["speed"]["decode_tokens_per_s"] / fit("-m", made_up("f16.gguf", "F16", 4), "--ctx", "64")["speed"][
        "decode_tokens_per_s"] < 2.2


def test_fit_largest_context_holds_whatever_was_asked():
    """Where attention's scratch grows with the context nearly as keys and values do: many heads, few of keys."""
    layers = fit("-m", any_model())["memory"]["machine"] // (16 << 30) + 1  # keys and values of a layer: 16 GB
    meta, tensors = gguf_file.llama(layers, 2048, 2048, 64, 2, 1000, 1 << 20)
    path = gguf_file.write(temp("thin.gguf"), meta,
                           [(n, dims, "F32" if len(dims) == 1 else "Q8_0", None) for n, dims in tensors])
    largest = fit("-m", path, "--rows", "64", "--ctx", "64")["largest_context"]
    assert 64 < largest < 1 << 20
    fit("-m", path, "--rows", "64", "--ctx", str(int(largest * 0.98)))  # free memory is never quite the same
    assert ffwd("fit", "-m", path, "--rows", "64", "--ctx", str(int(largest * 1.02))).code == 1


def test_fit_says_it_in_words():
    out = ffwd("fit", "-m", any_model(), "--ctx", "64").ok().out
    for words in ("1 sequence of 64 tokens", "memory: weights", "it fits", "speed, about:", "GB/s"):
        assert words in out, (words, out)


def test_fit_wrong_usage():
    ffwd("fit").fails(2, "-m FILE")
    ffwd("fit", "-m", any_model(), "--ctx", "9999999").fails(1, "--ctx", "9999999")
    ffwd("fit", "-m", any_model(), "--rows", "0").fails(2, "--rows")
    ffwd("fit", "-m", temp("no.gguf", b"GGUF")).fails(1, "no.gguf")
