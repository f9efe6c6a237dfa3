// SPDX-License-Identifier: GPL-3.0-or-later
//! What strangers send, shown to a [`Gate`] before the stack acts on it.

use std::ffi::c_void;
use std::net::SocketAddr;
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::convert::addr_from_c;
use crate::ffi;
use crate::sink::{bytes, Sink};
use crate::types::CallId;

/// Where something came from and which port of ours it came to.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The sender, as the socket saw it.
    pub source: SocketAddr,
    /// Our port; that of the connection, when it is one that we opened.
    pub local_port: u16,
    /// It came over a connection.
    pub stream: bool,
}

/// A request as far as its place decides on it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its method.
    pub method: &'a [u8],
    /// To has a tag.
    pub to_tag: bool,
    /// It belongs to a dialog that exists.
    pub in_dialog: bool,
}

/// An Authorization header (RFC 7616 section 3.4), unquoted; what is absent is empty. Personal data: no `Debug`.
#[allow(missing_docs)]
#[derive(Clone, Copy)]
pub struct Credential<'a> {
    pub username: &'a [u8],
    pub realm: &'a [u8],
    pub nonce: &'a [u8],
    pub uri: &'a [u8],
    pub response: &'a [u8],
    pub algorithm: &'a [u8],
    pub cnonce: &'a [u8],
    pub qop: &'a [u8],
    pub nc: &'a [u8],
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// SIP status.
    pub status: u16,
    /// For the log and [`crate::SipEvent::Rejected`].
    pub why: &'static str,
    /// Retry-After, s.
    pub retry_after: Option<u32>,
    /// Values of WWW-Authenticate; together at most about 1,000 bytes.
    pub challenges: Vec<String>,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It is forgotten without an answer.
    Drop,
    /// It is answered.
    Refuse(Refusal),
}

