//! Walks along one reply.
//!
//! A reply has two parts: free text until a text has come (if the grammar asks for that), then what llguidance's matcher
//! allows. The first is a small automaton over bytes; a token in which it ends hands its remaining bytes on. Every id is
//! remembered as one step, so going back is going back over steps.
//!
//! llguidance treats an id that its mask forbids as a failure of the program; nothing here gives it one. Its matcher also
//! has limits of its own, and does not come back from running into one, not even by going back. A walk that only tried
//! what may come must leave nothing behind, so then a new matcher goes the same way as far as it is still wanted.

use crate::border::{fail, Res, FFWD_ARGUMENT};
use crate::grammar::{stopped, Grammar};
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
    /// llguidance's ids in these steps.
    ids: Vec<u32>,
    /// An id was refused here: perhaps because of a limit that llguidance ran into, which it does not say at once, and then
    /// refuses everything.
    doubt: bool,
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

impl Walk {
    pub fn new(grammar: &Arc<Grammar>) -> Self {
        let free = grammar.after.as_ref().map(|_| 0);
        Self::begin(grammar, grammar.copy(), free, false)
    }

    fn begin(grammar: &Arc<Grammar>, inner: Matcher, free: Option<u32>, compact: bool) -> Self {
        let (steps, ids) = (Vec::with_capacity(256), Vec::with_capacity(256));
        Walk { grammar: grammar.clone(), inner, free, steps, ids, doubt: false, compact }
    }

    pub fn compact(grammar: &Arc<Grammar>) -> Res<Option<Self>> {
        let Some(inner) = grammar.compact()? else { return Ok(None) };
        Ok(Some(Self::begin(grammar, inner, None, true)))
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
        let mut set = self.allowed();
        if set.is_err() {
            // What was tried here before may be to blame.
            self.again();
            set = self.allowed();
        }
        self.doubt = false;
        let mut next = Next { only: -1, ..Next::default() };
        if let Some(set) = set? {
            next.end = set.is_allowed(self.parsers().tok_env().tok_trie().eos_token());
            self.copy(&set, out);
            count(out, &mut next);
        } else {
            next.end = true;
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

    /// llguidance's mask; None: at the end.
    fn allowed(&mut self) -> Res<Option<SimpleVob>> {
        self.check()?;
        if self.inner.is_stopped() {
            return Ok(None);
        }
        self.inner.compute_mask().map(Some).map_err(stopped)
    }

    fn check(&self) -> Res<()> {
        match self.inner.get_error() {
            Some(words) => Err(stopped(words)),
            None => Ok(()),
        }
    }

    /// Why nothing fits any more, where that is not because of the ids.
    pub fn error(&mut self) -> Res<()> {
        self.allowed().map(drop)
    }

    /// A new matcher in the place of one that ran into a limit.
    fn again(&mut self) {
        let new = if self.compact { self.grammar.compact().ok().flatten() } else { Some(self.grammar.copy()) };
        let Some(new) = new else { return };
        self.inner = new;
        self.doubt = false;
        // Fails, if at all, as the first one did: then the walk ends with that.
        let _ = self.inner.consume_tokens(&self.ids);
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
        let mut step = self.try_step(id as u32);
        if step.is_none() && (self.inner.is_error() || self.doubt) && self.error().is_err() {
            self.again();
            step = self.try_step(id as u32);
        }
        self.doubt = match step {
            None => true,
            Some(Step::Free(_)) => self.doubt,
            Some(Step::Turn(..) | Step::Inner) => false,
        };
        self.steps.extend(step);
        step.is_some()
    }

    fn try_step(&mut self, id: u32) -> Option<Step> {
        match self.free {
            Some(state) => self.step_free(state, id),
            None => self.step_inner(id).then_some(Step::Inner),
        }
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
                for (done, &t) in rest.iter().enumerate() {
                    if self.inner.is_stopped() || !self.valid(t) || self.inner.consume_token(t).is_err() {
                        if done > 0 && self.inner.rollback(done).is_err() {
                            self.again();
                        }
                        return None;
                    }
                }
                self.ids.extend(&rest);
                self.free = None;
                Some(Step::Turn(state, rest.len() as u32))
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
        let went = fits && self.inner.consume_token(id).is_ok();
        if went {
            self.ids.push(id);
        }
        went
    }

    pub fn rollback(&mut self, n: usize) {
        let mut back = 0;
        for _ in 0..n.min(self.steps.len()) {
            back += match self.steps.pop() {
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
        }
        self.ids.truncate(self.ids.len() - back);
        if back > 0 && self.inner.rollback(back).is_err() {
            self.again();
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
