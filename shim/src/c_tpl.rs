//! The chat templates' exported functions.

use crate::border::*;
use crate::c_tok::{ffwd_tok, give_text, marks_of};
use crate::strftime::Now;
use crate::template::Template;

/// A compiled template.
pub struct ffwd_template(Template);

/// A rendering; each text has a NUL behind its n bytes and is given back with `ffwd_text_free`.
#[repr(C)]
pub struct ffwd_rendering {
    pub text: *mut u8,
    pub n: usize,
    pub marked: *mut u8,
    pub marked_n: usize,
    pub brk: u32,
    pub quote: u32,
}

/// # Safety
/// `source` has n readable bytes; `out` is writable.
#[no_mangle]
pub unsafe extern "C" fn ffwd_template_new(
    source: *const u8,
    n: usize,
    out: *mut *mut ffwd_template,
    err: *mut ffwd_error,
) -> i32 {
    guard(err, || {
        *out = Box::into_raw(Box::new(ffwd_template(Template::new(bytes(source, n))?)));
        Ok(())
    })
}

/// # Safety
/// `t` came from `ffwd_template_new`. NULL is fine.
#[no_mangle]
pub unsafe extern "C" fn ffwd_template_free(t: *mut ffwd_template) {
    guard_or((), || {
        if !t.is_null() {
            drop(Box::from_raw(t));
        }
    })
}

/// # Safety
/// `vars` has n readable bytes; `tok` is NULL or live; `out` is writable.
#[no_mangle]
pub unsafe extern "C" fn ffwd_template_render(
    t: *const ffwd_template,
    tok: *const ffwd_tok,
    vars: *const u8,
    n: usize,
    unix_time: i64,
    ahead_of_utc: i32,
    out: *mut ffwd_rendering,
    err: *mut ffwd_error,
) -> i32 {
    guard(err, || {
        let tok = tok.as_ref().map(|t| &t.0);
        let r = (*t).0.render(tok.map(|t| &**t), bytes(vars, n), Now { unix: unix_time, ahead: ahead_of_utc })?;
        let out = &mut *out;
        (out.brk, out.quote) = marks_of(&r);
        out.text = give_text(r.text, &mut out.n);
        out.marked = std::ptr::null_mut();
        out.marked_n = 0;
        if let Some(m) = r.marked {
            out.marked = give_text(m, &mut out.marked_n);
        }
        Ok(())
    })
}
