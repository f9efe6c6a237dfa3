// SPDX-License-Identifier: GPL-3.0-or-later
//! A call's play-out queue, the application's side: resampling, odd bytes, the limit, and what is
//! known of turns.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::playout::{Entry, Level, MAX_TURNS};
use super::resample::{Resampler, RATES};
use super::{Background, MediaError, Rate};

/// Room of a new queue.
pub(crate) const FIRST_ROOM: usize = 64;
/// Turns remembered after their end, so that late audio of them is dropped.
const REMEMBERED: usize = 1024;

/// An entry for the media thread, with a larger queue if it may need one.
#[derive(Debug)]
pub(crate) struct Push {
    pub(crate) entry: Entry,
    pub(crate) room: Option<VecDeque<Entry>>,
}

#[derive(Debug)]
struct Open {
    rate: u32,
    /// Once the line's rate is known.
    resampler: Option<Resampler>,
    odd: Option<u8>,
}

/// What was given before the line's rate was known.
#[derive(Debug)]
struct Held {
    turn: u64,
    /// `None`: its end.
    pcm: Option<Vec<u8>>,
}

/// State of the application's side.
#[derive(Debug)]
pub(crate) struct Voice {
    call: u64,
    limit_s: f64,
    /// Rate of the line, once the first SDP has decided it.
    line: Option<Rate>,
    held: Vec<Held>,
    room: usize,
    level: Arc<Level>,
    open: HashMap<u64, Open>,
    over: VecDeque<u64>,
    /// What was asked for behind the agent before the line's rate was known.
    pub(crate) background: Option<Option<Background>>,
}

impl Voice {
    /// Nothing queued; at most `playout_max_s` will be.
    pub(crate) fn new(call: u64, playout_max_s: f64, level: Arc<Level>) -> Voice {
        let (open, over) = (HashMap::new(), VecDeque::new());
        let (limit_s, line, held) = (playout_max_s, None, Vec::new());
        let background = None;
        Voice { call, limit_s, line, held, room: FIRST_ROOM, level, open, over, background }
    }

