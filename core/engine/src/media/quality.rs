// SPDX-License-Identifier: GPL-3.0-or-later
//! How a call sounds, by the E-model: transmission rating R (ITU-T G.107, 06/2015) and the mean opinion
//! score it stands for (G.107 Annex B).
//!
//! R = 93.2 - Idd - Ie,eff. 93.2 is R with the default values of G.107 Table 2 (section 7.7), which no
//! caller's telephone is measured against here; there is no echo. Idd (equation 7-27) is the one-way
//! delay's impairment for default users (sT = 1, mT = 100 ms). Ie,eff (equation 7-29) is that of loss.

use super::Codec;

/// G.107 section 7.7.
const R_DEFAULT: f64 = 93.2;
/// Delay nobody notices (G.107 Table 1, class "default").
const UNNOTICED_MS: f64 = 100.0;
/// A packet of 20 ms is full before it leaves.
const PACKET_MS: f64 = 20.0;
/// Half a tick: the mean time that a packet waits in the socket.
const SOCKET_MS: f64 = 10.0;

/// What a codec costs: Ie and Bpl.
#[derive(Clone, Copy, Debug)]
struct Impairment {
    ie: f64,
    bpl: f64,
}

/// G.113 Appendix I (11/2007) Table I.3: G.711 with concealment after its Appendix I, ours and, as is
/// assumed, the peer's. For the narrow-band scale it has no values of other codecs of ours: they are
/// rated as G.711 is, though a wide band sounds better than that scale can tell.
fn impairment(_codec: Codec) -> Impairment {
    Impairment { ie: 0.0, bpl: 25.1 }
}

/// Packets of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loss {
    /// Packets that should have been there in time.
    pub(crate) expected: u64,
    /// Those that were not.
    pub(crate) lost: u64,
    /// Runs that they were lost in, if known.
    pub(crate) gaps: Option<u64>,
}

/// Times of one direction, ms.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delay {
    /// There and back, if known; half of it is taken for each way.
    pub(crate) round_trip: Option<f64>,
    /// The receiver's jitter buffer.
    pub(crate) buffer: f64,
}

impl Delay {
    fn one_way(self) -> f64 {
        self.round_trip.unwrap_or(0.0) / 2.0 + self.buffer + PACKET_MS + SOCKET_MS
    }
}

/// Mean opinion score of one direction, 1 to 4.5; `None` when nothing was expected yet.
pub(crate) fn mos(codec: Codec, loss: Loss, delay: Delay) -> Option<f64> {
    let r = R_DEFAULT - idd(delay.one_way()) - ie_eff(impairment(codec), loss)?;
    Some(mos_of(r))
}

/// Equation 7-27 with 7-28.
fn idd(ta_ms: f64) -> f64 {
    if ta_ms <= UNNOTICED_MS {
        return 0.0;
    }
    let x = (ta_ms / UNNOTICED_MS).log2();
    let root = |v: f64| (1.0 + v.powi(6)).powf(1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

/// Equation 7-29. BurstR is the mean length of the runs of loss over what chance would give.
fn ie_eff(i: Impairment, loss: Loss) -> Option<f64> {
    if loss.expected == 0 {
        return None;
    }
    let p = (loss.lost as f64 / loss.expected as f64).min(1.0);
    let burst = match loss.gaps {
        Some(gaps) if gaps > 0 => (loss.lost as f64 / gaps as f64 * (1.0 - p)).max(1.0),
        _ => 1.0,
    };
    let percent = p * 100.0;
    Some(i.ie + (95.0 - i.ie) * percent / (percent / burst + i.bpl))
}

/// Equation B-4.
fn mos_of(r: f64) -> f64 {
    match r {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        // Below about 6.5 the polynomial falls under 1.
        r => (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, by: f64) {
        assert!((a - b).abs() <= by, "{a}, expected {b}");
    }

    fn score(lost: u64, gaps: Option<u64>, round_trip: f64) -> f64 {
        let loss = Loss { expected: 1000, lost, gaps };
        let delay = Delay { round_trip: Some(round_trip), buffer: 20.0 };
        mos(Codec::Pcma, loss, delay).unwrap_or(0.0)
    }

    /// G.107 section 7.7 and Table B.1: R 93.2 is 4.41, 90 4.34, 80 4.03, 70 3.60, 60 3.10, 50 2.58.
    #[test]
    fn scores_of_the_recommendations_table() {
        for (r, m) in
            [(93.2, 4.41), (90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)]
        {
            // Printed there to two places, not always rounded to the nearest.
            close(mos_of(r), m, 0.007);
        }
        assert_eq!((mos_of(-5.0), mos_of(3.0), mos_of(120.0)), (1.0, 1.0, 4.5));
    }

    #[test]
    fn delay_costs_nothing_to_100_ms_and_much_from_200_ms_on() {
        assert_eq!(idd(100.0), 0.0);
        close(idd(150.0), 0.0, 0.5);
        // X is 1 at 200 ms and 2 at 400 ms: by hand.
        close(idd(200.0), 3.04, 0.02);
        close(idd(400.0), 24.1, 0.1);
        close(score(0, None, 20.0), 4.41, 0.01);
        assert!(score(0, None, 600.0) < 3.8);
    }

    #[test]
    fn loss_costs_what_its_equation_says_and_more_in_bursts() {
        // 1 % of single losses: 95 * 1 / (1 + 25.1) = 3.64 of R.
        close(
            ie_eff(impairment(Codec::Pcma), Loss { expected: 1000, lost: 10, gaps: Some(10) })
                .unwrap_or(0.0),
            95.0 / 26.1,
            1e-9,
        );
        close(score(10, None, 20.0), mos_of(R_DEFAULT - 95.0 / 26.1), 1e-9);
        assert!(score(50, Some(10), 20.0) < score(50, Some(50), 20.0));
        assert!(score(1000, Some(1), 20.0) < 1.6);
    }

    #[test]
    fn nothing_expected_is_no_score() {
        assert_eq!(mos(Codec::Pcmu, Loss::default(), Delay::default()), None);
    }
}
