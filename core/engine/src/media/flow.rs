// SPDX-License-Identifier: GPL-3.0-or-later
//! What a call has from its first SDP on: its RTP session and how packets of it leave.

use std::net::SocketAddr;

use super::coder::Encoder;
use super::counters::CallCounters;
use super::dtmf::Step;
use super::{MediaParams, Rate, FRAME};
use crate::transport::rtp::event::PAYLOAD;
use crate::transport::rtp::packet::HEADER;
use crate::transport::rtp::rtcp::Builder;
use crate::transport::rtp::session::{Identity, Session};

/// Longest packet we send, in RTP time: 60 ms.
pub(super) const MAX_PACKET: usize = 480;

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
pub(super) struct Flow {
    pub(super) params: MediaParams,
    pub(super) session: Session,
    /// Length of a packet we send, in RTP time.
    pub(super) packet: usize,
    encoder: Encoder,
}

impl Flow {
    pub(super) fn new(identity: Identity, params: MediaParams, line: Rate, now_ns: u64) -> Flow {
        let session = Session::new(identity, &params, now_ns);
        let packet = packet_length(params.ptime_ms);
        Flow { params, session, packet, encoder: Encoder::new(line) }
    }

    /// The outcome of a later exchange.
    pub(super) fn on_sdp(&mut self, params: MediaParams, now_ns: u64) {
        self.session.on_sdp(&params, now_ns);
        self.packet = packet_length(params.ptime_ms);
        self.params = params;
    }

    /// The old way to hold is an address of zeros (RFC 3264 section 8.4); the system would take it
    /// for this machine.
    pub(super) fn sends(&self) -> bool {
        let to = self.params.remote_rtp;
        self.params.direction.sends() && !to.ip().is_unspecified() && to.port() != 0
    }

    /// Whether the peer is to send. One that holds the old way most often sends nothing.
    pub(super) fn receives(&self) -> bool {
        self.params.direction.receives() && !self.params.remote_rtp.ip().is_unspecified()
    }

    /// A report, to where the peer wants it.
    pub(super) fn send_rtcp(&self, report: &Builder, send: &mut impl Send) {
        let port = if self.session.rtcp_is_muxed() { Port::Rtp } else { Port::Rtcp };
        let to =
            self.session.rtcp_target().filter(|to| !to.ip().is_unspecified() && to.port() != 0);
        if let Some(to) = to {
            // Lost reports are no fault: the next one tells the same.
            send(port, to, report.as_bytes());
        }
    }

    /// A telephone-event packet in place of audio; the media clock runs on.
    pub(super) fn send_event(&mut self, step: Step, counters: &CallCounters, send: &mut impl Send) {
        let Step::Event { payload, timestamp, first } = step else { return };
        let Some(payload_type) = self.params.telephone_event else { return };
        let octets = PAYLOAD as u32;
        let header = self.session.event_header(payload_type, timestamp, first, octets);
        let mut data = [0u8; HEADER + PAYLOAD];
        let (head, body) = data.split_at_mut(HEADER);
        head.copy_from_slice(&header);
        body.copy_from_slice(&payload);
        if send(Port::Rtp, self.session.rtp_target(), &data) {
            counters.tx_packets.add(1);
            counters.tx_bytes.add(u64::from(octets));
        } else {
            counters.tx_errors.add(1);
        }
        self.session.skip(FRAME as u32);
    }

    /// A packet of the first samples.
    pub(super) fn send_packet(
        &mut self,
        samples: &[i16],
        counters: &CallCounters,
        send: &mut impl Send,
    ) {
        let n = self.packet;
        let mut data = [0u8; HEADER + MAX_PACKET];
        let header = self.session.next_header(self.params.payload_type, n as u32, n as u32);
        let (head, payload) = data.split_at_mut(HEADER);
        head.copy_from_slice(&header);
        let payload = payload.get_mut(..n).unwrap_or(&mut []);
        self.encoder.encode(self.params.codec, samples, payload);
        let len = HEADER + payload.len();
        if send(Port::Rtp, self.session.rtp_target(), data.get(..len).unwrap_or(&[])) {
            counters.tx_packets.add(1);
            counters.tx_bytes.add(n as u64);
        } else {
            counters.tx_errors.add(1);
        }
    }
}

/// Length in RTP time of the packets the peer asks for (RFC 8866 section 6.4), in whole 10 ms.
pub(super) fn packet_length(ptime_ms: u8) -> usize {
    let ms = match ptime_ms {
        0 => 20,
        asked => (usize::from(asked) + 5) / 10 * 10,
    };
    ms.clamp(10, MAX_PACKET / 8) * 8
}
