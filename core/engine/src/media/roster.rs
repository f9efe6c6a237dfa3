// SPDX-License-Identifier: GPL-3.0-or-later
//! Which calls there are and where each of them runs: its shard, its phase of the tick, its place.
//! A call keeps all three until it ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::counters::{sum_up, CallCounters};
use super::voice::Voice;
use super::{CallStats, MediaError, MediaStats};

/// Parts of the 20 ms tick; each call is dealt with in one of them, so that no frame waits for a
/// thousand others and packets leave evenly.
pub(crate) const PHASES: usize = 4;

/// Where a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) shard: usize,
    pub(crate) phase: usize,
    pub(crate) place: usize,
}

/// A call as the other threads know it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) seat: Seat,
    pub(crate) counters: Arc<CallCounters>,
    pub(crate) voice: Mutex<Voice>,
    removed: AtomicBool,
    /// Telephone-events are agreed on.
    events: AtomicBool,
}

impl Known {
    /// Notes whether telephone-events are agreed on.
    pub(crate) fn set_events(&self, agreed: bool) {
        self.events.store(agreed, Ordering::Relaxed);
    }

    /// Whether telephone-events are agreed on.
    pub(crate) fn events(&self) -> bool {
        self.events.load(Ordering::Relaxed)
    }

    /// The application's side of its play-out.
    pub(crate) fn lock_voice(&self) -> MutexGuard<'_, Voice> {
        self.voice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its end was asked for.
    pub(crate) fn removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Room {
    free: Vec<usize>,
    /// Running calls by phase.
    load: [usize; PHASES],
    /// Calls that fill a pass of voice activity.
    full: usize,
}

impl Room {
    fn calls(&self) -> usize {
        self.load.iter().sum()
    }

    /// The phase for the next call.
    fn phase(&self) -> usize {
        let begun = |n: usize| n > 0 && n < self.full;
        let mut best = 0;
        for (phase, &n) in self.load.iter().enumerate() {
            let best_n = self.load.get(best).copied().unwrap_or(0);
            let better = match (begun(n), begun(best_n)) {
                (true, true) => n > best_n,
                (true, false) => true,
                (false, true) => false,
                (false, false) => n < best_n,
            };
            if better {
                best = phase;
            }
        }
        best
    }
}

/// All calls, and the places of all shards.
#[derive(Debug)]
pub(crate) struct Roster {
    calls: HashMap<u64, Arc<Known>>,
    rooms: Vec<Room>,
    running: usize,
    total: u64,
    /// Counters of calls that have ended.
    ended: MediaStats,
}

impl Roster {
    /// Nobody yet; `places` on each of `shards`. One pass of the voice activity network takes
    /// `lanes` windows, reads all weights and costs the same however few it gets; so a phase gets
    /// the calls for one pass before the next phase gets its first.
    pub(crate) fn new(shards: usize, places: usize, lanes: usize) -> Roster {
        // A call has a window in five of eight ticks.
        let full = lanes * 8 / 5;
        let room = |_| Room { free: (0..places).rev().collect(), load: [0; PHASES], full };
        Roster {
            calls: HashMap::new(),
            rooms: (0..shards).map(room).collect(),
            running: 0,
            total: 0,
            ended: MediaStats::default(),
        }
    }

    /// Seats a call on the shard with the fewest.
    pub(crate) fn add(
        &mut self,
        call: u64,
        max: usize,
        counters: Arc<CallCounters>,
        voice: Voice,
    ) -> Result<Seat, MediaError> {
        if self.calls.contains_key(&call) {
            return Err(MediaError::CallExists(call));
        }
        let full = MediaError::TooManyCalls { max };
        if self.running >= max {
            return Err(full);
        }
        let rooms = self.rooms.iter_mut().enumerate().filter(|(_, r)| !r.free.is_empty());
        let Some((shard, room)) = rooms.min_by_key(|(_, r)| r.calls()) else { return Err(full) };
        let Some(place) = room.free.pop() else { return Err(full) };
        let phase = room.phase();
        if let Some(n) = room.load.get_mut(phase) {
            *n += 1;
        }
        self.running += 1;
        self.total += 1;
        let seat = Seat { shard, phase, place };
        let voice = Mutex::new(voice);
        let (removed, events) = (AtomicBool::new(false), AtomicBool::new(false));
        self.calls.insert(call, Arc::new(Known { seat, counters, voice, removed, events }));
        Ok(seat)
    }

    /// The call, if it has not ended.
    pub(crate) fn get(&self, call: u64) -> Option<&Arc<Known>> {
        self.calls.get(&call)
    }

