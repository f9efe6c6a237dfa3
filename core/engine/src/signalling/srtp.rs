// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether a call's media is encrypted, and our side of the keys (RFC 4568).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use pjsip_sys::sdes::{MasterKey, SrtpKeys, Suite};
use zeroize::Zeroizing;

use super::queue::LogLevel;
use super::Tenant;
use crate::media::srtp::Update;
use crate::media::{MediaEngine, MediaParams};

/// Whether media is encrypted with keys from the SDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SrtpMode {
    /// Never: offers of nothing but SRTP get 488.
    #[default]
    Off,
    /// With peers that can: we offer keys under `RTP/AVP` (RFC 8643) and answer what was offered.
    Optional,
    /// Always: offers without SRTP get 488, answers without it end the call.
    Required,
}

impl SrtpMode {
    /// As in settings.
    pub fn name(self) -> &'static str {
        match self {
            SrtpMode::Off => "off",
            SrtpMode::Optional => "optional",
            SrtpMode::Required => "required",
        }
    }

    /// From settings.
    pub fn from_name(name: &str) -> Option<SrtpMode> {
        [SrtpMode::Off, SrtpMode::Optional, SrtpMode::Required]
            .into_iter()
            .find(|m| m.name() == name)
    }

    /// Profile of our `m=` line.
    pub(super) fn profile(self) -> &'static str {
        match self {
            SrtpMode::Required => "RTP/SAVP",
            SrtpMode::Off | SrtpMode::Optional => "RTP/AVP",
        }
    }

    /// `a=crypto` lines with a fresh key for each suite, from the system's random source. The stack narrows them to what an
    /// offer or an answer says.
    pub(super) fn lines(self) -> std::io::Result<Zeroizing<String>> {
        let mut lines = Zeroizing::new(String::new());
        if self == SrtpMode::Off {
            return Ok(lines);
        }
        // All at once: a string that grows leaves copies of keys behind.
        lines.reserve(Suite::ALL.len() * 128);
        let mut random = Zeroizing::new([0; 46]);
        for (tag, suite) in (1..).zip(Suite::ALL) {
            rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
            lines.push_str("a=crypto:");
            lines.push_str(&MasterKey::from_random(suite, &random).line(tag));
            lines.push_str("\r\n");
        }
        Ok(lines)
    }
}

/// What an engine knows beside its configured mode.
#[derive(Default)]
pub(crate) struct SrtpPeers {
    modes: RwLock<HashMap<IpAddr, SrtpMode>>,
    /// It was said that keys travel in clear.
    told: AtomicBool,
}

impl SrtpPeers {
    /// Replaces the peers that have a mode of their own.
    pub(crate) fn set_peers(&self, peers: Vec<(IpAddr, SrtpMode)>) {
        let peers = peers.into_iter().map(|(ip, mode)| (ip.to_canonical(), mode)).collect();
        *self.modes.write().unwrap_or_else(PoisonError::into_inner) = peers;
    }

    pub(super) fn of(&self, peer: Option<IpAddr>) -> Option<SrtpMode> {
        let modes = self.modes.read().unwrap_or_else(PoisonError::into_inner);
        modes.get(&peer?.to_canonical()).copied()
    }
}

/// What the SDP says of keys.
pub(super) struct Srtp {
    /// `None` is plain RTP.
    pub keys: Option<Box<SrtpKeys>>,
    /// They came and went over TLS.
    pub confidential: bool,
}

/// Outcome of an offer/answer exchange.
pub(super) struct Agreed {
    pub params: MediaParams,
    pub srtp: Srtp,
}

impl Agreed {
    /// Hands it to the media thread: keys first, so that nothing is sent or taken in clear in between.
    pub(super) fn start(self, tenant: &Tenant, id: u64, force: &mut Option<Box<SrtpKeys>>) {
        let Srtp { keys, confidential } = self.srtp;
        let Ok(update) = Update::between(force.as_deref(), keys.as_deref()) else {
            tenant.log(LogLevel::Error, format!("call {id}: no media, for its keys are unusable"));
            return;
        };
        if let Some(update) = update {
            if let Some(Err(e)) = tenant.with_media(|m: &MediaEngine| m.set_srtp(id, update)) {
                tenant.log(LogLevel::Error, format!("call {id}: its media waits for keys: {e}"));
                return;
            }
            self::log(tenant, id, keys.as_deref(), confidential);
            *force = keys;
        }
        tenant.with_media(|m: &MediaEngine| m.set_media(id, self.params));
    }
}

fn log(tenant: &Tenant, id: u64, keys: Option<&SrtpKeys>, confidential: bool) {
    let Some(keys) = keys else {
        tenant.log(LogLevel::Warning, format!("call {id}: from SRTP to plain RTP, by new SDP"));
        return;
    };
    let suite = keys.local.suite().name();
    tenant.log(LogLevel::Info, format!("call {id}: SRTP with {suite}"));
    if !confidential && !tenant.srtp.told.swap(true, Ordering::Relaxed) {
        let text = "SRTP keys travel in SIP messages over UDP or TCP, where everybody on the way can read them; use TLS \
                    for SIP (told once)";
        tenant.log(LogLevel::Warning, text.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjsip_sys::sdes::Crypto;
    use std::collections::HashSet;

    #[test]
    fn every_call_has_fresh_keys_for_every_suite() {
        let mut seen = HashSet::new();
        for _ in 0..20 {
            let Ok(lines) = SrtpMode::Required.lines() else { unreachable!("random") };
            let values = lines.lines().filter_map(|l| l.strip_prefix("a=crypto:"));
            let keys: Vec<_> = values.filter_map(|v| Crypto::parse(v).ok()).collect();
            assert_eq!(keys.len(), Suite::ALL.len());
            for (crypto, suite) in keys.iter().zip(Suite::ALL) {
                assert_eq!(crypto.key.suite(), suite);
                assert!(seen.insert(crypto.key.key().to_vec()), "a key came twice");
            }
            assert!(lines.capacity() <= Suite::ALL.len() * 128, "it grew");
        }
        assert!(SrtpMode::Off.lines().is_ok_and(|l| l.is_empty()));
    }
}
