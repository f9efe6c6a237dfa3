// SPDX-License-Identifier: GPL-3.0-or-later
//! Names of recordings.

use std::time::{SystemTime, UNIX_EPOCH};

/// `<UTC date and time>-<call>.wav`, such as `20260131T235959.123Z-17.wav`. Sorts by time, and holds no
/// number of a person.
pub(crate) fn recording_name(at: SystemTime, call: u64) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{millis:03}Z-{call}.wav")
}

/// Gregorian date of a day counted from 1970-01-01. Years are counted from March, so that the leap day
/// is the last of a year and months have a regular length pattern (153 days in five months).
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_BEFORE_1970: u64 = 719_468; // from 0000-03-01
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let days = days + DAYS_BEFORE_1970;
    let era = days / DAYS_IN_400_YEARS;
    let of_era = days % DAYS_IN_400_YEARS;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + carry, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn names_at_known_moments() {
        for (seconds, name) in [
            (0, "19700101T000000.000Z-7.wav"),
            (951_782_399, "20000228T235959.000Z-7.wav"),
            (951_782_400, "20000229T000000.000Z-7.wav"),
            (1_796_056_951, "20261130T164231.000Z-7.wav"),
            (4_107_542_400, "21000301T000000.000Z-7.wav"),
        ] {
            assert_eq!(recording_name(UNIX_EPOCH + Duration::from_secs(seconds), 7), name);
        }
    }
}
