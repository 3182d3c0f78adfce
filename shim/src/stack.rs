//! Threads with a large stack, for what recurses deeper than a caller's stack may be.
//!
//! Making one for each rendering, and taking its stack from the system and giving it back, was a fifth of what a short
//! request cost. So a few stay and wait for the next.

use std::cell::UnsafeCell;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;

/// Reserved only: memory is taken where it is touched.
const STACK: usize = 256 << 20;
/// Threads that stay when they have nothing to do,
const IDLE_MOST: usize = 4;
/// and the pages that one may have touched, of its stack or otherwise: a stack that was deep once is given back.
const TOUCHED_MOST: i64 = 1024;

type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// The system's semaphore. Rust's own channels would do, but for ThreadSanitizer, which does not see into them and would
/// take what passes through for a race.
#[repr(C, align(8))]
struct Semaphore(UnsafeCell<[u8; 32]>);

impl Semaphore {
    fn post(&self) {
        // SAFETY: an initialised semaphore.
        unsafe { sem_post(self.0.get()) };
    }

    fn wait(&self) {
        // SAFETY: an initialised semaphore. A signal may end a wait early.
        while unsafe { sem_wait(self.0.get()) } != 0 {}
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: nobody waits for what is dropped.
        unsafe { sem_destroy(self.0.get()) };
    }
}

/// What the two sides share. The job belongs to the caller up to ready.post(), then to the thread up to done.post().
struct Desk {
    job: UnsafeCell<Option<Job<'static>>>, // none: the thread is to end
    ready: Semaphore,
    done: Semaphore,
    stays: AtomicBool, // the thread waits for another
}

// SAFETY: see Desk.
unsafe impl Sync for Desk {}
unsafe impl Send for Desk {}

struct Worker {
    of: Origin,
    desk: Arc<Desk>,
}

/// Whom a thread serves: it has the priority of the one that made it, which it may not raise, and no process but its own.
#[derive(Clone, Copy, PartialEq)]
struct Origin {
    process: u32,
    nice: i32,
}

static IDLE: Mutex<[Option<Worker>; IDLE_MOST]> = Mutex::new([const { None }; IDLE_MOST]);

#[allow(unused_doc_comments)] // this one is for cbindgen
/// cbindgen:ignore
extern "C" {
    fn getpriority(which: i32, who: u32) -> i32;
    fn getrusage(who: i32, usage: *mut [i64; 18]) -> i32;
    fn sem_init(sem: *mut [u8; 32], shared: i32, value: u32) -> i32;
    fn sem_destroy(sem: *mut [u8; 32]) -> i32;
    fn sem_post(sem: *mut [u8; 32]) -> i32;
    fn sem_wait(sem: *mut [u8; 32]) -> i32;
    fn sigfillset(set: *mut Signals) -> i32;
    fn pthread_sigmask(how: i32, set: *const Signals, before: *mut Signals) -> i32;
}

/// glibc's and musl's sigset_t.
#[repr(C, align(8))]
struct Signals([u8; 128]);

/// Calls `make` with all signals blocked, and so in the threads that it makes: which of its own threads a signal may end
/// or disturb is for the program to say.
fn without_signals<T>(make: impl FnOnce() -> T) -> T {
    const SIG_SETMASK: i32 = 2;
    let (mut all, mut before) = (Signals([0; 128]), Signals([0; 128]));
    // SAFETY: the sets are as large as the system's, and live.
    let blocked = unsafe {
        sigfillset(&mut all);
        pthread_sigmask(SIG_SETMASK, &all, &mut before) == 0
    };
    let made = make();
    if blocked {
        // SAFETY: as above; `before` was filled in.
        unsafe { pthread_sigmask(SIG_SETMASK, &before, std::ptr::null_mut()) };
    }
    made
}

/// Of the calling thread: what Linux understands here by "this process".
fn origin() -> Origin {
    const PRIO_PROCESS: i32 = 0;
    // SAFETY: takes numbers and returns one.
    Origin { process: std::process::id(), nice: unsafe { getpriority(PRIO_PROCESS, 0) } }
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

impl Desk {
    fn new() -> Arc<Desk> {
        let semaphore = || Semaphore(UnsafeCell::new([0; 32]));
        let desk = Arc::new(Desk {
            job: UnsafeCell::new(None),
            ready: semaphore(),
            done: semaphore(),
            stays: AtomicBool::new(false),
        });
        // SAFETY: they stay where they are from here on.
        unsafe {
            sem_init(desk.ready.0.get(), 0, 0);
            sem_init(desk.done.0.get(), 0, 0);
        }
        desk
    }

    /// The thread.
    fn serve(&self) {
        loop {
            self.ready.wait();
            // SAFETY: the job is the thread's now.
            let Some(job) = (unsafe { (*self.job.get()).take() }) else { return };
            let stays = catch_unwind(AssertUnwindSafe(job)).is_ok() && touched() < TOUCHED_MOST;
            self.stays.store(stays, Ordering::Relaxed);
            self.done.post();
            if !stays {
                return;
            }
        }
    }
}

impl Worker {
    fn new(of: Origin) -> io::Result<Worker> {
        let desk = Desk::new();
        let theirs = desk.clone();
        let thread = thread::Builder::new().name("ffwd-render".into()).stack_size(STACK);
        without_signals(|| thread.spawn(move || theirs.serve()))?;
        Ok(Worker { of, desk })
    }

    fn idle(of: Origin) -> Option<Worker> {
        idle_threads()?.iter_mut().find(|w| w.as_ref().is_some_and(|w| w.of == of))?.take()
    }

    /// In the place of none, or of one that serves somebody else; otherwise it ends.
    fn stay(self) {
        let mut over = Some(self);
        if let Some(mut idle) = idle_threads() {
            let of = over.as_ref().map(|w| w.of);
            let free = idle.iter().position(Option::is_none);
            if let Some(at) = free.or_else(|| idle.iter().position(|w| w.as_ref().map(|w| w.of) != of)) {
                over = std::mem::replace(&mut idle[at], over);
            }
        }
        if let Some(w) = over {
            w.desk.ready.post();
        }
    }
}

/// None while somebody else looks, who in the child of a fork would do so for ever.
fn idle_threads() -> Option<MutexGuard<'static, [Option<Worker>; IDLE_MOST]>> {
    match IDLE.try_lock() {
        Ok(idle) => Some(idle),
        Err(TryLockError::Poisoned(idle)) => Some(idle.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Runs `body` on a large stack and waits until it has ended, by a panic or otherwise.
pub fn run<'a>(body: impl FnOnce() + Send + 'a) -> io::Result<()> {
    let of = origin();
    let worker = match Worker::idle(of) {
        Some(w) => w,
        None => Worker::new(of)?,
    };
    let job: Job<'a> = Box::new(body);
    // SAFETY: what the job borrows outlives it: the thread has used it up before it posts `done`, and this does not return
    // before that. The desk is the caller's: its thread waits.
    unsafe { *worker.desk.job.get() = Some(std::mem::transmute::<Job<'a>, Job<'static>>(job)) };
    worker.desk.ready.post();
    worker.desk.done.wait();
    if worker.desk.stays.load(Ordering::Relaxed) {
        worker.stay();
    }
    Ok(())
}
