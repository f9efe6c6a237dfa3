// SPDX-License-Identifier: GPL-3.0-or-later
//! A media thread: a 20 ms clock with absolute wake-up times, one for each phase of the tick.
//!
//! A phase that begins late is run at once and the next one keeps its time, so lateness does not add
//! up. Up to [`CATCH_UP`] missed ticks are run one after the other; when more were missed, the rest
//! is given up: counted, told, and every call's clocks skip them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use rustix::thread::{clock_nanosleep_absolute, sched_setaffinity, ClockId, CpuSet, Timespec};
use rustix::time::clock_gettime;
use thread_priority::unix::{
    set_thread_priority_and_policy, thread_native_id, RealtimeThreadSchedulePolicy,
    ThreadSchedulePolicy,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};

use super::counters::ClockCounters;
use super::roster::PHASES;
use super::shard::Shard;
use super::TICK_NS;
use crate::events::Notice;

/// Missed ticks that are made up for.
const CATCH_UP: u64 = 5;
/// A tick that begins later than this is counted as late.
const LATE_NS: u64 = 5_000_000;
const PHASE_NS: u64 = TICK_NS / PHASES as u64;

/// CLOCK_MONOTONIC in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    (t.tv_sec as u64) * 1_000_000_000 + t.tv_nsec as u64
}

pub(super) fn sleep_until(ns: u64) {
    let request =
        Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    // Woken early by a signal: sleep again; it is an absolute time.
    while clock_nanosleep_absolute(ClockId::Monotonic, &request) == Err(rustix::io::Errno::INTR) {}
}

/// Runs the shard until `stop`.
pub(crate) fn run(
    mut shard: Shard,
    core: Option<usize>,
    priority: Option<u8>,
    counters: &ClockCounters,
    stop: &Arc<AtomicBool>,
) {
    if let Some(notice) = core.and_then(pin) {
        shard.notice(notice);
    }
    if let Some(notice) = priority.and_then(raise) {
        shard.notice(notice);
    }
    let mut next = now_ns() + TICK_NS;
    let mut phase = 0;
    while !stop.load(Ordering::Acquire) {
        counters.pulse.back_by(next);
        sleep_until(next);
        let now = now_ns();
        let lateness = now.saturating_sub(next);
        counters.lateness.record(lateness);
        if phase == 0 {
            counters.ticks.add(1);
        }
        if lateness > LATE_NS {
            counters.late_ticks.add(1);
        }
        if lateness / 1000 > counters.max_lateness_us.get() {
            counters.max_lateness_us.set(lateness / 1000);
        }
        let missed = lateness / TICK_NS;
        if missed > CATCH_UP {
            counters.skipped_ticks.add(missed);
            shard.skip(missed);
            next += missed * TICK_NS;
        }
        #[cfg(test)]
        std::thread::sleep(std::time::Duration::from_millis(
            counters.block_ms.swap(0, Ordering::Relaxed),
        ));
        shard.tick(phase, now);
        counters.worked.record(now_ns().saturating_sub(now));
        next += PHASE_NS;
        phase = (phase + 1) % PHASES;
    }
    counters.pulse.rest();
    shard.take_commands(now_ns());
    shard.remove_all(now_ns());
}

fn pin(core: usize) -> Option<Notice> {
    let refused = |errno| Some(Notice::CoreRefused { core, errno });
    if core >= CpuSet::MAX_CPU {
        return refused(rustix::io::Errno::INVAL.raw_os_error());
    }
    let mut set = CpuSet::new();
    set.set(core);
    match sched_setaffinity(None, &set) {
        Ok(()) => None,
        Err(e) => refused(e.raw_os_error()),
    }
}

fn raise(priority: u8) -> Option<Notice> {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let done = ThreadPriorityValue::try_from(priority).is_ok_and(|value| {
        let value = ThreadPriority::Crossplatform(value);
        set_thread_priority_and_policy(thread_native_id(), value, policy).is_ok()
    });
    (!done).then_some(Notice::PriorityRefused { priority })
}
