// SPDX-License-Identifier: GPL-3.0-or-later
//! The jitter buffer over long virtual times on networks made from a seed. The figures of
//! `cargo test -p voicecore-engine --lib networks -- --nocapture` are printed as a table.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::rig::{Random, MS};
use crate::media::jitter::{Arrival, JitterBuffer};
use crate::media::{g711, Codec, Rate, FRAME, TICK_NS};
use crate::transport::rtp::packet::RtpPacket;
use crate::transport::rtp::receiver::{Receiver, Verdict};

/// What happens to the packets of a stream.
#[derive(Clone, Copy)]
struct Path {
    /// Chance in 1000 that a run of losses begins, and that it goes on.
    burst: (u64, u64),
    /// Each packet alone is late by up to so much, ms: they overtake each other.
    scatter_ms: u64,
    /// A queue that grows and shrinks up to so much, ms: they keep their order.
    queue_ms: u64,
    /// Chance in 1000 of being held back, and for how long, ms.
    held: (u64, u64),
    /// Clock of the sender against ours.
    ppm: i64,
    /// Talk-spurts with nothing sent between them.
    spurts: bool,
}

const CLEAN: Path =
    Path { burst: (0, 0), scatter_ms: 0, queue_ms: 0, held: (0, 0), ppm: 0, spurts: false };

#[derive(Debug, Default)]
struct Outcome {
    sent: u64,
    dropped: u64,
    lost: u64,
    late: u64,
    /// Frames with concealed audio in which something was to be heard.
    concealed: u64,
    /// Delay of what is played, ms: mean of the first tenth, of the last, 95 of 100, greatest.
    first: f64,
    last: f64,
    p95: f64,
    most: f64,
}

struct Sender {
    random: Random,
    path: Path,
    start: u64,
    n: u64,
    sequence: u16,
    in_burst: bool,
    queue: i64,
    /// Packets until the spurt or the pause is over.
    left: u64,
    talking: bool,
    last_arrival: u64,
}

