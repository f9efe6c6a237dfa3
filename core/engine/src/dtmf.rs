// SPDX-License-Identifier: GPL-3.0-or-later
//! Keys of a call, whichever way they come and go: telephone-event in RTP (RFC 4733) or SIP INFO
//! (`application/dtmf-relay`, `application/dtmf`).

use std::time::Duration;

pub use crate::transport::rtp::event::Key;

/// How keys go out and which are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DtmfMode {
    /// Out by telephone-event when that was agreed on, else by INFO. Both are taken; a peer that sends
    /// each key both ways is heard once.
    #[default]
    Auto,
    /// Telephone-event only.
    Rtp,
    /// INFO only.
    Info,
}

/// How a key came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DtmfSource {
    /// Telephone-event.
    Rtp,
    /// SIP INFO.
    Info,
}

impl DtmfSource {
    /// As applications see it: `rtp` or `info`.
    pub fn name(self) -> &'static str {
        match self {
            DtmfSource::Rtp => "rtp",
            DtmfSource::Info => "info",
        }
    }
}

/// The same key by both ways is one press if it comes within this time.
const SAME_NS: u64 = Duration::from_secs(2).as_nanos() as u64;
/// After a key by RTP what comes by INFO is the same again, for this long.
const BY_RTP_NS: u64 = Duration::from_secs(10).as_nanos() as u64;

/// Sorts out, for one call, which keys are told.
#[derive(Debug, Default)]
pub(crate) struct DtmfFilter {
    /// Last key told that came by INFO.
    info: Option<(Key, u64)>,
    rtp_ns: Option<u64>,
}

impl DtmfFilter {
    /// Whether a key that went down at `at_ns` is told.
    pub(crate) fn passes(
        &mut self,
        mode: DtmfMode,
        key: Key,
        source: DtmfSource,
        at_ns: u64,
    ) -> bool {
        match (mode, source) {
            (DtmfMode::Rtp, DtmfSource::Info) | (DtmfMode::Info, DtmfSource::Rtp) => false,
            (_, DtmfSource::Info) => {
                if self.rtp_ns.is_some_and(|last| at_ns.saturating_sub(last) < BY_RTP_NS) {
                    return false;
                }
                self.info = Some((key, at_ns));
                true
            }
            (_, DtmfSource::Rtp) => {
                self.rtp_ns = Some(at_ns);
                // INFO came first, with the press that RTP tells only at its end.
                let before = self.info.take();
                !before.is_some_and(|(k, at)| k == key && at.abs_diff(at_ns) <= SAME_NS)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DtmfSource::{Info, Rtp};

    fn told(mode: DtmfMode, presses: &[(u8, DtmfSource, u64)]) -> Vec<usize> {
        let mut filter = DtmfFilter::default();
        let ms = |t: u64| t * 1_000_000;
        presses
            .iter()
            .enumerate()
            .filter(|(_, (code, source, at))| {
                Key::from_event(*code).is_some_and(|k| filter.passes(mode, k, *source, ms(*at)))
            })
            .map(|(i, _)| i)
            .collect()
    }

    #[test]
    fn one_way_alone_passes_whole_with_repeated_keys() {
        for source in [Rtp, Info] {
            let presses = [(1, source, 0), (1, source, 200), (1, source, 400), (2, source, 5000)];
            assert_eq!(told(DtmfMode::Auto, &presses), [0, 1, 2, 3]);
        }
    }

    #[test]
    fn a_peer_that_sends_each_key_both_ways_is_heard_once() {
        let rtp_first = [(1, Rtp, 0), (1, Info, 150), (1, Rtp, 400), (1, Info, 550)];
        assert_eq!(told(DtmfMode::Auto, &rtp_first), [0, 2]);
        let info_first = [(1, Info, 30), (1, Rtp, 0), (1, Info, 430), (1, Rtp, 400)];
        assert_eq!(told(DtmfMode::Auto, &info_first), [0, 3]);
        let much_later = [(1, Rtp, 0), (1, Info, 60_000), (1, Rtp, 59_900), (1, Rtp, 60_300)];
        assert_eq!(told(DtmfMode::Auto, &much_later), [0, 1, 3]);
    }

    #[test]
    fn a_peer_replaced_by_one_that_sends_info_only_is_heard() {
        assert_eq!(
            told(DtmfMode::Auto, &[(1, Rtp, 0), (1, Info, 11_000), (1, Info, 11_300)]),
            [0, 1, 2]
        );
    }

    #[test]
    fn the_mode_shuts_the_other_way() {
        let both = [(1, Rtp, 0), (2, Info, 500)];
        assert_eq!(told(DtmfMode::Rtp, &both), [0]);
        assert_eq!(told(DtmfMode::Info, &both), [1]);
        assert_eq!(told(DtmfMode::Auto, &both), [0]);
    }
}
