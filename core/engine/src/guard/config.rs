// SPDX-License-Identifier: GPL-3.0-or-later
//! What a guard is told at start.

use std::fmt;

use super::acl::Network;
use crate::error::ConfigError;

/// Parts of User-Agent by which scanners are known, unless told otherwise.
pub const SCANNERS: &[&str] = &[
    "friendly-scanner",
    "friendly-request",
    "sipvicious",
    "sipcli",
    "sip-scan",
    "sundayddr",
    "iwar",
    "sivus",
    "vaxsipuseragent",
    "pplsip",
];

/// What a request from outside the ACL gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// Nothing: it is dropped before it is parsed.
    Silent,
    /// 403.
    Refuse,
    /// An INVITE must authenticate, all else gets nothing; those inside need no password.
    Challenge,
}

/// Who may call with a password. Personal data and a password: prints without them.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// User name of the digest.
    pub name: String,
    /// Password in clear.
    pub password: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("User(…)")
    }
}

/// Settings of the guard. Build with `GuardConfig::default()` and struct update.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardConfig {
    /// Networks that may call; `None`: all. Servers we send REGISTER or OPTIONS to (trunks), and this machine (127.0.0.1, `::1`, the
    /// address bound to), always may.
    pub acl: Option<Vec<Network>>,
    /// What others get.
    pub unlisted: Unlisted,
    /// Parts of User-Agent (any case) that get no answer.
    pub scanners: Vec<String>,
    /// Realm of challenges.
    pub realm: String,
    /// With any, INVITEs are challenged: all of them, or those from outside the ACL with [`Unlisted::Challenge`].
    pub users: Vec<User>,
    /// How long a nonce is good, s.
    pub nonce_s: u32,
    /// New INVITEs a second from one source; 0 = no limit. This and the limits below hold for sources that no ACL names,
    /// never for this machine; an IPv6 source is its /64.
    pub invites_per_s: f64,
    /// INVITEs that may come at once.
    pub invite_burst: u32,
    /// Calls of one source at a time; 0 = no limit.
    pub calls_per_source: u32,
    /// Of these, unanswered or without ACK; 0 = no limit.
    pub pending_per_source: u32,
    /// The limits hold for sources that the ACL names as well.
    pub limit_listed: bool,
    /// Sources remembered one by one; more of them share one set of limits.
    pub sources_max: usize,
}

impl Default for GuardConfig {
    fn default() -> Self {
        GuardConfig {
            acl: None,
            unlisted: Unlisted::Silent,
            scanners: SCANNERS.iter().map(|s| (*s).to_owned()).collect(),
            realm: "voice-edge".to_owned(),
            users: Vec::new(),
            nonce_s: 60,
            invites_per_s: 10.0,
            invite_burst: 40,
            calls_per_source: 0,
            pending_per_source: 20,
            limit_listed: false,
            sources_max: 4096,
        }
    }
}

/// Text that fits into a quoted string of a header.
fn quotable(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && !text.chars().any(|c| c.is_control() || matches!(c, '"' | '\\'))
}

impl GuardConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// [`ConfigError`] with the field as `guard.…`.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let bad = |field, problem: String, remedy: &str| ConfigError::new(field, problem, remedy);
        if self.unlisted == Unlisted::Challenge && (self.acl.is_none() || self.users.is_empty()) {
            return Err(bad(
                "guard.unlisted",
                "challenge needs both an acl (who need no password) and users (who have one)".to_owned(),
                "name both, or use silent or refuse; users without an acl are challenged all the same",
            ));
        }
        if self.scanners.iter().any(|s| s.trim().len() < 3 || s.len() > 64) {
            return Err(bad(
                "guard.scanners",
                "an entry is not of 3 to 64 characters".to_owned(),
                "write a telling part of the User-Agent, such as friendly-scanner",
            ));
        }
        if !quotable(&self.realm) {
            return Err(bad(
                "guard.realm",
                "not 1 to 128 characters without quotes, backslashes and control characters"
                    .to_owned(),
                "write a name, such as voice-edge",
            ));
        }
        for (i, user) in self.users.iter().enumerate() {
            if !quotable(&user.name) || user.name.contains(':') {
                return Err(bad(
                    "guard.users",
                    format!(
                        "the name of user {} is empty, longer than 128, or has one of \" \\ :",
                        i + 1
                    ),
                    "use letters, digits and . - _",
                ));
            }
            if user.password.is_empty() || user.password.len() > 256 {
                return Err(bad(
                    "guard.users",
                    format!("the password of user {} is not of 1 to 256 characters", i + 1),
                    "give it a password",
                ));
            }
            if self.users.iter().take(i).any(|u| u.name == user.name) {
                return Err(bad(
                    "guard.users",
                    format!("user {} has the name of one before", i + 1),
                    "name each user once",
                ));
            }
        }
        let whole = |field, value: u32, least: u32, most: u32| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(bad(field, format!("{value} is out of range"), &format!("use {least} to {most}")))
        };
        whole("guard.nonce_s", self.nonce_s, 5, 3600)?;
        if !(self.invites_per_s >= 0.0 && self.invites_per_s <= 10_000.0) {
            return Err(bad(
                "guard.invites_per_s",
                format!("{} is out of range", self.invites_per_s),
                "use 0 (no limit) to 10000",
            ));
        }
        whole("guard.invite_burst", self.invite_burst, 1, 10_000)?;
        whole("guard.calls_per_source", self.calls_per_source, 0, 4000)?;
        whole("guard.pending_per_source", self.pending_per_source, 0, 4000)?;
        let sources = u32::try_from(self.sources_max).unwrap_or(u32::MAX);
        whole("guard.sources_max", sources, 16, 1_000_000)
    }
}
