//! Walks along one reply.
//!
//! A reply has two parts: free text until a text has come (if the grammar asks for that), then what llguidance's matcher
//! allows. The first is a small automaton over bytes; a token in which it ends hands its remaining bytes on. Every id is
//! remembered as one step, so going back is going back over steps.
//!
//! llguidance treats an id that its mask forbids as a failure of the program; nothing here gives it one.

use crate::border::{fail, Fail, Res, FFWD_ARGUMENT};
use crate::grammar::Grammar;
use crate::tokenv::Factory;
use llguidance::toktrie::SimpleVob;
use llguidance::{Matcher, ParserFactory};
use std::sync::Arc;

/// One consumed id.
#[derive(Clone, Copy)]
enum Step {
    /// Free text; the automaton's state before it.
    Free(u32),
    /// The text that ends the free part, with so many ids of llguidance's behind it.
    Turn(u32, u32),
    /// An id of llguidance's.
    Inner,
}

pub struct Walk {
    grammar: Arc<Grammar>,
    inner: Matcher,
    /// None: past the free part.
    free: Option<u32>,
    steps: Vec<Step>,
    compact: bool,
}

/// What may come next; the mask is the caller's.
#[derive(Default, Clone, Copy)]
pub struct Next {
    pub n: u32,
    pub only: i32,
    pub end: bool,
    pub all: bool,
}

fn stopped(e: impl std::fmt::Display) -> Fail {
    let words = e.to_string();
    let line = words.lines().next().unwrap_or("").to_string();
    Fail { code: FFWD_ARGUMENT, text: format!("the grammar cannot go on here: {line}") }
}

impl Walk {
    pub fn new(grammar: &Arc<Grammar>) -> Self {
        let inner = grammar.copy();
        let free = grammar.after.as_ref().map(|_| 0);
        Walk { grammar: grammar.clone(), inner, free, steps: Vec::with_capacity(256), compact: false }
    }

    pub fn compact(grammar: &Arc<Grammar>) -> Res<Option<Self>> {
        let Some(inner) = grammar.compact()? else { return Ok(None) };
        Ok(Some(Walk { grammar: grammar.clone(), inner, free: None, steps: Vec::with_capacity(256), compact: true }))
    }

    fn factory(&self) -> &Factory {
        &self.grammar.factory
    }

    fn parsers(&self) -> &ParserFactory {
        if self.compact {
            &self.factory().bytes
        } else {
            &self.factory().inner
        }
    }

    pub fn vocab(&self) -> usize {
        if self.compact {
            256
        } else {
            self.factory().vocab
        }
    }

    pub fn words(&self) -> usize {
        self.vocab().div_ceil(32)
    }

    pub fn mask(&mut self, out: &mut [u32]) -> Res<Next> {
        out.fill(0);
        if let Some(state) = self.free {
            return Ok(self.free_mask(state, out));
        }
        let end_bit = self.parsers().tok_env().tok_trie().eos_token();
        let mut next = Next { only: -1, ..Next::default() };
        if self.inner.is_error() {
            return Err(stopped(self.inner.get_error().unwrap_or_default()));
        }
        if self.inner.is_stopped() {
            next.end = true;
        } else {
            let set = self.inner.compute_mask().map_err(stopped)?;
            next.end = set.is_allowed(end_bit);
            self.copy(&set, out);
            count(out, &mut next);
        }
        if next.n == 0 && !next.end {
            return fail(FFWD_ARGUMENT, "the grammar cannot go on here: no token fits");
        }
        if next.end && !self.compact {
            for &e in &self.factory().ends {
                out[e as usize / 32] |= 1 << (e % 32);
            }
        }
        Ok(next)
    }

    /// The vocabulary's part of a set, without the ids that end a reply.
    fn copy(&self, set: &SimpleVob, out: &mut [u32]) {
        let n = out.len().min(set.as_slice().len());
        out[..n].copy_from_slice(&set.as_slice()[..n]);
        let used = self.vocab() % 32;
        if used != 0 {
            out[self.vocab() / 32] &= (1 << used) - 1;
        }
        if !self.compact {
            for &e in &self.factory().ends {
                out[e as usize / 32] &= !(1 << (e % 32));
            }
        }
    }

