"""Packed weights that are kept for the next start: found again, switched off, and the same bits in every case."""
import os
import subprocess

from kit import FFWD, SMOLLM2, Skip, any_model, ffwd, need, temp

IDS = ",".join(str(i) for i in range(40, 60))


def panels(env, *args, model=SMOLLM2):
    return ffwd("info", "-m", model, "--json", *args, env=env).ok().json["model"]["panels"]


def hashes(env, *args):
    return ffwd("logits", "-m", SMOLLM2, "--ids", IDS, "--json", *args, env=env).ok().out


def fresh_cache(name):
    """Surroundings with an empty cache, and the folder that packed weights go to."""
    need(SMOLLM2, "SmolLM2 is not fetched")
    env = {"XDG_CACHE_HOME": temp(name), "FFWD_PACKED_CACHE": ""}
    return env, os.path.join(temp(name), "ffwd/packed")


def test_packed_weights_are_found_and_give_the_same_bits():
    env, folder = fresh_cache("cache")
    want = hashes(env, "--no-packed-cache")
    assert not os.path.exists(folder)
    first = panels(env)
    if first == "packed":
        raise Skip("files are not mapped in huge pages here, so none is kept")
    assert first == "kept" and panels(env) == "found"
    assert hashes(env) == want and hashes(env, "--threads", "1") == want
    assert panels(env, "--no-packed-cache") == "packed"
    name, = os.listdir(folder)
    path = os.path.join(folder, name)
    with open(path, "r+b") as f:
        f.seek(os.path.getsize(path) // 2)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))
    assert hashes(env) == want
    assert os.listdir(folder) == [name] and panels(env) == "found"
    child = subprocess.Popen([FFWD, "serve", "-m", SMOLLM2, "--port", "0"], stdin=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, env=dict(os.environ, **env))
    try:
        assert any(line.startswith(b"weights ") and b", found;" in line for line in child.stderr)
    finally:
        child.terminate()
        assert child.wait(20) == 0
        child.stderr.close()


def test_packed_weights_switched_off_or_bounded():
    env, folder = fresh_cache("cache-off")
    for wish in ("off", "1000000"):
        assert panels(dict(env, FFWD_PACKED_CACHE=wish)) == "packed"
    assert not os.path.exists(folder) or os.listdir(folder) == []
    if any_model() != SMOLLM2:
        assert panels(env, model=any_model()) == "packed"  # a tiny one is not worth it
    for wish in ("on", "-1", "0", "1e9", "99999999999999999999", "1 "):
        ffwd("info", "-m", SMOLLM2, env=dict(env, FFWD_PACKED_CACHE=wish)).fails(1, "FFWD_PACKED_CACHE", wish)
    ffwd("tokenize", "-m", SMOLLM2, "-p", "x", env=dict(env, FFWD_PACKED_CACHE="on")).ok()  # it packs nothing
    nowhere = {"XDG_CACHE_HOME": "", "HOME": "", "FFWD_PACKED_CACHE": ""}
    assert panels(nowhere) == "packed"
    blocked = temp("no-folder", b"")
    assert panels(dict(env, XDG_CACHE_HOME=blocked)) == "packed"
