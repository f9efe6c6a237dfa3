// SPDX-License-Identifier: GPL-3.0-or-later
//! Security descriptions: SRTP keys in SDP (RFC 4568), read from `a=crypto` lines and agreed by offer and answer.
//!
//! The lines come from the network, so nothing here trusts them. Keys are wiped when dropped and never printed.
//!
//! One session description of ours serves every exchange of a call: it holds a line for each [`Suite`] we can do, and its
//! profile tells the policy. No line: SRTP is off. Lines under `RTP/AVP`: SRTP if the peer has it (RFC 8643).
//! Lines under `RTP/SAVP`: SRTP or no call. The shim narrows it to what an offer or an answer may say.

mod key;
mod line;
mod pick;

pub use key::{MasterKey, Suite};
pub use line::{Crypto, LineError, Mki};
pub(crate) use pick::sdes;

/// Keys that both sides agreed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SrtpKeys {
    /// Ours: what we send is protected with it.
    pub local: MasterKey,
    /// The peer's: what it sends is protected with it.
    pub remote: MasterKey,
    /// Key identifier that the peer puts into its packets, if it named one.
    pub remote_mki: Option<Mki>,
}
