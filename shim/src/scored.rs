//! SentencePiece's merging: of all neighbours whose join is a token, join the pair whose token scores best.
//!
//! The library can do this only with a list of every pair that makes a token. For Gemma's 262,144 tokens that is half a
//! million pairs: over a second to derive and 110 MB to keep. Asking the vocabulary for the joined text instead, as
//! SentencePiece itself does, needs one table of ids. Ties go to the left, as there.

use crate::vocab::NONE;
use ahash::RandomState;
use std::collections::BinaryHeap;

pub struct Scored {
    blob: Vec<u8>,
    ends: Vec<u32>,
    scores: Vec<f32>,
    /// Open addressing: ids, `EMPTY` where free; a power of two, at most half full.
    table: Vec<u32>,
    hash: RandomState,
    bytes: [i32; 256],
    unk: i32,
    longest: usize,
}

const EMPTY: u32 = u32::MAX;

/// What one merging needs, kept between words.
#[derive(Default)]
pub struct Scratch {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Pair>,
}

struct Symbol {
    from: u32,
    len: u32,
    prev: u32,
    next: u32,
}

const END: u32 = u32::MAX;

/// A join that was possible when it was queued; `len` tells whether it still is.
#[derive(PartialEq)]
struct Pair {
    score: f32,
    left: u32,
    right: u32,
    len: u32,
}

impl Eq for Pair {}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Scored {
    pub fn new(
        tokens: &[&str],
        scores: &[f32],
        takes_part: impl Fn(usize) -> bool,
        bytes: [i32; 256],
        unk: i32,
    ) -> Self {
        let mut s = Scored {
            blob: Vec::with_capacity(tokens.iter().map(|t| t.len()).sum()),
            ends: Vec::with_capacity(tokens.len()),
            scores: scores[..tokens.len()].to_vec(),
            table: vec![EMPTY; (tokens.len() * 2).next_power_of_two()],
            hash: RandomState::with_seeds(1, 2, 3, 4),
            bytes,
            unk,
            longest: 0,
        };
        for (id, token) in tokens.iter().enumerate() {
            s.blob.extend_from_slice(token.as_bytes());
            s.ends.push(s.blob.len() as u32);
            if !takes_part(id) {
                continue;
            }
            s.longest = s.longest.max(token.len());
            let mut at = s.slot(token.as_bytes());
            // Where two ids share a spelling, the later counts.
            while s.table[at] != EMPTY && s.text(s.table[at]) != token.as_bytes() {
                at = (at + 1) & (s.table.len() - 1);
            }
            s.table[at] = id as u32;
        }
        s
    }

    fn slot(&self, text: &[u8]) -> usize {
        self.hash.hash_one(text) as usize & (self.table.len() - 1)
    }

    fn text(&self, id: u32) -> &[u8] {
        let from = if id == 0 { 0 } else { self.ends[id as usize - 1] as usize };
        &self.blob[from..self.ends[id as usize] as usize]
    }

    fn find(&self, text: &[u8]) -> Option<u32> {
        if text.len() > self.longest {
            return None;
        }
        let mut at = self.slot(text);
        loop {
            match self.table[at] {
                EMPTY => return None,
                id if self.text(id) == text => return Some(id),
                _ => at = (at + 1) & (self.table.len() - 1),
            }
        }
    }

    pub fn merge(&self, word: &str, scratch: &mut Scratch, out: &mut Vec<i32>) {
        let Scratch { symbols, queue } = scratch;
        let text = word.as_bytes();
        symbols.clear();
        queue.clear();
        for (i, c) in word.char_indices() {
            let n = symbols.len() as u32;
            symbols.push(Symbol { from: i as u32, len: c.len_utf8() as u32, prev: n.wrapping_sub(1), next: n + 1 });
        }
        let Some(last) = symbols.last_mut() else { return };
        last.next = END;
        for right in 1..symbols.len() as u32 {
            self.consider(text, symbols, queue, right - 1, right);
        }
        while let Some(p) = queue.pop() {
            let (l, r) = (p.left as usize, p.right as usize);
            if symbols[l].len == 0 || symbols[r].len == 0 || symbols[l].len + symbols[r].len != p.len {
                continue;
            }
            symbols[l].len = p.len;
            symbols[r].len = 0;
            let next = symbols[r].next;
            symbols[l].next = next;
            if next != END {
                symbols[next as usize].prev = p.left;
            }
            let prev = symbols[l].prev;
            self.consider(text, symbols, queue, prev, p.left);
            self.consider(text, symbols, queue, p.left, next);
        }
        self.write(text, symbols, out);
    }

    fn consider(&self, text: &[u8], symbols: &[Symbol], queue: &mut BinaryHeap<Pair>, left: u32, right: u32) {
        if left == END || right == END {
            return;
        }
        let (l, r) = (&symbols[left as usize], &symbols[right as usize]);
        let len = l.len + r.len;
        if let Some(id) = self.find(&text[l.from as usize..(l.from + len) as usize]) {
            queue.push(Pair { score: self.scores[id as usize], left, right, len });
        }
    }

    /// Tokens as they are; a character that is none as its bytes, or as unknown where those are no tokens either.
    fn write(&self, text: &[u8], symbols: &[Symbol], out: &mut Vec<i32>) {
        let mut unknown = false;
        for s in symbols.iter().filter(|s| s.len > 0) {
            let piece = &text[s.from as usize..(s.from + s.len) as usize];
            if let Some(id) = self.find(piece) {
                out.push(id as i32);
                unknown = false;
            } else if piece.iter().all(|&b| self.bytes[b as usize] != NONE) {
                out.extend(piece.iter().map(|&b| self.bytes[b as usize]));
                unknown = false;
            } else {
                if !unknown && self.unk != NONE {
                    out.push(self.unk);
                }
                unknown = true;
            }
        }
    }
}
