"""Runs lm-eval once, as people do, against a server."""
import json
import os
import subprocess
import sys
import types

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../golden"), os.path.join(HERE, "../lib")]
import served  # noqa: E402
import vocab  # noqa: E402

FFWD, MODEL = os.environ["FFWD"], os.environ["SMOLLM2"]


@pytest.fixture(scope="session")
def url():
    s = served.Served("--port", "0", "--ctx", "1024")
    yield s.url
    assert s.stop() == 0, "the server did not end well"


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    """A folder that transformers can load a tokenizer from, made of the model file."""
    folder = tmp_path_factory.mktemp("tokenizer")
    vocab.byte_level(MODEL, True).save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "bos_token": "<|im_start|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def lines_of(folder, name):
    [file] = folder.rglob(name)
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="session")
def evaluated(url, tokenizer, tmp_path_factory):
    """What lm-eval wrote: results by task, and of each task the samples."""
    out = tmp_path_factory.mktemp("lm-eval")
    model = ",".join(["model=any", f"base_url={url}/v1/completions", "tokenizer_backend=huggingface", f"tokenizer={tokenizer}",
                      "max_length=1024", "num_concurrent=2"])
    program = os.path.join(os.path.dirname(sys.executable), "lm_eval")
    command = [program, "run", "--model", "local-completions", "--model_args", model, "--include_path", HERE,
               "--tasks", "ffwd_capitals,ffwd_count", "--log_samples", "--output_path", str(out)]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(out / "cache")}
    ran = subprocess.run(command, env=os.environ | offline, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr[-4000:]
    [results] = out.rglob("results_*.json")
    return types.SimpleNamespace(results=json.loads(results.read_text())["results"],
                                 capitals=lines_of(out, "samples_ffwd_capitals_*.jsonl"),
                                 count=lines_of(out, "samples_ffwd_count_*.jsonl"))


def pytest_terminal_summary(terminalreporter):
    n = {k: len(terminalreporter.stats.get(k, [])) for k in ("passed", "failed", "error", "skipped")}
    print(f"\nlm_eval: {n['passed']} passed, {n['failed'] + n['error']} failed, {n['skipped']} skipped")
