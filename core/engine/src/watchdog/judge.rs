// SPDX-License-Identifier: GPL-3.0-or-later
//! What a look at a thread's sign of life means. Without clock and threads.

use std::fmt;
use std::time::Duration;

/// A thread that does not come back, or has come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Its name, as the system shows it; "application" is whoever fetches the engine's events.
    pub thread: String,
    /// For how long; at its end, how long it was in all.
    pub stuck: Duration,
    /// It runs again.
    pub over: bool,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (thread, s) = (&self.thread, self.stuck.as_secs_f64());
        if self.over {
            return write!(f, "watchdog: thread {thread} runs again, it was stuck for {s:.1} s");
        }
        write!(f, "watchdog: thread {thread} has been stuck for {s:.1} s; ")?;
        f.write_str(match thread.as_str() {
            "vc-sip" => "no call is set up or ended meanwhile; look for what blocks it (gdb -p, thread apply all bt)",
            "vc-record" => "recordings will have gaps; look for a disk that does not answer",
            "application" => "it does not fetch events; look for what blocks its event loop",
            _ => "its calls are silent; give it a core of its own (media_cores) and a priority (media_priority)",
        })
    }
}

/// What is known of one thread.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Nothing before this counts.
    since: u64,
    /// The sign of life that it is stuck after, and the time at which that is told again.
    stuck: Option<(u64, u64)>,
}

impl Watch {
    /// Nobody knows what was until `now`.
    pub(super) fn forgive(&mut self, now: u64) {
        self.since = now;
    }

    /// The thread was to be back at `due`. Gives what is to be told: for how long it has been stuck, and whether
    /// that is over. Told first after `limit`, then each time it has doubled, and once at the end.
    pub(super) fn look(&mut self, due: u64, limit: u64, now: u64) -> Option<(u64, bool)> {
        match self.stuck {
            Some((after, _)) if due != after => {
                self.stuck = None;
                // It came back at some time since the last look: `due` is when it wants to be back again.
                let back = due.min(now);
                Some((back.saturating_sub(after.max(self.since)), true))
            }
            Some((after, again)) => {
                let stuck = now.saturating_sub(after.max(self.since));
                if stuck < again {
                    return None;
                }
                self.stuck = Some((after, again * 2));
                Some((stuck, false))
            }
            None => {
                let stuck = now.saturating_sub(due.max(self.since));
                if stuck < limit {
                    return None;
                }
                self.stuck = Some((due, stuck * 2));
                Some((stuck, false))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn told_at_the_limit_then_doubled_then_at_its_end() {
        let mut watch = Watch::default();
        let told: Vec<_> = (100..130)
            .filter_map(|s| {
                // Due at 103, back at 120.
                let due = if s < 120 { 103.min(s + 1) } else { s + 1 };
                watch.look(due * S, 2 * S, s * S).map(|(stuck, over)| (s, stuck / S, over))
            })
            .collect();
        assert_eq!(
            told,
            [(105, 2, false), (107, 4, false), (111, 8, false), (119, 16, false), (120, 17, true)]
        );
    }

    #[test]
    fn who_comes_back_in_time_or_rests_is_not_told() {
        let mut watch = Watch::default();
        for s in 100..200 {
            assert_eq!(watch.look((s - 1) * S, 2 * S, s * S), None, "a second late");
            assert_eq!(watch.look(u64::MAX, 2 * S, s * S), None, "rests");
        }
    }

    #[test]
    fn time_in_which_nobody_ran_does_not_count() {
        let mut watch = Watch::default();
        assert_eq!(watch.look(100 * S, 2 * S, 101 * S), None);
        // The process was stopped for a minute.
        watch.forgive(160 * S);
        assert_eq!(watch.look(100 * S, 2 * S, 160 * S), None);
        assert_eq!(watch.look(100 * S, 2 * S, 161 * S), None);
        // It does not come back even now.
        assert_eq!(watch.look(100 * S, 2 * S, 162 * S), Some((2 * S, false)));
    }

    #[test]
    fn the_report_names_the_thread_and_the_time() {
        let stall = |thread: &str, over| {
            Stall { thread: thread.into(), stuck: Duration::from_millis(2340), over }.to_string()
        };
        assert!(stall("vc-media-3", false)
            .starts_with("watchdog: thread vc-media-3 has been stuck for 2.3 s; "));
        assert_eq!(
            stall("vc-sip", true),
            "watchdog: thread vc-sip runs again, it was stuck for 2.3 s"
        );
    }
}
