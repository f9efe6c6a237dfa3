// SPDX-License-Identifier: GPL-3.0-or-later
//! Where in the stream a packet belongs, and how play-out follows the packets.

use super::super::UNIT_NS;
use super::{Arrival, JitterBuffer, JUMP, LATE_RUN, NONE_MAX, NONE_MIN, WINDOWS};

impl JitterBuffer {
    /// Position of a packet, or `None` when its time has passed.
    pub(super) fn place(&mut self, a: &Arrival<'_>, len: i64) -> Option<i64> {
        let at = self.find(a, len)?;
        self.keep_up_with(at, len);
        Some(at)
    }

    /// A peer that sends more audio than time passes (packets that overlap, one timeline after the other) fills the ring:
    /// then what waits is left out, so that neither it is written over nor the delay grows without end.
    fn keep_up_with(&mut self, at: i64, len: i64) {
        if at + len > self.play + self.ring.len() / 2 {
            self.skip((at - self.play - self.min).max(0) as u64);
        }
    }

    fn find(&mut self, a: &Arrival<'_>, len: i64) -> Option<i64> {
        if !self.running {
            self.running = true;
            self.head = self.play;
            self.late_run = 0;
            self.owed = 0;
            self.slack_min = [NONE_MIN; WINDOWS];
            self.slack_max = [NONE_MAX; WINDOWS];
            self.begin = self.play + self.min;
            return Some(self.begin);
        }
        if a.fresh {
            // What is left of the old stream is played out first.
            return Some(self.head.max(self.play + self.min));
        }
        let ahead = i64::from(a.timestamp.wrapping_sub(self.reference.0) as i32);
        let at = self.reference.1 + ahead;
        if a.follows {
            let gap = at - self.expected;
            let waited = a.at_ns.saturating_sub(self.expected_ns) / UNIT_NS;
            let waited = waited as i64 - len;
            // Nothing was lost between the two, so a step that time does not explain is a new
            // timeline: it goes on right behind the old one.
            if gap < 0 || (gap > JUMP && (gap - waited).abs() > JUMP) {
                return Some(self.settle(self.expected, len));
            }
        }
        let limit = self.ring.len() / 2;
        if at + len > self.play + limit || at < self.play - limit {
            return a.newest.then(|| self.head.max(self.play + self.min));
        }
        if at >= self.play {
            self.late_run = 0;
            return Some(at);
        }
        self.too_late(a, at, len)
    }

    /// A position for audio that goes on behind `at`, moved up when its time has passed.
    pub(super) fn settle(&mut self, at: i64, len: i64) -> i64 {
        if at < self.play && at + len + self.max < self.play {
            return self.play + self.min;
        }
        self.go_back(at);
        if at + len > self.play {
            at
        } else {
            self.play + self.min
        }
    }

    pub(super) fn too_late(&mut self, a: &Arrival<'_>, at: i64, len: i64) -> Option<i64> {
        // Dry: what is played is a guess anyway, so the packet is better played late than never.
        if self.head <= self.play {
            self.go_back(at);
        }
        if at + len > self.play {
            self.late_run = 0;
            return Some(at);
        }
        self.owed = self.owed.max(self.play - at).min(self.room());
        self.late_run += 1;
        if self.late_run < LATE_RUN || !a.newest {
            return None;
        }
        self.late_run = 0;
        Some(self.head.max(self.play + self.min))
    }

    /// Moves play-out back to `at`, as far as the maximum delay allows.
    pub(super) fn go_back(&mut self, at: i64) {
        let want = self.play - at;
        if want <= 0 || self.head > self.play {
            return;
        }
        let step = want.min(self.room());
        if step > 0 {
            self.shift(-step);
        }
    }

    /// How much the delay may still grow: the earliest packets must not wait beyond the maximum.
    pub(super) fn room(&self) -> i64 {
        let most = self.slack_max.iter().copied().max().unwrap_or(NONE_MAX).max(0);
        (self.max - most).max(0)
    }

    /// Moves play-out without playing; remembered slack moves along.
    pub(super) fn shift(&mut self, by: i64) {
        self.play += by;
        for s in self.slack_min.iter_mut().filter(|s| **s != NONE_MIN) {
            *s -= by;
        }
        for s in self.slack_max.iter_mut().filter(|s| **s != NONE_MAX) {
            *s -= by;
        }
    }

    pub(super) fn note_slack(&mut self, slack: i64) {
        self.last_slack = slack;
        if let Some(s) = self.slack_min.get_mut(self.window) {
            *s = (*s).min(slack);
        }
        if let Some(s) = self.slack_max.get_mut(self.window) {
            *s = (*s).max(slack);
        }
    }
}
