// SPDX-License-Identifier: GPL-3.0-or-later
//! A call's play-out queue, the application's side: resampling, odd bytes, the limit, and what is
//! known of turns.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::playout::{Entry, Level, MAX_TURNS};
use super::resample::Resampler;
use super::{MediaError, LINE_RATE};

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
    resampler: Resampler,
    odd: Option<u8>,
}

/// State of the application's side.
#[derive(Debug)]
pub(crate) struct Voice {
    call: u64,
    limit: u64,
    room: usize,
    level: Arc<Level>,
    open: HashMap<u64, Open>,
    over: VecDeque<u64>,
}

impl Voice {
    /// Nothing queued; at most `playout_max_s` will be.
    pub(crate) fn new(call: u64, playout_max_s: f64, level: Arc<Level>) -> Voice {
        let limit = (playout_max_s * f64::from(LINE_RATE)) as u64;
        let (open, over) = (HashMap::new(), VecDeque::new());
        Voice { call, limit, room: FIRST_ROOM, level, open, over }
    }

    /// What to queue for a chunk; `None` when nothing has come of it (yet).
    pub(crate) fn play(
        &mut self,
        pcm: &[u8],
        rate: u32,
        turn: u64,
    ) -> Result<Option<Push>, MediaError> {
        if self.over.contains(&turn) {
            return Ok(None);
        }
        let queued = self.level.samples.load(Relaxed);
        let full = MediaError::PlayoutFull { call: self.call, queued_ms: queued / 8 };
        let fresh = !self.open.contains_key(&turn);
        if fresh && self.level.turns.load(Relaxed) >= MAX_TURNS {
            return Err(full);
        }
        if fresh {
            let resampler = Resampler::new(rate).ok_or(MediaError::BadRate { rate })?;
            self.open.insert(turn, Open { rate, resampler, odd: None });
            self.level.turns.fetch_add(1, Relaxed);
        }
        let Some(open) = self.open.get_mut(&turn) else { return Ok(None) };
        if open.rate != rate {
            return Err(MediaError::BadRate { rate });
        }
        let samples = (pcm.len() + usize::from(open.odd.is_some())) / 2;
        let most = open.resampler.most(samples);
        if queued + most > self.limit {
            if fresh {
                self.open.remove(&turn);
                self.level.turns.fetch_sub(1, Relaxed);
            }
            return Err(full);
        }
        let mut line = Vec::with_capacity(most as usize);
        open.push(pcm, &mut line);
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
        match self.open.remove(&turn) {
            Some(mut open) => {
                let mut line = Vec::new();
                open.resampler.flush(&mut line);
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
    fn push(&mut self, pcm: &[u8], line: &mut Vec<i16>) {
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
        self.resampler.push(first.into_iter().chain(samples), line);
    }
}
