// SPDX-License-Identifier: GPL-3.0-or-later
//! Inputs that are a course of events: records between bytes 0x1E.
//!
//! - A record is a datagram as it comes off the wire, unless its first byte says otherwise:
//! - 0x10: bytes on a TCP connection.
//! - 0x12: what the application or the network does, a letter and digits (see [`Action::parse`]).
//!
//! In a message, a few bytes that SIP does not know stand for what only the endpoint's own messages tell (see
//! [`expand`]); an input that answers the endpoint therefore stays good when its identifiers change.

use crate::world::{Sent, World};

pub(crate) const SEPARATOR: u8 = 0x1E;
const MAX_RECORDS: usize = 32;
/// PJSIP_MAX_PKT_LEN of our build.
const MAX_MESSAGE: usize = 16_000;
const STREAM: u8 = 0x10;
const ACTION: u8 = 0x12;

/// The parts of an input.
pub(crate) fn records(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    input.split(|byte| *byte == SEPARATOR).take(MAX_RECORDS)
}

/// Runs one record. `source` is where datagrams come from.
pub(crate) fn run(world: &mut World, source: &mut u32, record: &[u8]) {
    match record {
        [ACTION, verb, number @ ..] => act(world, source, *verb, number_of(number)),
        [STREAM, message @ ..] => {
            let message = expand(world, message);
            world.stream(&message);
        }
        message => {
            let message = expand(world, message);
            world.datagram(&message, *source);
        }
    }
}

fn number_of(digits: &[u8]) -> u32 {
    let digits = digits.iter().take_while(|b| b.is_ascii_digit()).take(7);
    digits.fold(0, |n, b| n * 10 + u32::from(b - b'0'))
}

/// Of the newest call (as a capital letter: the oldest): `r` rings, `e` sends early media and `a` answers (with our SDP
/// of that number), `j` rejects with that status, `h` hangs up, `o` offers anew, `x` transfers (1: attended), `n` tells
/// a transfer's state, `i` sends a key. `d` dials, `g` registers, `u` unregisters, `p` probes (that way), `t` lets
/// milliseconds pass, `c` closes the TCP connection, `s` chooses the source of datagrams.
fn act(world: &mut World, source: &mut u32, verb: u8, number: u32) {
    let call = if verb.is_ascii_uppercase() {
        world.calls.first().copied()
    } else {
        world.calls.last().copied()
    };
    match (verb.to_ascii_lowercase(), call) {
        (b'r', Some(call)) => world.ring(call),
        (b'a', Some(call)) => world.answer(call, number as usize),
        (b'j', Some(call)) => world.reject(call, u16::try_from(number).unwrap_or(486)),
        (b'h', Some(call)) => world.hangup(call),
        (b'e', Some(call)) => world.early_media(call, number as usize),
        (b'o', Some(call)) => world.offer(call, number as usize),
        (b'x', Some(call)) => world.refer(call, number & 1 != 0),
        (b'n', Some(call)) => world.refer_status(call, u16::try_from(number).unwrap_or(200)),
        (b'i', Some(call)) => world.key(call),
        (b'p', _) => world.probe(),
        (b'd', _) => world.dial(number),
        (b'g', _) => world.register(number),
        (b'u', _) => world.unregister(),
        (b't', _) => world.pass(number),
        (b'c', _) => world.close_stream(),
        (b's', _) => *source = number,
        _ => {}
    }
}

/// Puts in what the endpoint said last. Of its last response: 0x02 the tag of To, 0x07 RSeq. Of its last request: 0x03
/// Call-ID, 0x04 the branch of Via, 0x05 the tag of From, 0x06 the number of CSeq. 0x08: the length of the body.
pub(crate) fn expand(world: &World, message: &[u8]) -> Vec<u8> {
    if !message.iter().any(|b| (2..=8).contains(b)) {
        return message.get(..MAX_MESSAGE).unwrap_or(message).to_vec();
    }
    let (request, response) = (world.sent(Sent::Request), world.sent(Sent::Response));
    let mut out = Vec::with_capacity(message.len() + 128);
    for (at, byte) in message.iter().enumerate() {
        match byte {
            2 => out.extend(after(header(&response, b"To"), b";tag=")),
            3 => out.extend(header(&request, b"Call-ID")),
            4 => out.extend(after(header(&request, b"Via"), b";branch=")),
            5 => out.extend(after(header(&request, b"From"), b";tag=")),
            6 => out.extend(word(header(&request, b"CSeq"))),
            7 => out.extend(word(header(&response, b"RSeq"))),
            8 => {
                let rest = message.get(at..).unwrap_or(&[]);
                let body =
                    rest.windows(4).position(|w| w == b"\r\n\r\n").map(|i| rest.len() - i - 4);
                out.extend(body.unwrap_or(0).to_string().bytes());
            }
            other => out.push(*other),
        }
    }
    out.truncate(MAX_MESSAGE);
    out
}

/// Value of the first header of that name.
pub(crate) fn header<'a>(message: &'a [u8], name: &[u8]) -> &'a [u8] {
    message
        .split(|b| *b == b'\n')
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(b":"))
        .map(<[u8]>::trim_ascii)
        .next()
        .unwrap_or(&[])
}

/// What follows `key`, up to the next parameter.
pub(crate) fn after<'a>(value: &'a [u8], key: &[u8]) -> &'a [u8] {
    let Some(at) = value.windows(key.len()).position(|w| w == key) else { return &[] };
    let rest = value.get(at + key.len()..).unwrap_or(&[]);
    rest.split(|b| matches!(b, b';' | b',' | b'>' | b' ')).next().unwrap_or(&[])
}

fn word(value: &[u8]) -> &[u8] {
    value.split(|b| *b == b' ').next().unwrap_or(&[])
}
