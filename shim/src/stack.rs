//! Threads with a large stack, for what recurses deeper than a caller's stack may be.
//!
//! Making one for each rendering, and taking its stack from the system and giving it back, was a fifth of what a short
//! request cost. So a few stay and wait for the next.

use std::io;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;

/// Reserved only: memory is taken where it is touched.
const STACK: usize = 256 << 20;
/// Threads that stay when they have nothing to do,
const IDLE_MOST: usize = 4;
/// and the pages that one may have touched, of its stack or otherwise: a stack that was deep once is given back.
const TOUCHED_MOST: i64 = 1024;

type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

struct Worker {
    of: Origin,
    jobs: Sender<Job<'static>>,
    done: Receiver<bool>, // whether the thread stays
}

/// Whom a thread serves: it has the priority of the one that made it, which it may not raise, and no process but its own.
#[derive(Clone, Copy, PartialEq)]
struct Origin {
    process: u32,
    nice: i32,
}

static IDLE: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

#[allow(unused_doc_comments)] // this one is for cbindgen
/// cbindgen:ignore
extern "C" {
    fn getpriority(which: i32, who: u32) -> i32;
    fn getrusage(who: i32, usage: *mut [i64; 18]) -> i32;
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

impl Worker {
    fn new(of: Origin) -> io::Result<Worker> {
        let (jobs, todo) = channel::<Job<'static>>();
        let (tell, done) = channel();
        let thread = thread::Builder::new().name("ffwd-render".into()).stack_size(STACK);
        without_signals(|| {
            thread.spawn(move || {
                for job in todo {
                    job();
                    let stays = touched() < TOUCHED_MOST;
                    if tell.send(stays).is_err() || !stays {
                        break;
                    }
                }
            })
        })?;
        Ok(Worker { of, jobs, done })
    }

    fn idle(of: Origin) -> Option<Worker> {
        let mut idle = idle_threads()?;
        let at = idle.iter().position(|w| w.of == of)?;
        Some(idle.swap_remove(at))
    }

    /// Not where as many of its kind stay already; it ends when its channel does.
    fn stay(self) {
        let Some(mut idle) = idle_threads() else { return };
        idle.retain(|w| w.of.process == self.of.process);
        if idle.len() == IDLE_MOST {
            if let Some(other) = idle.iter().position(|w| w.of != self.of) {
                idle.swap_remove(other);
            }
        }
        if idle.len() < IDLE_MOST {
            idle.push(self);
        }
    }
}

/// None while somebody else looks, who in the child of a fork would do so for ever.
fn idle_threads() -> Option<MutexGuard<'static, Vec<Worker>>> {
    match IDLE.try_lock() {
        Ok(idle) => Some(idle),
        Err(TryLockError::Poisoned(idle)) => Some(idle.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Runs `body`, which must not panic, on a large stack and waits for it. False: it did not come to its end.
pub fn run<'a>(body: impl FnOnce() + Send + 'a) -> io::Result<bool> {
    let of = origin();
    let worker = match Worker::idle(of) {
        Some(w) => w,
        None => Worker::new(of)?,
    };
    let job: Job<'a> = Box::new(body);
    // SAFETY: what the job borrows outlives it. Calling it uses it up; only then the worker says so, or, unwinding, drops
    // its end of the channel after it, and this does not return before it has heard of either.
    let job: Job<'static> = unsafe { std::mem::transmute(job) };
    let stays = worker.jobs.send(job).is_ok().then(|| worker.done.recv().ok()).flatten();
    if stays == Some(true) {
        worker.stay();
    }
    Ok(stays.is_some())
}
