// SPDX-License-Identifier: GPL-3.0-or-later
//! The tick neither allocates nor frees, whatever happens to its calls.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use assert_no_alloc::{assert_no_alloc, reset_violation_count, violation_count, AllocDisabler};
use crossbeam_queue::ArrayQueue;
use pjsip_sys::sdes::{MasterKey, SrtpKeys, Suite};

use super::rig::params;
use crate::events::Notice;
use crate::media::call::Call;
use crate::media::counters::CallCounters;
use crate::media::dtmf::Keys;
use crate::media::jitter::{Arrival, JitterBuffer};
use crate::media::outbox::{rings, Inbox, Record};
use crate::media::playout::{Level, Playout};
use crate::media::shard::{Command, Line, Polls, Shard};
use crate::media::srtp::Update;
use crate::media::voice::{Voice, FIRST_ROOM};
use crate::media::waker::Waker;
use crate::media::{
    Background, Codec, Coding, Delivered, GainConfig, ListenChange, MediaConfig, MediaParams, Rate,
    RtpSockets, VadConfig, TICK_NS,
};
use crate::record::tap;
use crate::signal::listener::Refit;
use crate::transport::rtp::session::Identity;

#[global_allocator]
static ALLOCATOR: AllocDisabler = AllocDisabler;

const CALLS: usize = 6;
const SUITES: [Option<Suite>; 3] =
    [None, Some(Suite::AesCm128HmacSha1_80), Some(Suite::AeadAes256Gcm)];

/// Keys of a place for whose neighbour they are the other way round.
fn keys(suite: Suite, place: usize, seed: u8) -> SrtpKeys {
    let key = |place: usize| MasterKey::from_random(suite, &[place as u8 + seed * 16; 46]);
    SrtpKeys { local: key(place), remote: key(place ^ 1), remote_mki: None }
}

fn audio(seconds: usize) -> Vec<u8> {
    (0..seconds * 24_000)
        .flat_map(|i| (((i as f64 * 0.1).sin() * 8000.0) as i16).to_le_bytes())
        .collect()
}

#[test]
fn the_checker_sees_an_allocation() {
    reset_violation_count();
    assert_no_alloc(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(10))));
    assert_eq!(violation_count(), 2);
    reset_violation_count();
}

