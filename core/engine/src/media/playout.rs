// SPDX-License-Identifier: GPL-3.0-or-later
//! A call's play-out queue, the media thread's side: entries by turn, in the order they were given.
//! Nothing here allocates or frees: queues and chunks come from outside and go back as garbage.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use super::outbox::{Garbage, Outbox, Record};
use super::Rate;

/// Turns with audio or an end still to come, at once.
pub(crate) const MAX_TURNS: usize = 64;
/// The fade when a turn is cut or runs dry, ms.
const FADE_MS: usize = 5;
/// Its samples at the greatest rate.
const MAX_FADE: usize = FADE_MS * Rate::R16k.per_ms();
/// A turn whose first sample is smaller begins as it is: speech has greater steps within.
const CLICK: u16 = 512;

/// Something queued.
#[derive(Debug)]
pub(crate) enum Entry {
    Audio { turn: u64, pcm: Vec<i16> },
    Finish { turn: u64 },
}

impl Entry {
    fn turn(&self) -> u64 {
        match self {
            Entry::Audio { turn, .. } | Entry::Finish { turn } => *turn,
        }
    }
}

/// What both sides know of the queue.
#[derive(Debug, Default)]
pub(crate) struct Level {
    /// Line samples given and not yet sent.
    pub(crate) samples: AtomicU64,
    /// Entries given and not yet consumed: never less than the queue holds.
    pub(crate) entries: AtomicUsize,
    /// Turns given and not yet finished.
    pub(crate) turns: AtomicUsize,
    /// Samples that the resampler had to clamp.
    pub(crate) overs: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    id: u64,
    sent: u64,
    started: bool,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Playout {
    call: u64,
    queue: VecDeque<Entry>,
    /// Samples of the front entry already sent.
    used: usize,
    turns: Vec<Turn>,
    /// Turn whose sample was sent last, if it is not finished.
    current: Option<u64>,
    rate: Rate,
    fade: [i16; MAX_FADE],
    fading: usize,
    dry: bool,
    last: i16,
    /// First sample of a turn that began in mid-wave, and how much of its ramp is left.
    first: i16,
    rising: usize,
    underruns: u64,
    level: Arc<Level>,
}

impl Playout {
    /// An empty queue; `queue` brings its room.
    pub(crate) fn new(call: u64, queue: VecDeque<Entry>, level: Arc<Level>) -> Playout {
        Playout {
            call,
            queue,
            used: 0,
            turns: Vec::with_capacity(MAX_TURNS),
            current: None,
            rate: Rate::R8k,
            fade: [0; MAX_FADE],
            fading: 0,
            dry: false,
            last: 0,
            first: 0,
            rising: 0,
            underruns: 0,
            level,
        }
    }

    /// The rate of what is queued, before any is.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    fn fade_len(&self) -> usize {
        FADE_MS * self.rate.per_ms()
    }

    /// Times a turn ran dry.
    pub(crate) fn underruns(&self) -> u64 {
        self.underruns
    }

    /// Samples clamped before they were queued.
    pub(crate) fn overs(&self) -> u64 {
        self.level.overs.load(Relaxed)
    }

    /// Appends. `room` is a larger queue when the one here may be full.
    pub(crate) fn push(&mut self, entry: Entry, room: Option<VecDeque<Entry>>, out: &mut Outbox) {
        if let Some(mut room) = room {
            room.append(&mut self.queue);
            out.discard(Garbage::Queue(std::mem::replace(&mut self.queue, room)));
        }
        let turn = entry.turn();
        if !self.turns.iter().any(|t| t.id == turn) {
            if self.turns.len() >= MAX_TURNS {
                self.drop_entry(entry, 0, out);
                return;
            }
            self.turns.push(Turn { id: turn, sent: 0, started: false });
        }
        self.queue.push_back(entry);
    }

