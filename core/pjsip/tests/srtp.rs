// SPDX-License-Identifier: GPL-3.0-or-later
//! SRTP keys in offer and answer (RFC 4568, RFC 8643), as peers in the field write them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{body, response, status, Stage, Uac, LOCAL, OFFER};
use pjsip_sys::sdes::{Crypto, MasterKey, SrtpKeys, Suite};
use pjsip_sys::{DialRequest, SipError, SipEvent};

const CM: Suite = Suite::AesCm128HmacSha1_80;

/// A line of a description, with a key that its seed tells.
fn line(tag: u32, suite: Suite, seed: u8) -> String {
    format!("a=crypto:{}\r\n", MasterKey::from_random(suite, &[seed; 46]).line(tag).as_str())
}

/// A description with `lines` under the profile `RTP/SAVP` or `RTP/AVP`.
fn with(base: &str, profile: &str, lines: &str) -> String {
    base.replace("RTP/AVP", profile).replace("a=ptime", &format!("{lines}a=ptime"))
}

fn full(profile: &str) -> String {
    let lines: String =
        (1..).zip(Suite::ALL).map(|(tag, suite)| line(tag, suite, 100 + tag as u8)).collect();
    with(LOCAL, profile, &lines)
}

fn crypto_of(sdp: &str) -> Vec<Crypto> {
    let values = sdp.lines().filter_map(|l| l.strip_prefix("a=crypto:"));
    values.map(|v| Crypto::parse(v).expect("our own line")).collect()
}

fn keys(s: &mut Stage) -> Option<Box<SrtpKeys>> {
    s.event(|e| match e {
        SipEvent::Media { srtp, .. } => Some(srtp.clone()),
        _ => None,
    })
}

/// What an offer gets when our description is `local`: the answer, or the refusal's words.
fn answer(s: &mut Stage, offer: &str, local: &str) -> Result<(Uac, String), String> {
    let mut uac = Uac::new(s);
    s.send(uac.invite(Some(offer)));
    let call = s.incoming();
    match s.ep.set_local_sdp(call, local) {
        Ok(()) => s.ep.answer(call).unwrap(),
        Err(SipError::BadSdp(why)) => {
            s.ep.reject(call, 488, None).unwrap();
            assert_eq!(status(&s.receive_line("488")), 488);
            s.ended();
            return Err(why);
        }
        Err(other) => panic!("{other:?}"),
    }
    let ok = s.receive_line("200");
    uac.learn(&ok);
    s.send(uac.ack(None));
    Ok((uac, body(&ok).to_owned()))
}

#[test]
fn an_srtp_offer_is_answered_with_its_tag_and_a_key_of_ours() {
    let mut s = Stage::new();
    for suite in Suite::ALL {
        let offer = with(OFFER, "RTP/SAVP", &line(77, suite, 9));
        for local in ["RTP/SAVP", "RTP/AVP"] {
            let (_, sdp) = answer(&mut s, &offer, &full(local)).unwrap();
            assert!(sdp.contains("RTP/SAVP"), "{sdp}");
            let ours = crypto_of(&sdp);
            assert_eq!(ours.len(), 1, "{sdp}");
            assert_eq!((ours[0].tag, ours[0].key.suite()), (77, suite));
            let keys = keys(&mut s).expect("SRTP");
            assert_eq!(keys.local, ours[0].key);
            assert_eq!(keys.remote, MasterKey::from_random(suite, &[9; 46]));
        }
    }
}

/// RFC 8643: keys under `RTP/AVP`, as Asterisk and rtpengine offer them when SRTP is not a must.
#[test]
fn keys_under_avp_are_taken_when_we_may_and_passed_over_when_srtp_is_off() {
    let mut s = Stage::new();
    let offer = with(OFFER, "RTP/AVP", &line(1, CM, 9));
    for local in ["RTP/SAVP", "RTP/AVP"] {
        let (_, sdp) = answer(&mut s, &offer, &full(local)).unwrap();
        assert!(sdp.contains("RTP/AVP") && crypto_of(&sdp).len() == 1, "{sdp}");
        assert!(keys(&mut s).is_some());
    }
    let (_, sdp) = answer(&mut s, &offer, LOCAL).unwrap();
    assert!(!sdp.contains("crypto"), "{sdp}");
    assert_eq!(keys(&mut s), None);
    // Under AVP a line that cannot be used leaves plain RTP, unless SRTP is a must.
    let unknown = with(OFFER, "RTP/AVP", "a=crypto:1 F8_128_HMAC_SHA1_80 inline:AAAA\r\n");
    let (_, sdp) = answer(&mut s, &unknown, &full("RTP/AVP")).unwrap();
    assert!(!sdp.contains("crypto"), "{sdp}");
    assert_eq!(keys(&mut s), None);
    let why = answer(&mut s, &unknown, &full("RTP/SAVP")).err();
    assert_eq!(why.as_deref(), Some("no crypto suite in common"));
}

