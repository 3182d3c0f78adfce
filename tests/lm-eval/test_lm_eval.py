"""What lm-eval finds out about the model through /v1/completions is what ffwd computes without HTTP."""
import json
import os
import re
import subprocess

import pytest

FFWD, MODEL = os.environ["FFWD"], os.environ["SMOLLM2"]


def ffwd(verb, *args):
    ran = subprocess.run([FFWD, verb, "-m", MODEL, "--json", *args], check=True, capture_output=True, text=True)
    return json.loads(ran.stdout)


@pytest.fixture
def scored(tmp_path):
    """Log-likelihood of a text's tokens after the first, how many, and how many of them are the likeliest."""
    def score(text):
        file = tmp_path / "text"
        file.write_text(text)
        p = ffwd("perplexity", "-f", str(file))
        assert p["windows"] == 1 and not p["bos"]
        return -p["nll"] * p["scored"], p["scored"], round(p["top1"] * p["scored"])
    return score


def test_log_likelihoods(evaluated, scored):
    assert len(evaluated.capitals) == 5
    for sample in evaluated.capitals:
        for given, [found] in zip(sample["arguments"].values(), sample["resps"], strict=True):
            context, whole = scored(given["arg_0"]), scored(given["arg_0"] + given["arg_1"])
            want, tokens, likeliest = (w - c for w, c in zip(whole, context))
            assert float(found[0]) == pytest.approx(want, abs=1e-3), given
            assert (found[1] == "True") == (likeliest == tokens), given


def test_accuracy(evaluated):
    right = [s["acc"] for s in evaluated.capitals]
    assert evaluated.results["ffwd_capitals"]["acc,none"] == pytest.approx(sum(right) / len(right)) and sum(right) >= 3


def test_generations(evaluated):
    assert len(evaluated.count) == 3
    for sample in evaluated.count:
        [[found]] = sample["resps"]
        said = ffwd("run", "--raw", "-p", sample["doc"]["text"], "-n", "24", "--temp", "0")["text"]
        assert found == re.split(r"[.\n]", said)[0] != ""
