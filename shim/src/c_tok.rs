//! The tokenizer's exported functions.

use crate::border::*;
use crate::gguf::Source;
use crate::hfjson;
use crate::stream::Stream;
use crate::template::Rendering;
use crate::tokenizer::{Marks, Tok};
use crate::tokenv::Factory;
use std::sync::{Arc, OnceLock};

/// A string of the caller's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ffwd_view {
    pub data: *const u8,
    pub n: usize,
}

/// GGUF pieces; -1 stands for an absent id or flag.
#[repr(C)]
pub struct ffwd_source {
    pub model: ffwd_view,
    pub pre: ffwd_view,
    pub name: ffwd_view,
    pub tokens: *const ffwd_view,
    pub scores: *const f32,
    pub types: *const i32,
    pub n_tokens: usize,
    pub merges: *const ffwd_view,
    pub n_merges: usize,
    pub bos: i32,
    pub eos: i32,
    pub unk: i32,
    pub eot: i32,
    pub eom: i32,
    pub pad: i32,
    pub add_bos: i32,
    pub add_eos: i32,
    pub add_space_prefix: i32,
}

/// A tokenizer, and what grammars need of it once there is one.
pub struct ffwd_tok(pub Arc<Tok>, OnceLock<Result<Arc<Factory>, String>>);

impl ffwd_tok {
    fn new(tok: Tok) -> Self {
        ffwd_tok(Arc::new(tok), OnceLock::new())
    }

    pub fn factory(&self) -> Res<Arc<Factory>> {
        let made = self.1.get_or_init(|| catch(|| Factory::new(&self.0)).map(Arc::new).map_err(|f| f.text));
        made.clone().map_err(|text| Fail { code: FFWD_BUG, text })
    }
}

