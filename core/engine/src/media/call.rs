// SPDX-License-Identifier: GPL-3.0-or-later
//! All media state of one call, without I/O: datagrams, commands and `now` come in as arguments,
//! packets to send go to a closure. The shard drives it once a tick.

use std::net::SocketAddr;
use std::sync::Arc;

use super::alive::{Alive, Limits};
use super::coder::Encoder;
use super::counters::CallCounters;
use super::dtmf::{Dtmf, Keys, Step};
use super::jitter::{Arrival, JitterBuffer};
use super::outbox::{Outbox, Record};
use super::playout::Playout;
use super::{MediaConfig, MediaParams, Purpose, Rate, FRAME, MAX_FRAME, TICK_NS};
use crate::events::Notice;
use crate::record::{End, Tap};
use crate::signal::speech::{Decision, Ear};
use crate::signal::vad::Slot;
use crate::transport::rtp::event::PAYLOAD;
use crate::transport::rtp::packet::HEADER;
use crate::transport::rtp::rtcp::Builder;
use crate::transport::rtp::session::{Identity, Session};

/// Longest packet we send, in RTP time: 60 ms.
const MAX_PACKET: usize = 480;

/// Which of a call's two sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Rtp,
    Rtcp,
}

/// Sends a datagram; false when the system refused.
pub(crate) trait Send: FnMut(Port, SocketAddr, &[u8]) -> bool {}
impl<F: FnMut(Port, SocketAddr, &[u8]) -> bool> Send for F {}

/// What exists from the first SDP on.
#[derive(Debug)]
struct Flow {
    params: MediaParams,
    session: Session,
    /// Length of a packet we send, in RTP time.
    packet: usize,
    encoder: Encoder,
}

impl Flow {
    /// The old way to hold is an address of zeros (RFC 3264 section 8.4); the system would take it
    /// for this machine.
    fn sends(&self) -> bool {
        let to = self.params.remote_rtp;
        self.params.direction.sends() && !to.ip().is_unspecified() && to.port() != 0
    }

    /// Whether the peer is to send. One that holds the old way most often sends nothing.
    fn receives(&self) -> bool {
        self.params.direction.receives() && !self.params.remote_rtp.ip().is_unspecified()
    }
}

/// A call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: u64,
    /// Place in the bank of voice activity; the shard manages it.
    pub(crate) slot: Option<Slot>,
    pub(crate) playout: Playout,
    flow: Option<Flow>,
    identity: Identity,
    jitter: JitterBuffer,
    ear: Ear,
    listens: bool,
    tap: Option<Tap>,
    counters: Arc<CallCounters>,
    alive: Alive,
    dtmf: Dtmf,
    /// Rate of everything here; the first SDP decides it.
    rate: Rate,
    /// Samples that wait for the packet to become full, and how many that are in RTP time.
    waiting: [i16; 2 * MAX_PACKET + MAX_FRAME],
    waiting_len: usize,
    /// The last frames, of the line's rate.
    caller: [i16; MAX_FRAME],
    agent: [i16; MAX_FRAME],
    ended_now: bool,
}

impl Call {
    pub(crate) fn new(
        id: u64,
        cfg: &MediaConfig,
        identity: Identity,
        playout: Playout,
        tap: Option<Tap>,
        counters: Arc<CallCounters>,
    ) -> Call {
        Call {
            id,
            slot: None,
            playout,
            flow: None,
            identity,
            jitter: JitterBuffer::new(Rate::R8k, cfg.jitter_min_ms, cfg.jitter_max_ms),
            ear: Ear::new(cfg.vad, cfg.preroll_ms, cfg.wideband),
            listens: cfg.vad.enabled,
            tap,
            counters,
            alive: Alive::new(Limits {
                silent_ns: (cfg.media_timeout_s * 1e9) as u64,
                noise_ns: (cfg.media_timeout_dtx_s * 1e9) as u64,
            }),
            dtmf: Dtmf::default(),
            rate: Rate::R8k,
            waiting: [0; 2 * MAX_PACKET + MAX_FRAME],
            waiting_len: 0,
            caller: [0; MAX_FRAME],
            agent: [0; MAX_FRAME],
            ended_now: false,
        }
    }