    /// Fills a frame; what is not audio of a turn is silence. `at_ns` is when it is sent. True if
    /// it has any audio.
    pub(crate) fn frame(&mut self, out: &mut [i16], at_ns: u64, to: &mut Outbox) -> bool {
        let (frame, sample_ns) = (out.len(), self.rate.sample_ns());
        let mut n = self.fading.min(frame);
        for (o, s) in out.iter_mut().zip(self.fade.iter().take(n)) {
            *o = *s;
        }
        self.fading = 0;
        let mut any = n > 0;
        while n < frame {
            match self.queue.front() {
                None => break,
                Some(Entry::Finish { turn }) => {
                    let turn = *turn;
                    self.pop_front(to);
                    self.end_turn(turn, at_ns + n as u64 * sample_ns, false, to);
                }
                Some(Entry::Audio { turn, pcm }) => {
                    let turn = *turn;
                    let rest = pcm.get(self.used..).unwrap_or(&[]);
                    let take = rest.len().min(frame - n);
                    let before =
                        n.checked_sub(1).map_or(self.last, |b| out.get(b).map_or(0, |s| *s));
                    if before == 0 && self.current != Some(turn) {
                        self.first = rest.first().copied().unwrap_or(0);
                        let clicks = self.first.unsigned_abs() >= CLICK;
                        self.rising = if clicks { FADE_MS * self.rate.per_ms() } else { 0 };
                    }
                    if let (Some(o), Some(s)) = (out.get_mut(n..n + take), rest.get(..take)) {
                        o.copy_from_slice(s);
                    }
                    let done = take == rest.len();
                    let now = out.get_mut(n..n + take).unwrap_or(&mut []);
                    self.soften_start(now);
                    self.rise(now);
                    self.used += take;
                    if take > 0 {
                        any = true;
                        self.sent(turn, take as u64, at_ns + n as u64 * sample_ns, to);
                    }
                    n += take;
                    if done {
                        self.pop_front(to);
                    }
                }
            }
        }
        // An end that follows the last sample is told now, not with the next frame.
        while let Some(Entry::Finish { turn }) = self.queue.front() {
            let turn = *turn;
            self.pop_front(to);
            self.end_turn(turn, at_ns + n as u64 * sample_ns, false, to);
        }
        self.pad(out, n, any);
        any
    }

    /// Silence for the rest of a frame; ramps down when a turn ended or ran dry in mid-wave.
    fn pad(&mut self, out: &mut [i16], n: usize, any: bool) {
        let fade = self.fade_len();
        if any && n > 0 {
            self.last = out.get(n - 1).copied().unwrap_or(0);
        }
        let rest = out.get_mut(n..).unwrap_or(&mut []);
        let begins = self.current.is_some() && !self.dry && !rest.is_empty();
        // Also behind the end of a turn; when nothing was heard of late this is silence.
        for (i, s) in rest.iter_mut().enumerate() {
            *s = if i < fade { ramp(self.last, fade - 1 - i, fade) } else { 0 };
        }
        // What does not fit into the frame begins the next one.
        if self.last != 0 && !rest.is_empty() && rest.len() < fade {
            self.fading = fade - rest.len();
            for (i, s) in self.fade.iter_mut().take(self.fading).enumerate() {
                *s = ramp(self.last, fade - 1 - rest.len() - i, fade);
            }
        }
        if begins {
            self.dry = true;
            self.underruns += 1;
        }
        if !rest.is_empty() {
            self.last = 0;
        }
    }

    fn soften_start(&mut self, audio: &mut [i16]) {
        if std::mem::take(&mut self.dry) {
            let fade = self.fade_len();
            for (i, s) in audio.iter_mut().take(fade).enumerate() {
                *s = ramp(*s, i, fade);
            }
        }
    }

    /// Takes the step away from the beginning of a turn: its first sample, less and less of it.
    fn rise(&mut self, audio: &mut [i16]) {
        let fade = self.fade_len();
        for s in audio {
            let Some(rest) = self.rising.checked_sub(1) else { break };
            *s = s.saturating_sub(ramp(self.first, rest, fade));
            self.rising = rest;
        }
    }