#[test]
fn a_plain_offer_stays_plain_or_is_refused() {
    let mut s = Stage::new();
    let (_, sdp) = answer(&mut s, OFFER, &full("RTP/AVP")).unwrap();
    assert!(sdp.contains("RTP/AVP") && !sdp.contains("crypto"), "{sdp}");
    assert_eq!(keys(&mut s), None);
    let why = answer(&mut s, OFFER, &full("RTP/SAVP")).err().expect("refused");
    assert!(why.contains("required"), "{why}");
    let why = answer(&mut s, &with(OFFER, "RTP/SAVP", &line(1, CM, 9)), LOCAL).err();
    assert!(why.as_deref().is_some_and(|w| w.contains("\"off\"")), "{why:?}");
}

#[test]
fn lines_that_cannot_be_used_get_488_with_the_reason() {
    let mut s = Stage::new();
    let key = "WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz";
    for (bad, word) in [
        ("1 AES_CM_128_HMAC_SHA1_80 inline:notbase64!".to_owned(), "base64"),
        (format!("1 AES_CM_128_HMAC_SHA1_80 inline:{key}AAAA"), "length"),
        (format!("1 AEAD_AES_256_GCM inline:{key}"), "length"),
        (format!("1 F8_128_HMAC_SHA1_80 inline:{key}"), "suite"),
        (format!("1 AES_CM_128_HMAC_SHA1_80 inline:{key} UNENCRYPTED_SRTP"), "parameters"),
        (format!("1 AES_CM_128_HMAC_SHA1_80 inline:{key}|0"), "lifetime"),
        (format!("99999999999 AES_CM_128_HMAC_SHA1_80 inline:{key}"), "malformed"),
        ("1".to_owned(), "malformed"),
        (format!("1 AES_CM_128_HMAC_SHA1_80 inline:{}", "A".repeat(3000)), "malformed"),
    ] {
        let offer = with(OFFER, "RTP/SAVP", &format!("a=crypto:{bad}\r\n"));
        let why = answer(&mut s, &offer, &full("RTP/AVP")).err();
        assert!(why.as_deref().is_some_and(|w| w.contains(word)), "{bad}: {why:?}");
        // Beside one that can be used they do no harm.
        let both = format!("a=crypto:{bad}\r\n{}", line(2, CM, 9));
        let (_, sdp) = answer(&mut s, &with(OFFER, "RTP/SAVP", &both), &full("RTP/AVP")).unwrap();
        assert_eq!(crypto_of(&sdp)[0].tag, 2, "{bad}");
    }
}

/// FreeSWITCH offers two streams when SRTP is optional: one with keys, one without.
#[test]
fn of_two_streams_one_is_taken_and_the_other_has_port_0() {
    let mut s = Stage::new();
    let plain = "m=audio 40010 RTP/AVP 8\r\na=rtpmap:8 PCMA/8000\r\n";
    let offer = with(OFFER, "RTP/SAVP", &line(1, CM, 9)) + plain;
    let (_, sdp) = answer(&mut s, &offer, &full("RTP/AVP")).unwrap();
    assert!(sdp.contains("m=audio 30000 RTP/SAVP") && sdp.contains("m=audio 0 RTP/AVP"), "{sdp}");
    assert!(keys(&mut s).is_some());
    let (_, sdp) = answer(&mut s, &offer, LOCAL).unwrap();
    assert!(sdp.contains("m=audio 0 RTP/SAVP") && sdp.contains("m=audio 30000 RTP/AVP"), "{sdp}");
    let port = s.event(|e| match e {
        SipEvent::Media { media, srtp: None, .. } => Some(media.remote_rtp.port()),
        _ => None,
    });
    assert_eq!(port, 40010);
}