    fn free_mask(&self, state: u32, out: &mut [u32]) -> Next {
        let after = self.grammar.after.as_ref().expect("a free part");
        self.copy(&self.factory().free, out);
        let denied = after.denied(state);
        for &id in denied {
            out[id as usize / 32] &= !(1 << (id % 32));
        }
        if let Some(id) = after.control {
            out[id as usize / 32] |= 1 << (id % 32);
        }
        let all = denied.is_empty() && after.control.is_none() && self.factory().ends_are_control;
        let mut next = Next { only: -1, all, ..Next::default() };
        count(out, &mut next);
        next
    }

    pub fn consume(&mut self, ids: &[i32]) -> usize {
        for (i, &id) in ids.iter().enumerate() {
            if !self.step(id) {
                return i;
            }
        }
        ids.len()
    }

    fn step(&mut self, id: i32) -> bool {
        if id < 0 || id as usize >= self.vocab() || (!self.compact && self.factory().ends.contains(&id)) {
            return false;
        }
        let step = match self.free {
            Some(state) => self.step_free(state, id as u32),
            None => self.step_inner(id as u32).then_some(Step::Inner),
        };
        self.steps.extend(step);
        step.is_some()
    }

    fn step_free(&mut self, state: u32, id: u32) -> Option<Step> {
        let grammar = self.grammar.clone();
        let after = grammar.after.as_ref()?;
        if after.control == Some(id) {
            self.free = None;
            return Some(Step::Turn(state, 0));
        }
        if !self.factory().free.is_allowed(id) {
            return None;
        }
        if after.control.is_some() {
            return Some(Step::Free(state));
        }
        let bytes = grammar.bytes_of(id);
        match after.run(state, bytes) {
            (next, None) => {
                self.free = Some(next);
                Some(Step::Free(state))
            }
            (_, Some(at)) => {
                let rest = grammar.split(&bytes[at..]);
                let mut done = 0;
                for &t in &rest {
                    if self.inner.is_stopped() || !self.valid(t) || self.inner.consume_token(t).is_err() {
                        let _ = self.inner.rollback(done);
                        return None;
                    }
                    done += 1;
                }
                self.free = None;
                Some(Step::Turn(state, done as u32))
            }
        }
    }

    fn valid(&mut self, id: u32) -> bool {
        matches!(self.inner.validate_tokens(&[id]), Ok(1))
    }

    fn step_inner(&mut self, id: u32) -> bool {
        if self.inner.is_stopped() || self.parsers().tok_env().tok_trie().token_len(id) == 0 {
            return false;
        }
        // Where bytes are determined, only the tokenizer's own split of them is possible, as in the mask.
        let forced = self.inner.compute_ff_tokens();
        let fits = match forced.first() {
            Some(&first) => first == id,
            None => self.valid(id),
        };
        fits && self.inner.consume_token(id).is_ok()
    }

    pub fn rollback(&mut self, n: usize) {
        for _ in 0..n.min(self.steps.len()) {
            let back = match self.steps.pop() {
                Some(Step::Free(state)) => {
                    self.free = Some(state);
                    0
                }
                Some(Step::Turn(state, inner)) => {
                    self.free = Some(state);
                    inner as usize
                }
                _ => 1,
            };
            let _ = self.inner.rollback(back);
        }
    }
}

fn count(words: &[u32], next: &mut Next) {
    for (i, &w) in words.iter().enumerate() {
        if w == 0 {
            continue;
        }
        if next.n == 0 {
            next.only = (i as u32 * 32 + w.trailing_zeros()) as i32;
        }
        next.n += w.count_ones();
        if next.n > 1 {
            next.n = 2;
            next.only = -1;
            return;
        }
    }
}