    /// The call's end was asked for: it counts no more. `None` if it had been already.
    pub(crate) fn leave(&mut self, call: u64) -> Option<Seat> {
        let known = self.calls.get(&call)?;
        if known.removed.swap(true, Ordering::Relaxed) {
            return None;
        }
        let seat = known.seat;
        self.running = self.running.saturating_sub(1);
        let load = self.rooms.get_mut(seat.shard).and_then(|r| r.load.get_mut(seat.phase));
        if let Some(n) = load {
            *n = n.saturating_sub(1);
        }
        Some(seat)
    }

    /// The call has ended and its end was told: its place is free. Gives its final counters.
    pub(crate) fn forget(&mut self, call: u64) -> Option<CallStats> {
        self.leave(call);
        let known = self.calls.remove(&call)?;
        if let Some(room) = self.rooms.get_mut(known.seat.shard) {
            room.free.push(known.seat.place);
        }
        let stats = known.counters.stats();
        sum_up(&mut self.ended, &stats);
        Some(stats)
    }

    /// Counters over all calls so far.
    pub(crate) fn stats(&self) -> MediaStats {
        let mut all = self.ended;
        for known in self.calls.values() {
            sum_up(&mut all, &known.counters.stats());
        }
        all.calls_active = self.running as u64;
        all.calls_total = self.total;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::playout::Level;
    use super::*;

    fn roster(shards: usize, calls: u64) -> Roster {
        let mut roster = Roster::new(shards, 600, 16);
        for call in 0..calls {
            seat(&mut roster, call);
        }
        roster
    }

    fn seat(roster: &mut Roster, call: u64) -> Seat {
        let voice = Voice::new(call, 1.0, Arc::new(Level::default()));
        match roster.add(call, 1000, Arc::default(), voice) {
            Ok(seat) => seat,
            Err(e) => unreachable!("{e}"),
        }
    }

    fn loads(roster: &Roster) -> Vec<[usize; PHASES]> {
        roster.rooms.iter().map(|r| r.load).collect()
    }

    #[test]
    fn many_calls_are_spread_evenly_over_shards_and_phases() {
        let roster = roster(3, 1000);
        for room in loads(&roster) {
            let (least, most) = (room.iter().min(), room.iter().max());
            assert!(least >= Some(&82) && most <= Some(&85), "{room:?}");
        }
    }

    #[test]
    fn few_calls_share_a_phase_so_that_lanes_are_full() {
        assert_eq!(loads(&roster(1, 20)), [[20, 0, 0, 0]]);
        assert_eq!(loads(&roster(1, 30)), [[25, 5, 0, 0]]);
        assert_eq!(loads(&roster(2, 60)), [[25, 5, 0, 0], [25, 5, 0, 0]]);
    }

    #[test]
    fn a_seat_is_kept_and_what_leavers_free_is_filled_again() {
        let mut roster = roster(2, 400);
        let seats: Vec<_> = (0..400).filter_map(|c| roster.get(c).map(|k| k.seat)).collect();
        for call in (0..400u64).filter(|c| seats.get(*c as usize).is_some_and(|s| s.shard == 0)) {
            assert!(roster.leave(call).is_some());
            assert!(roster.leave(call).is_none(), "an end counts once");
        }
        for call in (0..400u64).filter(|c| seats.get(*c as usize).is_some_and(|s| s.shard == 1)) {
            assert_eq!(roster.get(call).map(|k| k.seat), seats.get(call as usize).copied());
        }
        for call in 400..600 {
            assert_eq!(seat(&mut roster, call).shard, 0, "the empty shard is filled first");
        }
        assert_eq!(roster.stats().calls_active, 400);
    }

    #[test]
    fn no_two_calls_have_one_place_and_the_limit_holds() {
        let mut roster = Roster::new(2, 5, 16);
        let voice = |call| Voice::new(call, 1.0, Arc::new(Level::default()));
        let mut seats = Vec::new();
        for call in 0..8 {
            let Ok(seat) = roster.add(call, 8, Arc::default(), voice(call)) else {
                unreachable!("room for 8")
            };
            assert!(!seats.contains(&(seat.shard, seat.place)));
            seats.push((seat.shard, seat.place));
        }
        let refused = roster.add(9, 8, Arc::default(), voice(9));
        assert!(matches!(refused, Err(MediaError::TooManyCalls { max: 8 })));
        assert!(matches!(
            roster.add(3, 99, Arc::default(), voice(3)),
            Err(MediaError::CallExists(3))
        ));
        assert!(roster.forget(3).is_some());
        assert!(roster.add(9, 8, Arc::default(), voice(9)).is_ok());
    }
}
