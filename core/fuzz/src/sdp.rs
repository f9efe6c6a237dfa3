// SPDX-License-Identifier: GPL-3.0-or-later
//! SDP from a peer: parser, offer and answer, and what the shim makes of them.
//!
//! The first byte chooses the way, what follows is up to four SDP bodies between bytes 0x1E. Ways below 0x40 put the
//! bodies straight into the parser and the negotiation (c/sdp.c); the others carry them in a call.

use crate::script::{after, header, records};
use crate::world::{self, Sent, World};

/// Runs one input.
pub fn run(input: &[u8]) {
    let Some((way, rest)) = input.split_first() else { return };
    let bodies: Vec<&[u8]> = records(rest).take(4).collect();
    world::with(|world| match way {
        0..=0x3F => {
            let part = |i: usize| bodies.get(i).copied().unwrap_or(&[]);
            world.negotiate(*way, part(0), part(1));
        }
        0x40..=0x7F => called(world, *way, &bodies),
        _ => calling(world, *way, &bodies),
    });
}

/// A peer's request in a dialog it opened.
fn request(method: &str, cseq: u32, to_tag: &[u8], body: &[u8]) -> Vec<u8> {
    let mut out = format!(
        "{method} sip:bot@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK{method}{cseq}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@192.0.2.7>;tag=f\r\nCall-ID: sdp\r\nCSeq: {cseq} {method}\r\n\
         Contact: <sip:alice@192.0.2.7>\r\nSupported: 100rel\r\nTo: <sip:bot@192.0.2.1>"
    )
    .into_bytes();
    if !to_tag.is_empty() {
        out.extend(b";tag=");
        out.extend(to_tag);
    }
    finish(out, body)
}

/// A peer's response to our last request.
fn response(status: &str, request: &[u8], body: &[u8]) -> Vec<u8> {
    let mut out = format!("SIP/2.0 {status}\r\nContact: <sip:bob@192.0.2.7>\r\n").into_bytes();
    for name in ["Via", "From", "Call-ID", "CSeq"] {
        out.extend(name.bytes());
        out.extend(b": ");
        out.extend(header(request, name.as_bytes()));
        out.extend(b"\r\n");
    }
    out.extend(b"To: ");
    let to = header(request, b"To");
    out.extend(to);
    if after(to, b";tag=").is_empty() {
        out.extend(b";tag=p");
    }
    finish(out, body)
}

fn finish(mut out: Vec<u8>, body: &[u8]) -> Vec<u8> {
    if !body.is_empty() {
        out.extend(b"\r\nContent-Type: application/sdp");
    }
    out.extend(format!("\r\nContent-Length: {}\r\n\r\n", body.len()).bytes());
    out.extend(body);
    out
}

/// The peer calls us; bits 0 and 3: which SDP we have, bit 1: the first INVITE has no offer, bit 2: UPDATE instead of re-INVITE.
fn called(world: &mut World, way: u8, bodies: &[&[u8]]) {
    let mut bodies = bodies.iter();
    let mut next = || bodies.next().copied().unwrap_or(&[]);
    let late = way & 2 != 0;
    let offer = if late { &[][..] } else { next() };
    world.datagram(&request("INVITE", 1, b"", offer), 0);
    let Some(call) = world.calls.first().copied() else { return };
    world.answer(call, usize::from(way & 1 | way >> 2 & 2));
    let tag = after(header(&world.sent(Sent::Response), b"To"), b";tag=").to_vec();
    world.datagram(&request("ACK", 1, &tag, if late { next() } else { &[] }), 0);
    let method = if way & 4 != 0 { "UPDATE" } else { "INVITE" };
    for (cseq, body) in (2..).zip(bodies) {
        world.datagram(&request(method, cseq, &tag, body), 0);
        if method == "INVITE" {
            world.datagram(&request("ACK", cseq, &tag, &[]), 0);
        }
    }
    world.datagram(&request("BYE", 9, &tag, &[]), 0);
}

/// We call; bits 1 and 4: our SDP, bit 3: the first body comes with 183, not with 200. Further bodies are offers of the peer.
fn calling(world: &mut World, way: u8, bodies: &[&[u8]]) {
    let mut bodies = bodies.iter();
    let mut next = || bodies.next().copied().unwrap_or(&[]);
    world.dial(u32::from(way & 2 | way >> 1 & 8));
    let invite = world.sent(Sent::Request);
    if way & 8 != 0 {
        world.datagram(&response("183 Session Progress", &invite, next()), 0);
    }
    world.datagram(&response("200 OK", &invite, next()), 0);
    let (call_id, tag) =
        (header(&invite, b"Call-ID").to_vec(), after(header(&invite, b"From"), b";tag=").to_vec());
    for (cseq, body) in (2..).zip(bodies) {
        let mut offer = request("INVITE", cseq, &tag, body);
        // Of the dialog that we opened.
        if let Some(at) = offer.windows(12).position(|w| w == b"Call-ID: sdp") {
            offer.splice(at + 9..at + 12, call_id.iter().copied());
        }
        if let Some(at) = offer.windows(6).position(|w| w == b";tag=f") {
            offer.splice(at + 5..at + 6, *b"p");
        }
        world.datagram(&offer, 0);
    }
}
