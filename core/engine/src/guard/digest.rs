// SPDX-License-Identifier: GPL-3.0-or-later
//! Digest authentication of callers: RFC 7616 as RFC 8760 brings it to SIP, MD5 and SHA-256, `qop=auth`.

use std::time::Instant;

use pjsip_sys::{hash, Credential, Hash};

use super::config::GuardConfig;
use super::nonce::{same, to_hex, Nonces, Standing};

const METHOD: &[u8] = b"INVITE";

/// What the credentials of a request are worth.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Right, and used for the first time: of this user.
    Right(String),
    /// None for our realm.
    Absent,
    /// Right in itself, but the nonce is too old or was used with this count: try again with a new one.
    Stale,
    /// Wrong.
    Wrong,
}

/// Values of WWW-Authenticate, the stronger first (RFC 8760 section 2.4).
pub(super) fn challenges(
    config: &GuardConfig,
    nonces: &mut Nonces,
    stale: bool,
    now: Instant,
) -> Vec<String> {
    let nonce = nonces.issue(now);
    let stale = if stale { ", stale=true" } else { "" };
    ["SHA-256", "MD5"]
        .iter()
        .map(|algorithm| {
            format!(
                "Digest realm=\"{}\", nonce=\"{nonce}\", algorithm={algorithm}, qop=\"auth\"{stale}",
                config.realm
            )
        })
        .collect()
}

fn joined(hash_kind: Hash, parts: &[&[u8]]) -> String {
    to_hex(&hash(hash_kind, &parts.join(&b':')))
}

/// The response that `password` gives (RFC 7616 section 3.4.1; without qop as RFC 2069).
fn expected(kind: Hash, c: &Credential<'_>, password: &[u8]) -> String {
    let secret = joined(kind, &[c.username, c.realm, password]);
    // The URI is the one that the client hashed: proxies may have changed that of the request (RFC 3261 section 22.4).
    let what = joined(kind, &[METHOD, c.uri]);
    if c.qop.is_empty() {
        joined(kind, &[secret.as_bytes(), c.nonce, what.as_bytes()])
    } else {
        joined(kind, &[secret.as_bytes(), c.nonce, c.nc, c.cnonce, c.qop, what.as_bytes()])
    }
}

fn algorithm(name: &[u8]) -> Option<Hash> {
    if name.is_empty() || name.eq_ignore_ascii_case(b"MD5") {
        Some(Hash::Md5)
    } else if name.eq_ignore_ascii_case(b"SHA-256") {
        Some(Hash::Sha256)
    } else {
        None
    }
}

/// The count: eight hexadecimal digits with qop, else the one use that such a nonce has.
fn count(c: &Credential<'_>) -> Option<u32> {
    if c.qop.is_empty() {
        return Some(u32::MAX);
    }
    let whole = c.nc.len() == 8 && c.nc.iter().all(u8::is_ascii_hexdigit);
    if !c.qop.eq_ignore_ascii_case(b"auth") || c.cnonce.is_empty() || !whole {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(c.nc).ok()?, 16).ok().filter(|n| *n > 0)
}

