// SPDX-License-Identifier: GPL-3.0-or-later
//! When the silence of a peer is worth telling. Sans-I/O.
//!
//! Silence counts from the answer on, and only while the direction says that the peer sends. A peer
//! that announced silence by comfort noise (RFC 3389) may send nothing at all for as long as nobody
//! speaks, and has a longer time; one whose RTCP still comes after it has been heard is there.

/// Times of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Without anything.
    pub(crate) silent_ns: u64,
    /// After comfort noise.
    pub(crate) noise_ns: u64,
}

/// State of a call.
#[derive(Debug)]
pub(crate) struct Alive {
    limits: Limits,
    /// Silence counts from here; `None` before the answer and while the peer need not send.
    since_ns: Option<u64>,
    answered: bool,
    /// RTP came since the peer is to send.
    heard: bool,
    noise: bool,
    told: bool,
}

impl Alive {
    pub(crate) fn new(limits: Limits) -> Alive {
        let since_ns = None;
        Alive { limits, since_ns, answered: false, heard: false, noise: false, told: false }
    }

    /// The call was answered.
    pub(crate) fn answered(&mut self) {
        self.answered = true;
    }

    /// RTP of the peer came: audio or a key, or comfort noise.
    pub(crate) fn heard(&mut self, noise: bool, now_ns: u64) {
        self.since_ns = Some(now_ns);
        (self.heard, self.noise, self.told) = (true, noise, false);
    }

    /// RTCP of the peer came last at this time. Before any RTP it proves nothing: audio that never
    /// comes is what is to be found out.
    pub(crate) fn rtcp(&mut self, at_ns: u64) {
        if let (true, Some(since)) = (self.heard, &mut self.since_ns) {
            *since = at_ns.max(*since);
        }
    }

    /// Whether the peer is to send, asked once a tick. Gives the length of a silence that has just
    /// become too long; each is told once.
    pub(crate) fn poll(&mut self, expected: bool, now_ns: u64) -> Option<u64> {
        if !expected || !self.answered {
            self.since_ns = None;
            (self.heard, self.noise, self.told) = (false, false, false);
            return None;
        }
        let since = *self.since_ns.get_or_insert(now_ns);
        let silent_ns = now_ns.saturating_sub(since);
        let limit = if self.noise { self.limits.noise_ns } else { self.limits.silent_ns };
        if silent_ns < limit || std::mem::replace(&mut self.told, true) {
            return None;
        }
        Some(silent_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn alive() -> Alive {
        Alive::new(Limits { silent_ns: 30 * S, noise_ns: 120 * S })
    }

    /// Times in seconds at which silence is told, polled ten times a second.
    fn told(a: &mut Alive, from: u64, to: u64, expected: bool) -> Vec<u64> {
        (from * 10..to * 10).filter_map(|i| a.poll(expected, i * S / 10).map(|_| i / 10)).collect()
    }

    #[test]
    fn ringing_is_no_silence_and_the_answer_starts_the_clock() {
        let mut a = alive();
        assert!(told(&mut a, 0, 180, true).is_empty());
        a.answered();
        assert_eq!(told(&mut a, 180, 400, true), [210]);
    }

    #[test]
    fn early_media_does_not_shorten_the_time_after_the_answer() {
        let mut a = alive();
        a.heard(false, S);
        assert!(told(&mut a, 1, 100, true).is_empty());
        a.answered();
        assert_eq!(told(&mut a, 100, 200, true), [130]);
    }

    #[test]
    fn hold_is_no_silence_however_long_and_its_end_starts_the_clock() {
        let mut a = alive();
        a.answered();
        a.heard(false, 0);
        assert!(told(&mut a, 0, 20, true).is_empty());
        assert!(told(&mut a, 20, 4000, false).is_empty());
        assert_eq!(told(&mut a, 4000, 4100, true), [4030]);
    }

    #[test]
    fn each_silence_is_told_once_and_the_next_one_again() {
        let mut a = alive();
        a.answered();
        a.heard(false, 0);
        assert_eq!(told(&mut a, 0, 100, true), [30]);
        a.heard(false, 100 * S);
        assert_eq!(told(&mut a, 100, 200, true), [130]);
    }

    #[test]
    fn comfort_noise_gives_more_time_and_audio_takes_it_back() {
        let mut a = alive();
        a.answered();
        a.heard(true, 0);
        assert_eq!(told(&mut a, 0, 200, true), [120]);
        a.heard(true, 200 * S);
        a.heard(false, 201 * S);
        assert_eq!(told(&mut a, 201, 300, true), [231]);
    }

    #[test]
    fn rtcp_keeps_a_peer_alive_that_was_heard_and_no_other() {
        let mut a = alive();
        a.answered();
        assert_eq!(told(&mut a, 0, 10, true), []);
        a.rtcp(10 * S);
        assert_eq!(told(&mut a, 10, 60, true), [30]);
        let mut a = alive();
        a.answered();
        a.heard(false, 0);
        for t in (0..300).step_by(5) {
            a.rtcp(t * S);
            assert_eq!(told(&mut a, t, t + 5, true), []);
        }
        assert_eq!(told(&mut a, 300, 400, true), [325]);
    }
}
