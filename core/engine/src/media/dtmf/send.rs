// SPDX-License-Identifier: GPL-3.0-or-later
//! Keys as telephone-event packets (RFC 4733 section 2.5.1), one step a tick: a marked packet, then
//! one each tick with the timestamp of the beginning and a growing duration, the last three times;
//! then silence until the gap is over. Meanwhile the play-out waits.

use std::collections::VecDeque;
use std::fmt;

use crate::transport::rtp::event::{Key, Payload, PAYLOAD};

/// Keys of one request.
pub(crate) const MAX_KEYS: usize = 64;
/// Requests that may wait.
const REQUESTS: usize = 8;
/// Timestamp units of a tick.
const TICK_UNITS: u16 = (super::EVENT_CLOCK_HZ / 50) as u16;
/// The packet that ends a key is sent again this often (section 2.5.1.4: three times in all).
const REPEATS: u16 = 2;

/// Keys to send.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    /// What the application calls it.
    pub(crate) request: u64,
    keys: [Option<Key>; MAX_KEYS],
    /// Ticks that a key is down, and that follow until the next.
    down: u16,
    gap: u16,
}

impl Keys {
    /// `None` when there is no key or too many, or a character that is no key.
    pub(crate) fn new(request: u64, text: &str, duration_ms: u32, gap_ms: u32) -> Option<Keys> {
        let mut keys = [None; MAX_KEYS];
        let mut room = keys.iter_mut();
        for c in text.chars() {
            *room.next()? = Some(Key::from_char(c)?);
        }
        keys.first()?.as_ref()?;
        // Whole ticks, and within what one packet can tell.
        let ticks = |ms: u32, least: u32| ms.div_ceil(20).clamp(least, 400) as u16;
        Some(Keys {
            request,
            keys,
            down: ticks(duration_ms, 2),
            gap: ticks(gap_ms, u32::from(REPEATS)),
        })
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("request", &self.request).finish_non_exhaustive()
    }
}

/// What a tick sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// What there is to play.
    Talk,
    /// Silence: the play-out waits.
    Silence,
    /// This payload under the timestamp at which the key went down, and no audio.
    Event {
        payload: [u8; PAYLOAD],
        timestamp: u32,
        /// First packet of a key: with the marker bit.
        first: bool,
    },
}

/// State of one call.
pub(crate) struct EventSender {
    waiting: VecDeque<Keys>,
    /// Place within the request in progress.
    at: usize,
    /// Ticks since the key at `at` went down.
    ticks: u16,
    timestamp: u32,
}

impl fmt::Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSender").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl Default for EventSender {
    fn default() -> Self {
        let waiting = VecDeque::with_capacity(REQUESTS);
        EventSender { waiting, at: 0, ticks: 0, timestamp: 0 }
    }
}

impl EventSender {
    /// Queues. False when too many requests wait.
    pub(crate) fn push(&mut self, keys: Keys) -> bool {
        if self.waiting.len() >= REQUESTS {
            return false;
        }
        self.waiting.push_back(keys);
        true
    }

    /// The step of a tick. `now`: RTP timestamp of its first sample; `whole`: no audio waits for a
    /// packet to become full. Also tells the request that is done with this tick.
    pub(crate) fn step(&mut self, now: u32, whole: bool) -> (Step, Option<u64>) {
        let Some(Keys { keys, down, gap, request }) = self.waiting.front() else {
            return (Step::Talk, None);
        };
        if self.ticks == 0 {
            if !whole {
                return (Step::Silence, None);
            }
            self.timestamp = now;
        }
        let key = keys.get(self.at).copied().flatten();
        let (down, gap, request) = (*down, *gap, *request);
        self.ticks += 1;
        let told = self.ticks.min(down);
        let step = match key {
            Some(key) if self.ticks <= down + REPEATS => Step::Event {
                payload: Payload {
                    code: key.event(),
                    end: told == down,
                    duration: told.saturating_mul(TICK_UNITS),
                }
                .to_bytes(),
                timestamp: self.timestamp,
                first: self.ticks == 1,
            },
            _ => Step::Silence,
        };
        if self.ticks < down + gap {
            return (step, None);
        }
        self.ticks = 0;
        self.at += 1;
        if self.waiting.front().is_some_and(|k| matches!(k.keys.get(self.at), Some(Some(_)))) {
            return (step, None);
        }
        self.at = 0;
        self.waiting.pop_front();
        (step, Some(request))
    }

