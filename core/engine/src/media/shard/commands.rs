// SPDX-License-Identifier: GPL-3.0-or-later
//! What the other threads ask of the shard, and how its calls come and go.

use super::*;

/// What the other threads ask of the shard.
#[derive(Debug)]
pub(crate) enum Command {
    Add {
        place: usize,
        phase: usize,
        line: Box<Line>,
    },
    SetMedia {
        place: usize,
        call: u64,
        params: MediaParams,
        line: Rate,
    },
    /// Comes before the SDP outcome it belongs to.
    SetSrtp {
        place: usize,
        call: u64,
        update: Box<Update>,
    },
    Remove {
        place: usize,
        call: u64,
    },
    Play {
        place: usize,
        call: u64,
        push: Push,
    },
    Clear {
        place: usize,
        call: u64,
        turn: Option<u64>,
        spare: std::collections::VecDeque<Entry>,
    },
    /// A background, read from a sample on, or none.
    Background {
        place: usize,
        call: u64,
        sound: Option<(Arc<Loop>, usize)>,
    },
    /// The caller is heard in another way.
    Listen {
        place: usize,
        call: u64,
        refit: Box<Refit>,
    },
    Answered {
        place: usize,
        call: u64,
    },
    SendKeys {
        place: usize,
        call: u64,
        keys: Keys,
    },
}

impl Shard {
    pub(crate) fn take_commands(&mut self, now_ns: u64) {
        // Bounded by the queue: a producer that never rests cannot hold the tick.
        for _ in 0..self.commands.capacity() {
            let Some(command) = self.commands.pop() else { break };
            self.command(command, now_ns);
        }
    }

    fn command(&mut self, command: Command, now_ns: u64) {
        match command {
            Command::Add { place, phase, line } => self.add(place, phase, line),
            Command::SetMedia { place, call, params, line } => {
                let at = self.lines.get_mut(place).and_then(Option::as_mut);
                if let Some(l) = at.filter(|l| l.call.id == call) {
                    if l.call.rate().is_none() && l.call.listens() {
                        l.call.slot = self.listening.open(line);
                    }
                    l.call.set_media(params, line, now_ns);
                }
            }
            Command::Answered { place, call } => {
                if let Some(line) = self.line(place, call) {
                    line.call.answered();
                }
            }
            Command::Listen { place, call, mut refit } => {
                if let Some(line) = self.line(place, call) {
                    line.call.listen(&mut refit);
                }
                self.out.discard(Garbage::Refit(refit));
            }
            Command::SendKeys { place, call, keys } => {
                if let Some(Some(line)) = self.lines.get_mut(place) {
                    if line.call.id == call {
                        line.call.send_keys(keys, &mut self.out);
                    }
                }
            }
            Command::Background { place, call, sound } => {
                match self.lines.get_mut(place).and_then(Option::as_mut) {
                    Some(line) if line.call.id == call => {
                        line.call.set_background(sound, &mut self.out);
                    }
                    _ => {
                        if let Some((sound, _)) = sound {
                            self.out.discard(Garbage::Background(sound));
                        }
                    }
                }
            }
            Command::SetSrtp { place, call, mut update } => {
                if let Some(line) = self.line(place, call) {
                    line.srtp.apply(&mut update);
                }
                self.out.discard(Garbage::Keys(update));
            }
            Command::Remove { place, call } => self.remove(place, call, now_ns),
            Command::Play { place, call, push } => {
                match self.lines.get_mut(place).and_then(Option::as_mut) {
                    Some(line) if line.call.id == call => {
                        line.call.playout.push(push.entry, push.room, &mut self.out);
                    }
                    _ => self.discard_push(push),
                }
            }
            Command::Clear { place, call, turn, spare } => {
                match self.lines.get_mut(place).and_then(Option::as_mut) {
                    Some(line) if line.call.id == call => {
                        line.call.playout.clear(turn, spare, now_ns, &mut self.out);
                    }
                    _ => self.out.discard(Garbage::Queue(spare)),
                }
            }
        }
    }

    fn discard_push(&mut self, push: Push) {
        if let Entry::Audio { pcm, .. } = push.entry {
            self.out.discard(Garbage::Pcm(pcm));
        }
        if let Some(room) = push.room {
            self.out.discard(Garbage::Queue(room));
        }
    }

    fn line(&mut self, place: usize, call: u64) -> Option<&mut Line> {
        self.lines.get_mut(place)?.as_deref_mut().filter(|l| l.call.id == call)
    }

    fn add(&mut self, place: usize, phase: usize, line: Box<Line>) {
        let (Some(mine), Some(l)) = (self.phases.get_mut(phase), self.lines.get_mut(place)) else {
            return self.out.discard(Garbage::Line(line));
        };
        if l.is_some() {
            return self.out.discard(Garbage::Line(line));
        }
        for (socket, rtcp) in [(line.sockets.rtp(), 0), (line.sockets.rtcp(), 1)] {
            let data = epoll::EventData::new_u64((place as u64) << 1 | rtcp);
            // It can only fail for lack of kernel memory; then the call stays deaf and its media
            // timeout tells.
            let _ = epoll::add(&mine.epoll, socket, data, epoll::EventFlags::IN);
        }
        mine.active.push(place);
        *l = Some(line);
        if let Some(p) = self.phase_of.get_mut(place) {
            *p = phase;
        }
    }

    fn remove(&mut self, place: usize, call: u64, now_ns: u64) {
        if self.line(place, call).is_none() {
            return;
        }
        let Some(mut line) = self.lines.get_mut(place).and_then(Option::take) else { return };
        let Line { call, sockets, srtp } = &mut *line;
        call.close(now_ns, &mut self.out, &mut |port, to, data| srtp.send(sockets, port, to, data));
        if let (Some(rate), Some(slot)) = (call.rate(), call.slot.take()) {
            self.listening.close(rate, slot);
        }
        let phase = self.phase_of.get(place).copied().unwrap_or(0);
        if let Some(phase) = self.phases.get_mut(phase) {
            phase.active.retain(|p| *p != place);
            let _ = epoll::delete(&phase.epoll, sockets.rtp());
            let _ = epoll::delete(&phase.epoll, sockets.rtcp());
        }
        let (id, end) = (call.id, call.end_of_recording());
        // Freed before the end is told: whoever hears of it may rely on closed sockets.
        self.out.discard(Garbage::Line(line));
        let recorder_tells = end.is_some_and(|end| self.farewells.add(id, end, now_ns));
        if !recorder_tells && !self.out.tell_closed(id) {
            self.unsaid.push(id);
        }
    }

    /// Ends all calls.
    pub(crate) fn remove_all(&mut self, now_ns: u64) {
        for place in 0..self.lines.len() {
            let id = self.lines.get(place).and_then(|l| l.as_ref()).map(|l| l.call.id);
            if let Some(id) = id {
                self.remove(place, id, now_ns);
            }
        }
        self.hand_over(true);
    }
}
