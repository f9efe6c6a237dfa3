// SPDX-License-Identifier: GPL-3.0-or-later
//! Two encrypted calls of one shard that talk to each other over sockets, on virtual time.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use pjsip_sys::sdes::{MasterKey, SrtpKeys, Suite};

use super::rig::params;
use crate::media::call::Call;
use crate::media::counters::CallCounters;
use crate::media::outbox::{rings, Garbage, Inbox};
use crate::media::playout::{Level, Playout};
use crate::media::roster::PHASES;
use crate::media::shard::{Command, Line, Polls, Shard};
use crate::media::srtp::Update;
use crate::media::voice::FIRST_ROOM;
use crate::media::waker::Waker;
use crate::media::{
    CallStats, Codec, Coding, MediaConfig, MediaParams, RtcpWay, RtpSockets, TICK_NS,
};
use crate::transport::rtp::packet::RtpPacket;
use crate::transport::rtp::session::Identity;
use crate::transport::srtp::{Sender, OVERHEAD};

const CM: Suite = Suite::AesCm128HmacSha1_80;

struct Stage {
    shard: Shard,
    commands: Arc<ArrayQueue<Command>>,
    garbage: Arc<ArrayQueue<Garbage>>,
    inbox: Inbox,
    counters: Vec<Arc<CallCounters>>,
    addresses: Vec<SocketAddr>,
    keys: Vec<Option<SrtpKeys>>,
    rtcp: RtcpWay,
    now: u64,
}

fn key(suite: Suite, seed: u8) -> MasterKey {
    MasterKey::from_random(suite, &[seed; 46])
}

fn agreed(suite: Suite, local: u8, remote: u8) -> Option<SrtpKeys> {
    Some(SrtpKeys { local: key(suite, local), remote: key(suite, remote), remote_mki: None })
}

impl Stage {
    fn new(first_sequence: u16) -> Stage {
        let commands = Arc::new(ArrayQueue::new(64));
        let garbage = Arc::new(ArrayQueue::new(64));
        let (out, inbox) = rings(2, Arc::clone(&garbage), Arc::new(AtomicU64::new(0)));
        let waker = Arc::new(Waker::new().unwrap());
        let polls = Polls::new().unwrap();
        let shard = Shard::new(0, 2, true, Arc::clone(&commands), out, waker, polls);
        let mut stage = Stage {
            shard,
            commands,
            garbage,
            inbox,
            counters: Vec::new(),
            addresses: Vec::new(),
            keys: vec![None, None],
            rtcp: RtcpWay::Beside,
            now: 1_000_000_000_000,
        };
        for place in 0..2 {
            let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let sockets = RtpSockets::open(ip, (44_000, 44_999)).unwrap();
            stage.addresses.push(sockets.rtp_addr().unwrap());
            let room = VecDeque::with_capacity(FIRST_ROOM);
            let playout = Playout::new(place as u64, room, Arc::new(Level::default()));
            let mut identity = Identity::from_random(&[place as u8 + 1; 32]);
            identity.sequence = first_sequence;
            let counters = Arc::new(CallCounters::default());
            stage.counters.push(Arc::clone(&counters));
            let cfg = MediaConfig::default();
            let call = Call::new(place as u64, &cfg, identity, playout, None, counters);
            let line = Box::new(Line::new(call, sockets));
            stage.command(Command::Add { place, phase: place, line });
        }
        stage
    }

    fn command(&self, command: Command) {
        self.commands.push(command).unwrap();
    }

    /// What new SDP brings to one side.
    fn sdp(&mut self, place: usize, keys: Option<SrtpKeys>) {
        let call = place as u64;
        let update = Update::between(self.keys[place].as_ref(), keys.as_ref()).unwrap();
        if let Some(update) = update {
            let update = Box::new(update);
            self.command(Command::SetSrtp { place, call, update });
        }
        self.keys[place] = keys;
        let params = MediaParams {
            remote_rtp: self.addresses[place ^ 1],
            rtcp: self.rtcp,
            ..params(20, Codec::Pcma)
        };
        self.command(Command::SetMedia { place, call, params, line: Codec::Pcma.rate() });
    }

    fn both(&mut self, suite: Suite, a: u8, b: u8) {
        self.sdp(0, agreed(suite, a, b));
        self.sdp(1, agreed(suite, b, a));
    }

    fn ticks(&mut self, count: u64) {
        for _ in 0..count {
            for phase in 0..PHASES {
                self.now += TICK_NS / PHASES as u64;
                self.shard.tick(phase, self.now);
            }
            self.clear();
        }
    }

