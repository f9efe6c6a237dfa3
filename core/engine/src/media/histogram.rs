// SPDX-License-Identifier: GPL-3.0-or-later
//! Counts of durations in buckets that are 6 % wide: one writer, any reader, no locks.

use super::counters::Counter;

/// Buckets of a doubling.
const SPLIT: u32 = 16;
/// Below this each value has a bucket of its own.
const FINE: u64 = SPLIT as u64;
/// Up to 2^40 ns, some 18 minutes; what is longer counts as that.
const LARGEST: u32 = 40;
const BUCKETS: usize = ((LARGEST - SPLIT.ilog2() + 1) * SPLIT) as usize;

/// The counts.
#[derive(Debug)]
pub(crate) struct Histogram(Box<[Counter]>);

impl Default for Histogram {
    fn default() -> Self {
        Histogram((0..BUCKETS).map(|_| Counter::default()).collect())
    }
}

impl Histogram {
    /// For its one writer only.
    pub(crate) fn record(&self, value: u64) {
        if let Some(c) = self.0.get(bucket(value)) {
            c.add(1);
        }
    }

    /// Adds the counts so far to `all`.
    pub(crate) fn add_to(&self, all: &mut Distribution) {
        for (sum, c) in all.0.iter_mut().zip(&self.0) {
            *sum += c.get();
        }
    }
}

/// A copy of the counts. Since they only grow, the difference of two is what happened between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution(Vec<u64>);

impl Default for Distribution {
    fn default() -> Self {
        Distribution(vec![0; BUCKETS])
    }
}

impl Distribution {
    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Distribution) -> Distribution {
        Distribution(self.0.iter().zip(&earlier.0).map(|(n, e)| n.saturating_sub(*e)).collect())
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The value that the part `q` (0 to 1) of all values does not exceed, to within the width of
    /// a bucket (upwards); 0 without values.
    pub fn quantile(&self, q: f64) -> u64 {
        let wanted = (self.count() as f64 * q.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, n) in self.0.iter().enumerate() {
            seen += n;
            if seen >= wanted {
                return upper(i);
            }
        }
        0
    }
}

fn bucket(value: u64) -> usize {
    if value < FINE {
        return value as usize;
    }
    let doubling = value.ilog2();
    if doubling >= LARGEST {
        return BUCKETS - 1;
    }
    let fine = SPLIT.ilog2();
    let within = (value >> (doubling - fine)) as usize & (SPLIT as usize - 1);
    ((doubling - fine + 1) * SPLIT) as usize + within
}

/// Greatest value of a bucket.
fn upper(bucket: usize) -> u64 {
    if bucket < SPLIT as usize {
        return bucket as u64;
    }
    let shift = bucket as u32 / SPLIT - 1;
    let within = u64::from(bucket as u32 % SPLIT + SPLIT);
    ((within + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_a_bucket_that_is_at_most_a_sixteenth_wide() {
        for value in (0..200).chain((8..40).flat_map(|d| [(1u64 << d) - 1, 1 << d, (1 << d) + 77]))
        {
            let up = upper(bucket(value));
            assert!(up >= value && up - value <= value / 16, "{value} {up}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_of_what_happened_since() {
        let h = Histogram::default();
        (0..1000).for_each(|_| h.record(1_000_000));
        let mut before = Distribution::default();
        h.add_to(&mut before);
        (1..=1000).for_each(|v| h.record(v * 1000));
        let mut after = Distribution::default();
        h.add_to(&mut after);
        let between = after.since(&before);
        assert_eq!(between.count(), 1000);
        for (q, want) in [(0.5, 500_000), (0.99, 990_000), (0.999, 999_000), (1.0, 1_000_000)] {
            let got = between.quantile(q);
            assert!(got >= want && got <= want + want / 15, "{q}: {got}");
        }
        assert_eq!(Distribution::default().quantile(0.5), 0);
    }
}
