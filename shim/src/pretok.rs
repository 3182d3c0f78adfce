//! How byte-level vocabularies cut text into words before merging: one row per `tokenizer.ggml.pre`.
//!
//! A row is a chain of patterns. Each pattern cuts every piece left by the one before into its matches and the gaps
//! between them. The patterns are the ones in the models' own tokenizer.json files where llama.cpp had to adapt them.
//!
//! Most of them end in `SPACES`, whose look ahead no automaton can do. It only says how much of a run of spaces is taken,
//! so the rest of the pattern is an automaton, and the run is measured here.

use crate::border::{fail, Res, FFWD_BUG};
use regex_automata::meta::{Cache, Regex};
use regex_automata::util::pool::Pool;
use regex_automata::{Anchored, Input};

const CONTRACTIONS: &str = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"C|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"C|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"C|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+C?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const LATIN: &str = r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+";
const CJK3: &str = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+";
const CJK2: &str = r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+";
const PUNCT: &str = r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+";
const PORO: &str = r" ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+";
const KIMI: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+C?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A run of spaces that no other alternative took: all of it at the end of the text, else all but the last one. One alone
/// is taken.
const SPACES: &str = r"|\s+(?!\S)|\s+";

/// What a search works in; a thread takes one for as long as it cuts a block of text.
type Caches = Pool<Cache, Box<dyn Fn() -> Cache + Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe>>;

pub struct Pattern {
    regex: Regex,
    /// It has a second pattern, `\s+`, for what the source had `SPACES` for.
    spaces: bool,
    caches: Caches,
}

/// What a pre-tokeniser name implies besides its patterns.
pub struct Pre {
    pub patterns: Vec<Pattern>,
    /// A word that is itself in the vocabulary is taken whole.
    pub ignore_merges: bool,
    /// BOS where the file does not say.
    pub add_bos: bool,
    /// Spaces are `▁` and unknown characters become `<0xHH>`, as in SentencePiece, though merges are listed.
    pub spm_like: bool,
}

