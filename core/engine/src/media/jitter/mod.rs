// SPDX-License-Identifier: GPL-3.0-or-later
//! Adaptive jitter buffer. Payload bytes lie in a ring addressed by RTP time, so packets of any
//! length mix (RFC 8866 section 6.4 makes ptime a wish, not a promise). Every codec here, G.722 too
//! (RFC 3551 section 4.5.2), has one payload byte for each unit of RTP time; lengths and positions
//! are in that unit, and become samples of the line only where bytes are decoded. A codec with a
//! memory is decoded once and in the order of play-out: what was decoded ahead, to play faster or
//! slower, is kept.
//!
//! How delay is found: *slack* is how long before its turn a packet arrives. When the buffer runs
//! dry and the missing packet then arrives, play-out goes back to it, so nothing is lost and the
//! delay has grown by as much as the packet was late, up to the maximum. When the least slack of
//! the last seconds is more than the minimum delay, play-out catches up by leaving out a piece of
//! signal that resembles its neighbour; when packets come late though others are there (reordering),
//! it falls back by playing such a piece twice. Clock drift is dealt with by the same moves.

mod ahead;
mod pace;
mod place;
mod quiet;
mod ring;
mod stretch;

use super::coder::Decoder;
use super::g711::Law;
use super::plc::Plc;
use super::{Codec, Coding, Rate, FRAME, TICK_NS};
use crate::signal::prefetch::prefetch;
use ahead::Ahead;
use quiet::Background;
use ring::Ring;

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
    rate: Rate,
    decoder: Decoder,
    ahead: Ahead,
    background: Option<Background>,
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
    /// By how much the delay should grow.
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
    /// A buffer with a delay between `min_ms` and `max_ms` that gives audio of `rate`.
    pub fn new(rate: Rate, min_ms: u32, max_ms: u32) -> JitterBuffer {
        let max_ms = max_ms.clamp(20, 2000);
        // Room for the maximum, and as much again for what a burst brings at once.
        let ring = Ring::new(max_ms as usize * 8 * 2 + 4096, Law::A);
        JitterBuffer {
            ring,
            rate,
            decoder: Decoder::new(rate),
            ahead: Ahead::default(),
            background: None,
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
            plc: Plc::new(rate),
        }
    }

    /// The rate of the audio to give, before any came in.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        self.decoder = Decoder::new(rate);
        self.ahead = Ahead::default();
        self.plc = Plc::new(rate);
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

    /// The codec to expect.
    pub fn set_codec(&mut self, codec: Codec) {
        if let Some(law) = codec.law() {
            self.ring.set_law(law);
        }
    }

    /// Time passes in which nothing is played.
    pub fn skip(&mut self, samples: u64) {
        if !self.running {
            return;
        }
        self.ahead.drop_first(self.rate, samples.min(FRAME as u64 * 2) as usize);
        // What is skipped must not be taken for later audio in the same place.
        self.ring.mark(self.play, samples.min(self.ring.len() as u64) as usize, false);
        self.shift(samples as i64);
    }

    /// Asks for what the next packet touches of this itself; afterwards [`JitterBuffer::expect`].
    pub(crate) fn prefetch(&self) {
        prefetch(&self.ring);
        prefetch(&self.reference);
        prefetch(&self.head);
        prefetch(&self.last_at_ns);
        prefetch(&self.slack_min);
        prefetch(&self.slack_max);
        prefetch(&self.dry_ticks);
        prefetch(&self.hush);
    }

    /// Asks for where the next packet's payload goes.
    pub(crate) fn expect(&self) {
        self.ring.prefetch(self.head, 160);
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
        let skip = (self.play + self.ahead.len() as i64 - at).max(0);
        let rest = a.payload.get(skip as usize..).unwrap_or(&[]);
        self.ring.write(at + skip, rest, a.codec);
        self.ring.stamp(at + skip, at + len, a.at_ns);
    }

    /// Takes the next 20 ms out. Always fills `out`, which is a frame of the line's rate.
    pub fn pop(&mut self, now_ns: u64, out: &mut [i16]) -> Popped {
        // What did not arrive is told as if it had, a frame after the one before it.
        let guess = (self.last_at_ns + TICK_NS)
            .clamp(now_ns.saturating_sub(STOPPED_TICKS as u64 * TICK_NS), now_ns);
        if !self.running {
            self.idle(out);
            self.last_at_ns = now_ns.saturating_sub(TICK_NS);
            self.plc.good(out);
            return Popped { at_ns: self.last_at_ns, concealed: false, real: false };
        }
        self.roll_window();
        let at_ns = if self.have(1) { self.ring.stamp_of(self.play) } else { guess };
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

    fn read(&mut self, out: &mut [i16], concealed: &mut bool, real: &mut bool) {
        let per = self.rate.per_unit();
        let mut rest = out;
        while rest.len() >= per {
            let most = rest.len() / per;
            let kept = self.ahead.len().min(most);
            let (here, n) = if kept > 0 { (true, kept) } else { self.ring.run(self.play, most) };
            let n = if here { n } else { self.until_background(n) };
            let (hushed, n) = if here { (false, n) } else { self.hushed(n) };
            let (run, tail) = rest.split_at_mut(n * per);
            rest = tail;
            if here {
                if kept > 0 {
                    self.ahead.take(self.rate, run);
                } else {
                    self.decode(self.play, run);
                }
                self.end_background();
                self.plc.good(run);
                *real = true;
            } else if self.background.as_ref().is_some_and(|b| b.from <= self.play) {
                self.idle(run);
                self.plc.good(run);
            } else if self.play + n as i64 <= self.begin {
                run.fill(0);
            } else if hushed {
                self.plc.hush(run);
            } else {
                *concealed |= self.plc.conceal(run);
            }
            self.play += n as i64;
        }
    }

    /// Whether the next `n` positions are there, decoded or not.
    fn have(&self, n: usize) -> bool {
        let kept = self.ahead.len();
        kept >= n || self.ring.all(self.play + kept as i64, n - kept)
    }

    /// Decodes positions from `at` on, all of which are there and of one codec, and forgets them.
    fn decode(&mut self, at: i64, out: &mut [i16]) {
        let per = self.rate.per_unit();
        let (n, codec) = (out.len() / per, self.ring.codec(at));
        let [a, b] = self.ring.pieces(at, n);
        let (first, second) = out.split_at_mut(a.len() * per);
        self.decoder.decode(codec, a, first);
        if !b.is_empty() {
            self.decoder.decode(codec, b, second);
        }
        self.ring.mark(at, n, false);
    }
}
