//! Large stacks, for what recurses deeper than a caller's stack may be.
//!
//! A rendering switches to one in place and back: handing it to a thread that has one, and waiting for it, cost more than
//! rendering a short conversation. A few stacks stay mapped for the next.

use std::cell::UnsafeCell;
use std::io;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::null_mut;

/// Reserved only: memory is taken where it is touched.
const STACK: usize = 256 << 20;
/// Below it, and not part of it: who runs over the end is stopped.
const GUARD: usize = 64 << 10;
/// Stacks that stay when nobody needs them,
const IDLE_MOST: usize = 4;
/// and the pages that may be touched first while one is in use, of it or otherwise, all uses together: then it is given
/// back, since it may have been deep.
const TOUCHED_MOST: i64 = 1024;

struct Stack {
    low: *mut u8, // GUARD + STACK bytes
    touched: i64,
}

/// Those that nobody uses, behind the system's mutex. Rust's own would do, but for ThreadSanitizer, which does not see into
/// it and would take what two threads write to one stack, one after the other, for a race.
struct Idle {
    lock: UnsafeCell<[u64; 8]>, // zeros are an unlocked one, with glibc and musl
    stacks: UnsafeCell<[Option<Stack>; IDLE_MOST]>,
}

// SAFETY: see Idle::with. A stack is memory that nothing else points to.
unsafe impl Sync for Idle {}

static IDLE: Idle =
    Idle { lock: UnsafeCell::new([0; 8]), stacks: UnsafeCell::new([const { None }; IDLE_MOST]) };

#[allow(unused_doc_comments)] // this one is for cbindgen
/// cbindgen:ignore
extern "C" {
    fn mmap(at: *mut u8, n: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn mprotect(at: *mut u8, n: usize, protection: i32) -> i32;
    fn madvise(at: *mut u8, n: usize, advice: i32) -> i32;
    fn munmap(at: *mut u8, n: usize) -> i32;
    fn pthread_mutex_trylock(lock: *mut [u64; 8]) -> i32;
    fn pthread_mutex_unlock(lock: *mut [u64; 8]) -> i32;
    fn getrusage(who: i32, usage: *mut [i64; 18]) -> i32;
}

impl Stack {
    fn new() -> io::Result<Stack> {
        const PROT_NONE: i32 = 0;
        const PROT_READ_WRITE: i32 = 3;
        const MAP_PRIVATE_ANONYMOUS_NORESERVE_STACK: i32 = 0x2 | 0x20 | 0x4000 | 0x20000;
        const MADV_NOHUGEPAGE: i32 = 15;
        // SAFETY: new memory, wherever the system likes; -1 is its answer when there is none.
        unsafe {
            let low = mmap(null_mut(), GUARD + STACK, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS_NORESERVE_STACK, -1, 0);
            if low as isize == -1 {
                return Err(io::Error::last_os_error());
            }
            let stack = Stack { low, touched: 0 };
            if mprotect(low, GUARD, PROT_NONE) != 0 {
                return Err(io::Error::last_os_error());
            }
            madvise(low, GUARD + STACK, MADV_NOHUGEPAGE); // an advice: 2 MB at a time would be cleared otherwise
            Ok(stack)
        }
    }

    fn idle() -> Option<Stack> {
        IDLE.with(|idle| idle.iter_mut().find_map(Option::take)).flatten()
    }

    /// In a free place, if there is one.
    fn stay(self) {
        let mut kept = Some(self);
        IDLE.with(|idle| {
            if let Some(free) = idle.iter_mut().find(|s| s.is_none()) {
                *free = kept.take();
            }
        });
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: its own mapping, and nobody runs on it.
        unsafe { munmap(self.low, GUARD + STACK) };
    }
}

impl Idle {
    /// None while somebody else looks, who in the child of a fork would do so for ever.
    fn with<T>(&self, look: impl FnOnce(&mut [Option<Stack>; IDLE_MOST]) -> T) -> Option<T> {
        // SAFETY: the lock is initialised and never moves; who holds it is the only one to touch the stacks, and `look`, in
        // this file, neither panics nor comes back here.
        unsafe {
            if pthread_mutex_trylock(self.lock.get()) != 0 {
                return None;
            }
            let seen = look(&mut *self.stacks.get());
            pthread_mutex_unlock(self.lock.get());
            Some(seen)
        }
    }
}

/// Pages that the calling thread has touched first.
fn touched() -> i64 {
    const RUSAGE_THREAD: i32 = 1;
    const MINOR_FAULTS: usize = 8; // two times of two words, and four sizes, come before
    let mut usage = [0; 18];
    // SAFETY: as large as 64-bit Linux's struct rusage.
    unsafe { getrusage(RUSAGE_THREAD, &mut usage) };
    usage[MINOR_FAULTS]
}

/// Runs `body` on a large stack. A panic of it goes on from here.
pub fn run<T>(body: impl FnOnce() -> T) -> io::Result<T> {
    let mut stack = match Stack::idle() {
        Some(s) => s,
        None => Stack::new()?,
    };
    let before = touched();
    // SAFETY: the memory is the stack's own, aligned to pages, and nobody else runs on it; no panic leaves the closure.
    let result = unsafe { psm::on_stack(stack.low.add(GUARD), STACK, || catch_unwind(AssertUnwindSafe(body))) };
    stack.touched += touched() - before;
    if stack.touched < TOUCHED_MOST {
        stack.stay();
    }
    Ok(result.unwrap_or_else(|panic| resume_unwind(panic)))
}
