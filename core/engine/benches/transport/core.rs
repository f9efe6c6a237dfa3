// SPDX-License-Identifier: GPL-3.0-or-later
//! The measured side: the engine, an application that answers and speaks, no Python.
//!
//! Prints `ready PORT`; `stats` on stdin prints the engine's counters; end of stdin ends it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use voicecore_engine::media::Distribution;
use voicecore_engine::{
    Codec, Engine, EngineConfig, EngineEvent, EventBatch, LogLevel, SignalEvent, SrtpMode,
};

use crate::{pcm, Options, Outcome};

/// What the application gives at a time, as a speech server's stream would come.
const CHUNK: Duration = Duration::from_millis(200);
const CHUNK_BYTES: usize = 3200;

struct App {
    engine: Engine,
    /// Calls by when they need their next chunk.
    speaking: VecDeque<(Instant, u64, usize)>,
    voice: Vec<u8>,
    batch: EventBatch,
    seen: Distribution,
    calls: usize,
    drained: u64,
}

/// See the module.
pub fn run(options: &Options) -> Outcome<()> {
    let max_calls = options.number("calls", 1000)?;
    let cores = options.text("cores").unwrap_or("");
    let priority = options.number("priority", 0)?;
    let config = EngineConfig {
        bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
        sip_port: 0,
        tcp: false,
        codecs: vec![Codec::Pcma],
        max_calls,
        vad: options.number("vad", 1)? == 1,
        srtp: match options.number("srtp", 0)? {
            1 => SrtpMode::Required,
            _ => SrtpMode::Off,
        },
        media_cores: cores.split(',').filter_map(|c| c.parse().ok()).collect(),
        media_priority: u8::try_from(priority).ok().filter(|p| *p > 0),
        ..EngineConfig::default()
    };
    let engine = Engine::new(config)?;
    let address = engine.start()?;
    let samples = pcm(options.text("pcm")?)?;
    let voice = samples.iter().flat_map(|s| s.to_le_bytes()).collect();
    let mut app = App {
        engine,
        speaking: VecDeque::new(),
        voice,
        batch: EventBatch::default(),
        seen: Distribution::default(),
        calls: 0,
        drained: 0,
    };
    println!("ready {}", address.port());
    io::stdout().flush()?;
    let events = app.engine.clone_event_fd()?;
    loop {
        let next = app.speaking.front().map(|(due, _, _)| *due);
        if app.wait(&events, next)? {
            break;
        }
    }
    app.engine.stop();
    Ok(())
}

impl App {
    /// True at the end of stdin.
    fn wait(&mut self, events: &OwnedFd, next: Option<Instant>) -> Outcome<bool> {
        let limit = next.map_or(Duration::from_secs(1), |n| n.duration_since(Instant::now()));
        let limit = Timespec::try_from(limit)?;
        let stdin = io::stdin();
        let mut wait = [PollFd::new(events, PollFlags::IN), PollFd::new(&stdin, PollFlags::IN)];
        poll(&mut wait, Some(&limit))?;
        let (told, asked) = (!wait[0].revents().is_empty(), !wait[1].revents().is_empty());
        if told {
            self.on_events()?;
        }
        if asked {
            let mut line = [0; 64];
            if stdin.lock().read(&mut line)? == 0 {
                return Ok(true);
            }
            self.print()?;
        }
        self.speak()?;
        Ok(false)
    }

    fn on_events(&mut self) -> Outcome<()> {
        let mut batch = std::mem::take(&mut self.batch);
        self.engine.drain(&mut batch);
        self.drained += batch.events.len() as u64;
        for event in batch.events.drain(..) {
            match event {
                EngineEvent::Signal(SignalEvent::Incoming { call, .. }) => {
                    self.engine.answer(call)?;
                }
                EngineEvent::Signal(SignalEvent::Confirmed { call, .. }) => {
                    self.calls += 1;
                    let at = self.calls * 31 * CHUNK_BYTES;
                    // A chunk is always in hand while the next one comes.
                    self.chunk(call, at);
                    let at = at + CHUNK_BYTES;
                    self.chunk(call, at);
                    self.speaking.push_back((Instant::now() + CHUNK, call, at + CHUNK_BYTES));
                }
                EngineEvent::Signal(SignalEvent::Log {
                    level: LogLevel::Error | LogLevel::Warning,
                    message,
                }) => eprintln!("{message}"),
                _ => {}
            }
        }
        self.batch = batch;
        Ok(())
    }

    fn chunk(&self, call: u64, at: usize) -> bool {
        let at = at % (self.voice.len() - CHUNK_BYTES) / 2 * 2;
        self.engine.play(call, &self.voice[at..at + CHUNK_BYTES], 8000, 1).is_ok()
    }

    fn speak(&mut self) -> Outcome<()> {
        let now = Instant::now();
        while let Some((due, call, at)) = self.speaking.front().copied() {
            if due > now {
                break;
            }
            self.speaking.pop_front();
            // A call that has ended takes no more.
            if self.chunk(call, at) {
                self.speaking.push_back((due + CHUNK, call, at + CHUNK_BYTES));
            }
        }
        Ok(())
    }

    fn print(&mut self) -> Outcome<()> {
        let (stats, lateness) = (self.engine.stats(), self.engine.lateness());
        let window = lateness.since(&self.seen);
        self.seen = lateness;
        let m = &stats.media;
        let us = |q: f64| window.quantile(q) as f64 / 1000.0;
        println!(
            "{{\"calls\": {}, \"rx_packets\": {}, \"rx_lost\": {}, \"rx_late\": {}, \
             \"rx_malformed\": {}, \"tx_packets\": {}, \"tx_errors\": {}, \"concealed\": {}, \
             \"underruns\": {}, \"ticks\": {}, \"skipped\": {}, \"dropped\": {}, \"drained\": {}, \
             \"late_p50_us\": {:.1}, \"late_p99_us\": {:.1}, \"late_p999_us\": {:.1}, \
             \"late_max_us\": {:.1}}}",
            stats.calls_active,
            m.rx_packets,
            m.rx_lost,
            m.rx_late,
            m.rx_malformed,
            m.tx_packets,
            m.tx_errors,
            m.concealed_frames,
            m.playout_underruns,
            m.ticks,
            m.skipped_ticks,
            m.events_dropped,
            self.drained,
            us(0.5),
            us(0.99),
            us(0.999),
            us(1.0),
        );
        io::stdout().flush()?;
        Ok(())
    }
}
