// SPDX-License-Identifier: GPL-3.0-or-later
//! Who may talk to us: the caller ACL, silence towards scanners, digest challenges and limits for each source.
//!
//! Sans-I/O: `now` is an argument, and nothing here sends. The stack asks (see [`pjsip_sys::Gate`]) before it parses what
//! arrived, before a request is served and before an INVITE becomes a dialog.

mod acl;
mod config;
mod decide;
mod digest;
mod gate;
mod nonce;
mod scan;
mod sources;
#[cfg(test)]
mod tests;

pub use acl::Network;
pub use config::{GuardConfig, Unlisted, User, SCANNERS};
pub(crate) use decide::GuardSetup;
pub(crate) use gate::Guards;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// Counters of one engine's guard. What was dropped in silence is told nowhere else.
#[derive(Debug, Default)]
pub(crate) struct GuardCounters {
    /// Requests from outside the ACL.
    pub unlisted: AtomicU64,
    /// Requests whose User-Agent is a scanner's.
    pub scanners: AtomicU64,
    /// Requests of a source that sent too much that was malformed or refused.
    pub muted: AtomicU64,
    /// INVITEs and connections over a limit of their source.
    pub limited: AtomicU64,
    /// INVITEs that were challenged (no credentials, or stale ones).
    pub challenged: AtomicU64,
    /// INVITEs with credentials that are wrong.
    pub auth_failed: AtomicU64,
}

/// What the engine tells its guard from other threads.
#[derive(Debug, Default)]
pub(crate) struct Draining {
    /// New calls are refused.
    pub on: AtomicBool,
    /// Told to those refused, s.
    pub retry_after: AtomicU32,
}