    /// As [`Stage::ticks`], deaf: nothing is decoded.
    fn deaf_ticks(&mut self, count: u64) {
        for _ in 0..count {
            for phase in 0..2 {
                self.shard.send(phase, self.now);
                self.shard.receive(phase, self.now);
            }
            self.now += TICK_NS;
        }
        self.clear();
    }

    fn clear(&mut self) {
        while self.garbage.pop().is_some() {}
        while self.inbox.events.pop().is_ok() {}
    }

    fn stats(&self, place: usize) -> CallStats {
        self.counters[place].stats()
    }
}

#[test]
fn every_suite_carries_audio_and_reports_both_ways() {
    for suite in Suite::ALL {
        let mut s = Stage::new(10);
        s.both(suite, 1, 2);
        s.ticks(500);
        for place in 0..2 {
            let stats = s.stats(place);
            assert!(stats.rx_packets >= 498, "{suite:?} {stats:?}");
            assert_eq!((stats.rx_lost, stats.rx_malformed, stats.tx_errors), (0, 0, 0));
            assert_eq!((stats.srtp_auth_errors, stats.srtp_replays), (0, 0), "{suite:?}");
            assert_eq!(stats.srtp, Some(suite));
            assert!(stats.rtt_ms.is_some(), "SRTCP was not read: {suite:?} {stats:?}");
        }
    }
}

#[test]
fn reports_on_the_port_of_rtp_are_srtcp_too() {
    for suite in [CM, Suite::AeadAes128Gcm] {
        let mut s = Stage::new(10);
        s.rtcp = RtcpWay::Mux;
        s.both(suite, 1, 2);
        s.ticks(500);
        for place in 0..2 {
            let stats = s.stats(place);
            assert_eq!((stats.srtp_auth_errors, stats.rx_malformed), (0, 0), "{stats:?}");
            assert!(stats.rtt_ms.is_some(), "{stats:?}");
        }
    }
}

/// What goes over the wire is not what was said, and a peer with other keys hears nothing.
#[test]
fn other_keys_hear_nothing_and_are_heard_by_nobody() {
    let mut s = Stage::new(10);
    s.sdp(0, agreed(CM, 1, 2));
    s.sdp(1, agreed(CM, 3, 4));
    s.ticks(100);
    for place in 0..2 {
        let stats = s.stats(place);
        assert_eq!(stats.rx_packets, 0, "{stats:?}");
        assert!(stats.srtp_auth_errors >= 98, "{stats:?}");
    }
    // One side in clear.
    let mut s = Stage::new(10);
    s.sdp(0, agreed(CM, 1, 2));
    s.sdp(1, None);
    s.ticks(100);
    assert_eq!(s.stats(0).rx_packets, 0);
    assert!(s.stats(0).srtp_auth_errors >= 98);
}

/// 65536 packets, and some: 22 minutes of a call. The first number is just below a roll-over, so there are two.
#[test]
fn the_sequence_number_rolls_over_twice_in_a_call() {
    let mut s = Stage::new(65_500);
    s.both(CM, 1, 2);
    s.ticks(100);
    s.deaf_ticks(65_500);
    s.ticks(100);
    for place in 0..2 {
        let stats = s.stats(place);
        assert!(stats.rx_packets > 65_690, "{stats:?}");
        assert_eq!((stats.rx_lost, stats.srtp_auth_errors, stats.srtp_replays), (0, 0, 0));
    }
}

/// A re-INVITE with the same keys leaves counters alone, even behind a roll-over; new keys of one side, then of both, and
/// another suite lose nothing either.
#[test]
fn new_sdp_with_and_without_new_keys_loses_no_packet() {
    let mut s = Stage::new(65_500);
    s.both(CM, 1, 2);
    s.ticks(100);
    for _ in 0..20 {
        s.both(CM, 1, 2);
        s.ticks(100);
    }
    for seed in 10..30 {
        // The peer's answer is on its way for two ticks: until then it sends with its old key.
        s.sdp(0, agreed(CM, 1, seed));
        s.ticks(2);
        s.sdp(1, agreed(CM, seed, 1));
        s.ticks(30);
    }
    for (n, suite) in Suite::ALL.into_iter().enumerate() {
        s.both(suite, 40 + n as u8, 60 + n as u8);
        s.ticks(30);
    }
    s.ticks(50);
    for place in 0..2 {
        let stats = s.stats(place);
        assert_eq!(stats.srtp_replays, 0, "{stats:?}");
        // Where both sides change at once, a packet or two was on the way under the old keys, and is heard too.
        assert_eq!((stats.rx_lost, stats.srtp_auth_errors), (0, 0), "{stats:?}");
    }
}