    /// Rate of the line, once known.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.line
    }

    /// The line's rate is decided; gives what waited for it. Does nothing later.
    pub(crate) fn set_rate(&mut self, line: Rate) -> Vec<Push> {
        let mut pushes = Vec::new();
        if self.line.is_some() {
            return pushes;
        }
        self.line = Some(line);
        for open in self.open.values_mut() {
            open.resampler = Resampler::new(open.rate, line);
        }
        for Held { turn, pcm } in std::mem::take(&mut self.held) {
            let Some(pcm) = pcm else {
                pushes.append(&mut self.finish(turn));
                continue;
            };
            let mut samples = Vec::new();
            if let Some(open) = self.open.get_mut(&turn) {
                open.push(&pcm, &mut samples, &self.level);
            }
            if !samples.is_empty() {
                pushes.push(self.queue_audio(turn, samples));
            }
        }
        pushes
    }

    /// Audio that waits to be sent, ms.
    fn queued_ms(&self) -> u64 {
        let line = self.line.unwrap_or(Rate::R8k);
        let held = |h: &Held| {
            let rate = self.open.get(&h.turn).map_or(8000, |o| u64::from(o.rate));
            h.pcm.as_ref().map_or(0, |pcm| pcm.len() as u64 * 500 / rate)
        };
        self.level.samples.load(Relaxed) / line.per_ms() as u64
            + self.held.iter().map(held).sum::<u64>()
    }

    /// What to queue for a chunk; `None` when nothing has come of it (yet).
    pub(crate) fn play(
        &mut self,
        pcm: &[u8],
        rate: u32,
        turn: u64,
    ) -> Result<Option<Push>, MediaError> {
        let ends = |h: &Held| h.turn == turn && h.pcm.is_none();
        if self.over.contains(&turn) || self.held.iter().any(ends) {
            return Ok(None);
        }
        let queued_ms = self.queued_ms();
        let full = MediaError::PlayoutFull { call: self.call, queued_ms };
        let fresh = !self.open.contains_key(&turn);
        if fresh && self.level.turns.load(Relaxed) >= MAX_TURNS {
            return Err(full);
        }
        if fresh {
            if !RATES.contains(&rate) {
                return Err(MediaError::BadRate { rate });
            }
            let resampler = self.line.and_then(|line| Resampler::new(rate, line));
            self.open.insert(turn, Open { rate, resampler, odd: None });
            self.level.turns.fetch_add(1, Relaxed);
        }
        let Some(open) = self.open.get_mut(&turn) else { return Ok(None) };
        if open.rate != rate {
            return Err(MediaError::BadRate { rate });
        }
        let samples = (pcm.len() + usize::from(open.odd.is_some())) / 2;
        let (queued, limit, most) = match (self.line, &open.resampler) {
            (Some(line), Some(resampler)) => {
                let limit = (self.limit_s * f64::from(line.hz())) as u64;
                (self.level.samples.load(Relaxed), limit, resampler.most(samples))
            }
            _ => {
                (queued_ms, (self.limit_s * 1000.0) as u64, samples as u64 * 1000 / u64::from(rate))
            }
        };
        if queued + most > limit {
            if fresh {
                self.open.remove(&turn);
                self.level.turns.fetch_sub(1, Relaxed);
            }
            return Err(full);
        }
        let mut line = Vec::new();
        if self.line.is_some() {
            line.reserve_exact(most as usize);
            open.push(pcm, &mut line, &self.level);
        } else {
            self.held.push(Held { turn, pcm: Some(pcm.to_vec()) });
        }
        // An empty chunk is queued once, so that the media thread knows the turn.
        if line.is_empty() && !fresh {
            return Ok(None);
        }
        Ok(Some(self.queue_audio(turn, line)))
    }

    /// Line samples that wait to be sent.
    #[cfg(test)]
    pub(crate) fn queued(&self) -> u64 {
        self.level.samples.load(Relaxed)
    }

    /// What to queue when a turn gets no more audio: the filter's rest, then the end.
    pub(crate) fn finish(&mut self, turn: u64) -> Vec<Push> {
        let mut pushes = Vec::with_capacity(2);
        if self.over.contains(&turn) {
            return pushes;
        }
        if self.line.is_none() && self.open.contains_key(&turn) {
            self.held.push(Held { turn, pcm: None });
            return pushes;
        }
        match self.open.remove(&turn) {
            Some(mut open) => {
                let mut line = Vec::new();
                if let Some(resampler) = &mut open.resampler {
                    resampler.flush(&mut line);
                    self.level.overs.fetch_add(resampler.take_overs(), Relaxed);
                }
                if !line.is_empty() {
                    pushes.push(self.queue_audio(turn, line));
                }
            }
            // The end of a turn without audio is told too: nobody waits for it in vain.
            None if self.level.turns.load(Relaxed) < MAX_TURNS => {
                self.level.turns.fetch_add(1, Relaxed);
            }
            None => return pushes,
        }
        self.end(turn);
        let room = self.make_room();
        pushes.push(Push { entry: Entry::Finish { turn }, room });
        pushes
    }

    /// A turn, or all of them, takes no more audio. Gives the spare queue the media thread needs.
    pub(crate) fn clear(&mut self, turn: Option<u64>) -> VecDeque<Entry> {
        self.held.retain(|h| turn.is_some_and(|t| t != h.turn));
        match turn {
            Some(t) => {
                self.open.remove(&t);
                self.end(t);
            }
            None => {
                let all: Vec<u64> = self.open.drain().map(|(t, _)| t).collect();
                all.into_iter().for_each(|t| self.end(t));
            }
        }
        VecDeque::with_capacity(self.level.entries.load(Relaxed).max(1))
    }

    fn end(&mut self, turn: u64) {
        if self.over.contains(&turn) {
            return;
        }
        if self.over.len() >= REMEMBERED {
            self.over.pop_front();
        }
        self.over.push_back(turn);
    }

    fn queue_audio(&mut self, turn: u64, pcm: Vec<i16>) -> Push {
        self.level.samples.fetch_add(pcm.len() as u64, Relaxed);
        let room = self.make_room();
        Push { entry: Entry::Audio { turn, pcm }, room }
    }

    /// Counts an entry; gives a queue of twice the room when the present one may be full.
    fn make_room(&mut self) -> Option<VecDeque<Entry>> {
        let entries = self.level.entries.fetch_add(1, Relaxed) + 1;
        if entries <= self.room {
            return None;
        }
        self.room = entries * 2;
        Some(VecDeque::with_capacity(self.room))
    }
}

impl Open {
    fn push(&mut self, pcm: &[u8], line: &mut Vec<i16>, level: &Level) {
        let (first, rest) = match (self.odd.take(), pcm.split_first()) {
            (Some(low), Some((high, rest))) => (Some(i16::from_le_bytes([low, *high])), rest),
            (odd, _) => {
                self.odd = odd;
                (None, pcm)
            }
        };
        let pairs = rest.chunks_exact(2);
        if let [byte] = pairs.remainder() {
            self.odd = Some(*byte);
        }
        let samples = pairs.map(|p| match p {
            [low, high] => i16::from_le_bytes([*low, *high]),
            _ => 0,
        });
        if let Some(resampler) = &mut self.resampler {
            resampler.push(first.into_iter().chain(samples), line);
            level.overs.fetch_add(resampler.take_overs(), Relaxed);
        }
    }
}
