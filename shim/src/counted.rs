//! The allocator: the system's, with a count for each thread of what it took and has not given back.
//!
//! Nothing says how much memory a compiled grammar holds, and a source of a few bytes can become many megabytes. The
//! difference of two counts around a compilation is what it left behind.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counted;

#[global_allocator]
static COUNTED: Counted = Counted;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that this thread has taken, less those that it gave back, whoever took them.
pub fn held() -> isize {
    HELD.with(Cell::get)
}

fn count(change: isize) {
    // Without the thread's own memory (it is about to end) there is nothing left to count for.
    let _ = HELD.try_with(|h| h.set(h.get().wrapping_add(change)));
}

unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let p = System.alloc(layout);
        if !p.is_null() {
            count(layout.size() as isize);
        }
        p
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let p = System.alloc_zeroed(layout);
        if !p.is_null() {
            count(layout.size() as isize);
        }
        p
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        System.dealloc(p, layout);
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let new = System.realloc(p, layout, size);
        if !new.is_null() {
            count(size as isize - layout.size() as isize);
        }
        new
    }
}
