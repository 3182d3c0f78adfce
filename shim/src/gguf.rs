//! A tokenizer from the pieces GGUF metadata holds.

use crate::border::{fail, Res, FFWD_MODEL, FFWD_UNSUPPORTED};
use crate::pretok::pre_for;
use crate::scored::Scored;
use crate::special::{Special, Splitter};
use crate::tokenizer::{Joins, Merger, Pipe, Prefix, Tok};
use crate::vocab::{
    spm_bytes, turn_ends, ByteLevel, Vocab, BYTE, CONTROL, NONE, NORMAL, UNKNOWN, UNUSED, USER_DEFINED,
};
use crate::words::Words;
use ahash::AHashMap;
use tokenizers::models::bpe::{BpeBuilder, BPE};

/// The pieces, borrowed for the length of the call.
pub struct Source<'a> {
    pub model: &'a str,
    pub pre: &'a str,
    pub name: &'a str,
    pub tokens: Vec<&'a str>,
    pub scores: &'a [f32],
    pub types: &'a [i32],
    pub merges: Vec<&'a str>,
    pub bos: i32,
    pub eos: i32,
    pub unk: i32,
    pub eot: i32,
    pub eom: i32,
    pub pad: i32,
    pub add_bos: Option<bool>,
    pub add_eos: Option<bool>,
    pub add_space_prefix: Option<bool>,
}

/// Merged words remembered per thread; each costs some hundred bytes.
pub(crate) const CACHE: usize = 4096;

type Merges = Vec<(String, String)>;

impl<'a> Source<'a> {
    fn kind(&self, id: usize) -> u8 {
        match self.types.get(id) {
            None => NORMAL,
            Some(&t) if (NORMAL as i32..=BYTE as i32).contains(&t) => t as u8,
            Some(_) => UNUSED,
        }
    }

    fn valid(&self, id: i32) -> i32 {
        if id >= 0 && (id as usize) < self.tokens.len() {
            id
        } else {
            NONE
        }
    }

    pub fn build(mut self) -> Res<Tok> {
        let byte_level = match self.model {
            "gpt2" => true,
            "llama" | "gemma4" => false,
            other => {
                return fail(
                    FFWD_UNSUPPORTED,
                    format!("the tokenizer model \"{other}\" is not supported; known are gpt2, llama and gemma4"),
                )
            }
        };
        if self.tokens.is_empty() {
            return fail(FFWD_MODEL, "tokenizer.ggml.tokens is missing or empty");
        }
        for (name, n) in [("scores", self.scores.len()), ("token_type", self.types.len())] {
            if n != 0 && n < self.tokens.len() {
                return fail(
                    FFWD_MODEL,
                    format!("tokenizer.ggml.{name} has {n} entries for {} tokens", self.tokens.len()),
                );
            }
        }
        let listed = byte_level || self.model == "gemma4";
        if listed && self.merges.is_empty() {
            return fail(FFWD_MODEL, "tokenizer.ggml.merges is missing");
        }
        if !listed && self.scores.is_empty() {
            return fail(FFWD_MODEL, "tokenizer.ggml.scores is missing");
        }
        if self.model == "llama" {
            self.bos = if self.bos == NONE { 1 } else { self.bos };
            self.eos = if self.eos == NONE { 2 } else { self.eos };
            self.unk = if self.unk == NONE { 0 } else { self.unk };
        }
        for id in [&mut self.bos, &mut self.eos, &mut self.unk, &mut self.eot, &mut self.eom, &mut self.pad] {
            if *id < 0 || *id as usize >= self.tokens.len() {
                *id = NONE;
            }
        }
        let pre_name = if self.model == "gemma4" { "gemma4" } else { self.pre };
        let pre = if !listed {
            None
        } else {
            match pre_for(pre_name)? {
                Some(p) => Some(p),
                None => {
                    return fail(
                        FFWD_UNSUPPORTED,
                        format!("the pre-tokenizer \"{pre_name}\" (tokenizer.ggml.pre) is not supported"),
                    )
                }
            }
        };
        let spm_like = pre.as_ref().is_none_or(|p| p.spm_like);
        let mut vocab = self.table(spm_like);
        let ids = self.ids();
        let ends = turn_ends(&mut vocab, &[self.eos, self.eot, self.eom], |t| ids.get(t).copied());
        let specials = self.specials(&vocab);
        drop(ids);

        let (patterns, ignore_merges, pre_bos) = match pre {
            Some(p) => (p.patterns, p.ignore_merges, p.add_bos),
            None => (Vec::new(), false, true),
        };
        // Gemma 4 files say they add none, and are wrong.
        let add_bos = if pre_name == "gemma4" { true } else { self.add_bos.unwrap_or(pre_bos) };
        let prefix =
            if spm_like && !listed && self.add_space_prefix.unwrap_or(true) { Prefix::EachPart } else { Prefix::Never };
        let mut joins = Joins::default();
        if spm_like {
            self.tokens
                .iter()
                .enumerate()
                .filter(|&(i, _)| self.merges_into(i, &vocab))
                .for_each(|(_, t)| joins.note(t));
        }
        let pipe = if !listed {
            Pipe::Spm { merger: Merger::Scored(self.scored(&vocab)), patterns, joins }
        } else if spm_like {
            Pipe::Spm { merger: Merger::Listed(Words::new(self.bpe(&vocab, true, false)?, vocab.len())), patterns, joins }
        } else {
            let words = Words::new(self.bpe(&vocab, false, ignore_merges)?, vocab.len());
            Pipe::ByteLevel { words, patterns, alphabet: Box::new(ByteLevel::new()) }
        };
        Ok(Tok {
            pipe,
            vocab,
            splitter: Splitter::new(specials)?,
            prefix,
            prefix_unless_space: false,
            bos: self.valid(self.bos),
            eos: self.valid(self.eos),
            unk: self.valid(self.unk),
            pad: self.valid(self.pad),
            ends,
            add_bos,
            add_eos: self.add_eos.unwrap_or(false),
        })
    }

