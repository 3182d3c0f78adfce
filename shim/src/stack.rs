//! Threads with a large stack, for what recurses deeper than a caller's stack may be.
//!
//! Making one for each rendering, and taking its stack from the system and giving it back, was a fifth of what a short
//! request cost. So a few stay and wait for the next.

use std::io;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Reserved only: memory is taken where it is touched.
const STACK: usize = 256 << 20;
/// Threads that stay when they have nothing to do.
const IDLE_MOST: usize = 4;

type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

struct Worker {
    of: Origin,
    jobs: Sender<Job<'static>>,
    done: Receiver<()>,
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
}

/// Of the calling thread: what Linux understands here by "this process".
fn origin() -> Origin {
    const PRIO_PROCESS: i32 = 0;
    // SAFETY: takes numbers and returns one.
    Origin { process: std::process::id(), nice: unsafe { getpriority(PRIO_PROCESS, 0) } }
}

impl Worker {
    fn new(of: Origin) -> io::Result<Worker> {
        let (jobs, todo) = channel::<Job<'static>>();
        let (tell, done) = channel();
        thread::Builder::new().name("ffwd-render".into()).stack_size(STACK).spawn(move || {
            for job in todo {
                job();
                if tell.send(()).is_err() {
                    break;
                }
            }
        })?;
        Ok(Worker { of, jobs, done })
    }

    fn idle(of: Origin) -> Option<Worker> {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().position(|w| w.of == of)?;
        Some(idle.swap_remove(at))
    }

    fn stay(self) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MOST {
            idle.push(self);
        }
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
    let ended = worker.jobs.send(job).is_ok() && worker.done.recv().is_ok();
    if ended {
        worker.stay();
    }
    Ok(ended)
}
