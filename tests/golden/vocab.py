"""Tokenizers for the two real models, built by hand from a GGUF's metadata with the `tokenizers` library.

Not by way of transformers, whose conversion of this vocabulary loses the splitting of digits. Nothing here adds a BOS.
"""
import os

import gguf
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

NORMAL, CONTROL, USER, BYTE = 1, 3, 4, 6
FILES = {"smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3": "gemma-3-270m.Q4_K_M.gguf"}


def model_path(name):
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "ffwd", "models", FILES[name])


def fields(path, *names):
    reader = gguf.GGUFReader(path)
    return [reader.fields["tokenizer.ggml." + n].contents() for n in names]


def byte_level(path, special):
    """SmolLM2: every digit alone, then GPT-2's expression and bytes as characters, then merges by rank."""
    tokens, kinds, merges = fields(path, "tokens", "token_type", "merges")
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tok.decoder = decoders.ByteLevel()
    if special:
        tok.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                for t, k in zip(tokens, kinds) if k == CONTROL])
    return tok


def piece_merges(pieces, scores):
    """Every way to put a piece together from two others, best piece first; among those of one piece, longer left part
    last, which is what merging the leftmost of equals comes to."""
    out = []
    for piece in pieces:
        for cut in range(1, len(piece)):
            if piece[:cut] in pieces and piece[cut:] in pieces:
                out.append((scores[pieces[piece]], piece[:cut], piece[cut:]))
    out.sort(key=lambda m: -m[0])
    return [(a, b) for _, a, b in out]


def sentence_piece(path, special):
    """Gemma: spaces become U+2581, pieces merge by score, what is left over falls back to bytes. Runs of newlines, tabs
    and spaces and some markup are user-defined tokens, found in raw text, special or not."""
    tokens, kinds, scores = fields(path, "tokens", "token_type", "scores")
    vocab = {t: i for i, t in enumerate(tokens)}
    pieces = {t: i for i, (t, k) in enumerate(zip(tokens, kinds)) if k == NORMAL}
    tok = Tokenizer(models.BPE(vocab, piece_merges(pieces, scores), unk_token="<unk>", fuse_unk=True,
                               byte_fallback=True))
    tok.normalizer = normalizers.Replace(" ", "\u2581")
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    kept = (CONTROL, USER) if special else (USER,)
    tok.add_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, kinds) if k in kept])
    return tok


def build(name, special):
    """A tokenizer that finds special tokens in text, or, with special=False, takes their spelling as plain text."""
    return (byte_level if name == "smollm2" else sentence_piece)(model_path(name), special)


def bos(name):
    return [2] if name == "gemma3" else []  # what the metadata's add_bos_token and bos_token_id say