/// What was heard once is not heard again because the peer's key was agreed on once more, beside another of ours.
#[test]
fn new_sdp_with_the_same_key_forgets_no_packet() {
    let mut s = Stage::new(10);
    let peer = UdpSocket::bind("127.0.0.2:0").unwrap();
    let mut tx = Sender::new(&key(CM, 2)).unwrap();
    let packets: Vec<Vec<u8>> = (0..40u16)
        .map(|sequence| {
            let mut p = vec![0x80, 8, 0, sequence as u8, 0, 0, 0, 0, 0, 0, 0, 7];
            p.resize(172 + OVERHEAD, 0x55);
            let len = tx.protect_rtp(&mut p, 172).unwrap();
            p.truncate(len);
            p
        })
        .collect();
    for round in 0..3 {
        s.sdp(0, agreed(CM, 10 + round as u8, 2));
        s.ticks(1);
        for p in &packets {
            peer.send_to(p, s.addresses[0]).unwrap();
            s.ticks(1);
        }
        let stats = s.stats(0);
        assert_eq!(stats.srtp_replays, round * 40, "{stats:?}");
        assert_eq!(stats.srtp_auth_errors, 0, "{stats:?}");
    }
}

/// Field failure B33 under SRTP: the peer is behind a NAT, so its packets come from elsewhere than its SDP says, and a
/// stranger is first, faster, and never believed.
#[test]
fn a_stranger_is_never_latched_onto_and_an_authentic_source_is() {
    let mut s = Stage::new(10);
    let real = UdpSocket::bind("127.0.0.2:0").unwrap();
    let stranger = UdpSocket::bind("127.0.0.3:0").unwrap();
    for socket in [&real, &stranger] {
        socket.set_nonblocking(true).unwrap();
    }
    s.sdp(0, agreed(CM, 1, 2));
    let mut tx = Sender::new(&key(CM, 2)).unwrap();
    let mut replay = Vec::new();
    for n in 0..200u16 {
        let packet = RtpPacket {
            marker: false,
            payload_type: 8,
            sequence: n,
            timestamp: u32::from(n) * 160,
            ssrc: 7,
            payload: &[],
        };
        let mut plain = packet.header().to_vec();
        plain.extend([0x55; 160]);
        // In clear, with garbage for a tag, and again what the peer has sent: from the stranger's address.
        stranger.send_to(&plain, s.addresses[0]).unwrap();
        let mut forged = plain.clone();
        forged.extend([n as u8; 10]);
        stranger.send_to(&forged, s.addresses[0]).unwrap();
        if n > 20 {
            stranger.send_to(&replay, s.addresses[0]).unwrap();
            plain.resize(172 + OVERHEAD, 0);
            let len = tx.protect_rtp(&mut plain, 172).unwrap();
            real.send_to(&plain[..len], s.addresses[0]).unwrap();
            replay = plain[..len].to_vec();
        }
        s.ticks(1);
    }
    let count = |socket: &UdpSocket| {
        let mut buf = [0; 2048];
        std::iter::from_fn(|| socket.recv_from(&mut buf).ok()).count()
    };
    let stats = s.stats(0);
    assert_eq!(count(&stranger), 0, "our audio went to a stranger");
    assert!(count(&real) > 150, "the peer hears us where it is");
    assert!((170..=179).contains(&stats.rx_packets), "{stats:?}");
    assert!(stats.srtp_auth_errors >= 400, "{stats:?}");
    assert!(stats.srtp_replays >= 170, "{stats:?}");
}

/// Optional SRTP may end by new SDP, and begin again.
#[test]
fn back_to_plain_rtp_and_to_srtp_again() {
    let mut s = Stage::new(10);
    for round in 0..3 {
        s.both(CM, 1 + round, 11 + round);
        s.ticks(40);
        assert_eq!(s.stats(0).srtp, Some(CM));
        s.sdp(0, None);
        s.sdp(1, None);
        s.ticks(40);
        assert_eq!(s.stats(0).srtp, None);
    }
    // At each change the packet on its way is lost at most.
    for place in 0..2 {
        let stats = s.stats(place);
        assert!(stats.rx_packets >= 230 && stats.rx_lost <= 6, "{stats:?}");
    }
}
