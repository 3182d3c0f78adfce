"""`ffwd quantize`: what becomes of tensors and metadata, bit by bit where there is a reference, and how it fails."""
import fcntl
import os
import resource
import signal
import struct
import subprocess
import time

import gguf_file
from kit import FFWD, Skip, ffwd, temp, tiny

META = [("general.alignment", gguf_file.U32, 64), ("general.file_type", gguf_file.U32, 1),
        ("split.count", 2, 1), ("text", gguf_file.STRING, "with \0 and ü"), ("flag", gguf_file.BOOL, True),
        ("numbers", gguf_file.ARRAY, (11, [-1, 2**40])), ("words", gguf_file.ARRAY, (gguf_file.STRING, ["a", "", "bc"])),
        ("nested", gguf_file.ARRAY, (gguf_file.ARRAY, [(2, [1, 2]), (2, [])]))]


def numpy():
    try:
        import numpy as np  # pylint: disable=import-outside-toplevel
        return np
    except ImportError as e:
        raise Skip(f"the weights need numpy ({e})") from e


def reference():
    """ggml's own Python package."""
    numpy()
    try:
        from gguf import GGMLQuantizationType, quants  # pylint: disable=import-outside-toplevel
    except ImportError as e:
        raise Skip(f"the comparison needs the package gguf ({e})") from e
    return quants, GGMLQuantizationType


def as_bytes(x, kind):
    np = numpy()
    if kind == "BF16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return x.astype({"F32": np.float32, "F16": np.float16}[kind]).tobytes()


def from_bytes(data, kind):
    np = numpy()
    if kind == "BF16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(data, {"F32": np.float32, "F16": np.float16}[kind]).astype(np.float32)


def source(name, kind="F16", tied=False):
    """A file of random weights: rows of 512, of 96 and of 40, a norm, a router, a bias."""
    np = numpy()
    draw = np.random.default_rng(7)
    shapes = [("token_embd.weight", (512, 48)), ("output_norm.weight", (512,)), ("blk.0.attn_q.weight", (512, 300)),
              ("blk.0.attn_q.bias", (300,)), ("blk.0.ffn_down.weight", (96, 512)), ("blk.0.odd.weight", (40, 8)),
              ("blk.0.ffn_gate_inp.weight", (512, 4)), ("blk.0.experts.weight", (512, 16, 3))]
    if not tied:
        shapes.append(("output.weight", (512, 48)))
    tensors = []
    for tensor, dims in shapes:
        x = draw.normal(0, 0.05, int(np.prod(dims))).astype(np.float32)
        if tensor == "blk.0.attn_q.weight":
            x[:256], x[256:288], x[288:320] = 0, 1e-7, -3  # what is odd about blocks: none, tiny, all equal
            x[320:352] = np.arange(32) - 16  # ties
        t = "F32" if len(dims) == 1 else kind
        tensors.append((tensor, dims, t, as_bytes(x, t)))
    return gguf_file.write(temp(name), META, tensors, align=64)


def quantize(src, kind, *args):
    out = temp(f"out-{kind}.gguf")
    end = ffwd("quantize", "-m", src, "-o", out, "--type", kind, "--force", "--json", *args).ok()
    return gguf_file.File(out), end.json


def test_quantize_tensors_and_metadata():
    src = source("mixed.gguf")
    before = gguf_file.File(src)
    for kind, head, narrow, number in (("Q8_0", "Q8_0", "Q8_0", 7), ("Q6_K", "Q6_K", "Q8_0", 18),
                                       ("Q4_K", "Q6_K", "Q4_0", 14), ("Q4_0", "Q6_K", "Q4_0", 2)):
        after, said = quantize(src, kind)
        kinds = {name: tensor[1] for name, tensor in after.tensors.items()}
        assert kinds == {"token_embd.weight": kind, "output_norm.weight": "F32", "blk.0.attn_q.weight": kind,
                         "blk.0.attn_q.bias": "F32", "blk.0.ffn_down.weight": narrow, "blk.0.odd.weight": "F16",
                         "blk.0.ffn_gate_inp.weight": "F16", "blk.0.experts.weight": kind,
                         "output.weight": head}, kinds
        assert list(after.tensors) == list(before.tensors)
        for name, (dims, t, data) in after.tensors.items():
            assert dims == before.tensors[name][0]
            if t in ("F32", "F16"):
                assert data == before.tensors[name][2], name
        kept = {k: v for k, v in before.meta.items() if k not in ("general.file_type", "split.count")}
        assert after.meta == kept | {"general.file_type": (4, number), "general.quantization_version": (4, 2)}
        assert said["tensors"] == {k: list(kinds.values()).count(k) for k in kinds.values()}
        assert said["bytes_out"] == sum(len(data) for _, _, data in after.tensors.values())
    after, _ = quantize(source("tied.gguf", tied=True), "Q4_0")
    assert after.tensors["token_embd.weight"][1] == "Q6_K" and after.tensors["blk.0.attn_q.weight"][1] == "Q4_0"