    /// Rate of the call's audio, once the first SDP has decided it.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.flow.as_ref().map(|_| self.rate)
    }

    /// Outcome of an offer/answer exchange. `line` is the rate of the call: the first time it is
    /// taken over, later it is ignored.
    pub(crate) fn set_media(&mut self, params: MediaParams, line: Rate, now_ns: u64) {
        if self.flow.is_none() {
            self.rate = line;
            self.jitter.set_rate(line);
            self.ear.set_rate(line);
            self.playout.set_rate(line);
            if let Some(tap) = &mut self.tap {
                tap.set_rate(line);
            }
        }
        self.jitter.set_codec(params.codec);
        self.counters.set_codec(params.codec);
        let packet = packet_samples(params.ptime_ms);
        match &mut self.flow {
            None => {
                let session = Session::new(self.identity, &params, now_ns);
                let encoder = Encoder::new(line);
                self.flow = Some(Flow { params, session, packet, encoder });
            }
            Some(flow) => {
                flow.session.on_sdp(&params, now_ns);
                flow.packet = packet;
                flow.params = params;
            }
        }
    }

    /// A datagram on the RTP port.
    pub(crate) fn on_rtp(&mut self, now_ns: u64, source: SocketAddr, data: &[u8]) {
        // Before the first SDP nobody can be the peer.
        let Some(flow) = &mut self.flow else { return };
        let Some(media) = flow.session.on_datagram(now_ns, source, data) else { return };
        let (receives, packet) = (flow.params.direction.receives(), &media.packet);
        self.alive.heard(media.purpose == Purpose::Noise, now_ns);
        if !receives {
            return;
        }
        let arrival = |codec| Arrival {
            timestamp: packet.timestamp,
            codec,
            payload: packet.payload,
            fresh: media.fresh,
            follows: media.follows,
            newest: media.newest,
            at_ns: now_ns,
        };
        match media.purpose {
            Purpose::Audio(codec) => self.jitter.insert(&arrival(codec)),
            Purpose::Noise => self.jitter.insert_noise(&arrival(flow.params.codec)),
            Purpose::Event => self.dtmf.hear(now_ns, &media, &mut self.jitter),
            Purpose::Unknown => {}
        }
    }

    /// A datagram on the RTCP port.
    pub(crate) fn on_rtcp(&mut self, now_ns: u64, source: SocketAddr, data: &[u8]) {
        if let Some(flow) = &mut self.flow {
            flow.session.on_rtcp(now_ns, source, data);
        }
    }

    /// The call is answered: from now on silence counts.
    pub(crate) fn answered(&mut self) {
        self.alive.answered();
    }

    /// Keys to send as telephone-events.
    pub(crate) fn send_keys(&mut self, keys: Keys, to: &mut Outbox) {
        let agreed = self.flow.as_ref().is_some_and(|f| f.params.telephone_event.is_some());
        self.dtmf.push(self.id, keys, agreed, to);
    }

    /// The tick's sending half: play-out, packets, RTCP.
    pub(crate) fn send(&mut self, now_ns: u64, to: &mut Outbox, send: &mut impl Send) {
        self.agent.fill(0);
        let Some(flow) = &mut self.flow else { return };
        if flow.sends() {
            let (agent, per) = (&mut self.agent[..self.rate.frame()], self.rate.per_unit());
            let now = flow.session.timestamp().wrapping_add(self.waiting_len as u32);
            let step = match flow.params.telephone_event {
                Some(_) => self.dtmf.step(self.id, now, self.waiting_len == 0, to),
                None => {
                    self.dtmf.give_up(self.id, to);
                    Step::Talk
                }
            };
            if let Step::Event { .. } = step {
                send_event(flow, step, &self.counters, send);
                self.report(now_ns, send);
                return;
            }
            if step == Step::Talk {
                // The packet with this frame goes out when it is full.
                let short = flow.packet.saturating_sub(self.waiting_len + FRAME);
                let at_ns = now_ns + short.div_ceil(FRAME) as u64 * TICK_NS;
                self.playout.frame(agent, at_ns, to);
            }
            let end = self.waiting_len + FRAME;
            if let Some(room) = self.waiting.get_mut(self.waiting_len * per..end * per) {
                room.copy_from_slice(agent);
                self.waiting_len = end;
            }
            while self.waiting_len >= flow.packet {
                send_packet(flow, &self.waiting, &self.counters, send);
                self.waiting.copy_within(flow.packet * per..self.waiting_len * per, 0);
                self.waiting_len -= flow.packet;
            }
        } else {
            // On hold the agent's turn waits, and the clock of our stream runs on.
            flow.session.skip(FRAME as u32 + self.waiting_len as u32);
            self.waiting_len = 0;
            self.dtmf.give_up(self.id, to);
        }
        self.report(now_ns, send);
    }

    fn report(&mut self, now_ns: u64, send: &mut impl Send) {
        let Some(flow) = &mut self.flow else { return };
        if let Some(report) = flow.session.poll_rtcp(now_ns) {
            send_rtcp(flow, &report, send);
        }
    }

    /// The tick's receiving half: the caller's next frame. Gives a window for voice activity when
    /// one is full; its probability goes to [`Call::on_probability`] before [`Call::finish_tick`].
    pub(crate) fn receive(&mut self, now_ns: u64, to: &mut Outbox) -> Option<&[f32]> {
        self.ended_now = false;
        let flow = self.flow.as_mut()?;
        let caller = &mut self.caller[..self.rate.frame()];
        let popped = self.jitter.pop(now_ns, caller);
        if let Some(at_ns) = flow.session.rtcp_heard_ns() {
            self.alive.rtcp(at_ns);
        }
        if let Some(silent_ns) = self.alive.poll(flow.receives(), now_ns) {
            to.tell(Record::MediaTimeout { call: self.id, silent_ns });
        }
        self.dtmf.tell(self.id, now_ns, to);
        if !self.listens {
            return None;
        }
        self.ear.hear(caller, popped.at_ns)
    }

    /// Speech probability of the window of this tick.
    pub(crate) fn on_probability(&mut self, probability: f32, now_ns: u64, to: &mut Outbox) {
        let call = self.id;
        match self.ear.decide(probability) {
            Some(Decision::Started(at)) => {
                let at_ns = self.ear.at_ns(at);
                to.tell(Record::SpeechStarted { call, at_ns, decided_ns: now_ns });
            }
            Some(Decision::Ended(at)) => {
                // The audio up to here comes first.
                self.ended_now = true;
                self.tell_audio(to);
                self.ended_now = false;
                let at_ns = self.ear.at_ns(at);
                to.tell(Record::SpeechEnded { call, at_ns, decided_ns: now_ns });
            }
            None => {}
        }
    }

    /// The rest of the tick: audio while the caller talks, recording, counters.
    pub(crate) fn finish_tick(&mut self, to: &mut Outbox) {
        if self.flow.is_none() {
            return;
        }
        self.tell_audio(to);
        if let Some(tap) = &mut self.tap {
            let frame = ..self.rate.frame();
            tap.frame(&self.caller[frame], &self.agent[frame]);
        }
        self.publish();
    }

    fn tell_audio(&mut self, to: &mut Outbox) {
        if let Some((at_ns, from, len)) = self.ear.audio(self.ended_now) {
            to.tell_audio(self.id, at_ns, self.ear.pieces(from, len));
        }
    }

    /// Ticks were given up: all clocks run on.
    pub(crate) fn skip(&mut self, ticks: u64) {
        let time = ticks * FRAME as u64;
        if let Some(flow) = &mut self.flow {
            flow.session.skip(time as u32);
            self.jitter.skip(time);
            if let Some(tap) = &mut self.tap {
                tap.skip(ticks * self.rate.frame() as u64);
            }
        }
    }

    /// The call ends: BYE, open turns, the recording's end.
    pub(crate) fn close(&mut self, now_ns: u64, to: &mut Outbox, send: &mut impl Send) {
        if let Some(flow) = &mut self.flow {
            let bye = flow.session.bye(now_ns);
            send_rtcp(flow, &bye, send);
        }
        self.dtmf.close(self.id, now_ns, to);
        self.playout.close(now_ns, to);
        self.publish();
        if let Some(tap) = &mut self.tap {
            if tap.lost() > 0 {
                let notice = Notice::RecordingGap { samples: tap.lost() };
                to.tell(Record::Notice { call: Some(self.id), notice });
            }
            tap.finish();
        }
    }

    /// Whether it wants a place in the bank of voice activity.
    pub(crate) fn listens(&self) -> bool {
        self.listens
    }

    /// What other threads read.
    pub(crate) fn counters(&self) -> &Arc<CallCounters> {
        &self.counters
    }

    /// What the recorder marks when it tells the end of this call, if it does.
    pub(crate) fn end_of_recording(&self) -> Option<End> {
        self.tap.as_ref().map(Tap::end)
    }

    /// The caller's last frame.
    #[cfg(test)]
    pub(crate) fn caller_frame(&self) -> &[i16] {
        &self.caller[..self.rate.frame()]
    }

    fn publish(&self) {
        let c = &self.counters;
        if let Some(flow) = &self.flow {
            let s = &flow.session;
            let counts = s.counters();
            c.rx_packets.set(counts.packets);
            c.rx_bytes.set(counts.bytes);
            c.rx_duplicate.set(counts.duplicates);
            c.rx_malformed.set(counts.malformed + self.dtmf.malformed());
            c.rx_wrong_type.set(counts.wrong_type);
            c.rx_foreign.set(counts.foreign);
            c.rx_lost.set(s.receiver().lost());
            c.ssrc_changes.set(s.receiver().switches());
            c.jitter_us.set((s.receiver().jitter_ms() * 1000.0) as u64);
            c.rtt_us_plus1.set(s.rtt_ns().map_or(0, |ns| ns / 1000 + 1));
            c.rx_gaps.set(s.receiver().gaps());
            if let Some(r) = s.remote_report() {
                c.remote_lost_plus1.set(u64::from(r.fraction_lost) + 1);
                c.remote_lost_total.set(r.cumulative_lost.max(0) as u64);
                c.remote_expected.set(s.remote_expected());
                c.remote_jitter_us.set(u64::from(r.jitter) * 125);
            }
        }
        c.rx_late.set(self.jitter.late());
        let delay_us = (self.jitter.delay_ms() * 1000.0) as u64;
        c.jitter_delay_us.set(delay_us);
        if self.flow.is_some() {
            c.delay_sum_us.add(delay_us);
            c.delay_ticks.add(1);
        }
        c.concealed_frames.set(self.jitter.concealed());
        c.playout_underruns.set(self.playout.underruns());
        if let Some(tap) = &self.tap {
            c.recording_gap.set(tap.lost());
        }
    }
}

