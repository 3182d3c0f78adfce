//! The exported functions of grammars and matchers.

use crate::border::*;
use crate::c_tok::{ffwd_tok, ffwd_view};
use crate::grammar::{Grammar, Kind, Source, STACK};
use crate::matcher::Walk;
use std::sync::Arc;

/// A compiled grammar, counted by references.
pub struct ffwd_grammar(Arc<Grammar>);

/// One reply on its way along a grammar.
pub struct ffwd_matcher(Walk);

pub const FFWD_GRAMMAR_JSON: u32 = 0;
pub const FFWD_GRAMMAR_SCHEMA: u32 = 1;
pub const FFWD_GRAMMAR_REGEX: u32 = 2;
pub const FFWD_GRAMMAR_CHOICE: u32 = 3;
pub const FFWD_GRAMMAR_LARK: u32 = 4;
pub const FFWD_GRAMMAR_GBNF: u32 = 5;

/// Bytes of stack that compiling may take.
pub const FFWD_GRAMMAR_STACK: usize = 64 << 20;
const _: () = assert!(FFWD_GRAMMAR_STACK == STACK);

/// `after.data` NULL: none. `here`: on the calling thread, which has FFWD_GRAMMAR_STACK bytes of stack left.
#[repr(C)]
pub struct ffwd_grammar_source {
    pub kind: u32,
    pub text: ffwd_view,
    pub after: ffwd_view,
    pub relax: bool,
    pub here: bool,
}

/// What may come next.
#[repr(C)]
pub struct ffwd_matcher_next {
    pub n: u32,
    pub only: i32,
    pub end: bool,
    pub all: bool,
}

/// Builds what all grammars of a tokenizer share, so that the first of them does not wait for it.
///
/// # Safety
/// `t` is a live tokenizer.
#[no_mangle]
pub unsafe extern "C" fn ffwd_grammar_prepare(t: *const ffwd_tok, err: *mut ffwd_error) -> i32 {
    guard(err, || (*t).factory().map(|_| ()))
}

/// # Safety
/// `src` and what it points to is readable; `out` is writable.
#[no_mangle]
pub unsafe extern "C" fn ffwd_grammar_new(
    t: *const ffwd_tok,
    src: *const ffwd_grammar_source,
    out: *mut *mut ffwd_grammar,
    err: *mut ffwd_error,
) -> i32 {
    guard(err, || {
        let s = &*src;
        let kind = match s.kind {
            FFWD_GRAMMAR_JSON => Kind::Json,
            FFWD_GRAMMAR_SCHEMA => Kind::Schema,
            FFWD_GRAMMAR_REGEX => Kind::Regex,
            FFWD_GRAMMAR_CHOICE => Kind::Choice,
            FFWD_GRAMMAR_LARK => Kind::Lark,
            FFWD_GRAMMAR_GBNF => Kind::Gbnf,
            k => return fail(FFWD_ARGUMENT, format!("there is no grammar kind {k}")),
        };
        let after = (!s.after.data.is_null()).then(|| bytes(s.after.data, s.after.n).to_vec());
        let source = Source { kind, text: bytes(s.text.data, s.text.n).to_vec(), after, relax: s.relax, here: s.here };
        let grammar = Grammar::compile(&(*t).0, &(*t).factory()?, source)?;
        *out = Box::into_raw(Box::new(ffwd_grammar(grammar)));
        Ok(())
    })
}

/// # Safety
/// `g` came from `ffwd_grammar_new` and is not used again; matchers made of it may be. NULL is fine.
#[no_mangle]
pub unsafe extern "C" fn ffwd_grammar_free(g: *mut ffwd_grammar) {
    guard_or((), || {
        if !g.is_null() {
            drop(Box::from_raw(g));
        }
    })
}

/// # Safety
/// `g` is a live grammar, `n` writable; the text lives as long as g.
#[no_mangle]
pub unsafe extern "C" fn ffwd_grammar_relaxed(g: *const ffwd_grammar, n: *mut usize) -> *const u8 {
    guard_or(std::ptr::null(), || {
        let g: &Grammar = &(*g).0;
        let text = &g.relaxed;
        *n = text.len();
        text.as_ptr()
    })
}

/// Bytes of memory that a grammar holds, about.
///
/// # Safety
/// `g` is a live grammar.
#[no_mangle]
pub unsafe extern "C" fn ffwd_grammar_bytes(g: *const ffwd_grammar) -> usize {
    guard_or(0, || (&(*g).0).bytes)
}

/// A compact one is over bytes; NULL where the grammar is not JSON.
///
/// # Safety
/// `g` is a live grammar; `out` is writable.
#[no_mangle]
pub unsafe extern "C" fn ffwd_matcher_new(
    g: *const ffwd_grammar,
    compact: bool,
    out: *mut *mut ffwd_matcher,
    err: *mut ffwd_error,
) -> i32 {
    guard(err, || {
        let walk = if compact { Walk::compact(&(*g).0)? } else { Some(Walk::new(&(*g).0)) };
        *out = walk.map_or(std::ptr::null_mut(), |w| Box::into_raw(Box::new(ffwd_matcher(w))));
        Ok(())
    })
}

/// # Safety
/// `m` came from `ffwd_matcher_new`. NULL is fine.
#[no_mangle]
pub unsafe extern "C" fn ffwd_matcher_free(m: *mut ffwd_matcher) {
    guard_or((), || {
        if !m.is_null() {
            drop(Box::from_raw(m));
        }
    })
}

/// # Safety
/// `m` is a live matcher.
#[no_mangle]
pub unsafe extern "C" fn ffwd_matcher_words(m: *const ffwd_matcher) -> usize {
    guard_or(0, || (*m).0.words())
}

/// # Safety
/// `m` is a live matcher; `mask` has `ffwd_matcher_words()` writable words; `next` is writable.
#[no_mangle]
pub unsafe extern "C" fn ffwd_matcher_mask(
    m: *mut ffwd_matcher,
    mask: *mut u32,
    next: *mut ffwd_matcher_next,
    err: *mut ffwd_error,
) -> i32 {
    guard(err, || {
        let walk = &mut (*m).0;
        let n = walk.mask(std::slice::from_raw_parts_mut(mask, walk.words()))?;
        *next = ffwd_matcher_next { n: n.n, only: n.only, end: n.end, all: n.all };
        Ok(())
    })
}

/// # Safety
/// `m` is a live matcher; `ids` has n readable ids.
#[no_mangle]
pub unsafe extern "C" fn ffwd_matcher_consume(m: *mut ffwd_matcher, ids: *const i32, n: usize) -> usize {
    guard_or(0, || (*m).0.consume(slice(ids, n)))
}

/// Why it cannot go on; FFWD_OK where it can.
///
/// # Safety
/// `m` is a live matcher.
#[no_mangle]
pub unsafe extern "C" fn ffwd_matcher_error(m: *mut ffwd_matcher, err: *mut ffwd_error) -> i32 {
    guard(err, || (*m).0.error())
}

/// # Safety
/// `m` is a live matcher.
#[no_mangle]
pub unsafe extern "C" fn ffwd_matcher_rollback(m: *mut ffwd_matcher, n: usize) {
    guard_or((), || (*m).0.rollback(n))
}