    /// Cuts one turn or all. `spare` has room for everything queued and becomes garbage.
    pub(crate) fn clear(
        &mut self,
        turn: Option<u64>,
        mut spare: VecDeque<Entry>,
        at_ns: u64,
        to: &mut Outbox,
    ) {
        let cut = |id: u64| turn.is_none_or(|t| t == id);
        let faded = if self.current.is_some_and(cut) { self.start_fade(cut) } else { 0 };
        self.rising = if faded > 0 { 0 } else { self.rising };
        let mut samples = 0u64;
        let used = std::mem::take(&mut self.used);
        for i in 0..self.queue.len() {
            let Some(entry) = self.queue.pop_front() else { break };
            if cut(entry.turn()) {
                if let Entry::Audio { pcm, .. } = &entry {
                    samples += (pcm.len() - if i == 0 { used.min(pcm.len()) } else { 0 }) as u64;
                }
                self.level.entries.fetch_sub(1, Relaxed);
                spare.push_back(entry);
            } else {
                if i == 0 {
                    self.used = used;
                }
                self.queue.push_back(entry);
            }
        }
        self.level.samples.fetch_sub(samples, Relaxed);
        to.discard(Garbage::Queue(spare));
        if let (Some(t), true) = (self.current, faded > 0) {
            self.count(t, faded);
        }
        let end = at_ns + faded * self.rate.sample_ns();
        while let Some(t) = self.turns.iter().find(|t| cut(t.id)).map(|t| t.id) {
            self.end_turn(t, end, true, to);
        }
    }

    /// Takes the next samples of the turn that is heard, ramped down: they go out first.
    fn start_fade(&mut self, cut: impl Fn(u64) -> bool) -> u64 {
        let fade = self.fade_len();
        let mut n = 0;
        let mut skip = self.used;
        'entries: for entry in &self.queue {
            let Entry::Audio { turn, pcm } = entry else { continue };
            if !cut(*turn) || Some(*turn) != self.current {
                break;
            }
            for s in pcm.iter().skip(std::mem::take(&mut skip)) {
                let Some(f) = self.fade.get_mut(n).filter(|_| n < fade) else { break 'entries };
                *f = ramp(*s, fade - 1 - n, fade);
                n += 1;
            }
        }
        if n > 0 {
            self.fading = n;
        }
        n as u64
    }

    /// The call ends: every open turn was cut.
    pub(crate) fn close(&mut self, at_ns: u64, to: &mut Outbox) {
        while let Some(t) = self.turns.first().map(|t| t.id) {
            self.end_turn(t, at_ns, true, to);
        }
    }

    fn sent(&mut self, turn: u64, samples: u64, at_ns: u64, to: &mut Outbox) {
        self.level.samples.fetch_sub(samples, Relaxed);
        self.current = Some(turn);
        if self.count(turn, samples) {
            to.tell(Record::PlayoutStarted { call: self.call, turn, at_ns });
        }
    }

    /// Counts samples of a turn; true for its first ones.
    fn count(&mut self, turn: u64, samples: u64) -> bool {
        let Some(t) = self.turns.iter_mut().find(|t| t.id == turn) else { return false };
        t.sent += samples;
        !std::mem::replace(&mut t.started, true)
    }

    fn end_turn(&mut self, turn: u64, at_ns: u64, interrupted: bool, to: &mut Outbox) {
        let Some(i) = self.turns.iter().position(|t| t.id == turn) else { return };
        let samples = self.turns.swap_remove(i).sent;
        self.level.turns.fetch_sub(1, Relaxed);
        if self.current == Some(turn) {
            self.current = None;
            self.dry = false;
        }
        let call = self.call;
        to.tell(Record::PlayoutFinished { call, turn, samples, at_ns, interrupted });
    }

    fn pop_front(&mut self, to: &mut Outbox) {
        if let Some(entry) = self.queue.pop_front() {
            let used = std::mem::take(&mut self.used);
            self.drop_entry(entry, used, to);
        }
    }

    fn drop_entry(&mut self, entry: Entry, used: usize, to: &mut Outbox) {
        self.level.entries.fetch_sub(1, Relaxed);
        if let Entry::Audio { pcm, .. } = entry {
            self.level.samples.fetch_sub((pcm.len() - used.min(pcm.len())) as u64, Relaxed);
            to.discard(Garbage::Pcm(pcm));
        }
    }
}

/// `sample` at `step` of `steps` of a fade.
fn ramp(sample: i16, step: usize, steps: usize) -> i16 {
    (i32::from(sample) * step as i32 / steps as i32) as i16
}