fn send_rtcp(flow: &Flow, report: &Builder, send: &mut impl Send) {
    let port = if flow.session.rtcp_is_muxed() { Port::Rtp } else { Port::Rtcp };
    let to = flow.session.rtcp_target().filter(|to| !to.ip().is_unspecified() && to.port() != 0);
    if let Some(to) = to {
        // Lost reports are no fault: the next one tells the same.
        send(port, to, report.as_bytes());
    }
}

/// A telephone-event packet in place of audio; the media clock runs on.
fn send_event(flow: &mut Flow, step: Step, counters: &CallCounters, send: &mut impl Send) {
    let Step::Event { payload, timestamp, first } = step else { return };
    let Some(payload_type) = flow.params.telephone_event else { return };
    let octets = PAYLOAD as u32;
    let header = flow.session.event_header(payload_type, timestamp, first, octets);
    let mut data = [0u8; HEADER + PAYLOAD];
    let (head, body) = data.split_at_mut(HEADER);
    head.copy_from_slice(&header);
    body.copy_from_slice(&payload);
    if send(Port::Rtp, flow.session.rtp_target(), &data) {
        counters.tx_packets.add(1);
        counters.tx_bytes.add(u64::from(octets));
    } else {
        counters.tx_errors.add(1);
    }
    flow.session.skip(FRAME as u32);
}

fn send_packet(flow: &mut Flow, samples: &[i16], counters: &CallCounters, send: &mut impl Send) {
    let n = flow.packet;
    let mut data = [0u8; HEADER + MAX_PACKET];
    let header = flow.session.next_header(flow.params.payload_type, n as u32, n as u32);
    let (head, payload) = data.split_at_mut(HEADER);
    head.copy_from_slice(&header);
    let payload = payload.get_mut(..n).unwrap_or(&mut []);
    flow.encoder.encode(flow.params.codec, samples, payload);
    let len = HEADER + payload.len();
    if send(Port::Rtp, flow.session.rtp_target(), data.get(..len).unwrap_or(&[])) {
        counters.tx_packets.add(1);
        counters.tx_bytes.add(n as u64);
    } else {
        counters.tx_errors.add(1);
    }
}

/// Length in RTP time of the packets the peer asks for (RFC 8866 section 6.4), in whole 10 ms.
fn packet_samples(ptime_ms: u8) -> usize {
    let ms = match ptime_ms {
        0 => 20,
        asked => (usize::from(asked) + 5) / 10 * 10,
    };
    ms.clamp(10, MAX_PACKET / 8) * 8
}