fn patterns_of(name: &str) -> Option<(&'static [&'static str], bool, bool)> {
    // (patterns, ignore_merges, add_bos)
    Some(match name {
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2"
        | "jina-v5-nano" => (&[LLAMA3], true, true),
        "dbrx" | "smaug-bpe" | "chatglm-bpe" => (&[LLAMA3], false, false),
        "glm4" | "glm5" => (&[LLAMA3], true, false),
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b" | "mellum2" => {
            (&[r"\p{N}", GPT2], false, false)
        }
        "gpt-2" | "phi-2" | "gigachat" | "a.x-4.0" | "mellum" | "mpt" | "olmo" | "jais" | "trillion"
        | "granite-docling" | "exaone4" => (&[GPT2], false, false),
        "qwen2" | "deepseek-r1-qwen" | "kormo" | "f2llmv2" | "megrez" | "stablelm2" | "hunyuan" | "solar-open"
        | "grok-2" => (&[QWEN2], false, false),
        "qwen35" => (&[QWEN35], false, false),
        "tekken" => (&[TEKKEN], true, true),
        "gpt-4o" | "llama4" | "kanana2" | "talkie" | "minimax-m2" => (&[GPT4O], false, false),
        "deepseek-llm" => (&[r"[\r\n]", LATIN, PUNCT, r"\s+$", CJK2, r"\p{N}+"], false, false),
        "deepseek-coder" => (&[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK2, r"\p{N}"], false, false),
        "deepseek-v3" | "hunyuan-dense" | "joyai-llm" | "hy_v4" => (&[r"\p{N}{1,3}", CJK3, DEEPSEEK3], false, false),
        "falcon" => (&[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"], false, false),
        "default" | "" => (&[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"], false, false),
        "poro-chat" | "bloom" | "gpt3-finnish" => (&[PORO], false, false),
        "viking" => (&[PORO, r"\p{N}"], false, false),
        "bailingmoe" | "bailingmoe2" | "llada-moe" => (
            &[
                r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
            ],
            false,
            false,
        ),
        "seed-coder" => {
            (&[r"C|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"], false, false)
        }
        "exaone-moe" => (
            &[
                r"C|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
            ],
            false,
            false,
        ),
        "laguna" => (&[r"[^\n]+|[\n]+", QWEN2], false, false),
        "minicpm5" => (
            &[r"\p{N}{1,3}", r"C|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
            true,
            false,
        ),
        "kimi-k2" => (&[KIMI], false, false),
        _ => return None,
    })
}

pub fn pre_for(name: &str) -> Res<Option<Pre>> {
    if matches!(name, "gemma4" | "sarvam-moe" | "granite-embed-multi-311m") {
        let add_bos = name == "gemma4";
        return Ok(Some(Pre {
            patterns: vec![compile(r"[^\n]+|[\n]+")?],
            ignore_merges: false,
            add_bos,
            spm_like: true,
        }));
    }
    let Some((sources, ignore_merges, add_bos)) = patterns_of(name) else {
        return Ok(None);
    };
    let patterns = sources.iter().map(|s| compile(s)).collect::<Res<Vec<_>>>()?;
    Ok(Some(Pre { patterns, ignore_merges, add_bos, spm_like: false }))
}

/// `C` at the head of an alternative, or before `?`, stands for the English contractions.
fn compile(source: &str) -> Res<Pattern> {
    let mut text = source.to_string();
    if text.starts_with("C|") {
        text = format!("{CONTRACTIONS}{}", &text[1..]);
    }
    text = text.replace("C?", &format!("{CONTRACTIONS}?"));
    let others = text.strip_suffix(SPACES);
    let made = match others {
        Some(others) => Regex::new_many(&[others, r"\s+"]),
        None => Regex::new(&text),
    };
    match made {
        Ok(regex) if regex.is_match("") => fail(FFWD_BUG, "a pre-tokeniser pattern matches the empty text"),
        Ok(regex) => {
            let for_caches = regex.clone();
            let caches: Caches = Pool::new(Box::new(move || for_caches.create_cache()));
            Ok(Pattern { regex, spaces: others.is_some(), caches })
        }
        Err(e) => fail(FFWD_BUG, format!("a pre-tokeniser pattern does not compile: {e}")),
    }
}

impl Pattern {
    /// The first match of `text` from byte `from` on; never an empty one.
    fn find(&self, cache: &mut Cache, text: &str, from: usize) -> Option<(usize, usize)> {
        let input = Input::new(text).range(from..);
        // These patterns seldom leave a gap, and an anchored search needs no second pass, backwards, for the beginning.
        let here =
            if self.spaces { self.regex.search_with(cache, &input.clone().anchored(Anchored::Yes)) } else { None };
        let hit = here.or_else(|| self.regex.search_with(cache, &input))?;
        let (start, mut end) = (hit.start(), hit.end());
        if hit.pattern().as_usize() == 1 && end < text.len() {
            let (last, _) = text[start..end].char_indices().next_back()?;
            if last > 0 {
                end = start + last;
            }
        }
        Some((start, end))
    }
}

/// Cuts `text` by the chain of patterns; `each` gets every piece in order. What the searches work in is given back before:
/// it may be 2 MB for a pattern, and what is done with the pieces takes longer than finding them.
pub fn cut(patterns: &[Pattern], text: &str, each: &mut dyn FnMut(&str) -> Res<()>) -> Res<()> {
    let mut ends = Vec::new();
    {
        let mut taken: Vec<_> = patterns.iter().map(|p| p.caches.get()).collect();
        let mut caches: Vec<&mut Cache> = taken.iter_mut().map(|guard| &mut **guard).collect();
        find_ends(patterns, &mut caches, text, 0, &mut ends);
    }
    let mut from = 0;
    for end in ends {
        each(&text[from..end])?;
        from = end;
    }
    Ok(())
}

/// Where the pieces of `text`, which begins at byte `at` of the whole, end there.
fn find_ends(patterns: &[Pattern], caches: &mut [&mut Cache], text: &str, at: usize, ends: &mut Vec<usize>) {
    let (Some((first, rest)), Some((cache, caches))) = (patterns.split_first(), caches.split_first_mut()) else {
        return ends.push(at + text.len());
    };
    let mut from = 0;
    while let Some((start, end)) = first.find(cache, text, from) {
        if start > from {
            find_ends(rest, caches, &text[from..start], at + from, ends);
        }
        find_ends(rest, caches, &text[start..end], at + start, ends);
        from = end;
    }
    if from < text.len() {
        find_ends(rest, caches, &text[from..], at + from, ends);
    }
}

/// Long texts are cut into blocks first, so that one call never holds more than a block's worth of state.
const BLOCK: usize = 64 << 10;

/// Splits off the next block. It ends behind a lone newline between a non-space and a letter, or before a lone space
/// between two words: every pattern above begins a piece at either place whatever stands further left, so blocks give the
/// same pieces as the whole. Where a text has no such place for as long as another block, it is cut at any character.
pub fn next_block(text: &str) -> (&str, &str) {
    block_at(text, |i| {
        let (left, right) = text.split_at(i);
        if let Some(line) = left.strip_suffix('\n') {
            return line.ends_with(|c: char| !c.is_whitespace()) && right.starts_with(char::is_alphabetic);
        }
        let mut behind = left.chars().rev();
        let mut ahead = right.chars();
        ahead.next() == Some(' ')
            && behind.by_ref().take(2).filter(|c| c.is_alphabetic()).count() == 2
            && ahead.by_ref().take(2).filter(|c| c.is_alphabetic()).count() == 2
    })
}

/// The same for a place `fits` allows.
pub fn block_at(text: &str, fits: impl Fn(usize) -> bool) -> (&str, &str) {
    if text.len() <= 2 * BLOCK {
        return (text, "");
    }
    let char_at = |&i: &usize| text.is_char_boundary(i);
    if let Some(i) = (BLOCK..2 * BLOCK).filter(char_at).find(|&i| fits(i)) {
        return text.split_at(i);
    }
    let mut i = 2 * BLOCK;
    while !text.is_char_boundary(i) {
        i -= 1;
    }
    text.split_at(i)
}
