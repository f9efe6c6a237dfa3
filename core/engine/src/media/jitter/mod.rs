// SPDX-License-Identifier: GPL-3.0-or-later
//! Adaptive jitter buffer. Payload bytes lie in a ring addressed by RTP time, so packets of any
//! length mix (RFC 8866 section 6.4 makes ptime a wish, not a promise). Every codec here, and
//! G.722 too (RFC 3551 section 4.5.2), has one payload byte for each unit of RTP time.
//!
//! How delay is found: *slack* is how long before its turn a packet arrives. When the buffer runs
//! dry and the missing packet then arrives, play-out goes back to it, so nothing is lost and the
//! delay has grown by as much as the packet was late, up to the maximum. When the least slack of
//! the last seconds is more than the minimum delay, play-out catches up by leaving out a piece of
//! signal that resembles its neighbour; when packets come late though others are there (reordering),
//! it falls back by playing such a piece twice. Clock drift is dealt with by the same moves.

mod ring;
mod stretch;

use super::plc::Plc;
use super::{Codec, FRAME, TICK_NS};
use ring::Ring;
use stretch::{lengthen, shorten, MAX_CUT};

/// Nanoseconds of one sample.
pub const SAMPLE_NS: u64 = 125_000;
/// A dry buffer for this long means the stream has stopped; the next packet starts anew.
const STOPPED_TICKS: u32 = 50;
/// Packets in a row that come too late before play-out follows them.
const LATE_RUN: u32 = 5;
/// Deviation of RTP time from packet order that is a new timeline of the sender (100 ms).
const JUMP: i64 = 800;
/// Ticks of one window in which the least slack is sought, and windows remembered.
const WINDOW_TICKS: u32 = 50;
const WINDOWS: usize = 4;
/// How much longer than told a key may be down before its next packet is late: 100 ms.
const EVENT_AHEAD: i64 = 800;
/// Ticks between two catch-ups while somebody talks.
const CATCH_UP_TICKS: u32 = 5;

/// A packet's payload with what the stream knows about it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// RTP timestamp.
    pub timestamp: u32,
    /// Codec of the payload.
    pub codec: Codec,
    /// Payload.
    pub payload: &'a [u8],
    /// Another timeline begins.
    pub fresh: bool,
    /// Directly follows the newest packet before it.
    pub follows: bool,
    /// Newer than every packet before it.
    pub newest: bool,
    /// When it arrived.
    pub at_ns: u64,
}

/// A frame taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Popped {
    /// Arrival of its first sample: the arrival of its packet, less the audio behind the sample.
    pub at_ns: u64,
    /// Some of it was missing and concealed.
    pub concealed: bool,
    /// Some of it is real audio.
    pub real: bool,
}

/// The buffer of one call.
#[derive(Debug)]
pub struct JitterBuffer {
    ring: Ring,
    codec: Codec,
    min: i64,
    max: i64,
    running: bool,
    /// RTP time and position of the reference packet.
    reference: (u32, i64),
    /// End of the reference packet and its arrival.
    expected: i64,
    expected_ns: u64,
    /// End of the newest audio.
    head: i64,
    /// Next sample to play.
    play: i64,
    /// First sample of the stream: what is before it was never sent.
    begin: i64,
    last_at_ns: u64,
    dry_ticks: u32,
    late_run: u32,
    window_ticks: u32,
    slack_min: [i64; WINDOWS],
    slack_max: [i64; WINDOWS],
    window: usize,
    since_catch_up: u32,
    last_slack: i64,
    /// Samples by which the delay should grow.
    owed: i64,
    late: u64,
    concealed: u64,
    /// Positions in which a key is down: what is not there is no loss, what is there is a tone.
    hush: (i64, i64),
    plc: Plc,
}

const NONE_MIN: i64 = i64::MAX;
const NONE_MAX: i64 = i64::MIN;

impl JitterBuffer {
    /// A buffer with a delay between `min_ms` and `max_ms`.
    pub fn new(codec: Codec, min_ms: u32, max_ms: u32) -> JitterBuffer {
        let max_ms = max_ms.clamp(20, 2000);
        // Room for the maximum, and as much again for what a burst brings at once.
        let ring = Ring::new(max_ms as usize * 8 * 2 + 4096);
        JitterBuffer {
            ring,
            codec,
            min: i64::from(min_ms.min(max_ms)) * 8,
            max: i64::from(max_ms) * 8,
            running: false,
            reference: (0, 0),
            expected: 0,
            expected_ns: 0,
            head: 0,
            play: 0,
            begin: 0,
            last_at_ns: 0,
            dry_ticks: 0,
            late_run: 0,
            window_ticks: 0,
            slack_min: [NONE_MIN; WINDOWS],
            slack_max: [NONE_MAX; WINDOWS],
            window: 0,
            since_catch_up: 0,
            last_slack: 0,
            owed: 0,
            late: 0,
            concealed: 0,
            hush: (0, 0),
            plc: Plc::default(),
        }
    }