#[test]
fn a_reinvite_may_bring_a_new_key_and_a_bad_one_leaves_the_session() {
    let mut s = Stage::new();
    let offer = |seed| with(OFFER, "RTP/SAVP", &line(1, CM, seed));
    let (mut uac, first) = answer(&mut s, &offer(9), &full("RTP/SAVP")).unwrap();
    let before = keys(&mut s).unwrap();
    for seed in [9, 10] {
        s.send(uac.invite(Some(&offer(seed))));
        let ok = s.receive_line("200");
        s.send(uac.ack(None));
        assert_eq!(crypto_of(body(&ok)), crypto_of(&first), "our key stays");
        let now = keys(&mut s).unwrap();
        assert_eq!(now.local, before.local);
        assert_eq!(now.remote == before.remote, seed == 9);
    }
    for bad in [OFFER.to_owned(), with(OFFER, "RTP/SAVP", "a=crypto:1 x inline:y\r\n")] {
        s.send(uac.invite(Some(&bad)));
        let refused = s.receive_line("488");
        s.send(uac.message("ACK", None));
        assert_eq!(status(&refused), 488);
    }
    // Another suite in mid-call.
    s.send(uac.invite(Some(&with(OFFER, "RTP/SAVP", &line(5, Suite::AeadAes128Gcm, 11)))));
    let ok = s.receive_line("200");
    s.send(uac.ack(None));
    assert_eq!(crypto_of(body(&ok))[0].key.suite(), Suite::AeadAes128Gcm);
    assert_eq!(keys(&mut s).unwrap().local.suite(), Suite::AeadAes128Gcm);
    // Without an offer we offer what is in use.
    s.send(uac.invite(None));
    let ok = s.receive_line("200");
    let ours = crypto_of(body(&ok));
    assert_eq!(ours.len(), 1, "{ok}");
    assert_eq!(ours[0].key.suite(), Suite::AeadAes128Gcm);
    s.send(uac.ack(Some(&with(OFFER, "RTP/SAVP", &line(ours[0].tag, Suite::AeadAes128Gcm, 12)))));
    assert_eq!(keys(&mut s).unwrap().local, ours[0].key);
}

#[test]
fn optional_srtp_that_is_up_is_not_taken_away_by_a_reinvite_or_update() {
    let mut s = Stage::new();
    let (mut uac, _) =
        answer(&mut s, &with(OFFER, "RTP/AVP", &line(1, CM, 9)), &full("RTP/AVP")).unwrap();
    assert!(keys(&mut s).is_some());
    s.confirmed();
    s.send(uac.invite(Some(OFFER)));
    let refused = s.receive();
    s.send(uac.message("ACK", None));
    assert_eq!(status(&refused), 488);
    s.send(uac.request("UPDATE", Some(OFFER)));
    assert_eq!(status(&s.receive()), 488);
    let after = s.settle(std::time::Duration::from_millis(20));
    assert!(!after.iter().any(|e| matches!(e, SipEvent::Media { .. })), "{after:?}");
    // With a key it goes on, also with another one.
    s.send(uac.invite(Some(&with(OFFER, "RTP/AVP", &line(1, CM, 10)))));
    s.receive_line("200");
    s.send(uac.ack(None));
    assert!(keys(&mut s).is_some());
    // A call that began in plain RTP may stay so, and may become secure.
    let (mut uac, _) = answer(&mut s, OFFER, &full("RTP/AVP")).unwrap();
    assert!(keys(&mut s).is_none());
    s.send(uac.invite(Some(&with(OFFER, "RTP/AVP", &line(1, CM, 9)))));
    s.receive_line("200");
    s.send(uac.ack(None));
    assert!(keys(&mut s).is_some());
}

#[test]
fn an_answer_that_takes_srtp_away_ends_the_call() {
    let mut s = Stage::new();
    let (_, invite) = dialled(&mut s, &full("RTP/AVP"));
    let ours = crypto_of(body(&invite));
    reply(&s, &invite, &with(OFFER, "RTP/AVP", &line(ours[0].tag, CM, 9)));
    s.receive_line("ACK");
    assert!(keys(&mut s).is_some());
    let call = s.confirmed();
    s.ep.offer(call, &full("RTP/AVP")).unwrap();
    let offer = s.receive_line("INVITE");
    reply(&s, &offer, OFFER);
    s.receive_line("ACK");
    s.receive_line("BYE");
    assert_eq!(s.ended(), (488, false));
}

