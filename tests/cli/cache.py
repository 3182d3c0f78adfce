"""`ffwd ls` and `ffwd rm`: the model cache."""
import fcntl
import os
import time

from kit import any_model, ffwd, temp
from terminal import on_terminal

made = 0


def cache(**files):
    """A cache folder with these files (name -> size), and the environment for it."""
    global made
    made += 1
    home = temp(f"models-{made}")
    models = os.path.join(home, "ffwd/models")
    os.makedirs(models)
    for name, size in files.items():
        put(models, name, size)
    return models, {"XDG_CACHE_HOME": home}


def put(models, name, size):
    path = os.path.join(models, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.truncate(size)


def listed(env):
    return {m["name"]: m for m in ffwd("ls", "--json", env=env).ok().json["models"]}


def left(models):
    return sorted(os.path.relpath(os.path.join(folder, name), models)
                  for folder, folders, names in os.walk(models) for name in folders + names)


def test_ls_empty_cache():
    home = temp("no-cache")
    env = {"XDG_CACHE_HOME": home}
    assert ffwd("ls", "--json", env=env).ok().json == {"folder": home + "/ffwd/models", "bytes": 0, "models": []}
    assert "no models" in ffwd("ls", env=env).ok().out


def test_ls_names_sizes_and_ages():
    models, env = cache(**{"SmolLM2-135M-Instruct.Q4_1.gguf": 98362432, "maker/m/a.gguf": 1500, "notes.txt": 7, ".lock": 0,
                           "maker/m/big-00001-of-00003.gguf": 10, "maker/m/big-00003-of-00003.gguf": 20,
                           "maker/m/big-00002-of-00003.gguf.part": 5, "maker/m/big-00002-of-00003.gguf.part.from": 5,
                           "host/x.gguf.part": 3, ".pull-abc/model.gguf": 9})
    old = time.time() - 3 * 86400 - 100
    os.utime(os.path.join(models, "maker/m/a.gguf"), (old, old))
    got = listed(env)
    assert list(got) == ["SmolLM2-135M-Instruct.Q4_1.gguf", "host/x.gguf", "maker/m/a.gguf",
                         "maker/m/big-00001-of-00003.gguf"], list(got)
    a, big, x = got["maker/m/a.gguf"], got["maker/m/big-00001-of-00003.gguf"], got["host/x.gguf"]
    assert a == {"name": "maker/m/a.gguf", "path": models + "/maker/m/a.gguf", "known": None, "bytes": 1500,
                 "modified": int(old), "parts": 1, "of": 1, "unfinished": False}
    assert (big["bytes"], big["parts"], big["of"], big["unfinished"]) == (35, 2, 3, True)
    assert (x["bytes"], x["parts"], x["unfinished"]) == (3, 0, True)
    assert got["SmolLM2-135M-Instruct.Q4_1.gguf"]["known"] == "smollm2"
    out = ffwd("ls", env=env).ok().out
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert "1.5 kB  3 days" in lines["maker/m/a.gguf"] and "unfinished" not in lines["maker/m/a.gguf"], out
    assert "2 of 3 parts  unfinished" in lines["maker/m/big-00001-of-00003.gguf"], out
    assert "98.4 MB  just now" in lines["SmolLM2-135M-Instruct.Q4_1.gguf"], out
    assert "= smollm2" in lines["SmolLM2-135M-Instruct.Q4_1.gguf"], out
    assert out.splitlines()[-1].startswith("4 models, 98.4 MB in " + models), out


def test_rm():
    models, env = cache(**{"SmolLM2-135M-Instruct.Q4_1.gguf": 5, "maker/m/a.gguf": 5, "maker/m/a.gguf.part": 5,
                           "maker/m/a.gguf.part.from": 5, "other/s-00001-of-00002.gguf": 5,
                           "other/s-00002-of-00002.gguf": 5, "other/deep/b.gguf": 5})
    before = left(models)
    ffwd("rm", env=env).fails(2, "NAME")
    ffwd("rm", "maker/m/a.gguf", env=env).fails(2, "--yes")
    for name in ("nobody", "maker/m", "../models/maker/m/a.gguf", models + "/maker/m/a.gguf", "maker/m/a.gguf.part", ""):
        ffwd("rm", "--yes", "smollm2", name, env=env).fails(1, "ffwd ls")
    assert left(models) == before
    assert ffwd("rm", "--yes", "maker/m/a.gguf", "smollm2", env=env).ok().out == \
        "removed maker/m/a.gguf\nremoved SmolLM2-135M-Instruct.Q4_1.gguf\n"
    assert left(models) == ["other", "other/deep", "other/deep/b.gguf", "other/s-00001-of-00002.gguf",
                            "other/s-00002-of-00002.gguf"], left(models)
    ffwd("rm", "-y", "other/s-00001-of-00002.gguf", "other/deep/b.gguf", env=env).ok()
    assert left(models) == []
    assert os.path.isdir(models)


def test_rm_of_what_is_only_called_like_a_part():
    parts = {f"o/n/x-0000{i}-of-00003.gguf": 5 for i in range(4)}
    models, env = cache(**parts)
    assert listed(env)["o/n/x-00000-of-00003.gguf"]["of"] == 1
    ffwd("rm", "-y", "o/n/x-00000-of-00003.gguf", env=env).ok()
    assert left(models) == ["o", "o/n"] + list(parts)[1:], left(models)


def test_rm_leaves_a_download_alone():
    models, env = cache(**{"m/x.gguf.part": 5})
    with open(os.path.join(models, "m/x.gguf.part"), "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        ffwd("rm", "--yes", "m/x.gguf", env=env).fails(1, "another process")
        assert left(models) == ["m", "m/x.gguf.part"]
    ffwd("rm", "--yes", "m/x.gguf", env=env).ok()
    assert left(models) == []
    models, env = cache(**{"s-00001-of-00003.gguf": 5, "s-00002-of-00003.gguf": 5, "s-00003-of-00003.gguf.part": 5})
    before = left(models)
    with open(os.path.join(models, "s-00003-of-00003.gguf.part"), "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        ffwd("rm", "--yes", "s-00001-of-00003.gguf", env=env).fails(1, "s-00003-of-00003.gguf", "another process")
    assert left(models) == before
    ffwd("rm", "--yes", "s-00001-of-00003.gguf", env=env).ok()
    assert left(models) == []


def test_rm_asks():
    models, env = cache(**{"a.gguf": 1500, "b.gguf": 1500})
    said, status = on_terminal(env, b"n\ny\n", "rm", "a.gguf", "b.gguf")
    assert status == 0 and "remove a.gguf (1.5 kB)? [y/N]" in said and "removed b.gguf" in said, said
    assert left(models) == ["a.gguf"]
    said, status = on_terminal(env, b"\x04", "rm", "a.gguf")
    assert status == 0 and left(models) == ["a.gguf"], said


def test_a_mistyped_model_is_not_the_fault_of_home():
    for name, words in (("smolm2", "nor a model of that name"), ("no/such.gguf", "no/such.gguf")):
        end = ffwd("tokenize", "-m", name, "-p", "Hi", env={"HOME": "", "XDG_CACHE_HOME": ""}).fails(1, words)
        assert "HOME" not in end.err, end


def test_models_of_the_cache_have_names():
    whole = any_model()
    models, env = cache(**{"maker/m/m-Q8_0.gguf.part": 10})
    for name in ("maker/m/m-Q4_0.gguf", "maker/m/m-Q6_K.gguf"):
        os.symlink(os.path.abspath(whole), os.path.join(models, name))
    ids = ffwd("tokenize", "-m", whole, "-p", "Hi", "--json").ok().out
    for name in ("maker/m/m-Q4_0.gguf", "maker/m:Q6_K", "maker/m:m-Q6_K.gguf", "maker/m"):
        assert ffwd("tokenize", "-m", name, "-p", "Hi", "--json", env=env).ok().out == ids, name
    ffwd("tokenize", "-m", "maker/m:Q8_0", "-p", "Hi", env=env).fails(1, "Q8_0", "m-Q4_0.gguf")
    ffwd("tokenize", "-m", "maker/other", "-p", "Hi", env=env).fails(1, "maker/other")