#[test]
fn hundreds_of_ticks_of_busy_calls_touch_no_heap() {
    let commands = Arc::new(ArrayQueue::new(1024));
    let garbage = Arc::new(ArrayQueue::new(1024));
    // Every caller talks all the time, by a threshold nothing stays below.
    let vad = VadConfig { threshold: 0.0, release: 0.0, ..VadConfig::default() };
    let gain = GainConfig { enabled: true, ..GainConfig::default() };
    let cfg = MediaConfig {
        vad,
        gain,
        media_timeout_s: 1.0,
        echo_guard: true,
        noise_suppression: true,
        ..MediaConfig::default()
    };
    let noise = Background::noise().unwrap();
    let (out, mut inbox) = rings(CALLS, Arc::clone(&garbage), Arc::new(AtomicU64::new(0)));
    let waker = Arc::new(Waker::new().unwrap());
    let polls = Polls::new().unwrap();
    let mut shard = Shard::new(0, CALLS, true, Arc::clone(&commands), out, waker, polls);

    let sockets: Vec<RtpSockets> = (0..CALLS)
        .map(|_| RtpSockets::open(IpAddr::V4(Ipv4Addr::LOCALHOST), (43_000, 43_999)).unwrap())
        .collect();
    let addresses: Vec<_> = sockets.iter().map(|s| s.rtp_addr().unwrap()).collect();
    let (mut voices, mut reels, mut all_counters) = (Vec::new(), Vec::new(), Vec::new());
    for (place, sockets) in sockets.into_iter().enumerate() {
        let call = place as u64;
        let level = Arc::new(Level::default());
        let room = VecDeque::with_capacity(FIRST_ROOM);
        let playout = Playout::new(call, room, Arc::clone(&level));
        let (tap, reel) = tap();
        let identity = Identity::from_random(&[place as u8; 32]);
        let shared = Arc::new(CallCounters::default());
        let counters = Arc::clone(&shared);
        let media = Call::new(call, &cfg, identity, playout, Some(tap), counters);
        let line = Box::new(Line::new(media, sockets));
        commands.push(Command::Add { place, phase: place / 2, line }).unwrap();
        let to = addresses[place ^ 1];
        let codec = if place < 2 { Codec::Pcmu } else { Codec::G722 };
        let (line, ptime) = (codec.rate(), [20, 10, 30, 20, 60, 40][place]);
        let params = MediaParams { remote_rtp: to, ..params(ptime, codec) };
        // The first pair is in clear, the others have a suite each.
        if let Some(suite) = SUITES[place / 2] {
            let update = Update::between(None, Some(&keys(suite, place, 0))).unwrap().unwrap();
            commands.push(Command::SetSrtp { place, call, update: Box::new(update) }).unwrap();
        }
        commands.push(Command::SetMedia { place, call, params, line }).unwrap();
        all_counters.push(shared);
        let mut voice = Voice::new(call, 120.0, level);
        voice.set_rate(line);
        voices.push(voice);
        reels.push(reel);
    }
    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let chunk = audio(1);
    let mut told = [0usize; 10];
    reset_violation_count();
    for tick in 0..400u64 {
        for (place, voice) in voices.iter_mut().enumerate() {
            let call = place as u64;
            let turn = tick / 40;
            match (tick + call) % 40 {
                // Small chunks, so that queues have to grow.
                0..=9 => {
                    for part in chunk.chunks(700) {
                        if let Ok(Some(push)) = voice.play(part, 24_000, turn) {
                            commands.push(Command::Play { place, call, push }).unwrap();
                        }
                    }
                }
                20 if call.is_multiple_of(2) => {
                    let spare = voice.clear(None);
                    commands.push(Command::Clear { place, call, turn: None, spare }).unwrap();
                }
                30 => {
                    for push in voice.finish(turn) {
                        commands.push(Command::Play { place, call, push }).unwrap();
                    }
                }
                _ => {}
            }
            // A background that comes, changes, waits for another and goes.
            if let Some(asked) =
                [Some(true), None, Some(true), Some(false)].get(tick as usize / 7 % 16)
            {
                let line = if place < 2 { Rate::R8k } else { Rate::R16k };
                let sound = asked.filter(|on| *on).map(|_| (noise.of(line), 0));
                commands.push(Command::Background { place, call, sound }).unwrap();
            }
            // Heard in other ways; what that takes comes and goes with the command.
            if tick % 60 == 30 && call.is_multiple_of(2) {
                let frames = tick % 120 == 30;
                let change = ListenChange {
                    what: Some(if frames { Delivered::Frames } else { Delivered::Speech }),
                    chunk_ms: Some(if frames { 60 } else { 20 }),
                    echo_guard: Some(!frames),
                    noise_suppression: Some(!frames),
                };
                let refit = Box::new(Refit::new(change));
                commands.push(Command::Listen { place, call, refit }).unwrap();
            }
            if tick % 80 == 45 {
                let keys = Keys::new(tick, "12#", 60, 40).unwrap();
                commands.push(Command::SendKeys { place, call, keys }).unwrap();
            }
            if tick == 300 && call >= 4 {
                // From G.722 to G.711: resampled from now on.
                let params =
                    MediaParams { remote_rtp: addresses[place ^ 1], ..params(20, Codec::Pcma) };
                let line = Codec::Pcma.rate();
                commands.push(Command::SetMedia { place, call, params, line }).unwrap();
            }
            // New keys now and then, while packets under the old ones are on their way.
            if let (Some(suite), 60) = (SUITES[place / 2], tick % 100) {
                let seed = (tick / 100) as u8;
                let (before, after) = (keys(suite, place, seed), keys(suite, place, seed + 1));
                let update =
                    Box::new(Update::between(Some(&before), Some(&after)).unwrap().unwrap());
                commands.push(Command::SetSrtp { place, call, update }).unwrap();
            }
            stranger.send_to(&[0x80; 60], addresses[place]).unwrap();
            if tick == 350 && call >= 3 {
                commands.push(Command::Remove { place, call }).unwrap();
            }
            // Half of the commands of this tick, as they come.
            if commands.len() > 500 {
                assert_no_alloc(|| shard.take_commands(tick));
                while garbage.pop().is_some() {}
            }
        }
        let now = 1_000_000_000_000 + tick * TICK_NS;
        assert_no_alloc(|| {
            if tick == 200 {
                shard.skip(7);
            }
            if tick == 150 {
                // The consumer sleeps: what it would have to read does not fit any more.
                (0..6000).for_each(|_| shard.notice(Notice::TicksSkipped { shard: 0, count: 0 }));
            }
            (0..3).for_each(|phase| shard.tick(phase, now));
        });
        while garbage.pop().is_some() {}
        // Consumer and recorder sleep for a while, so that their rings overflow.
        if !(100..250).contains(&tick) {
            drain(&mut inbox, &mut told);
            reels.iter_mut().for_each(|r| while r.ring.pop().is_ok() {});
        }
    }
    assert_no_alloc(|| shard.remove_all(2_000_000_000_000));
    assert_eq!(violation_count(), 0, "allocations and frees within ticks");
    // It was no idle run: keys were in force, and every kind of event was told.
    for (place, c) in all_counters.iter().enumerate() {
        let (stats, secure) = (c.stats(), SUITES[place / 2].is_some());
        assert!(stats.rx_packets > 100, "{place}: {stats:?}");
        assert_eq!(stats.srtp, SUITES[place / 2]);
        assert!(stats.gain_db != 0.0 && stats.speech_level_dbov.is_some(), "{place}: {stats:?}");
        assert_eq!(stats.srtp_auth_errors > 300, secure, "{place}: {stats:?}");
        assert_eq!(stats.rx_lost, 0, "{place}: {stats:?}");
    }
    drain(&mut inbox, &mut told);
    assert!(told.iter().all(|n| *n > 0), "{told:?}");
}