/// Dials with our description and answers the offer; gives offer and request.
fn dialled(s: &mut Stage, local: &str) -> (String, String) {
    let to = s.peer.local_addr().unwrap();
    let request = DialRequest {
        uri: format!("sip:bot@{to}"),
        from: None,
        sdp: local.to_owned(),
        credentials: None,
        ..DialRequest::default()
    };
    s.ep.dial(&request).unwrap();
    let invite = s.receive_line("INVITE");
    (body(&invite).to_owned(), invite)
}

fn reply(s: &Stage, invite: &str, sdp: &str) {
    let local = s.peer.local_addr().unwrap();
    s.send(response(invite, "200 OK", local, "", Some(sdp)));
}

#[test]
fn an_offer_of_ours_is_small_and_the_answer_chooses_by_tag() {
    let mut s = Stage::new();
    for (profile, taken) in [("RTP/SAVP", 0), ("RTP/SAVP", 1), ("RTP/AVP", 0)] {
        let (offer, invite) = dialled(&mut s, &full(profile));
        assert!(offer.contains(profile), "{offer}");
        let lines = crypto_of(&offer);
        assert_eq!(lines.len(), 2, "{offer}");
        assert_eq!(lines[0].key.suite(), CM, "the suite all peers have comes first");
        assert!(invite.len() < 1300, "RFC 3261 18.1.1: {}", invite.len());
        let key = &lines[taken].key;
        reply(&s, &invite, &with(OFFER, profile, &line(lines[taken].tag, key.suite(), 9)));
        let got = keys(&mut s).unwrap();
        assert_eq!(&got.local, key);
        assert_eq!(got.remote, MasterKey::from_random(key.suite(), &[9; 46]));
    }
    let (_, invite) = dialled(&mut s, &full("RTP/AVP"));
    reply(&s, &invite, OFFER);
    assert_eq!(keys(&mut s), None, "optional: a peer without SRTP is talked to in plain RTP");
}

#[test]
fn an_answer_that_does_not_fit_ends_the_call() {
    let mut s = Stage::new();
    for (profile, sdp) in [
        ("RTP/SAVP", OFFER.to_owned()),
        ("RTP/SAVP", with(OFFER, "RTP/SAVP", "")),
        ("RTP/SAVP", with(OFFER, "RTP/SAVP", &line(3, CM, 9))),
        ("RTP/SAVP", with(OFFER, "RTP/SAVP", &line(1, Suite::AesCm128HmacSha1_32, 9))),
        ("RTP/SAVP", with(OFFER, "RTP/SAVP", &(line(1, CM, 9) + &line(2, CM, 9)))),
        ("RTP/AVP", with(OFFER, "RTP/AVP", &line(8, CM, 9))),
        ("RTP/AVP", with(OFFER, "RTP/SAVP", "")),
        ("off", with(OFFER, "RTP/SAVP", &line(1, CM, 9))),
    ] {
        let local = if profile == "off" { LOCAL.to_owned() } else { full(profile) };
        let (_, invite) = dialled(&mut s, &local);
        reply(&s, &invite, &sdp);
        assert_eq!(s.ended(), (488, false), "{profile}: {sdp}");
        s.receive_line("BYE");
    }
}

/// Neither the log nor an event's own text has a key in it.
#[test]
fn keys_reach_no_log() {
    let mut s = Stage::new();
    let offer = with(OFFER, "RTP/SAVP", &line(1, CM, 9));
    answer(&mut s, &offer, &full("RTP/SAVP")).unwrap();
    let up = s.settle(std::time::Duration::from_millis(50));
    let bad = with(OFFER, "RTP/SAVP", "a=crypto:1 x inline:c2VjcmV0c2VjcmV0\r\n");
    assert!(answer(&mut s, &bad, &full("RTP/AVP")).is_err());
    let events = format!("{up:?} {:?}", s.settle(std::time::Duration::from_millis(50)));
    assert!(events.contains("srtp: Some("), "{events}");
    for secret in ["inline", "CQkJCQkJ", "c2VjcmV0", "9, 9, 9"] {
        assert!(!events.contains(secret), "{secret}: {events}");
    }
}