def test_quantize_leaves_a_hole_before_aligned_data():
    """However far the file says that data are to be aligned, what lies between is no memory and no bytes on the disk."""
    align = 1 << 28
    data = as_bytes(numpy().arange(64) / 64, "F32")
    src = gguf_file.write(temp("far.gguf"), [("general.alignment", gguf_file.U32, align)],
                          [("output_norm.weight", (64,), "F32", data)], align=align)
    out = temp("far-out.gguf")
    ffwd("quantize", "-m", src, "-o", out, "--type", "Q8_0").ok()
    assert os.stat(out).st_size == 2 * align and os.stat(out).st_blocks * 512 < align // 64
    with open(out, "rb") as f:
        f.seek(align)
        assert f.read(len(data)) == data


def test_quantize_refuses_endless_metadata():
    """65 strings of 16 MB are each allowed, and together more than a header may have."""
    path, length = temp("endless.gguf"), 16 << 20
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 65))
        for i in range(65):
            f.write(gguf_file.text(f"key{i}") + struct.pack("<IQ", gguf_file.STRING, length))
            f.seek(length, os.SEEK_CUR)
        f.truncate(f.tell())
    out = temp("endless-out.gguf")
    ffwd("quantize", "-m", path, "-o", out, "--type", "Q8_0").fails(1, "metadata take more than 1024 MB")
    assert not os.path.exists(out)


def test_quantize_agrees_with_ggml_bit_by_bit():
    np = numpy()
    quants, types = reference()
    for source_kind in ("F16", "BF16", "F32"):
        src = source(f"bits-{source_kind}.gguf", source_kind)
        before = gguf_file.File(src)
        for kind in ("Q8_0", "Q4_0"):
            after, _ = quantize(src, kind)
            compared = 0
            for name, (dims, t, data) in after.tensors.items():
                if t != kind:
                    continue
                x = from_bytes(before.tensors[name][2], source_kind).reshape(-1, dims[0])
                want = np.ascontiguousarray(quants.quantize(x, types[kind])).tobytes()
                assert data == want, f"{name} as {kind} from {source_kind}"
                compared += len(data)
            assert compared > 80_000


