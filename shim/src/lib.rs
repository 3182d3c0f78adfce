//! ffwd_shim: the text libraries ffwd stands on, behind one C header (`ffwd_shim.h`, made by cbindgen).
//!
//! `tokenizers` merges, `minijinja` renders, `llguidance` constrains; what is ours here is only what their users have to
//! agree on: which text is trusted, how ids become bytes, how a template's Python is read. The C side of this border is
//! `src/text/`, and nothing else calls it. Nothing here prints, logs, or lets a panic out.

#![allow(non_camel_case_types)]

mod border;
mod c_gram;
mod c_tok;
mod c_tpl;
mod counted;
mod dialect;
mod formats;
mod gbnf;
mod gguf;
mod grammar;
mod hfjson;
mod lark;
mod marks;
mod matcher;
mod places;
mod pretok;
mod pyrepr;
mod pystr;
mod schema;
mod schema_numbers;
mod scored;
mod special;
mod stack;
mod stream;
mod strftime;
mod template;
mod tokenizer;
mod tokenv;
mod vocab;
mod words;

/// The versions this archive was built from.
#[no_mangle]
pub extern "C" fn ffwd_shim_versions() -> *const std::ffi::c_char {
    b"tokenizers 0.23.2, minijinja 3.1.0, llguidance 1.9.1\0".as_ptr().cast()
}
