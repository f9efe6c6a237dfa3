// SPDX-License-Identifier: GPL-3.0-or-later
//! What a trunk must be for the stack to take it: the same rule before the start and at it.

use crate::error::ConfigError;

/// A trunk as an application names it. Personal data and a password: no `Debug`.
#[derive(Default)]
pub struct TrunkSettings {
    /// SIP URI of registrar or server.
    pub server: String,
    /// Outbound proxy.
    pub proxy: Option<String>,
    /// Our name there.
    pub aor: Option<String>,
    /// For digest authentication.
    pub username: Option<String>,
    /// For digest authentication.
    pub password: Option<String>,
    /// That they are for.
    pub realm: String,
    /// Lifetime of the registration, s.
    pub expires_s: u32,
    /// What log lines call it.
    pub name: String,
}

const URI_REMEDY: &str = "write it as sip:host or sip:host:port, the port from 1 to 65535";

/// Checks every field.
///
/// # Errors
/// [`ConfigError`] with the field as `trunk.…`; its text quotes nothing private.
pub fn check_trunk(trunk: &TrunkSettings) -> Result<(), ConfigError> {
    let name = trunk.name.trim();
    if name.is_empty() || name.chars().count() > 64 || trunk.name.chars().any(char::is_control) {
        return Err(ConfigError::new(
            "trunk.name",
            "empty, longer than 64 characters, or with a control character",
            "give it a short name on one line",
        ));
    }
    let uri = |field, text: Option<&String>, remedy: &str| match text {
        Some(text) if pjsip_sys::check_uri(text, field).is_err() => {
            Err(ConfigError::new(field, "not a SIP URI that can be used", remedy))
        }
        _ => Ok(()),
    };
    uri("trunk.server", Some(&trunk.server), URI_REMEDY)?;
    uri("trunk.proxy", trunk.proxy.as_ref(), URI_REMEDY)?;
    uri("trunk.aor", trunk.aor.as_ref(), "write it as sip:user@domain")?;
    for (field, text) in
        [("trunk.username", trunk.username.as_ref()), ("trunk.realm", Some(&trunk.realm))]
    {
        if text.is_some_and(|text| pjsip_sys::check_header_text(text, field).is_err()) {
            return Err(ConfigError::new(
                field,
                "longer than 256 characters, or with a quote, a backslash or a control character",
                "write it as the provider gave it, without quotes around it",
            ));
        }
    }
    if trunk.password.as_ref().is_some_and(|p| p.len() > 256 || p.chars().any(char::is_control)) {
        return Err(ConfigError::new(
            "trunk.password",
            "longer than 256 characters, or with a control character",
            "put the password alone into its file",
        ));
    }
    if !(10..=604_800).contains(&trunk.expires_s) {
        return Err(ConfigError::new(
            "trunk.expires_s",
            format!("{} is out of range", trunk.expires_s),
            "use 10 to 604800",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> TrunkSettings {
        TrunkSettings {
            server: "sip:sip.example.com:5060;transport=tcp".into(),
            proxy: Some("sip:[2001:db8::1]".into()),
            aor: Some("sip:100@example.com".into()),
            username: Some("100".into()),
            password: Some("pässword \"quoted\"".into()),
            realm: "*".into(),
            expires_s: 300,
            name: "büro".into(),
        }
    }

    #[test]
    fn each_field_is_named() {
        assert_eq!(check_trunk(&good()), Ok(()));
        for (field, bad) in [
            ("trunk.server", TrunkSettings { server: "sip:host:99999".into(), ..good() }),
            ("trunk.proxy", TrunkSettings { proxy: Some("host".into()), ..good() }),
            ("trunk.aor", TrunkSettings { aor: Some("sip:my name@host".into()), ..good() }),
            ("trunk.username", TrunkSettings { username: Some("a\"b".into()), ..good() }),
            ("trunk.realm", TrunkSettings { realm: "a\\b".into(), ..good() }),
            ("trunk.password", TrunkSettings { password: Some("a\nb".into()), ..good() }),
            ("trunk.expires_s", TrunkSettings { expires_s: 5, ..good() }),
            ("trunk.name", TrunkSettings { name: "a\nERROR all is lost".into(), ..good() }),
            ("trunk.name", TrunkSettings { name: " ".into(), ..good() }),
        ] {
            let error = check_trunk(&bad).unwrap_err();
            assert_eq!(error.field, field);
            assert!(!error.to_string().contains("my name"));
        }
    }
}
