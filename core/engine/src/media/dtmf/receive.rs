// SPDX-License-Identifier: GPL-3.0-or-later
//! One press for each key pressed, whatever the network did to its packets.
//!
//! A press is known by the timestamp of its packets: all of them, the end's repeats included, carry
//! the time at which the key went down. It is told when an end arrives, when another press begins,
//! or when nothing more has come for a while (all ends lost).

use super::EVENT_CLOCK_HZ;
use crate::transport::rtp::event::{Key, Payload, MAX_DURATION};
use crate::transport::rtp::packet::RtpPacket;

/// Silence after which a press counts as ended. Senders tell of a held key every 20 to 50 ms.
const LOST_END_NS: u64 = 300_000_000;
/// Presses remembered, so that late packets of theirs are known.
const REMEMBERED: usize = 8;
/// Packets of a press are this close in sequence; for senders that move the timestamp along.
const NEAR: u16 = 3;

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pressed {
    pub(crate) key: Key,
    pub(crate) duration_ms: u32,
    /// When it went down: arrival of its first packet, less the duration that told.
    pub(crate) at_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Press {
    key: Key,
    /// Timestamp of the beginning, and of the segment in progress.
    start: u32,
    segment: u32,
    /// Duration of the segments before.
    before: u32,
    duration: u16,
    at_ns: u64,
    last_ns: u64,
    sequence: u16,
    /// An end was seen, so that no segment follows.
    ended: bool,
}

impl Press {
    fn new(key: Key, p: &RtpPacket<'_>, duration: u16, now_ns: u64) -> Press {
        let so_far = u64::from(duration) * 1_000_000_000 / u64::from(EVENT_CLOCK_HZ);
        Press {
            key,
            start: p.timestamp,
            segment: p.timestamp,
            before: 0,
            duration,
            at_ns: now_ns.saturating_sub(so_far),
            last_ns: now_ns,
            sequence: p.sequence,
            ended: false,
        }
    }

    /// Takes a packet in if it is one of this press.
    fn take(&mut self, key: Key, p: &RtpPacket<'_>, duration: u16) -> bool {
        if key != self.key {
            return false;
        }
        let step = p.timestamp.wrapping_sub(self.segment);
        let since_start = p.timestamp.wrapping_sub(self.start);
        if step == 0 {
            self.duration = self.duration.max(duration);
        } else if since_start <= self.segment.wrapping_sub(self.start) {
            // Of an earlier segment, overtaken.
        } else if p.sequence.wrapping_sub(self.sequence) <= NEAR
            && since_start <= u32::from(duration)
        {
            // RFC 4733 section 2.5.1.2 wants the timestamp of the beginning in every packet; some
            // senders let it run. Their duration counts from the beginning all the same.
            self.duration = self.duration.max(duration);
        } else if !self.ended
            && !p.marker
            && (step == u32::from(MAX_DURATION) || step == u32::from(self.duration))
        {
            // The next segment of a long press (section 2.5.1.3).
            self.before = self.before.saturating_add(step);
            self.segment = p.timestamp;
            self.duration = duration;
        } else {
            return false;
        }
        if (p.sequence.wrapping_sub(self.sequence) as i16) > 0 {
            self.sequence = p.sequence;
        }
        true
    }

    fn pressed(&self) -> Pressed {
        let units = u64::from(self.before) + u64::from(self.duration);
        let ms = units * 1000 / u64::from(EVENT_CLOCK_HZ);
        Pressed {
            key: self.key,
            duration_ms: ms.min(u64::from(u32::MAX)) as u32,
            at_ns: self.at_ns,
        }
    }
}

/// What one packet brought: the end of the press before, and that of its own.
pub(crate) type Told = [Option<Pressed>; 2];

/// State of one call.
#[derive(Debug, Default)]
pub(crate) struct EventReceiver {
    current: Option<Press>,
    told: [Option<Press>; REMEMBERED],
    next: usize,
}

impl EventReceiver {
    /// Takes a telephone-event packet with its payload. `newest`: no packet of the stream before it
    /// has a higher sequence number. `fresh`: the stream begins with it.
    pub(crate) fn on_packet(
        &mut self,
        p: &RtpPacket<'_>,
        payload: Payload,
        newest: bool,
        fresh: bool,
        now_ns: u64,
    ) -> Told {
        let mut before = None;
        if fresh {
            before = self.end();
            self.told = [None; REMEMBERED];
        }
        // Codes above are tones and trunk signals, no keys.
        let Some(key) = Key::from_event(payload.code) else { return [before, None] };
        // A device that knows no clock gives all its presses one timestamp: then a marker on a packet
        // newer than all and of a shorter duration begins the next one.
        let restarts =
            |t: &Press| p.marker && newest && t.key == key && payload.duration < t.duration;
        if let Some(press) = &mut self.current {
            if !restarts(press) && press.take(key, p, payload.duration) {
                press.last_ns = now_ns;
                press.ended = payload.end;
                let over = payload.end.then(|| self.end()).flatten();
                return [before, over];
            }
        }
        let known = |t: &mut Press| !restarts(t) && t.take(key, p, payload.duration);
        if self.told.iter_mut().flatten().any(known) {
            return [before, None];
        }
        let mut press = Press::new(key, p, payload.duration, now_ns);
        press.ended = payload.end;
        if !newest {
            // Overtaken by the press after it, and nothing else of it came.
            self.remember(press);
            return [before, Some(press.pressed())];
        }
        before = self.end().or(before);
        self.current = Some(press);
        [before, payload.end.then(|| self.end()).flatten()]
    }

    /// The press whose end was lost, once that is sure.
    pub(crate) fn poll(&mut self, now_ns: u64) -> Option<Pressed> {
        let last_ns = self.current.as_ref()?.last_ns;
        if now_ns.saturating_sub(last_ns) < LOST_END_NS {
            return None;
        }
        self.end()
    }

    /// Whether a key is down.
    #[cfg(test)]
    pub(crate) fn is_down(&self) -> bool {
        self.current.is_some()
    }

    /// The call ends: the press that is not over yet.
    pub(crate) fn end(&mut self) -> Option<Pressed> {
        let press = self.current.take()?;
        self.remember(press);
        Some(press.pressed())
    }

    fn remember(&mut self, press: Press) {
        if let Some(place) = self.told.get_mut(self.next) {
            *place = Some(press);
        }
        self.next = (self.next + 1) % REMEMBERED;
    }
}