    /// Gives up the next request that waits or is in progress; its id.
    pub(crate) fn give_up(&mut self) -> Option<u64> {
        (self.at, self.ticks) = (0, 0);
        self.waiting.pop_front().map(|k| k.request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(sender: &mut EventSender, ticks: u32) -> Vec<(Step, Option<u64>)> {
        (0..ticks).map(|i| sender.step(1000 + i * 160, true)).collect()
    }

    fn event(code: u8, end: bool, duration: u16, timestamp: u32, first: bool) -> Step {
        let payload = Payload { code, end, duration }.to_bytes();
        Step::Event { payload, timestamp, first }
    }

    #[test]
    fn two_keys_are_marked_grow_end_thrice_and_are_apart() {
        let mut sender = EventSender::default();
        assert!(sender.push(Keys::new(7, "1#", 50, 75).unwrap()));
        let steps = run(&mut sender, 15);
        for (key, code, at, from) in [(0, 1, 1000, 0), (1, 11, 1000 + 7 * 160, 7)] {
            let want = [
                event(code, false, 160, at, true),
                event(code, false, 320, at, false),
                event(code, true, 480, at, false),
                event(code, true, 480, at, false),
                event(code, true, 480, at, false),
                Step::Silence,
                Step::Silence,
            ];
            let got: Vec<Step> = steps[from..from + 7].iter().map(|s| s.0).collect();
            assert_eq!(got, want, "key {key}");
        }
        assert_eq!(steps[13].1, Some(7));
        assert_eq!(steps[14], (Step::Talk, None));
        assert!(steps[..13].iter().all(|s| s.1.is_none()));
    }

    #[test]
    fn a_key_begins_with_a_packet_of_audio_done() {
        let mut sender = EventSender::default();
        sender.push(Keys::new(7, "5", 40, 40).unwrap());
        assert_eq!(sender.step(0, false), (Step::Silence, None));
        assert_eq!(sender.step(160, true).0, event(5, false, 160, 160, true));
        // From then on every tick is the key's.
        assert_eq!(sender.step(320, false).0, event(5, true, 320, 160, false));
    }

    #[test]
    fn requests_wait_for_each_other_and_can_be_given_up() {
        let mut sender = EventSender::default();
        for request in 0..9 {
            assert_eq!(sender.push(Keys::new(request, "12", 40, 40).unwrap()), request < 8);
        }
        let done: Vec<u64> = run(&mut sender, 12).iter().filter_map(|s| s.1).collect();
        assert_eq!(done, [0]);
        assert_eq!(sender.give_up(), Some(1));
        // The one in progress is gone; the next begins at its first key.
        assert_eq!(sender.step(9, true).0, event(1, false, 160, 9, true));
        assert_eq!(std::iter::from_fn(|| sender.give_up()).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn only_keys_are_taken_and_times_are_whole_ticks_in_bounds() {
        let keys = |text: &str| Keys::new(1, text, 160, 80);
        assert!(keys("0123456789*#ABCDabcd").is_some());
        assert!(keys("").is_none() && keys("12x").is_none() && keys("1 2").is_none());
        assert!(keys(&"1".repeat(64)).is_some() && keys(&"1".repeat(65)).is_none());
        let k = Keys::new(1, "1", 1, 1).unwrap();
        assert_eq!((k.down, k.gap), (2, 2));
        let k = Keys::new(1, "1", 99_999, 99_999).unwrap();
        assert_eq!((k.down, k.gap), (400, 400));
        assert!(!format!("{:?}", Keys::new(1, "7654", 160, 80)).contains('7'));
    }
}
