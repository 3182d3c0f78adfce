//! A model's vocabulary as llguidance sees it.
//!
//! Two differences to the tokenizer. The reply's end is one id of its own, behind the vocabulary, because llguidance
//! knows one end and a model has a set; the ids of that set, unused ones, and second ids of the same bytes have no bytes
//! here, so they are in no mask. And every split gives back its bytes exactly: where the tokenizer would replace or drop
//! some (half a character, a byte that it has no id for), the longest ids that fit are taken.

use crate::border::{Fail, Res, FFWD_BUG};
use crate::tokenizer::{Tok, INNER};
use crate::vocab::{BYTE, UNUSED};
use ahash::AHashMap;
use llguidance::api::ParserLimits;
use llguidance::toktrie::{SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use llguidance::ParserFactory;
use std::sync::Arc;

/// A word longer than this is no part of a mask (llguidance's tree of words is at most 1024 deep).
const WORD: usize = 1000;

struct Env {
    tok: Arc<Tok>,
    trie: TokTrie,
}

impl Env {
    fn exact(&self, text: &str) -> Vec<TokenId> {
        let mut ids = Vec::new();
        if self.tok.encode(text.as_bytes(), INNER, &mut ids).is_err() {
            return self.trie.greedy_tokenize(text.as_bytes());
        }
        let mut rest = text.as_bytes();
        for &id in &ids {
            match rest.strip_prefix(self.trie.token(id as u32)) {
                Some(r) if r.len() < rest.len() => rest = r,
                _ => return self.trie.greedy_tokenize(text.as_bytes()),
            }
        }
        if !rest.is_empty() {
            return self.trie.greedy_tokenize(text.as_bytes());
        }
        ids.into_iter().map(|i| i as u32).collect()
    }
}

impl TokenizerEnv for Env {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, s: &[u8]) -> Vec<TokenId> {
        self.trie.tokenize_with_greedy_fallback(s, |text| self.exact(text))
    }
}

/// The 256 bytes as a vocabulary.
struct Bytes(TokTrie);

impl TokenizerEnv for Bytes {
    fn tok_trie(&self) -> &TokTrie {
        &self.0
    }

    fn tokenize_bytes(&self, s: &[u8]) -> Vec<TokenId> {
        s.iter().map(|&b| b as TokenId).collect()
    }
}

/// What all grammars of a tokenizer share.
pub struct Factory {
    pub inner: ParserFactory,
    /// For texts without white space, over bytes.
    pub bytes: ParserFactory,
    /// Ids that are free text: neither control tokens nor ends.
    pub free: SimpleVob,
    /// Every end is a control token, so `free` is all but control tokens.
    pub ends_are_control: bool,
    pub ends: Vec<i32>,
    pub vocab: usize,
}

fn words(tok: &Tok) -> Vec<Vec<u8>> {
    let n = tok.vocab.len();
    let mut out: Vec<Vec<u8>> = vec![Vec::new(); n];
    let mut taken: AHashMap<&[u8], usize> = AHashMap::with_capacity(n);
    // Byte tokens come last: they stand for bytes that no word has.
    for bytes_only in [false, true] {
        for id in 0..n {
            let kind = tok.vocab.kind(id);
            let bytes = tok.vocab.bytes(id);
            if (kind == BYTE) != bytes_only || kind == UNUSED || bytes.is_empty() || bytes.len() > WORD {
                continue;
            }
            if tok.ends.contains(&(id as i32)) {
                continue;
            }
            if tok.vocab.is_special(id) {
                out[id] = [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat();
            } else if bytes[0] != TokTrie::SPECIAL_TOKEN_MARKER && taken.insert(bytes, id).is_none() {
                out[id] = bytes.to_vec();
            }
        }
    }
    out
}

pub fn limits() -> ParserLimits {
    ParserLimits { verbose_errors: false, max_lexer_states: 50_000, ..ParserLimits::default() }
}

fn factory(env: TokEnv) -> Res<ParserFactory> {
    let mut f = ParserFactory::new_simple(&env)
        .map_err(|e| Fail { code: FFWD_BUG, text: format!("the vocabulary cannot be indexed: {e}") })?;
    f.quiet();
    *f.limits_mut() = limits();
    Ok(f)
}

impl Factory {
    pub fn new(tok: &Arc<Tok>) -> Res<Self> {
        let vocab = tok.vocab.len();
        let mut all = words(tok);
        all.push(b"\xff<|end of reply|>".to_vec());
        let trie = TokTrie::from(&TokRxInfo::new(all.len() as u32, vocab as u32), &all);
        let mut free = SimpleVob::alloc(vocab + 1);
        for id in 0..vocab {
            if !tok.vocab.is_special(id) && !tok.ends.contains(&(id as i32)) {
                free.allow_token(id as u32);
            }
        }
        let mut small: Vec<Vec<u8>> = (0..=255u8).map(|b| vec![b]).collect();
        // No JSON holds this byte, and as a marker it would begin a control token.
        small[255] = Vec::new();
        small.push(b"\xff<|end of reply|>".to_vec());
        let bytes = TokTrie::from(&TokRxInfo::new(257, 256), &small);
        Ok(Factory {
            inner: factory(Arc::new(Env { tok: tok.clone(), trie }))?,
            bytes: factory(Arc::new(Bytes(bytes)))?,
            free,
            ends_are_control: tok.ends.iter().all(|&e| tok.vocab.is_special(e as usize)),
            ends: tok.ends.clone(),
            vocab,
        })
    }
}
