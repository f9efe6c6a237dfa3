// SPDX-License-Identifier: GPL-3.0-or-later
//! Playing faster or slower than the clock when the delay is not what it should be.

use super::super::{FRAME, MAX_FRAME};
use super::stretch::{lengthen, shorten, MAX_CUT};
use super::{JitterBuffer, CATCH_UP_TICKS, NONE_MAX, NONE_MIN, WINDOWS, WINDOW_TICKS};

impl JitterBuffer {
    pub(super) fn roll_window(&mut self) {
        self.since_catch_up = self.since_catch_up.saturating_add(1);
        self.window_ticks += 1;
        if self.window_ticks < WINDOW_TICKS {
            return;
        }
        self.window_ticks = 0;
        self.keep_reserve();
        self.window = (self.window + 1) % WINDOWS;
        if let Some(s) = self.slack_min.get_mut(self.window) {
            *s = NONE_MIN;
        }
        if let Some(s) = self.slack_max.get_mut(self.window) {
            *s = NONE_MAX;
        }
    }

    /// On a calm network a slow clock takes the least delay away: a piece played twice brings it back
    /// before a frame is missing. Where packets scatter, the delay is what they need.
    fn keep_reserve(&mut self) {
        let least = self.slack_min.iter().copied().min().unwrap_or(NONE_MIN);
        let most = self.slack_max.iter().copied().max().unwrap_or(NONE_MAX);
        let full = self.slack_min.iter().all(|s| *s != NONE_MIN);
        let calm = full && most - least < FRAME as i64 / 2;
        if calm && least < self.min / 4 && self.owed <= 0 {
            self.owed = (self.min - least).min(self.room());
        }
    }

    /// Plays more than 20 ms in 20 ms when the delay is more than needed. False if not done.
    pub(super) fn catch_up(&mut self, out: &mut [i16]) -> bool {
        let least = self.slack_min.iter().copied().min().unwrap_or(NONE_MIN);
        let full = self.slack_min.iter().all(|s| *s != NONE_MIN);
        let excess = if least == NONE_MIN { 0 } else { least - self.min };
        // A piece short of a frame is kept: sockets are read once in 20 ms, so that much slack
        // comes and goes by itself.
        let wanted = full && excess >= FRAME as i64 || excess > self.max;
        if !wanted || self.since_catch_up < CATCH_UP_TICKS {
            return false;
        }
        if !self.have(FRAME + MAX_CUT) {
            return false;
        }
        let per = self.rate.per_unit();
        let long = self.look_ahead(FRAME + MAX_CUT);
        let long = &long[..(FRAME + MAX_CUT) * per];
        let cut = shorten(self.rate, long, out);
        self.ahead.keep(self.rate, &long[(FRAME + cut) * per..]);
        self.end_background();
        self.play += FRAME as i64;
        self.shift(cut as i64);
        self.plc.good(out);
        self.since_catch_up = 0;
        true
    }

    /// Plays less than 20 ms in 20 ms: a piece of the past comes again. False if not done.
    pub(super) fn fall_back(&mut self, out: &mut [i16]) -> bool {
        if self.owed <= 0 || !self.have(FRAME) {
            return false;
        }
        let per = self.rate.per_unit();
        let next = self.look_ahead(FRAME);
        let next = &next[..FRAME * per];
        let cut = lengthen(self.rate, self.plc.past(), next, out);
        self.ahead.keep(self.rate, &next[(FRAME - cut) * per..]);
        self.end_background();
        self.play += FRAME as i64;
        self.owed -= cut as i64;
        self.shift(-(cut as i64));
        self.plc.good(out);
        self.since_catch_up = 0;
        true
    }

    /// Decodes ahead until `n` positions are, all of which are there; gives their samples.
    pub(super) fn look_ahead(&mut self, n: usize) -> [i16; MAX_FRAME + 2 * MAX_CUT] {
        let per = self.rate.per_unit();
        let mut samples = [0; MAX_FRAME + 2 * MAX_CUT];
        let mut done = self.ahead.len();
        self.ahead.copy(self.rate, &mut samples);
        while done < n {
            let at = self.play + done as i64;
            let (_, run) = self.ring.run(at, n - done);
            self.decode(at, &mut samples[done * per..(done + run) * per]);
            done += run;
        }
        samples
    }
}
