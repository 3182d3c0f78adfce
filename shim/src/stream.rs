//! Ids of one reply to whole characters, as they arrive.
//!
//! Bytes wait in `pending` until they make a character or can no longer make one; the rule is that of
//! `String::from_utf8_lossy`, so a stream and a decode of the whole give the same bytes.

use crate::tokenizer::{Prefix, Tok};

pub struct Stream<'t> {
    tok: &'t Tok,
    special: bool,
    inner: bool,
    lead: bool,
    /// Bytes of tokens that are no whole characters yet.
    pending: Vec<u8>,
    /// Whole characters that wait for room at the caller's; `sent` of them are gone.
    ready: Vec<u8>,
    sent: usize,
}

impl<'t> Stream<'t> {
    pub fn new(tok: &'t Tok, special: bool, inner: bool) -> Self {
        let room = tok.vocab.longest * 3 + 64;
        let lead = tok.prefix != Prefix::Never && !inner;
        Stream {
            tok,
            special,
            inner,
            lead,
            pending: Vec::with_capacity(room),
            ready: Vec::with_capacity(room),
            sent: 0,
        }
    }

    pub fn clear(&mut self) {
        self.pending.clear();
        self.ready.clear();
        self.sent = 0;
        self.lead = self.tok.prefix != Prefix::Never && !self.inner;
    }

    pub fn put(&mut self, id: i32) {
        let piece = self.tok.piece(id, self.special, &mut self.lead);
        self.pending.extend_from_slice(piece);
        self.settle(false);
    }

    pub fn flush(&mut self) {
        self.settle(true);
    }

    /// Moves what is decided from `pending` to `ready`.
    fn settle(&mut self, end: bool) {
        if self.sent == self.ready.len() {
            self.ready.clear();
            self.sent = 0;
        }
        let mut from = 0;
        while from < self.pending.len() {
            match std::str::from_utf8(&self.pending[from..]) {
                Ok(_) => {
                    self.ready.extend_from_slice(&self.pending[from..]);
                    from = self.pending.len();
                }
                Err(e) => {
                    let good = from + e.valid_up_to();
                    self.ready.extend_from_slice(&self.pending[from..good]);
                    from = good;
                    match e.error_len() {
                        Some(n) => from += n,
                        None if end => from = self.pending.len(),
                        None => break,
                    }
                    self.ready.extend_from_slice("\u{FFFD}".as_bytes());
                }
            }
        }
        self.pending.drain(..from);
    }

    /// Copies whole characters to `out`; returns how many bytes.
    pub fn take(&mut self, out: &mut [u8]) -> usize {
        let left = &self.ready[self.sent..];
        let mut n = left.len().min(out.len());
        while n < left.len() && n > 0 && left[n] & 0xC0 == 0x80 {
            n -= 1;
        }
        out[..n].copy_from_slice(&left[..n]);
        self.sent += n;
        n
    }
}
