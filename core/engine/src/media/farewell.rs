// SPDX-License-Identifier: GPL-3.0-or-later
//! Ends of recorded calls. The recorder tells them when the file is complete; storage that blocks
//! (a frozen or vanished disk) must not keep a call from ending, so after a while it is told here.

use crate::events::Notice;
use crate::media::outbox::{Garbage, Outbox, Record};
use crate::record::End;

/// How long the recorder may take to complete a file.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Calls that have left and whose files are not complete.
#[derive(Debug)]
pub(crate) struct Farewells {
    waiting: Vec<(u64, End, u64)>,
}

impl Farewells {
    /// Nobody; room for `places`.
    pub(crate) fn new(places: usize) -> Farewells {
        Farewells { waiting: Vec::with_capacity(places) }
    }

    /// A recorded call left. False when there is no room: then its end is told at once.
    pub(crate) fn add(&mut self, call: u64, end: End, now_ns: u64) -> bool {
        if self.waiting.len() >= self.waiting.capacity() {
            return !end.claim();
        }
        self.waiting.push((call, end, now_ns));
        true
    }

    /// Tells the ends that the recorder has not told in time.
    pub(crate) fn poll(&mut self, now_ns: u64, unsaid: &mut Vec<u64>, to: &mut Outbox) {
        let mut i = 0;
        while let Some((call, end, since_ns)) = self.waiting.get(i) {
            let late = now_ns.saturating_sub(*since_ns) >= PATIENCE_NS;
            let over = if late && end.claim() {
                let (call, notice) = (*call, Notice::RecorderBlocked);
                to.tell(Record::Notice { call: Some(call), notice });
                if !to.tell_closed(call) {
                    unsaid.push(call);
                }
                true
            } else {
                end.is_told()
            };
            if over {
                // Its memory is freed elsewhere.
                let (_, end, _) = self.waiting.swap_remove(i);
                to.discard(Garbage::End(end));
            } else {
                i += 1;
            }
        }
    }
}