    fn table(&self, spm_like: bool) -> Vocab {
        let alphabet = ByteLevel::new();
        let mut vocab = Vocab::with_capacity(self.tokens.len());
        let mut bytes = Vec::new();
        for (id, text) in self.tokens.iter().enumerate() {
            let mut kind = self.kind(id);
            if spm_like && kind == NORMAL && crate::vocab::byte_of(text).is_some() {
                kind = BYTE; // Gemma 4's byte tokens come without their type
            }
            if spm_like {
                spm_bytes(text, kind, &mut bytes);
            } else if matches!(kind, CONTROL | UNKNOWN | USER_DEFINED) {
                bytes.clear();
                bytes.extend_from_slice(text.as_bytes());
            } else {
                alphabet.decode(text, &mut bytes);
            }
            vocab.push(&bytes, kind);
        }
        vocab.shrink();
        vocab
    }

    /// Spelling to id; where two ids share one, the later counts.
    fn ids(&self) -> AHashMap<&'a str, u32> {
        let mut ids = AHashMap::with_capacity(self.tokens.len());
        for (id, &text) in self.tokens.iter().enumerate() {
            ids.insert(text, id as u32);
        }
        ids
    }

    fn specials(&self, vocab: &Vocab) -> Vec<Special> {
        // Phi-3 swallows white space behind its specials; its files do not say so.
        let name = self.name.to_lowercase();
        let phi3 = name.contains("phi-3") || name.contains("phi3");
        let mut specials = Vec::new();
        for (id, &text) in self.tokens.iter().enumerate() {
            let kind = vocab.kind(id);
            if matches!(kind, CONTROL | UNKNOWN | USER_DEFINED) && !text.is_empty() {
                specials.push(Special {
                    id: id as u32,
                    text: text.to_string(),
                    control: kind != USER_DEFINED,
                    lstrip: false,
                    rstrip: phi3 && !matches!(text, "<unk>" | "<s>" | "<|endoftext|>"),
                    single_word: false,
                });
            }
        }
        specials
    }

    /// Whether merging may end in this token. Specials are the splitter's business, byte tokens the fallback's.
    fn merges_into(&self, id: usize, vocab: &Vocab) -> bool {
        matches!(vocab.kind(id), NORMAL | UNUSED | USER_DEFINED) && !self.tokens[id].is_empty()
    }

    fn bpe(&self, vocab: &Vocab, spm_like: bool, ignore_merges: bool) -> Res<BPE> {
        let mut ids: AHashMap<String, u32> = AHashMap::with_capacity(self.tokens.len());
        for (id, &text) in self.tokens.iter().enumerate() {
            let fallback = spm_like && vocab.kind(id) == BYTE;
            if self.merges_into(id, vocab) || fallback || id as i32 == self.unk {
                ids.insert(text.to_string(), id as u32);
            }
        }
        let merges = self.listed_merges(&ids);
        let mut builder = BpeBuilder::new()
            .vocab_and_merges(ids, merges)
            .cache_capacity(CACHE)
            .ignore_merges(ignore_merges)
            .byte_fallback(spm_like);
        if spm_like && self.unk != NONE {
            builder = builder.unk_token(self.tokens[self.unk as usize].to_string()).fuse_unk(true);
        }
        match builder.build() {
            Ok(b) => Ok(b),
            Err(e) => fail(FFWD_MODEL, format!("the vocabulary is inconsistent: {e}")),
        }
    }

    /// The file's merges, without those whose parts or result are no tokens (llama.cpp never notices them either).
    fn listed_merges(&self, ids: &AHashMap<String, u32>) -> Merges {
        let mut merged = String::new();
        let mut merges = Vec::with_capacity(self.merges.len());
        for &line in &self.merges {
            // The first character may itself be a space.
            let first = line.chars().next().map_or(0, char::len_utf8);
            let Some(at) = line[first..].find(' ').map(|i| i + first) else {
                continue;
            };
            let (left, right) = (&line[..at], &line[at + 1..]);
            merged.clear();
            merged.push_str(left);
            merged.push_str(right);
            if ids.contains_key(left) && ids.contains_key(right) && ids.contains_key(&merged) {
                merges.push((left.to_string(), right.to_string()));
            }
        }
        merges
    }

    fn scored(&self, vocab: &Vocab) -> Scored {
        let mut bytes = [NONE; 256];
        for (id, text) in self.tokens.iter().enumerate() {
            if let (BYTE, Some(b)) = (vocab.kind(id), crate::vocab::byte_of(text)) {
                bytes[b as usize] = id as i32;
            }
        }
        Scored::new(&self.tokens, self.scores, |id| self.merges_into(id, vocab), bytes, self.valid(self.unk))
    }
}