/// A stream of one reply; it must not outlive its tokenizer.
pub struct ffwd_stream(Stream<'static>);

unsafe fn text_of<'a>(v: ffwd_view, what: &str) -> Res<&'a str> {
    match std::str::from_utf8(bytes(v.data, v.n)) {
        Ok(s) => Ok(s),
        Err(_) => fail(FFWD_MODEL, format!("{what} is not valid UTF-8")),
    }
}

unsafe fn texts_of<'a>(views: *const ffwd_view, n: usize, what: &str) -> Res<Vec<&'a str>> {
    slice(views, n).iter().enumerate().map(|(i, &v)| text_of(v, &format!("{what}[{i}]"))).collect()
}

fn flag(v: i32) -> Option<bool> {
    (v >= 0).then_some(v != 0)
}

/// # Safety
/// `src` and everything it points to is readable; `out` is writable.
#[no_mangle]
pub unsafe extern "C" fn ffwd_tok_from_gguf(
    src: *const ffwd_source,
    out: *mut *mut ffwd_tok,
    err: *mut ffwd_error,
) -> i32 {
    guard(err, || {
        let s = &*src;
        let source = Source {
            model: text_of(s.model, "tokenizer.ggml.model")?,
            pre: text_of(s.pre, "tokenizer.ggml.pre")?,
            name: text_of(s.name, "general.name")?,
            tokens: texts_of(s.tokens, s.n_tokens, "tokenizer.ggml.tokens")?,
            scores: if s.scores.is_null() { &[] } else { slice(s.scores, s.n_tokens) },
            types: if s.types.is_null() { &[] } else { slice(s.types, s.n_tokens) },
            merges: texts_of(s.merges, s.n_merges, "tokenizer.ggml.merges")?,
            bos: s.bos,
            eos: s.eos,
            unk: s.unk,
            eot: s.eot,
            eom: s.eom,
            pad: s.pad,
            add_bos: flag(s.add_bos),
            add_eos: flag(s.add_eos),
            add_space_prefix: flag(s.add_space_prefix),
        };
        *out = Box::into_raw(Box::new(ffwd_tok::new(source.build()?)));
        Ok(())
    })
}

/// # Safety
/// `json` has n readable bytes, `ends` n_ends readable ids; `out` is writable.
#[no_mangle]
pub unsafe extern "C" fn ffwd_tok_from_json(
    json: *const u8,
    n: usize,
    ends: *const i32,
    n_ends: usize,
    out: *mut *mut ffwd_tok,
    err: *mut ffwd_error,
) -> i32 {
    guard(err, || {
        let tok = hfjson::build(bytes(json, n), slice(ends, n_ends))?;
        *out = Box::into_raw(Box::new(ffwd_tok::new(tok)));
        Ok(())
    })
}

/// # Safety
/// `t` came from this library and is not used again. NULL is fine.
#[no_mangle]
pub unsafe extern "C" fn ffwd_tok_free(t: *mut ffwd_tok) {
    guard_or((), || {
        if !t.is_null() {
            drop(Box::from_raw(t));
        }
    })
}

/// # Safety
/// `text` has n readable bytes; `ids` and `count` are writable.
#[no_mangle]
pub unsafe extern "C" fn ffwd_tok_encode(
    t: *const ffwd_tok,
    text: *const u8,
    n: usize,
    flags: u32,
    ids: *mut *mut i32,
    count: *mut usize,
    err: *mut ffwd_error,
) -> i32 {
    guard(err, || {
        let mut out = Vec::new();
        (*t).0.encode(bytes(text, n), flags, &mut out)?;
        *ids = give(out, &mut *count);
        Ok(())
    })
}

/// Encodes a rendering's marked text; without marks brk and quote are 0.
///
/// # Safety
/// As `ffwd_tok_encode`.
#[no_mangle]
pub unsafe extern "C" fn ffwd_tok_encode_marked(
    t: *const ffwd_tok,
    text: *const u8,
    n: usize,
    brk: u32,
    quote: u32,
    ids: *mut *mut i32,
    count: *mut usize,
    err: *mut ffwd_error,
) -> i32 {
    guard(err, || {
        let marks = match (char::from_u32(brk), char::from_u32(quote)) {
            (Some(brk), Some(quote)) if brk != '\0' => Some(Marks { brk, quote }),
            _ => None,
        };
        let mut out = Vec::new();
        (*t).0.encode_marked(bytes(text, n), marks, &mut out)?;
        *ids = give(out, &mut *count);
        Ok(())
    })
}

/// # Safety
/// `ids` and `count` came from an encode.
#[no_mangle]
pub unsafe extern "C" fn ffwd_ids_free(ids: *mut i32, count: usize) {
    guard_or((), || take_back(ids, count))
}

/// # Safety
/// `ids` has count readable ids; `text` and `n` are writable.
#[no_mangle]
pub unsafe extern "C" fn ffwd_tok_decode(
    t: *const ffwd_tok,
    ids: *const i32,
    count: usize,
    special: bool,
    text: *mut *mut u8,
    n: *mut usize,
    err: *mut ffwd_error,
) -> i32 {
    guard(err, || {
        let mut out = (*t).0.decode(slice(ids, count), special)?;
        out.push(0);
        *text = give(out, &mut *n);
        *n -= 1;
        Ok(())
    })
}

/// Gives back a text of n bytes and its NUL.
///
/// # Safety
/// `text` and `n` came from this library.
#[no_mangle]
pub unsafe extern "C" fn ffwd_text_free(text: *mut u8, n: usize) {
    guard_or((), || take_back(text, n + 1))
}

/// # Safety
/// `t` outlives the stream; `out` is writable.
#[no_mangle]
pub unsafe extern "C" fn ffwd_stream_new(
    t: *const ffwd_tok,
    special: bool,
    inner: bool,
    out: *mut *mut ffwd_stream,
    err: *mut ffwd_error,
) -> i32 {
    guard(err, || {
        let tok: &'static Tok = &(*t).0;
        *out = Box::into_raw(Box::new(ffwd_stream(Stream::new(tok, special, inner))));
        Ok(())
    })
}

/// # Safety
/// `s` came from `ffwd_stream_new`. NULL is fine.
#[no_mangle]
pub unsafe extern "C" fn ffwd_stream_free(s: *mut ffwd_stream) {
    guard_or((), || {
        if !s.is_null() {
            drop(Box::from_raw(s));
        }
    })
}

/// # Safety
/// `s` is a live stream.
#[no_mangle]
pub unsafe extern "C" fn ffwd_stream_clear(s: *mut ffwd_stream) {
    guard_or((), || (*s).0.clear())
}

/// What the calls of a stream do before they hand out text.
pub const FFWD_STREAM_PUT: u32 = 0;
pub const FFWD_STREAM_MORE: u32 = 1;
pub const FFWD_STREAM_FLUSH: u32 = 2;

/// # Safety
/// `s` is a live stream; `out` has cap writable bytes.
#[no_mangle]
pub unsafe extern "C" fn ffwd_stream_step(s: *mut ffwd_stream, what: u32, id: i32, out: *mut u8, cap: usize) -> usize {
    guard_or(0, || {
        let s = &mut (*s).0;
        match what {
            FFWD_STREAM_PUT => s.put(id),
            FFWD_STREAM_FLUSH => s.flush(),
            FFWD_STREAM_MORE => {}
            _ => return 0,
        }
        if out.is_null() || cap == 0 {
            return 0;
        }
        s.take(std::slice::from_raw_parts_mut(out, cap))
    })
}

/// Numbers about a tokenizer, all at once.
#[repr(C)]
pub struct ffwd_tok_info {
    pub vocab: usize,
    pub longest: usize,
    pub bos: i32,
    pub eos: i32,
    pub unk: i32,
    pub pad: i32,
    pub add_bos: bool,
    pub add_eos: bool,
    pub ends: *const i32,
    pub n_ends: usize,
    pub kinds: *const u8,
}

/// # Safety
/// `out` is writable; its pointers live as long as t.
#[no_mangle]
pub unsafe extern "C" fn ffwd_tok_about(t: *const ffwd_tok, out: *mut ffwd_tok_info) {
    guard_or((), || {
        let t = &(*t).0;
        *out = ffwd_tok_info {
            vocab: t.vocab.len(),
            longest: t.vocab.longest,
            bos: t.bos,
            eos: t.eos,
            unk: t.unk,
            pad: t.pad,
            add_bos: t.add_bos,
            add_eos: t.add_eos,
            ends: t.ends.as_ptr(),
            n_ends: t.ends.len(),
            kinds: t.vocab.kinds.as_ptr(),
        };
    })
}

/// # Safety
/// `n` is writable; the bytes live as long as t.
#[no_mangle]
pub unsafe extern "C" fn ffwd_tok_bytes(t: *const ffwd_tok, id: i32, n: *mut usize) -> *const u8 {
    guard_or(std::ptr::null(), || {
        let t: &Tok = &(*t).0;
        let b = if id < 0 { &[][..] } else { t.vocab.bytes(id as usize) };
        *n = b.len();
        b.as_ptr()
    })
}

/// # Safety
/// `text` has n readable bytes.
#[no_mangle]
pub unsafe extern "C" fn ffwd_tok_find_special(t: *const ffwd_tok, text: *const u8, n: usize) -> i32 {
    guard_or(-1, || match std::str::from_utf8(bytes(text, n)) {
        Ok(s) => (*t).0.find_special(s),
        Err(_) => -1,
    })
}

/// Hands a rendering's texts over; empty marked text means that no mark was needed.
pub fn give_text(text: String, n: &mut usize) -> *mut u8 {
    let mut v = text.into_bytes();
    v.push(0);
    let p = give(v, n);
    *n -= 1;
    p
}

/// The marks of a rendering as code points.
pub fn marks_of(r: &Rendering) -> (u32, u32) {
    r.marks.map_or((0, 0), |m| (m.brk as u32, m.quote as u32))
}