/// Looks at all credentials for our realm; one that is right is enough.
pub(super) fn verify(
    config: &GuardConfig,
    nonces: &mut Nonces,
    credentials: &[Credential<'_>],
    now: Instant,
) -> Outcome {
    let mut outcome = Outcome::Absent;
    for credential in credentials.iter().filter(|c| c.realm == config.realm.as_bytes()) {
        match one(config, nonces, credential, now) {
            Outcome::Right(user) => return Outcome::Right(user),
            Outcome::Stale => outcome = Outcome::Stale,
            other if outcome != Outcome::Stale => outcome = other,
            _ => {}
        }
    }
    outcome
}

fn one(config: &GuardConfig, nonces: &mut Nonces, c: &Credential<'_>, now: Instant) -> Outcome {
    let (Some(kind), Some(count)) = (algorithm(c.algorithm), count(c)) else {
        return Outcome::Wrong;
    };
    let user = config.users.iter().find(|u| u.name.as_bytes() == c.username);
    // Names that do not exist take as long as those that do.
    let password = user.map_or(&b"nobody"[..], |u| u.password.as_bytes());
    let expected = expected(kind, c, password);
    let given = c.response.to_ascii_lowercase();
    if expected.is_empty() || !same(expected.as_bytes(), &given) || user.is_none() {
        return Outcome::Wrong;
    }
    match nonces.standing(c.nonce, now) {
        Standing::Good(id) if nonces.spend(id, count, now) => {
            Outcome::Right(user.map(|u| u.name.clone()).unwrap_or_default())
        }
        // Also what another run of ours made: the password is right, so it is worth a second try.
        Standing::Good(_) | Standing::Stale | Standing::Forged => Outcome::Stale,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::User;
    use std::time::Duration;

    fn config() -> GuardConfig {
        GuardConfig {
            users: vec![User { name: "alice".into(), password: "secret".into() }],
            ..GuardConfig::default()
        }
    }

    fn right() -> Outcome {
        Outcome::Right("alice".into())
    }

    struct Answer {
        user: &'static str,
        nonce: String,
        nc: &'static str,
        qop: &'static str,
        algorithm: &'static str,
        realm: &'static str,
    }

    impl Answer {
        fn to(nonce: &str) -> Answer {
            Answer {
                user: "alice",
                nonce: nonce.to_owned(),
                nc: "00000001",
                qop: "auth",
                algorithm: "SHA-256",
                realm: "voice-edge",
            }
        }

        fn judged(&self, nonces: &mut Nonces, password: &str, now: Instant) -> Outcome {
            let mut credential = Credential {
                username: self.user.as_bytes(),
                realm: self.realm.as_bytes(),
                nonce: self.nonce.as_bytes(),
                uri: b"sip:agent@192.0.2.1",
                response: b"",
                algorithm: self.algorithm.as_bytes(),
                cnonce: b"c0ffee",
                qop: self.qop.as_bytes(),
                nc: self.nc.as_bytes(),
            };
            let kind = algorithm(credential.algorithm).unwrap_or(Hash::Md5);
            let response = expected(kind, &credential, password.as_bytes()).to_ascii_uppercase();
            credential.response = response.as_bytes();
            verify(&config(), nonces, &[credential], now)
        }
    }

    #[test]
    fn the_response_of_rfc_7616() {
        // Section 3.9.1 with method GET; ours is INVITE, so only the arithmetic is compared.
        let uri = b"/dir/index.html";
        let secret = joined(Hash::Md5, &[b"Mufasa", b"http-auth@example.org", b"Circle of Life"]);
        let what = joined(Hash::Md5, &[b"GET", uri]);
        let nonce = b"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v";
        let cnonce = b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let response = joined(
            Hash::Md5,
            &[secret.as_bytes(), nonce, b"00000001", cnonce, b"auth", what.as_bytes()],
        );
        assert_eq!(response, "8ca523f5e9506fed4657c9700eebdbec");
    }

    #[test]
    fn right_wrong_replayed_and_stale() {
        let now = Instant::now();
        let mut nonces = Nonces::new([1; 32], Duration::from_secs(60), now);
        let nonce = nonces.issue(now);
        for algorithm in ["SHA-256", "MD5", ""] {
            let nonce = nonces.issue(now);
            let answer = Answer { algorithm, ..Answer::to(&nonce) };
            assert_eq!(answer.judged(&mut nonces, "secret", now), right(), "{algorithm}");
        }
        let answer = Answer::to(&nonce);
        assert_eq!(answer.judged(&mut nonces, "wrong", now), Outcome::Wrong);
        assert_eq!(answer.judged(&mut nonces, "secret", now), right());
        assert_eq!(answer.judged(&mut nonces, "secret", now), Outcome::Stale, "replayed");
        let next = Answer { nc: "00000002", ..Answer::to(&nonce) };
        assert_eq!(next.judged(&mut nonces, "secret", now), right());
        let late = now + Duration::from_secs(61);
        let next = Answer { nc: "00000003", ..Answer::to(&nonce) };
        assert_eq!(next.judged(&mut nonces, "secret", late), Outcome::Stale);
        assert_eq!(next.judged(&mut nonces, "wrong", late), Outcome::Wrong);
        assert_eq!(Answer::to("made up").judged(&mut nonces, "secret", now), Outcome::Stale);
    }

    #[test]
    fn what_is_not_for_us_or_not_whole() {
        let now = Instant::now();
        let mut nonces = Nonces::new([1; 32], Duration::from_secs(60), now);
        let nonce = nonces.issue(now);
        let to = || Answer::to(&nonce);
        let mut judged = |answer: Answer, password| answer.judged(&mut nonces, password, now);
        assert_eq!(judged(Answer { realm: "elsewhere", ..to() }, "secret"), Outcome::Absent);
        for answer in [
            Answer { user: "bob", ..to() },
            Answer { algorithm: "MD5-sess", ..to() },
            Answer { algorithm: "SHA-512-256", ..to() },
            Answer { qop: "auth-int", ..to() },
            Answer { nc: "00000000", ..to() },
            Answer { nc: "1", ..to() },
            Answer { nc: "+0000001", ..to() },
        ] {
            let name = (answer.user, answer.algorithm, answer.qop, answer.nc);
            assert_eq!(judged(answer, "secret"), Outcome::Wrong, "{name:?}");
        }
        assert_eq!(judged(Answer { user: "bob", ..to() }, "nobody"), Outcome::Wrong);
        // Without qop a nonce is good for one request.
        assert_eq!(judged(Answer { qop: "", ..to() }, "secret"), right());
        assert_eq!(judged(Answer { qop: "", ..to() }, "secret"), Outcome::Stale);
        assert_eq!(verify(&config(), &mut nonces, &[], now), Outcome::Absent);
    }
}