    /// Packets that came after their turn.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Frames with concealed audio.
    pub fn concealed(&self) -> u64 {
        self.concealed
    }

    /// Delay of the last packet in the buffer, ms.
    pub fn delay_ms(&self) -> f64 {
        self.last_slack.max(0) as f64 / 8.0
    }

    /// The codec to expect. What is buffered is turned into it.
    pub fn set_codec(&mut self, codec: Codec) {
        if codec == self.codec {
            return;
        }
        self.ring.recode(self.codec, codec);
        self.codec = codec;
    }

    /// Time passes in which nothing is played.
    pub fn skip(&mut self, samples: u64) {
        if !self.running {
            return;
        }
        // What is skipped must not be taken for later audio in the same place.
        self.ring.mark(self.play, samples.min(self.ring.len() as u64) as usize, false);
        self.shift(samples as i64);
    }

    /// Takes a packet in.
    pub fn insert(&mut self, a: &Arrival<'_>) {
        let len = a.payload.len() as i64;
        if len == 0 || len > self.ring.len() / 2 {
            return;
        }
        let Some(at) = self.place(a, len) else {
            self.late += 1;
            return;
        };
        self.dry_ticks = 0;
        if a.newest || a.fresh {
            self.reference = (a.timestamp, at);
            self.expected = at + len;
            self.expected_ns = a.at_ns;
        }
        self.head = self.head.max(at + len);
        self.note_slack(at - self.play);
        let skip = (self.play - at).max(0);
        let rest = a.payload.get(skip as usize..).unwrap_or(&[]);
        self.ring.write(at + skip, rest, a.codec, self.codec);
        self.ring.stamp(at + skip, at + len, a.at_ns);
    }

    /// A key is down since the RTP time `timestamp`, for `duration` so far or, at its `end`, in all.
    /// The sender has put it in the place of audio (RFC 4733 section 2.5.1): there is silence, and
    /// no concealment. A tone that got into the audio all the same tells the key to every recording,
    /// so it is left out.
    pub fn event(&mut self, timestamp: u32, duration: u16, end: bool) {
        if !self.running {
            return;
        }
        let at = self.reference.1 + i64::from(timestamp.wrapping_sub(self.reference.0) as i32);
        let more = if end { 0 } else { EVENT_AHEAD };
        let to = at + i64::from(duration) + more;
        let limit = self.ring.len() / 2;
        // Events on a timeline of their own say nothing about the audio's.
        if to < self.play - limit || at > self.play + limit {
            return;
        }
        let from = if self.play >= self.hush.1 { at } else { at.min(self.hush.0) };
        // The end of the last one is sure; before that it is a guess that may be taken back.
        self.hush = (from, if end { to } else { to.max(self.hush.1) });
        let first = from.max(self.play);
        self.ring.mark(first, (to - more - first).clamp(0, limit) as usize, false);
    }

    /// Whether the next position lies within a key, and for how many of the next `n` that holds.
    fn hushed(&self, n: usize) -> (bool, usize) {
        let (from, to) = self.hush;
        let within = self.play >= from && self.play < to;
        let edge = if within { to } else { from };
        let left = edge - self.play;
        (within, if left > 0 { n.min(left as usize) } else { n })
    }