impl Sender {
    /// When the next packet is made, and when it arrives.
    fn next(&mut self) -> (u64, Option<u64>) {
        let path = self.path;
        let at = self.start as i64 + self.n as i64 * 20 * (1_000_000 + path.ppm);
        self.n += 1;
        if path.spurts {
            if self.left == 0 {
                self.talking = !self.talking;
                self.left = if self.talking {
                    50 + self.random.below(150)
                } else {
                    25 + self.random.below(125)
                };
            }
            self.left -= 1;
            if !self.talking {
                return (at as u64, None);
            }
        }
        self.sequence = self.sequence.wrapping_add(1);
        let chance = if self.in_burst { path.burst.1 } else { path.burst.0 };
        self.in_burst = self.random.below(1000) < chance;
        if self.in_burst {
            return (at as u64, None);
        }
        if path.queue_ms > 0 {
            let step = self.random.below(21) as i64 - 10;
            self.queue = (self.queue + step).clamp(0, path.queue_ms as i64);
        }
        let mut arrival = at as u64
            + self.queue as u64 * MS
            + self.random.below(path.scatter_ms * MS + 1)
            + 5 * MS;
        if path.queue_ms > 0 && path.scatter_ms == 0 {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        if self.random.below(1000) < path.held.0 {
            arrival += path.held.1 * MS;
        }
        (at as u64, Some(arrival))
    }
}

fn run(path: Path, seconds: u64, seed: u64) -> Outcome {
    let start = 5_000_000_000_000u64;
    let mut sender = Sender {
        random: Random::new(seed),
        path,
        start,
        n: 0,
        sequence: 0,
        in_burst: false,
        queue: 0,
        left: 0,
        talking: false,
        last_arrival: 0,
    };
    let payload: Vec<u8> = (0..FRAME)
        .map(|i| ((i as f64 * std::f64::consts::TAU / 20.0).sin() * 6000.0) as i16)
        .map(|s| g711::encode_one(g711::Law::A, s))
        .collect();
    let mut buffer = JitterBuffer::new(Rate::R8k, 20, 200);
    buffer.set_codec(Codec::Pcma);
    let mut receiver = Receiver::default();
    let mut wire: BinaryHeap<Reverse<(u64, u16, u32)>> = BinaryHeap::new();
    let mut out = Outcome::default();
    let (ticks, mut made) = (seconds * 50, 0);
    let mut delays: Vec<f64> = Vec::new();
    let mut frame = [0i16; FRAME];
    for tick in 1..=ticks {
        let now = start + tick * TICK_NS;
        while made <= now {
            let sequence_before = sender.sequence;
            let (at, arrival) = sender.next();
            made = at;
            let timestamp = (sender.n as u32 - 1).wrapping_mul(FRAME as u32);
            if let Some(arrival) = arrival {
                out.sent += 1;
                wire.push(Reverse((arrival, sender.sequence, timestamp)));
            } else if sender.sequence != sequence_before {
                out.sent += 1;
                out.dropped += 1;
            }
        }
        while let Some(Reverse((at_ns, sequence, timestamp))) = wire.peek().copied() {
            if at_ns > now {
                break;
            }
            wire.pop();
            let packet = RtpPacket {
                marker: false,
                payload_type: 8,
                sequence,
                timestamp,
                ssrc: 1,
                payload: &payload,
            };
            if let Verdict::Take { fresh, follows, newest } = receiver.on_packet(&packet, now) {
                buffer.insert(&Arrival {
                    timestamp,
                    codec: Codec::Pcma,
                    payload: &payload,
                    fresh,
                    follows,
                    newest,
                    at_ns: now,
                });
            }
        }
        buffer.pop(now, &mut frame);
        delays.push(buffer.delay_ms());
    }
    out.lost = receiver.lost();
    (out.late, out.concealed) = (buffer.late(), buffer.concealed());
    let mean = |d: &[f64]| d.iter().sum::<f64>() / d.len().max(1) as f64;
    let tenth = delays.len() / 10;
    (out.first, out.last) = (mean(&delays[..tenth]), mean(&delays[delays.len() - tenth..]));
    delays.sort_by(f64::total_cmp);
    out.p95 = delays[delays.len() * 95 / 100];
    out.most = delays[delays.len() - 1];
    out
}

fn show(name: &str, seconds: u64, o: &Outcome) {
    println!(
        "{name:<34}|{seconds:>7} s |{:>8} |{:>7} |{:>6} |{:>6} |{:>6.2} % |{:>6.0} |{:>6.0} |{:>6.0} |{:>6.0}",
        o.sent,
        o.dropped,
        o.lost,
        o.late,
        o.concealed as f64 * 100.0 / o.sent.max(1) as f64,
        o.first,
        o.last,
        o.p95,
        o.most,
    );
}

#[test]
fn networks_of_all_kinds_cost_what_they_must_and_delay_never_grows_for_ever() {
    println!(
        "{:<34}| time     |    sent | dropped|   lost|   late| conceal. | first | last  |  95 % | most (ms)",
        "network"
    );
    let case = |name, path, seconds| (name, path, seconds);
    let drift = |ppm| Path { ppm, ..CLEAN };
    let spurts = Path { spurts: true, ..CLEAN };
    let cases = [
        case("clean", CLEAN, 600),
        case("losses in runs of 4", Path { burst: (10, 750), ..CLEAN }, 1800),
        case("scatter 0-40 ms", Path { scatter_ms: 40, ..CLEAN }, 1800),
        case("scatter 0-80 ms", Path { scatter_ms: 80, ..CLEAN }, 1800),
        case("scatter 0-200 ms", Path { scatter_ms: 200, ..CLEAN }, 1800),
        case("queue 0-80 ms", Path { queue_ms: 80, ..CLEAN }, 1800),
        case("queue 0-200 ms", Path { queue_ms: 200, ..CLEAN }, 1800),
        case("5 % held back for 60 ms", Path { held: (50, 60), ..CLEAN }, 1800),
        case("sender 200 ppm slow", drift(200), 14_400),
        case("sender 200 ppm fast", drift(-200), 14_400),
        case("talk-spurts, scatter 40 ms", Path { scatter_ms: 40, ..spurts }, 3600),
        case("talk-spurts, 200 ppm fast", Path { scatter_ms: 20, ppm: -200, ..spurts }, 3600),
        case(
            "all of it",
            Path { burst: (5, 750), scatter_ms: 60, held: (20, 60), queue_ms: 40, ..drift(-200) },
            7200,
        ),
    ];
    for (name, path, seconds) in cases {
        let o = run(path, seconds, 77);
        show(name, seconds, &o);
        // What the network lost is counted to the packet, but for the end of the run: what was dropped
        // there is not known yet, and what is on its way looks lost.
        assert!(o.lost.abs_diff(o.dropped) <= 10, "{name}: {o:?}");
        // Nothing grows: the last tenth waits no longer than the first, and the greatest delay is
        // what the path needs (or the maximum of 200 ms), a tick and a packet.
        assert!(o.last <= o.first + 10.0, "{name}: {o:?}");
        let needed = (path.scatter_ms + path.queue_ms + path.held.1).min(200) as f64;
        assert!(o.most <= needed + 60.0, "{name}: {o:?}");
        // Of the packets that came hardly any came too late, once the delay had adapted.
        assert!(o.late * 500 <= o.sent, "{name}: {o:?}");
        // A concealed frame for each loss, 3 for each pause, few where packets scatter. Drift alone
        // costs none.
        let paused = if path.spurts { o.sent * 4 / 100 } else { 0 };
        let scattered = if path.scatter_ms + path.queue_ms > 0 { o.sent / 200 } else { 0 };
        let free = o.dropped + paused + scattered + o.late + 5;
        assert!(o.concealed <= free, "{name}: {o:?}, {free} expected at most");
    }
}
