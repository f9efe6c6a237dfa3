// SPDX-License-Identifier: GPL-3.0-or-later
//! Hand-over of a frame from the stack to the core: from our RTP layer, which has checked header,
//! source, SSRC and sequence, into the call's jitter buffer, from which the tick takes it. Beside
//! it all of the way from the datagram just read.
//!
//! Between two packets of a call all the others are dealt with, and whole ticks, so that nothing
//! is warmer in the caches than it is at work.

use voicecore_engine::media::probe::Probe;

use crate::{now_ns, pcm, Options, Outcome};

/// See the module.
pub fn run(options: &Options) -> Outcome<()> {
    let calls = options.number("calls", 400)?.next_multiple_of(2);
    let ticks = options.number("ticks", 500)?;
    let mut probe = Probe::new(calls, &pcm(options.text("pcm")?)?)?;
    for _ in 0..100 {
        probe.tick(now_ns);
    }
    let mut times = Vec::with_capacity(ticks * calls);
    for _ in 0..ticks {
        probe.tick_timed(now_ns, &mut times);
    }
    // What reading the clock costs is no part of it: the least of many times.
    let clock = (0..10_000).map(|_| now_ns()).collect::<Vec<_>>();
    let clock = clock.windows(2).map(|w| w[1] - w[0]).min().unwrap_or(0);
    let (mut handed, mut whole): (Vec<u64>, Vec<u64>) = times.into_iter().unzip();
    handed.sort_unstable();
    whole.sort_unstable();
    let at = |sorted: &[u64], q: f64| sorted[((sorted.len() - 1) as f64 * q) as usize];
    let [_, received, lost, _] = probe.totals();
    println!(
        "{{\"frames\": {}, \"p50_ns\": {}, \"p99_ns\": {}, \"whole_p50_ns\": {}, \
         \"whole_p99_ns\": {}, \"clock_ns\": {clock}, \"received\": {received}, \"lost\": {lost}}}",
        handed.len(),
        at(&handed, 0.5).saturating_sub(clock),
        at(&handed, 0.99).saturating_sub(clock),
        at(&whole, 0.5).saturating_sub(3 * clock),
        at(&whole, 0.99).saturating_sub(3 * clock),
    );
    Ok(())
}