def test_quantize_loses_little():
    """What ggml's package reads of our blocks, against what went in; and the error that the verb says."""
    np = numpy()
    quants, types = reference()
    src = source("error.gguf")
    before = gguf_file.File(src)
    for kind, most in (("Q8_0", 0.006), ("Q6_K", 0.0195), ("Q4_K", 0.077), ("Q4_0", 0.09)):
        after, said = quantize(src, kind)
        lost = total = 0.0
        for name, (dims, t, data) in after.tensors.items():
            if t in ("F32", "F16"):
                continue
            x = from_bytes(before.tensors[name][2], "F16").astype(np.float64)
            rows = np.frombuffer(data, np.uint8).reshape(len(x) // dims[0], -1)
            y = quants.dequantize(rows, types[t]).reshape(-1).astype(np.float64)
            if name == "blk.0.experts.weight":
                error = np.sqrt(((x - y) ** 2).sum() / (x ** 2).sum())
                assert error < most, (kind, error)
            lost += ((x - y) ** 2).sum()
            total += (x ** 2).sum()
        assert abs(said["error"] - np.sqrt(lost / total)) < 1e-6 * said["error"], (kind, said)


def test_quantize_same_bytes_with_any_threads():
    src, outs = source("threads.gguf"), []
    for threads in ("1", "3"):
        out = temp(f"threads-{threads}.gguf")
        said = ffwd("quantize", "-m", src, "-o", out, "--type", "Q4_K", "-f", "-t", threads, "--json").ok().json
        with open(out, "rb") as f:
            outs.append((f.read(), said["error"]))
    assert outs[0] == outs[1]


def test_quantized_models_run():
    for kind in ("Q8_0", "Q4_0"):
        out = temp(f"runs-{kind}.gguf")
        said = ffwd("quantize", "-m", tiny("llama"), "-o", out, "--type", kind).ok().out
        assert said.startswith(out + ":") and "bits a weight" in said, said
        info = ffwd("info", "-m", out, "--json").ok().json["model"]
        assert kind in info["types"], info["types"]
        assert ffwd("logits", "-m", out, "--ids", "1,2,3", "--json").ok().json["positions"]


def test_quantize_refuses():
    src = source("refuse.gguf")
    out = temp("refuse-out.gguf")
    ffwd("quantize").fails(2, "-m FILE")
    ffwd("quantize", "-m", src, "-o", out).fails(2, "--type")
    ffwd("quantize", "-m", src, "-o", out, "--type", "Q3_K").fails(2, "Q4_K", "Q3_K")
    ffwd("quantize", "-m", src, "-o", out, "--type", "Q8_0").ok()
    ffwd("quantize", "-m", src, "-o", out, "--type", "Q8_0").fails(1, out, "--force")
    ffwd("quantize", "-m", out, "-o", temp("twice.gguf"), "--type", "Q4_0").fails(1, "Q8_0 already")
    ffwd("quantize", "-m", src, "-o", temp("no/such/folder.gguf"), "--type", "Q4_0").fails(1, "no/such")
    ffwd("quantize", "-m", temp("junk.gguf", b"GGUF junk"), "-o", temp("twice.gguf"), "--type", "Q4_0").fails(1, "junk.gguf")
    np = numpy()
    for bad in (np.nan, np.inf, 70000.0):
        x = np.zeros(512 * 4, np.float32)
        x[777] = bad
        broken = gguf_file.write(temp("broken.gguf"), [], [("a.weight", (512, 4), "F32", x.tobytes())])
        ffwd("quantize", "-m", broken, "-o", temp("twice.gguf"), "--type", "Q4_K").fails(1, "a.weight", "not finite")
    assert not os.path.exists(temp("twice.gguf")) and not os.path.exists(temp("twice.gguf.part"))


def test_quantize_replaces_its_source():
    src = source("itself.gguf")
    want, _ = quantize(src, "Q8_0")
    ffwd("quantize", "-m", src, "-o", src, "--type", "Q8_0", "--force").ok()
    assert gguf_file.File(src).data == want.data


def test_quantize_spares_the_part_of_somebody_else():
    src, out = source("spare.gguf"), temp("spared.gguf")
    part = temp("spared.gguf.part", b"half of a download")
    ffwd("quantize", "-m", src, "-o", out, "--type", "Q8_0").fails(1, part, "--force")
    with open(part, "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        ffwd("quantize", "-m", src, "-o", out, "--type", "Q8_0", "-f").fails(1, part, "another process")
        assert f.read() == b"half of a download"
    ffwd("quantize", "-m", src, "-o", out, "--type", "Q8_0", "-f").ok()
    assert not os.path.exists(part)
    with open(src, "rb") as f:
        weights = f.read()
    os.rename(src, part)
    ffwd("quantize", "-m", part, "-o", out, "--type", "Q8_0", "-f").fails(1, part, "read from")
    with open(part, "rb") as f:
        assert f.read() == weights


def test_quantize_full_disk_and_interruption_leave_nothing():
    src, out = source("whole.gguf"), temp("half.gguf")

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    end = subprocess.run([FFWD, "quantize", "-m", src, "-o", out, "--type", "Q8_0"], preexec_fn=small_files, check=False,
                         stderr=subprocess.PIPE)
    assert end.returncode == 1 and b"cannot write" in end.stderr, end
    assert not os.path.exists(out) and not os.path.exists(out + ".part")
    meta, tensors = gguf_file.llama(3, 2048, 8192, 32, 8, 32000, 2048)
    large = gguf_file.write(temp("large.gguf"), meta, [(n, d, "F32" if len(d) == 1 else "F16", None) for n, d in tensors])
    child = subprocess.Popen([FFWD, "quantize", "-m", large, "-o", out, "--type", "Q6_K"], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not os.path.exists(out + ".part"):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    child.send_signal(signal.SIGINT)
    err = child.communicate(timeout=30)[1]
    assert child.returncode == 1 and b"interrupted" in err, (child.returncode, err)
    assert not os.path.exists(out) and not os.path.exists(out + ".part")
    os.unlink(large)
