//! Words that are merged by a list, and a table of those that become one token.

use crate::border::{fail, Res, FFWD_ARGUMENT};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokenizers::models::bpe::BPE;
use tokenizers::Model;

/// Most words of a text are one token, and that is known of a word once it was merged. The words that came first are found
/// in one cache line each: the library's table holds hash, entry and text in three, and when a forward pass has gone over
/// the weights none of them is in a cache any more. The others are looked up there.
pub struct Words {
    bpe: BPE,
    first: Vec<Pair>,
    whole: Vec<AtomicBool>, // by id: this token is what its own text becomes, and no other token has that text
}

/// Two places; a word may stand in either.
#[derive(Default)]
#[repr(align(64))]
struct Pair([Slot; 2]);

/// A word and its token. Written once: whoever sees `token` set sees the text that it is of.
#[derive(Default)]
struct Slot {
    text: [AtomicU64; TEXT / 8],
    token: AtomicU64, // the word's length above the token; EMPTY and BEING_WRITTEN are lengths of 0
}

/// 256 KB.
const PAIRS: usize = 4096;
/// Bytes of a word that may have a place.
const TEXT: usize = 24;
const EMPTY: u64 = 0;
const BEING_WRITTEN: u64 = 1;

/// A word within TEXT bytes as numbers, zeros behind it.
fn packed(word: &[u8]) -> [u64; TEXT / 8] {
    let mut bytes = [0; TEXT];
    bytes[..word.len()].copy_from_slice(word);
    std::array::from_fn(|i| u64::from_le_bytes(std::array::from_fn(|b| bytes[8 * i + b])))
}

impl Words {
    pub fn new(bpe: BPE, vocab: usize) -> Words {
        let first = (0..PAIRS).map(|_| Pair::default()).collect();
        Words { bpe, first, whole: (0..vocab).map(|_| AtomicBool::new(false)).collect() }
    }

    fn places(&self, text: &[u64]) -> &[Slot; 2] {
        let hash = text.iter().fold(0u64, |h, t| {
            let h = (h ^ t).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            h ^ h >> 32
        });
        &self.first[hash as usize % PAIRS].0
    }

    fn known(&self, word: &[u8]) -> Option<u32> {
        if word.is_empty() || word.len() > TEXT {
            return None;
        }
        let text = packed(word);
        self.places(&text).iter().find_map(|s| {
            let token = s.token.load(Ordering::Acquire);
            let same = token >> 32 == word.len() as u64
                && s.text.iter().zip(&text).all(|(kept, t)| kept.load(Ordering::Relaxed) == *t);
            same.then_some(token as u32)
        })
    }

    fn keep(&self, word: &[u8], token: u32) {
        if word.is_empty() || word.len() > TEXT {
            return;
        }
        let text = packed(word);
        for s in self.places(&text) {
            if s.token.compare_exchange(EMPTY, BEING_WRITTEN, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                for (to, t) in s.text.iter().zip(text) {
                    to.store(t, Ordering::Relaxed);
                }
                s.token.store((word.len() as u64) << 32 | u64::from(token), Ordering::Release);
                return;
            }
        }
    }

    /// Appends a word's token if the word is among the first that were known to be one.
    pub fn find(&self, word: &str, out: &mut Vec<i32>) -> bool {
        let token = self.known(word.as_bytes());
        out.extend(token.map(|t| t as i32));
        token.is_some()
    }

    /// Appends the tokens of a word. It is `spelled` as the vocabulary has it, and always the same.
    pub fn merge(&self, word: &str, spelled: &str, out: &mut Vec<i32>) -> Res<()> {
        let from = out.len();
        pieces(spelled, &mut |p| self.merge_piece(p, out))?;
        if let [token] = out[from..] {
            self.keep(word.as_bytes(), token as u32);
        }
        Ok(())
    }

    fn merge_piece(&self, piece: &str, out: &mut Vec<i32>) -> Res<()> {
        let id = self.bpe.token_to_id(piece);
        let whole = id.and_then(|i| self.whole.get(i as usize));
        if let (Some(i), Some(true)) = (id, whole.map(|w| w.load(Ordering::Relaxed))) {
            out.push(i as i32);
            return Ok(());
        }
        let tokens = match self.bpe.tokenize(piece) {
            Ok(t) => t,
            Err(e) => return fail(FFWD_ARGUMENT, format!("the text cannot be encoded: {e}")),
        };
        if let (Some(w), [t]) = (whole, tokens.as_slice()) {
            if id == Some(t.id) {
                w.store(true, Ordering::Relaxed);
            }
        }
        out.extend(tokens.iter().map(|t| t.id as i32));
        Ok(())
    }
}

/// A word longer than this is no word; merging it whole would hold a hundred times its bytes.
const WORD: usize = 32 << 10;

pub fn pieces(word: &str, each: &mut dyn FnMut(&str) -> Res<()>) -> Res<()> {
    let mut rest = word;
    while !rest.is_empty() {
        let mut n = rest.len().min(WORD);
        while !rest.is_char_boundary(n) {
            n -= 1;
        }
        each(&rest[..n])?;
        rest = &rest[n..];
    }
    Ok(())
}