    /// Position of a packet, or `None` when its time has passed.
    fn place(&mut self, a: &Arrival<'_>, len: i64) -> Option<i64> {
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
            let waited = a.at_ns.saturating_sub(self.expected_ns) / SAMPLE_NS;
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
    fn settle(&mut self, at: i64, len: i64) -> i64 {
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

    fn too_late(&mut self, a: &Arrival<'_>, at: i64, len: i64) -> Option<i64> {
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
    fn go_back(&mut self, at: i64) {
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
    fn room(&self) -> i64 {
        let most = self.slack_max.iter().copied().max().unwrap_or(NONE_MAX).max(0);
        (self.max - most).max(0)
    }

    /// Moves play-out without playing; remembered slack moves along.
    fn shift(&mut self, by: i64) {
        self.play += by;
        for s in self.slack_min.iter_mut().filter(|s| **s != NONE_MIN) {
            *s -= by;
        }
        for s in self.slack_max.iter_mut().filter(|s| **s != NONE_MAX) {
            *s -= by;
        }
    }

    fn note_slack(&mut self, slack: i64) {
        self.last_slack = slack;
        if let Some(s) = self.slack_min.get_mut(self.window) {
            *s = (*s).min(slack);
        }
        if let Some(s) = self.slack_max.get_mut(self.window) {
            *s = (*s).max(slack);
        }
    }

    /// Takes the next 20 ms out. Always fills `out`.
    pub fn pop(&mut self, now_ns: u64, out: &mut [i16; FRAME]) -> Popped {
        // What did not arrive is told as if it had, a frame after the one before it.
        let guess = (self.last_at_ns + TICK_NS)
            .clamp(now_ns.saturating_sub(STOPPED_TICKS as u64 * TICK_NS), now_ns);
        if !self.running {
            out.fill(0);
            self.last_at_ns = now_ns.saturating_sub(TICK_NS);
            self.plc.good(out);
            return Popped { at_ns: self.last_at_ns, concealed: false, real: false };
        }
        self.roll_window();
        let at_ns = self.ring.stamp_of(self.play).unwrap_or(guess);
        self.last_at_ns = at_ns;
        let (mut concealed, mut real) = (false, false);
        if self.fall_back(out) || self.catch_up(out) {
            real = true;
        } else {
            self.read(out, &mut concealed, &mut real);
        }
        if concealed {
            self.concealed += 1;
        }
        if self.head <= self.play {
            self.dry_ticks += 1;
            if self.dry_ticks >= STOPPED_TICKS {
                self.running = false;
            }
        }
        Popped { at_ns, concealed, real }
    }

    fn read(&mut self, out: &mut [i16; FRAME], concealed: &mut bool, real: &mut bool) {
        let mut rest: &mut [i16] = out;
        while !rest.is_empty() {
            let (here, n) = self.ring.run(self.play, rest.len());
            let (hushed, n) = if here { (false, n) } else { self.hushed(n) };
            let (run, tail) = rest.split_at_mut(n);
            if here {
                self.take(run);
                self.plc.good(run);
                *real = true;
            } else if self.play + n as i64 <= self.begin {
                run.fill(0);
                self.play += n as i64;
            } else if hushed {
                self.plc.hush(run);
                self.play += n as i64;
            } else {
                *concealed |= self.plc.conceal(run);
                self.play += n as i64;
            }
            rest = tail;
        }
    }

    /// Decodes and forgets the next samples, all of which are present.
    fn take(&mut self, run: &mut [i16]) {
        self.ring.decode(self.play, self.codec, run);
        self.ring.mark(self.play, run.len(), false);
        self.play += run.len() as i64;
    }

    fn roll_window(&mut self) {
        self.since_catch_up = self.since_catch_up.saturating_add(1);
        self.window_ticks += 1;
        if self.window_ticks < WINDOW_TICKS {
            return;
        }
        self.window_ticks = 0;
        self.window = (self.window + 1) % WINDOWS;
        if let Some(s) = self.slack_min.get_mut(self.window) {
            *s = NONE_MIN;
        }
        if let Some(s) = self.slack_max.get_mut(self.window) {
            *s = NONE_MAX;
        }
    }

    /// Plays more than 20 ms in 20 ms when the delay is more than needed. False if not done.
    fn catch_up(&mut self, out: &mut [i16; FRAME]) -> bool {
        let least = self.slack_min.iter().copied().min().unwrap_or(NONE_MIN);
        let full = self.slack_min.iter().all(|s| *s != NONE_MIN);
        let excess = if least == NONE_MIN { 0 } else { least - self.min };
        // A piece short of a frame is kept: sockets are read once in 20 ms, so that much slack
        // comes and goes by itself.
        let wanted = full && excess >= FRAME as i64 || excess > self.max;
        if !wanted || self.since_catch_up < CATCH_UP_TICKS {
            return false;
        }
        if !self.ring.all(self.play, FRAME + MAX_CUT) {
            return false;
        }
        let mut long = [0i16; FRAME + MAX_CUT];
        self.ring.decode(self.play, self.codec, &mut long);
        let cut = shorten(&long, out);
        self.ring.mark(self.play, FRAME + cut, false);
        self.play += FRAME as i64;
        self.shift(cut as i64);
        self.plc.good(out);
        self.since_catch_up = 0;
        true
    }

    /// Plays less than 20 ms in 20 ms: a piece of the past comes again. False if not done.
    fn fall_back(&mut self, out: &mut [i16; FRAME]) -> bool {
        if self.owed <= 0 || !self.ring.all(self.play, FRAME) {
            return false;
        }
        let mut next = [0i16; FRAME];
        self.ring.decode(self.play, self.codec, &mut next);
        let cut = lengthen(self.plc.past(), &next, out);
        self.ring.mark(self.play, FRAME - cut, false);
        self.play += FRAME as i64;
        self.owed -= cut as i64;
        self.shift(-(cut as i64));
        self.plc.good(out);
        self.since_catch_up = 0;
        true
    }
}
