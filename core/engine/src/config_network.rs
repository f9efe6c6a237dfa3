// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks of settings of TLS, name servers and both IP versions.

use pjsip_sys::TlsConfig;

use crate::config::EngineConfig;
use crate::error::ConfigError;

/// Whether its files can be used.
pub(crate) fn check_tls(tls: &TlsConfig) -> Result<(), ConfigError> {
    pjsip_sys::check_tls(tls).map_err(|e| {
        ConfigError::new(
            "tls_ca_file, tls_cert_file, tls_key_file",
            e.to_string(),
            "give PEM files that this user can read; the key belongs to the certificate",
        )
    })
}

pub(crate) fn validate(config: &EngineConfig) -> Result<(), ConfigError> {
    let bad = ConfigError::new;
    let tls = &config.tls;
    if tls.cert_file.is_some() && config.tls_port != 0 && config.tls_port == config.sip_port {
        return Err(bad(
            "tls_port",
            format!("{} is sip_port as well", config.tls_port),
            "use 5061, or another port of its own",
        ));
    }
    let (first, last) = config.rtp_ports;
    if config.tls_port != 0 && (first..=last).contains(&config.tls_port) {
        return Err(bad(
            "rtp_ports",
            format!("({first}, {last}) contains tls_port {}", config.tls_port),
            "keep the TLS port outside the RTP ports",
        ));
    }
    if tls.cert_file.is_some() != tls.key_file.is_some() {
        let (missing, given) = if tls.cert_file.is_some() {
            ("tls_key_file", "tls_cert_file")
        } else {
            ("tls_cert_file", "tls_key_file")
        };
        return Err(bad(missing, format!("missing beside {given}"), "give both, or neither"));
    }
    if tls.verify_client && tls.cert_file.is_none() {
        return Err(bad(
            "tls_verify_client",
            "set without tls_cert_file".to_owned(),
            "give tls_cert_file and tls_key_file: without them nobody can connect",
        ));
    }
    check_tls(tls)?;
    let useless = |s: &std::net::SocketAddr| {
        s.ip().is_unspecified() || s.ip().is_multicast() || s.port() == 0
    };
    if config.nameservers.iter().any(useless) {
        return Err(bad(
            "nameservers",
            "an entry is no address of a server, or has port 0".to_owned(),
            "write them like 192.0.2.53, or leave it out for those of the system",
        ));
    }
    if config.dialogs.large_over_tcp && !config.tcp {
        return Err(bad(
            "large_requests",
            "\"tcp\" with tcp switched off".to_owned(),
            "set tcp = true, or large_requests = \"udp\"",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjsip_sys::Policy;

    fn field_of(config: &EngineConfig) -> &'static str {
        validate(config).map_or_else(|e| e.field, |()| "")
    }

    #[test]
    fn each_bad_value_names_its_field() {
        let d = EngineConfig::default;
        let tls = TlsConfig::default;
        let cert = || Some("/nowhere/cert.pem".into());
        let files = "tls_ca_file, tls_cert_file, tls_key_file";
        let both = TlsConfig { cert_file: cert(), key_file: cert(), ..tls() };
        let large = Policy { large_over_tcp: true, ..Policy::default() };
        let cases = [
            ("", d()),
            ("", EngineConfig { dialogs: large, ..d() }),
            ("tls_port", EngineConfig { tls_port: 5060, tls: both.clone(), ..d() }),
            ("rtp_ports", EngineConfig { tls_port: 20_000, ..d() }),
            ("tls_key_file", EngineConfig { tls: TlsConfig { cert_file: cert(), ..tls() }, ..d() }),
            ("tls_cert_file", EngineConfig { tls: TlsConfig { key_file: cert(), ..tls() }, ..d() }),
            (
                "tls_verify_client",
                EngineConfig { tls: TlsConfig { verify_client: true, ..tls() }, ..d() },
            ),
            (files, EngineConfig { tls: both, ..d() }),
            (files, EngineConfig { tls: TlsConfig { ca_file: cert(), ..tls() }, ..d() }),
            ("nameservers", EngineConfig { nameservers: vec![([0, 0, 0, 0], 53).into()], ..d() }),
            ("nameservers", EngineConfig { nameservers: vec![([192, 0, 2, 53], 0).into()], ..d() }),
            ("large_requests", EngineConfig { tcp: false, dialogs: large, ..d() }),
        ];
        for (field, config) in cases {
            assert_eq!(field_of(&config), field, "{config:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named_with_the_reason() {
        let tls = TlsConfig { ca_file: Some("/nowhere/ca.pem".into()), ..TlsConfig::default() };
        let config = EngineConfig { tls, ..EngineConfig::default() };
        let text = validate(&config).map_or_else(|e| e.to_string(), |()| String::new());
        assert!(text.contains("ca_file /nowhere/ca.pem: No such file"), "{text}");
    }
}
