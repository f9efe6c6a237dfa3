// SPDX-License-Identifier: GPL-3.0-or-later
//! Sessions with each other, with strangers and with themselves.

use super::*;
use crate::media::{Codec, RtcpWay};

const MS: u64 = 1_000_000;

fn params(port: u16) -> MediaParams {
    MediaParams::plain(Codec::Pcma, 8, SocketAddr::from(([127, 0, 0, 1], port)))
}

fn session(seed: u8, port: u16, now: u64) -> Session {
    Session::new(Identity::from_random(&[seed; 32]), &params(port), now)
}

#[test]
fn two_sessions_learn_loss_and_round_trip_from_each_other() {
    let (mut a, mut b) = (session(1, 2000, 0), session(2, 1000, 0));
    let host = [127, 0, 0, 1];
    let (from_a, from_b) = (SocketAddr::from((host, 1000)), SocketAddr::from((host, 2000)));
    let mut reports = 0;
    for tick in 0..3000u64 {
        let now = tick * 20 * MS + 1_000_000 * MS;
        let x = a.next_header(8, 160, 160);
        if tick % 10 != 0 {
            b.on_datagram(now + 30 * MS, from_a, &x);
        }
        let y = b.next_header(8, 160, 160);
        a.on_datagram(now + 30 * MS, from_b, &y);
        if let Some(r) = a.poll_rtcp(now) {
            b.on_rtcp(now + 30 * MS, from_a, r.as_bytes());
            reports += 1;
        }
        if let Some(r) = b.poll_rtcp(now) {
            a.on_rtcp(now + 30 * MS, from_b, r.as_bytes());
        }
    }
    // 60 s at 5 s on average, randomised between 2.5 and 7.5.
    assert!((8..=24).contains(&reports), "{reports}");
    for s in [&a, &b] {
        let rtt = s.rtt_ns().unwrap_or(0) / MS;
        assert!((58..=62).contains(&rtt), "{rtt} ms");
    }
    let lost = a.remote_report().map_or(0, |r| r.fraction_lost);
    assert!((20..=30).contains(&lost), "{lost}/256");
    assert_eq!(b.remote_report().map(|r| r.fraction_lost), Some(0));
    assert_eq!(a.receiver().lost(), 0);
}

#[test]
fn what_is_not_rtp_is_counted_and_changes_nothing() {
    let mut s = session(1, 2000, 0);
    let peer = SocketAddr::from(([127, 0, 0, 1], 2000));
    for bad in [&b""[..], b"x", &[0x80, 8, 0], &[0x80, 200, 0, 9], &[0xFF; 40]] {
        assert!(s.on_datagram(0, peer, bad).is_none());
    }
    let stun = [0, 1, 0, 0, 0x21, 0x12, 0xA4, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert!(s.on_datagram(0, peer, &stun).is_none());
    assert_eq!(s.counters(), SessionCounters { malformed: 5, ..Default::default() });
}

#[test]
fn reports_without_sending_are_receiver_reports_and_the_last_says_bye() {
    let mut s = session(1, 2000, 0);
    let report = s.poll_rtcp(8_000 * MS);
    assert_eq!(report.map(|r| r.as_bytes()[1]), Some(201));
    s.next_header(8, 160, 160);
    let bye = s.bye(9_000 * MS);
    let kinds: Vec<_> = Compound::parse(bye.as_bytes()).into_iter().flatten().collect();
    assert!(matches!(kinds[..], [Rtcp::Sender { .. }, Rtcp::Other, Rtcp::Bye { .. }]));
}

#[test]
fn rtcp_goes_beside_rtp_when_that_was_learnt() {
    let mut s = session(1, 2000, 0);
    assert_eq!(s.rtcp_target().map(|t| t.port()), Some(2001));
    let nat = SocketAddr::from(([127, 0, 0, 9], 5000));
    for i in 0..6u16 {
        let h = RtpPacket {
            marker: false,
            payload_type: 8,
            sequence: i,
            timestamp: 0,
            ssrc: 5,
            payload: &[],
        };
        s.on_datagram(u64::from(i) * 20 * MS, nat, &h.header());
    }
    assert_eq!(s.rtcp_target(), Some(SocketAddr::from(([127, 0, 0, 9], 5001))));
}

fn rtp(ssrc: u32, payload_type: u8, sequence: u16) -> Vec<u8> {
    let timestamp = u32::from(sequence) * 160;
    let marker = false;
    let p = RtpPacket { marker, payload_type, sequence, timestamp, ssrc, payload: &[] };
    let mut data = p.header().to_vec();
    data.extend([0xD5; 160]);
    data
}

fn peer() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 2000))
}

fn taken(s: &mut Session, at: u64, data: &[u8]) -> bool {
    s.on_datagram(at * 20 * MS, peer(), data).is_some()
}

#[test]
fn payload_types_not_agreed_on_are_counted_and_neither_heard_nor_learnt_from() {
    let mut s = session(1, 2000, 0);
    let nat = SocketAddr::from(([127, 0, 0, 9], 5000));
    for i in 0..20 {
        assert!(s.on_datagram(0, nat, &rtp(5, 99, i)).is_none());
    }
    assert_eq!(s.rtp_target(), peer(), "packets of a wrong type moved our audio");
    assert!(taken(&mut s, 1, &rtp(7, 8, 100)));
    // A second stream of such packets does not displace the audio.
    for i in 0..20 {
        assert!(!taken(&mut s, 2, &rtp(8, 99, i)));
    }
    // Within the stream they keep their place in the count.
    assert!(!taken(&mut s, 3, &rtp(7, 99, 101)));
    assert!(taken(&mut s, 4, &rtp(7, 8, 102)));
    assert_eq!((s.receiver().lost(), s.receiver().switches()), (0, 0));
    assert_eq!(s.counters().wrong_type, 41);
}