/// Decides on what strangers send. Called on the SIP thread, within [`crate::Endpoint`]'s methods, which it must not call.
pub trait Gate {
    /// A connection came in. False closes it.
    fn connected(&mut self, origin: &Origin, id: u64) -> bool;
    /// A connection is gone, of those that `connected` saw.
    fn disconnected(&mut self, id: u64);
    /// Bytes that are not parsed yet; on a connection all that is there of a message. False throws them away, and closes
    /// the connection.
    fn packet(&mut self, origin: &Origin, data: &[u8]) -> bool;
    /// A request, before transactions and dialogs see it; retransmissions too.
    fn request(&mut self, origin: &Origin, request: &Request<'_>) -> Verdict;
    /// A new INVITE, before it becomes a call.
    fn invite(&mut self, origin: &Origin, credentials: &[Credential<'_>]) -> Verdict;
    /// It sent something malformed, or something that is about to be refused. False: without an answer.
    fn misbehaved(&mut self, origin: &Origin) -> bool;
    /// An INVITE that passed is this call now.
    fn opened(&mut self, origin: &Origin, call: CallId);
    /// A call got its ACK.
    fn confirmed(&mut self, call: CallId);
    /// A call is over.
    fn ended(&mut self, call: CallId);
    /// A REGISTER or OPTIONS of ours goes there: it is a trunk's.
    fn registering(&mut self, registrar: &Origin);
}

/// A hash of a digest (RFC 7616 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// MD5, 16 bytes.
    Md5,
    /// SHA-256, 32 bytes.
    Sha256,
}

/// Hashes by the library that the stack uses; empty when that refuses (a machine that forbids MD5).
pub fn hash(kind: Hash, data: &[u8]) -> Vec<u8> {
    let mut out = [0u8; 32];
    // SAFETY: data is readable over its length and out has the 32 bytes that vc.h asks for.
    let len = unsafe {
        ffi::vc_hash(i32::from(kind == Hash::Sha256), data.as_ptr(), data.len(), out.as_mut_ptr())
    };
    out.get(..len).unwrap_or_default().to_vec()
}

/// The function pointer that the shim gets. `user` is a `*const Sink` that outlives the endpoint.
pub(crate) unsafe extern "C" fn on_query(
    user: *mut c_void,
    query: *const ffi::GateQuery,
    reply: *mut ffi::GateReply,
) {
    // SAFETY: the Sink given to vc_create lives until vc_destroy has returned; query and reply live for this call (vc.h).
    let (sink, query, reply) = unsafe { (&*user.cast::<Sink>(), &*query, &mut *reply) };
    // Nothing in here panics by design; if it ever did, it must not unwind into C.
    let verdict = catch_unwind(AssertUnwindSafe(|| sink.with_gate(|gate| decide(gate, query))));
    match verdict.ok().flatten().unwrap_or(Verdict::Pass) {
        Verdict::Pass => reply.verdict = ffi::GATE_PASS,
        Verdict::Drop => reply.verdict = ffi::GATE_DROP,
        Verdict::Refuse(refusal) => write(&refusal, reply),
    }
}

fn decide(gate: &mut dyn Gate, query: &ffi::GateQuery) -> Verdict {
    let flag = |bit: u32| query.flags & bit != 0;
    let pass = |yes: bool| if yes { Verdict::Pass } else { Verdict::Drop };
    if query.kind == ffi::GATE_CONNECTION && flag(ffi::GATE_FLAG_CLOSED) {
        gate.disconnected(query.id);
        return Verdict::Pass;
    }
    let Some(source) = addr_from_c(&query.source) else { return Verdict::Pass };
    let origin =
        Origin { source, local_port: query.local_port, stream: flag(ffi::GATE_FLAG_STREAM) };
    match query.kind {
        ffi::GATE_CONNECTION => pass(gate.connected(&origin, query.id)),
        ffi::GATE_PACKET => pass(gate.packet(&origin, bytes(&query.text))),
        ffi::GATE_REQUEST => gate.request(
            &origin,
            &Request {
                method: bytes(&query.text),
                to_tag: flag(ffi::GATE_FLAG_TO_TAG),
                in_dialog: flag(ffi::GATE_FLAG_IN_DIALOG),
            },
        ),
        ffi::GATE_INVITE => gate.invite(&origin, &credentials(query)),
        ffi::GATE_MISBEHAVED => pass(gate.misbehaved(&origin)),
        ffi::GATE_OPENED => {
            gate.opened(&origin, CallId(query.id));
            Verdict::Pass
        }
        ffi::GATE_REGISTERING => {
            gate.registering(&origin);
            Verdict::Pass
        }
        _ => Verdict::Pass,
    }
}

fn credentials(query: &ffi::GateQuery) -> Vec<Credential<'_>> {
    if query.digests.is_null() || query.digest_count == 0 {
        return Vec::new();
    }
    // SAFETY: the shim's array of digest_count entries lives over the callback, hence for the borrow of the query.
    let digests =
        unsafe { std::slice::from_raw_parts(query.digests, usize::from(query.digest_count)) };
    digests
        .iter()
        .map(|d| Credential {
            username: bytes(&d.username),
            realm: bytes(&d.realm),
            nonce: bytes(&d.nonce),
            uri: bytes(&d.uri),
            response: bytes(&d.response),
            algorithm: bytes(&d.algorithm),
            cnonce: bytes(&d.cnonce),
            qop: bytes(&d.qop),
            nc: bytes(&d.nc),
        })
        .collect()
}

fn write(refusal: &Refusal, reply: &mut ffi::GateReply) {
    reply.verdict = ffi::GATE_ANSWER;
    reply.status = u32::from(refusal.status);
    reply.retry_after = refusal.retry_after.map_or(-1, i64::from);
    reply.why = ffi::Str::new(refusal.why);
    let mut at = 0;
    for challenge in &refusal.challenges {
        let end = at + challenge.len() + 1;
        let Some(place) = reply.challenges.get_mut(at..end) else { break };
        if let Some((last, text)) = place.split_last_mut() {
            text.copy_from_slice(challenge.as_bytes());
            *last = b'\n';
        }
        at = end;
    }
    reply.challenges_len = at as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn hashes_of_the_standards() {
        // RFC 1321 appendix A.5; FIPS 180-4's example.
        assert_eq!(hex(&hash(Hash::Md5, b"abc")), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(
            hex(&hash(Hash::Sha256, b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
