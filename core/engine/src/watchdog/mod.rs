// SPDX-License-Identifier: GPL-3.0-or-later
//! Which of our threads is stuck, and for how long.
//!
//! Each watched thread says by when it will show itself again: one atomic store a round. A thread
//! of our own compares that with the clock. When it was not run in time itself (the process was
//! stopped, the machine starved), it knows nothing about the others and begins anew, so that a
//! debugger or a suspended machine is no alarm.

mod judge;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::media::now_ns;
pub use judge::Stall;
use judge::Watch;

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(200);
/// A look that comes this much late says that this thread was not run either.
const LATE: Duration = Duration::from_millis(400);
/// A thread that sleeps for as long as it likes.
const NEVER: u64 = u64::MAX;

/// A thread's sign of life.
#[derive(Debug)]
pub(crate) struct Pulse {
    name: String,
    /// Later than it said by this much is stuck.
    limit: Duration,
    due_ns: AtomicU64,
}

impl Pulse {
    /// Not watched until it says when it will be back.
    pub(crate) fn new(name: &str, limit: Duration) -> Arc<Pulse> {
        Arc::new(Pulse { name: name.to_owned(), limit, due_ns: AtomicU64::new(NEVER) })
    }

    /// I show myself again by then (CLOCK_MONOTONIC, ns).
    pub(crate) fn back_by(&self, ns: u64) {
        self.due_ns.store(ns, Relaxed);
    }

    /// I begin something now, unless I am at it already.
    pub(crate) fn begun(&self) {
        if self.due_ns.load(Relaxed) == NEVER {
            self.due_ns.store(now_ns(), Relaxed);
        }
    }

    /// I have nothing to do, or have ended.
    pub(crate) fn rest(&self) {
        self.due_ns.store(NEVER, Relaxed);
    }
}

/// The running thread.
pub(crate) struct Watchdog {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches `pulses` until dropped; `tell` gets what it finds.
    pub(crate) fn start(
        pulses: Vec<Arc<Pulse>>,
        tell: impl Fn(Stall) + Send + 'static,
    ) -> io::Result<Watchdog> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let asked = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("vc-watch".to_owned())
            .spawn(move || run(&pulses, &tell, &asked))?;
        Ok(Watchdog { stop, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let (stop, bell) = &*self.stop;
        *stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        bell.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there was a defect and was printed; nothing depends on it.
            let _ = thread.join();
        }
    }
}

fn run(pulses: &[Arc<Pulse>], tell: &impl Fn(Stall), stop: &(Mutex<bool>, Condvar)) {
    let mut watches: Vec<Watch> = pulses.iter().map(|_| Watch::default()).collect();
    let mut due = now_ns();
    let mut asked = stop.0.lock().unwrap_or_else(PoisonError::into_inner);
    while !*asked {
        due += PERIOD.as_nanos() as u64;
        let left = Duration::from_nanos(due.saturating_sub(now_ns()));
        let waited = stop.1.wait_timeout(asked, left).unwrap_or_else(PoisonError::into_inner);
        asked = waited.0;
        let now = now_ns();
        if now < due {
            continue;
        }
        let late = now > due + LATE.as_nanos() as u64;
        for (pulse, watch) in pulses.iter().zip(&mut watches) {
            if late {
                watch.forgive(now);
                due = now;
            }
            let limit = pulse.limit.as_nanos() as u64;
            let found = watch.look(pulse.due_ns.load(Relaxed), limit, now);
            if let Some((stuck_ns, over)) = found {
                let stuck = Duration::from_nanos(stuck_ns);
                tell(Stall { thread: pulse.name.clone(), stuck, over });
            }
        }
    }
}