#[test]
fn events_under_an_ssrc_of_their_own_do_not_end_the_audio() {
    let mut p = params(2000);
    p.rx_telephone_event = Some(101);
    let mut s = Session::new(Identity::from_random(&[1; 32]), &p, 0);
    assert!(taken(&mut s, 1, &rtp(7, 8, 100)));
    for i in 0..5 {
        let event = rtp(9, 101, 60_000 + i);
        let media = s.on_datagram(0, peer(), &event);
        assert_eq!(media.map(|m| m.purpose), Some(Purpose::Event));
    }
    assert!(taken(&mut s, 2, &rtp(7, 8, 101)));
    assert_eq!((s.receiver().switches(), s.receiver().lost()), (0, 0));
}

#[test]
fn a_stream_after_a_bye_is_heard_from_its_first_packet() {
    let mut s = session(1, 2000, 0);
    assert!(taken(&mut s, 1, &rtp(7, 8, 100)));
    let bye = Builder::report(7, None, None).cname(7, b"abcdefghijklmnop").bye(7);
    s.on_rtcp(0, peer(), bye.as_bytes());
    assert!(taken(&mut s, 2, &rtp(7, 8, 101)), "what was under way is still heard");
    assert!(taken(&mut s, 3, &rtp(8, 8, 5)));
}

#[test]
fn a_peer_with_our_ssrc_makes_us_take_another_one_and_say_bye_for_the_old() {
    let mut s = session(1, 2000, 0);
    let before = RtpPacket::parse(&s.next_header(8, 160, 160)).map_or(0, |p| p.ssrc);
    assert!(taken(&mut s, 1, &rtp(before, 8, 40_000)));
    let after = RtpPacket::parse(&s.next_header(8, 160, 160)).map_or(0, |p| p.ssrc);
    assert_ne!(before, after);
    let report = s.poll_rtcp(20_000 * MS);
    let kinds: Vec<_> =
        report.iter().flat_map(|r| Compound::parse(r.as_bytes())).flatten().collect();
    assert!(matches!(kinds[..], [Rtcp::Sender { ssrc, .. }, _, Rtcp::Bye { ssrc: Some(old) }]
        if ssrc == after && old == before));
    // A peer that follows us does not make us run for ever.
    let mut last = after;
    for i in 0..20u16 {
        let own = RtpPacket::parse(&s.next_header(8, 160, 160)).map_or(0, |p| p.ssrc);
        s.on_datagram(0, peer(), &rtp(own, 8, 40_001u16.wrapping_add(i * 2999)));
        last = own;
    }
    assert_eq!(RtpPacket::parse(&s.next_header(8, 160, 160)).map(|p| p.ssrc), Ok(last));
}

#[test]
fn our_own_packets_come_back_from_an_echo_and_we_stay_who_we_are() {
    let mut s = session(1, 2000, 0);
    let mut ssrcs = Vec::new();
    for i in 0..50 {
        let header = s.next_header(8, 160, 160);
        assert!(taken(&mut s, i, &header));
        ssrcs.push(RtpPacket::parse(&header).map(|p| p.ssrc));
    }
    ssrcs.dedup();
    assert_eq!(ssrcs.len(), 1);
}

#[test]
fn rtcp_of_strangers_is_counted_and_believed_by_nobody() {
    let mut s = session(1, 2000, 0);
    let header = s.next_header(8, 160, 160);
    let ours = RtpPacket::parse(&header).map_or(0, |p| p.ssrc);
    let lie = ReportBlock { ssrc: ours, fraction_lost: 200, ..ReportBlock::default() };
    let report = Builder::report(7, None, Some(&lie)).cname(7, b"abcdefghijklmnop");
    let stranger = SocketAddr::from(([127, 0, 0, 3], 2001));
    s.on_rtcp(0, stranger, report.as_bytes());
    assert!(s.on_datagram(0, stranger, report.as_bytes()).is_none());
    assert_eq!((s.remote_report(), s.counters().foreign), (None, 2));
    assert_eq!(s.rtcp_heard_ns(), None);
    s.on_rtcp(5, peer(), report.as_bytes());
    assert_eq!(s.remote_report().map(|r| r.fraction_lost), Some(200));
    assert_eq!(s.rtcp_heard_ns(), Some(5));
}

#[test]
fn rtcp_goes_where_the_sdp_says_or_nowhere() {
    for (way, want) in
        [(RtcpWay::Beside, Some(2001)), (RtcpWay::Mux, Some(2000)), (RtcpWay::Off, None)]
    {
        let p = MediaParams { rtcp: way, ..params(2000) };
        let s = Session::new(Identity::from_random(&[1; 32]), &p, 0);
        assert_eq!(s.rtcp_target().map(|t| t.port()), want);
        assert_eq!(s.rtcp_is_muxed(), way == RtcpWay::Mux);
    }
}
