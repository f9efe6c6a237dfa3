// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether what is agreed to inside of calls makes sense.

use pjsip_sys::Policy;

use crate::error::ConfigError;

/// Longest session interval, s. RFC 4028 has no limit; a call that nobody refreshes holds its ports that long.
const LONGEST_S: u32 = 86_400;
const MOST_REDIRECTS: u8 = 20;

pub(crate) fn validate(policy: &Policy) -> Result<(), ConfigError> {
    let bad = |field, problem: String, remedy: &str| Err(ConfigError::new(field, problem, remedy));
    if !(90..=LONGEST_S).contains(&policy.min_se_s) {
        return bad(
            "min_session_expires_s",
            format!("{} is out of range", policy.min_se_s),
            "use 90 to 86400 seconds (RFC 4028 section 5)",
        );
    }
    if !(policy.min_se_s..=LONGEST_S).contains(&policy.session_expires_s) {
        return bad(
            "session_expires_s",
            format!(
                "{} is not between min_session_expires_s {} and {LONGEST_S}",
                policy.session_expires_s, policy.min_se_s
            ),
            "use about 1800 seconds",
        );
    }
    if policy.redirects > MOST_REDIRECTS {
        return bad(
            "redirects",
            format!("{} is out of range", policy.redirects),
            "use 0 (3xx ends the call) to 20",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bad_value_names_its_field() {
        let d = Policy::default;
        assert_eq!(validate(&d()), Ok(()));
        for (field, policy) in [
            ("min_session_expires_s", Policy { min_se_s: 89, ..d() }),
            ("session_expires_s", Policy { session_expires_s: 100, min_se_s: 200, ..d() }),
            ("session_expires_s", Policy { session_expires_s: 90_000, ..d() }),
            ("redirects", Policy { redirects: 21, ..d() }),
        ] {
            assert_eq!(validate(&policy).map_err(|e| e.field), Err(field), "{policy:?}");
        }
    }
}
