//! How byte-level vocabularies cut text into words before merging: one row per `tokenizer.ggml.pre`.
//!
//! A row is a chain of patterns. Each pattern cuts every piece left by the one before into its matches and the gaps
//! between them. The patterns are the ones in the models' own tokenizer.json files where llama.cpp had to adapt them.

use crate::border::{fail, Res, FFWD_ARGUMENT, FFWD_BUG};
use fancy_regex::{Regex, RegexBuilder};

const CONTRACTIONS: &str = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"C|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"C|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str =
    r"C|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+C?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const LATIN: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
const CJK3: &str = "[一-龥぀-ゟ゠-ヿ]+";
const CJK2: &str = "[一-龥ࠀ-一가-퟿]+";
const KIMI: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+C?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// What a pre-tokeniser name implies besides its patterns.
pub struct Pre {
    pub patterns: Vec<Regex>,
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
        "deepseek-llm" => {
            (&[r"[\r\n]", LATIN, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", CJK2, r"\p{N}+"], false, false)
        }
        "deepseek-coder" => (&[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK2, r"\p{N}"], false, false),
        "deepseek-v3" | "hunyuan-dense" | "joyai-llm" | "hy_v4" => (&[r"\p{N}{1,3}", CJK3, DEEPSEEK3], false, false),
        "falcon" => (&[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"], false, false),
        "default" | "" => (&[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"], false, false),
        "poro-chat" | "bloom" | "gpt3-finnish" => (&[r" ?[^(\s|.,!?…。，、।۔،)]+"], false, false),
        "viking" => (&[r" ?[^(\s|.,!?…。，、।۔،)]+", r"\p{N}"], false, false),
        "bailingmoe" | "bailingmoe2" | "llada-moe" => (
            &[r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
            false,
            false,
        ),
        "seed-coder" => (
            &[r"C|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
            false,
            false,
        ),
        "exaone-moe" => (
            &[r"C|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
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
        return Ok(Some(Pre { patterns: vec![compile(r"[^\n]+|[\n]+")?], ignore_merges: false, add_bos, spm_like: true }));
    }
    let Some((sources, ignore_merges, add_bos)) = patterns_of(name) else {
        return Ok(None);
    };
    let patterns = sources.iter().map(|s| compile(s)).collect::<Res<Vec<_>>>()?;
    Ok(Some(Pre { patterns, ignore_merges, add_bos, spm_like: false }))
}

/// `C` at the head of an alternative, or before `?`, stands for the English contractions.
fn compile(source: &str) -> Res<Regex> {
    let mut text = source.to_string();
    if text.starts_with("C|") {
        text = format!("{CONTRACTIONS}{}", &text[1..]);
    }
    text = text.replace("C?", &format!("{CONTRACTIONS}?"));
    match RegexBuilder::new(&text).backtrack_limit(50_000_000).build() {
        Ok(r) => Ok(r),
        Err(e) => fail(FFWD_BUG, format!("a pre-tokeniser pattern does not compile: {e}")),
    }
}

/// Cuts `text` by the chain of patterns from `patterns[0]` on; `each` gets every piece in order.
pub fn cut(patterns: &[Regex], text: &str, each: &mut dyn FnMut(&str) -> Res<()>) -> Res<()> {
    let Some((first, rest)) = patterns.split_first() else {
        return each(text);
    };
    let mut from = 0;
    for hit in first.find_iter(text) {
        let hit = match hit {
            Ok(h) => h,
            Err(e) => return fail(FFWD_ARGUMENT, format!("the text cannot be cut into words: {e}")),
        };
        if hit.start() > from {
            cut(rest, &text[from..hit.start()], each)?;
        }
        if hit.end() > hit.start() {
            cut(rest, hit.as_str(), each)?;
        }
        from = hit.end();
    }
    if from < text.len() {
        cut(rest, &text[from..], each)?;
    }
    Ok(())
}

/// Long texts are cut into blocks first, so that one call never holds more than a block's worth of state.
const BLOCK: usize = 64 << 10;

/// Splits off the next block. The cut lies behind a lone newline between a non-space and a letter: every pattern above
/// begins a piece there whatever stands further left, so blocks give the same pieces as the whole. Where a text has no
/// such place for as long as another block, it is cut anyway, at a character.
pub fn next_block(text: &str) -> (&str, &str) {
    if text.len() <= 2 * BLOCK {
        return (text, "");
    }
    let bytes = text.as_bytes();
    for i in BLOCK..2 * BLOCK {
        if bytes[i] == b'\n' && !bytes[i - 1].is_ascii_whitespace() && text[i + 1..].starts_with(char::is_alphabetic) {
            let before = text[..i].chars().next_back();
            if before.is_some_and(|c| !c.is_whitespace()) {
                return text.split_at(i + 1);
            }
        }
    }
    let mut i = 2 * BLOCK;
    while !text.is_char_boundary(i) {
        i -= 1;
    }
    text.split_at(i)
}
