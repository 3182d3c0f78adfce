//! What crosses the border between C and Rust, and what must not.
//!
//! Errors cross as a code and one sentence in a buffer of the caller's. Panics do not cross: every exported function
//! runs its body in `guard`, which turns a panic into `FFWD_BUG` with the panic's own message and keeps it from printing.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// Why something failed; the C side maps these to its own statuses.
pub const FFWD_OK: i32 = 0;
pub const FFWD_ARGUMENT: i32 = 1;
pub const FFWD_TOO_LONG: i32 = 2;
pub const FFWD_UNSUPPORTED: i32 = 3;
pub const FFWD_MODEL: i32 = 4;
pub const FFWD_BUG: i32 = 5;

/// Room for one sentence, NUL included; longer ones are cut at a character.
pub const FFWD_ERROR_TEXT: usize = 256;

#[repr(C)]
pub struct ffwd_error {
    pub text: [u8; FFWD_ERROR_TEXT],
}

/// A failure on its way to the border.
#[derive(Debug)]
pub struct Fail {
    pub code: i32,
    pub text: String,
}

pub type Res<T> = Result<T, Fail>;

pub fn fail<T>(code: i32, text: impl Into<String>) -> Res<T> {
    Err(Fail { code, text: text.into() })
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Silences panics inside guarded calls only: whoever embeds this archive keeps the hook it had for everything else.
fn quiet_panics() {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.try_with(Cell::get).unwrap_or(false) {
                before(info);
            }
        }));
    });
}

/// Runs `body`; a panic becomes an error.
pub fn catch<T>(body: impl FnOnce() -> Res<T>) -> Res<T> {
    quiet_panics();
    let outer = GUARDED.with(|g| g.replace(true));
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    GUARDED.with(|g| g.set(outer));
    match result {
        Ok(r) => r,
        Err(panic) => {
            let words = if let Some(s) = panic.downcast_ref::<&str>() {
                (*s).to_string()
            } else if let Some(s) = panic.downcast_ref::<String>() {
                s.clone()
            } else {
                "no message".to_string()
            };
            // Dropping the payload could itself panic; it is only ever a string here.
            std::mem::forget(panic);
            fail(FFWD_BUG, format!("the text library panicked: {words}"))
        }
    }
}

/// `catch` for functions that return a code and may fill an error.
///
/// # Safety
/// `err` is NULL or points to a writable `ffwd_error`.
pub unsafe fn guard(err: *mut ffwd_error, body: impl FnOnce() -> Res<()>) -> i32 {
    match catch(body) {
        Ok(()) => FFWD_OK,
        Err(f) => {
            if !err.is_null() {
                write_text(&mut (*err).text, &f.text);
            }
            f.code
        }
    }
}

/// `catch` for getters and frees, which have nowhere to put an error.
pub fn guard_or<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch(|| Ok(body())).unwrap_or(otherwise)
}

fn write_text(out: &mut [u8; FFWD_ERROR_TEXT], text: &str) {
    let mut n = text.len().min(FFWD_ERROR_TEXT - 1);
    while !text.is_char_boundary(n) {
        n -= 1;
    }
    out[..n].copy_from_slice(&text.as_bytes()[..n]);
    out[n] = 0;
    for b in &mut out[..n] {
        // One sentence on one line, and no NUL that would cut it short.
        if *b < 32 {
            *b = b' ';
        }
    }
}

/// Bytes lent by the caller for the length of the call.
///
/// # Safety
/// `data` points to `n` readable bytes, or n is 0.
pub unsafe fn bytes<'a>(data: *const u8, n: usize) -> &'a [u8] {
    if n == 0 || data.is_null() {
        &[]
    } else {
        std::slice::from_raw_parts(data, n)
    }
}

/// The same for arrays of any type.
///
/// # Safety
/// `data` points to `n` readable elements, or n is 0.
pub unsafe fn slice<'a, T>(data: *const T, n: usize) -> &'a [T] {
    if n == 0 || data.is_null() {
        &[]
    } else {
        std::slice::from_raw_parts(data, n)
    }
}

/// Hands a vector to C as pointer and length; `take_back` is its end.
pub fn give<T>(v: Vec<T>, n: &mut usize) -> *mut T {
    *n = v.len();
    if v.is_empty() {
        return std::ptr::null_mut();
    }
    Box::into_raw(v.into_boxed_slice()) as *mut T
}

/// # Safety
/// `data` and `n` came from `give` and were not taken back yet.
pub unsafe fn take_back<T>(data: *mut T, n: usize) {
    if !data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(data, n)));
    }
}
