// SPDX-License-Identifier: GPL-3.0-or-later
//! Both directions of one call's telephone-events, and what they tell.

use super::{EventReceiver, EventSender, Keys, Pressed, Step};
use crate::media::jitter::JitterBuffer;
use crate::media::outbox::{Outbox, Record};
use crate::transport::rtp::event::Payload;
use crate::transport::rtp::session::Media;

/// Presses of one tick. More cannot be honest.
const MOST: usize = 8;

/// State of one call.
#[derive(Debug, Default)]
pub(crate) struct Dtmf {
    receiver: EventReceiver,
    sender: EventSender,
    /// Told with the tick.
    pressed: [Option<Pressed>; MOST],
    malformed: u64,
}

impl Dtmf {
    /// Takes a telephone-event packet; the audio in its place is silence.
    pub(crate) fn hear(&mut self, now_ns: u64, media: &Media<'_>, jitter: &mut JitterBuffer) {
        let Some(payload) = Payload::parse(media.packet.payload) else {
            self.malformed += 1;
            return;
        };
        jitter.event(media.packet.timestamp, payload.duration, payload.end);
        let told =
            self.receiver.on_packet(&media.packet, payload, media.newest, media.fresh, now_ns);
        told.into_iter().flatten().for_each(|p| self.keep(p));
    }

    fn keep(&mut self, pressed: Pressed) {
        if let Some(place) = self.pressed.iter_mut().find(|p| p.is_none()) {
            *place = Some(pressed);
        }
    }

    /// Tells the presses of this tick.
    pub(crate) fn tell(&mut self, call: u64, now_ns: u64, to: &mut Outbox) {
        if let Some(p) = self.receiver.poll(now_ns) {
            self.keep(p);
        }
        for place in &mut self.pressed {
            let Some(p) = place.take() else { break };
            let (key, duration_ms, at_ns) = (p.key, p.duration_ms, p.at_ns);
            to.tell(Record::Dtmf { call, key, duration_ms, at_ns });
        }
    }

    /// Queues keys to send, or tells that it cannot.
    pub(crate) fn push(&mut self, call: u64, keys: Keys, agreed: bool, to: &mut Outbox) {
        let request = keys.request;
        if !agreed || !self.sender.push(keys) {
            to.tell(Record::DtmfSent { call, request, sent: false });
        }
    }

    /// What a tick sends; see [`EventSender::step`].
    pub(crate) fn step(&mut self, call: u64, now: u32, whole: bool, to: &mut Outbox) -> Step {
        let (step, done) = self.sender.step(now, whole);
        if let Some(request) = done {
            to.tell(Record::DtmfSent { call, request, sent: true });
        }
        step
    }

    /// Nothing can be sent any more, or for now: all that waits is given up.
    pub(crate) fn give_up(&mut self, call: u64, to: &mut Outbox) {
        while let Some(request) = self.sender.give_up() {
            to.tell(Record::DtmfSent { call, request, sent: false });
        }
    }

    /// The call ends.
    pub(crate) fn close(&mut self, call: u64, now_ns: u64, to: &mut Outbox) {
        if let Some(p) = self.receiver.end() {
            self.keep(p);
        }
        self.tell(call, now_ns, to);
        self.give_up(call, to);
    }

    /// Event packets too short to hold an event.
    pub(crate) fn malformed(&self) -> u64 {
        self.malformed
    }
}
