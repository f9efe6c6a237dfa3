// SPDX-License-Identifier: GPL-3.0-or-later
//! Hand-over of a frame from the stack to the core: from the moment a datagram was read to its
//! payload in the call's jitter buffer, from which the tick takes it. In between lie the RTP header,
//! the check of the source, sequence and jitter statistics.
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
    times.sort_unstable();
    let at = |q: f64| times[((times.len() - 1) as f64 * q) as usize].saturating_sub(clock);
    let mean = times.iter().sum::<u64>() / times.len() as u64 - clock;
    let [_, received, lost, _] = probe.totals();
    println!(
        "{{\"frames\": {}, \"p50_ns\": {}, \"p99_ns\": {}, \"mean_ns\": {mean}, \
         \"clock_ns\": {clock}, \"received\": {received}, \"lost\": {lost}}}",
        times.len(),
        at(0.5),
        at(0.99),
    );
    Ok(())
}