#[test]
fn comfort_noise_touches_no_heap() {
    for rate in [Rate::R8k, Rate::R16k] {
        let mut jitter = JitterBuffer::new(rate, 20, 200);
        let mut out = vec![0; rate.frame()];
        reset_violation_count();
        assert_no_alloc(|| {
            for tick in 0..100u32 {
                let arrival = Arrival {
                    timestamp: tick * 160,
                    codec: Codec::Pcma,
                    payload: if tick % 10 < 5 { &[0x55; 160] } else { &[40, 100, 150] },
                    fresh: tick == 0,
                    follows: true,
                    newest: true,
                    at_ns: u64::from(tick) * TICK_NS,
                };
                if tick % 10 < 5 {
                    jitter.insert(&arrival);
                } else {
                    jitter.insert_noise(&arrival);
                }
                jitter.pop(u64::from(tick) * TICK_NS, &mut out);
            }
        });
        assert_eq!(violation_count(), 0);
    }
}

fn drain(inbox: &mut Inbox, told: &mut [usize; 10]) {
    while let Ok(record) = inbox.events.pop() {
        let kind = match record {
            Record::Audio { len, .. } => {
                inbox.audio.read_chunk(len).map(|c| c.commit_all()).unwrap();
                0
            }
            Record::SpeechStarted { .. } => 1,
            Record::PlayoutStarted { .. } => 2,
            Record::PlayoutFinished { interrupted: false, .. } => 3,
            Record::PlayoutFinished { interrupted: true, .. } => 4,
            Record::Notice { notice: Notice::EventsDropped { .. }, .. } => 5,
            Record::Notice { notice: Notice::TicksSkipped { .. }, .. } => 6,
            Record::Dtmf { .. } => 8,
            Record::DtmfSent { .. } => 9,
            _ => 7,
        };
        told[kind] += 1;
    }
}
