// SPDX-License-Identifier: GPL-3.0-or-later
//! All media state of one call, without I/O: datagrams, commands and `now` come in as arguments,
//! packets to send go to a closure. The shard drives it once a tick.

use std::net::SocketAddr;
use std::sync::Arc;

use super::alive::{Alive, Limits};
use super::counters::CallCounters;
use super::dtmf::{Dtmf, Keys, Step};
use super::flow::{Flow, Send, MAX_PACKET};
use super::jitter::{Arrival, JitterBuffer};
use super::outbox::{Garbage, Outbox, Record};
use super::playout::Playout;
use super::{MediaConfig, MediaParams, Purpose, Rate, FRAME, MAX_FRAME, TICK_NS};
use crate::events::Notice;
use crate::record::{End, Tap};
use crate::signal::background::Loop;
use crate::signal::listener::{Listener, Refit};
use crate::signal::mixer::Mixer;
use crate::signal::prefetch::prefetch;
use crate::signal::speech::Decision;
use crate::signal::vad::Slot;
use crate::transport::rtp::session::Identity;

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
    listener: Listener,
    mixer: Mixer,
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
            listener: Listener::of(cfg),
            mixer: Mixer::new(cfg.mixer),
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
            self.listener.set_rate(line);
            self.playout.set_rate(line);
            if let Some(tap) = &mut self.tap {
                tap.set_rate(line);
            }
        }
        self.jitter.set_codec(params.codec);
        match &mut self.flow {
            None => self.flow = Some(Flow::new(self.identity, params, line, now_ns)),
            Some(flow) => flow.on_sdp(params, now_ns),
        }
    }

    /// Asks for the state that a datagram on the RTP port touches; afterwards [`Call::expect`].
    pub(crate) fn prefetch(&self) {
        prefetch(&self.flow);
        prefetch(&self.alive);
        self.jitter.prefetch();
    }

    /// Asks for what [`Call::send`] touches.
    pub(crate) fn prefetch_send(&self) {
        prefetch(&self.flow);
        prefetch(&self.playout);
        prefetch(&self.mixer);
        prefetch(self.mixer.ahead());
        prefetch(self.agent.get(..160).unwrap_or(&[]));
        prefetch(self.waiting.get(..160).unwrap_or(&[]));
    }

    /// Asks for what [`Call::receive`] touches.
    pub(crate) fn prefetch_receive(&self) {
        self.jitter.prefetch();
        self.listener.prefetch();
        prefetch(self.caller.get(..160).unwrap_or(&[]));
    }

    /// Asks for where the payload of the next datagram goes.
    pub(crate) fn expect(&self) {
        self.jitter.expect();
    }

    /// A datagram on the RTP port.
    pub(crate) fn on_rtp(&mut self, now_ns: u64, source: SocketAddr, data: &[u8]) {
        self.on_rtp_with(now_ns, source, data, JitterBuffer::insert);
    }

    /// The same, with the hand-over of audio from the RTP layer to the jitter buffer by `insert`.
    pub(crate) fn on_rtp_with(
        &mut self,
        now_ns: u64,
        source: SocketAddr,
        data: &[u8],
        insert: impl FnOnce(&mut JitterBuffer, &Arrival<'_>),
    ) {
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
            Purpose::Audio(codec) => insert(&mut self.jitter, &arrival(codec)),
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

    /// Another background, read from a sample on, or none; it comes softly.
    pub(crate) fn set_background(&mut self, sound: Option<(Arc<Loop>, usize)>, to: &mut Outbox) {
        if let Some(unheard) = self.mixer.set(sound) {
            to.discard(Garbage::Background(unheard));
        }
    }

    /// The caller is heard in another way from now on.
    pub(crate) fn listen(&mut self, refit: &mut Refit) {
        self.listener.change(refit);
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
                flow.send_event(step, &self.counters, send);
                self.report(now_ns, send);
                return;
            }
            if step == Step::Talk {
                // The packet with this frame goes out when it is full.
                let short = flow.packet.saturating_sub(self.waiting_len + FRAME);
                let at_ns = now_ns + short.div_ceil(FRAME) as u64 * TICK_NS;
                let talking = self.playout.frame(agent, at_ns, to);
                if let Some(over) = self.mixer.mix(agent, talking) {
                    to.discard(Garbage::Background(over));
                }
            }
            let end = self.waiting_len + FRAME;
            if let Some(room) = self.waiting.get_mut(self.waiting_len * per..end * per) {
                room.copy_from_slice(agent);
                self.waiting_len = end;
            }
            while self.waiting_len >= flow.packet {
                flow.send_packet(&self.waiting, &self.counters, send);
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
            flow.send_rtcp(&report, send);
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
        if !self.listens && !self.listener.hands_over_all() {
            return None;
        }
        self.listener.said(&self.agent[..caller.len()], caller);
        let listens = self.listens;
        self.listener.hear(caller, popped.at_ns).filter(|_| listens)
    }

    /// Speech probability of the window of this tick.
    pub(crate) fn on_probability(&mut self, probability: f32, now_ns: u64, to: &mut Outbox) {
        let call = self.id;
        match self.listener.decide(probability) {
            Some(Decision::Started(at)) => {
                let at_ns = self.listener.ear().at_ns(at);
                to.tell(Record::SpeechStarted { call, at_ns, decided_ns: now_ns });
            }
            Some(Decision::Ended(at)) => {
                // The audio up to here comes first.
                self.ended_now = true;
                self.tell_audio(to);
                self.ended_now = false;
                let at_ns = self.listener.ear().at_ns(at);
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
        let audio = self.listener.audio(self.ended_now);
        self.tell_piece(audio, to);
    }

    fn tell_piece(&self, audio: Option<(u64, u64, usize)>, to: &mut Outbox) {
        if let Some((at_ns, from, len)) = audio {
            to.tell_audio(self.id, at_ns, self.listener.ear().pieces(from, len));
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
            flow.send_rtcp(&bye, send);
        }
        let rest = self.listener.rest();
        self.tell_piece(rest, to);
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
        c.tx_overs.set(self.mixer.overs() + self.playout.overs());
        c.set_levels(self.listener.gain());
        if let Some(tap) = &self.tap {
            c.recording_gap.set(tap.lost());
        }
    }
}
