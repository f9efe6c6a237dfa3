// SPDX-License-Identifier: GPL-3.0-or-later
//! SRTP between a call and its sockets: what is sent is protected, what arrives is opened, and a packet that is not
//! authentic goes no further, so that it neither moves the latch nor reaches the jitter buffer.

use std::net::SocketAddr;
use std::sync::Arc;

use pjsip_sys::sdes::{SrtpKeys, Suite};

use super::counters::CallCounters;
use super::flow::Port;
use crate::transport::rtp::packet::{classify, Kind};
use crate::transport::srtp::{Receiver, Refused, Sender, OVERHEAD};
use crate::transport::RtpSockets;

/// Room for the longest packet we send, and what SRTP adds.
const LONGEST: usize = 1472;

/// What becomes of one direction's keys.
#[derive(Debug)]
enum Change<T> {
    Keep,
    Off,
    To(Box<T>),
}

/// New keys, made in the thread that tells of them: key derivation and memory are no work for the tick.
#[derive(Debug)]
pub(crate) struct Update {
    tx: Change<Sender>,
    rx: Change<Receiver>,
    /// Goes out with the rest when the update has been applied.
    spent: Option<Box<Receiver>>,
    suite: Option<Suite>,
}

impl Update {
    /// From one agreement to the next, `None` being plain RTP. A key that stays keeps its packet counter (RFC 4568 §7.1.4).
    /// `Ok(None)` when nothing changes.
    ///
    /// # Errors
    /// [`BadKey`]: then no media may flow, for it would be in clear.
    pub(crate) fn between(
        before: Option<&SrtpKeys>,
        after: Option<&SrtpKeys>,
    ) -> Result<Option<Update>, BadKey> {
        if before == after {
            return Ok(None);
        }
        let Some(keys) = after else {
            return Ok(Some(Update { tx: Change::Off, rx: Change::Off, spent: None, suite: None }));
        };
        let same_tx = before.is_some_and(|b| b.local == keys.local);
        let same_rx =
            before.is_some_and(|b| b.remote == keys.remote && b.remote_mki == keys.remote_mki);
        let tx = change(same_tx, || Sender::new(&keys.local))?;
        let rx = change(same_rx, || Receiver::new(&keys.remote, keys.remote_mki))?;
        Ok(Some(Update { tx, rx, spent: None, suite: Some(keys.local.suite()) }))
    }

    pub(crate) fn suite(&self) -> Option<Suite> {
        self.suite
    }
}

fn change<T>(same: bool, make: impl FnOnce() -> Option<T>) -> Result<Change<T>, BadKey> {
    if same {
        return Ok(Change::Keep);
    }
    make().map(|t| Change::To(Box::new(t))).ok_or(BadKey)
}

/// A key of the wrong length, which no [`pjsip_sys::sdes::MasterKey`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadKey;

/// A call's keys. Without any it lets everything through.
#[derive(Debug)]
pub(crate) struct Guard {
    tx: Option<Box<Sender>>,
    rx: Option<Box<Receiver>>,
    /// The peer's key before this one, while its packets may still be on their way.
    old: Option<Box<Receiver>>,
    old_counts: bool,
    counters: Arc<CallCounters>,
}

impl Guard {
    pub(crate) fn new(counters: Arc<CallCounters>) -> Guard {
        Guard { tx: None, rx: None, old: None, old_counts: false, counters }
    }

    /// Puts new keys in force. Leaves in `update` what is to be wiped and freed by another thread.
    pub(crate) fn apply(&mut self, update: &mut Update) {
        self.counters.set_srtp(update.suite);
        match std::mem::replace(&mut update.tx, Change::Keep) {
            Change::Keep => {}
            Change::Off => update.tx = self.tx.take().map_or(Change::Off, Change::To),
            Change::To(new) => update.tx = self.tx.replace(new).map_or(Change::Keep, Change::To),
        }
        match std::mem::replace(&mut update.rx, Change::Keep) {
            Change::Keep => {}
            Change::Off => {
                update.rx = self.rx.take().map_or(Change::Off, Change::To);
                update.spent = self.old.take();
            }
            Change::To(mut rx) => {
                if let Some(last) = &self.rx {
                    rx.follow(last);
                }
                update.spent = std::mem::replace(&mut self.old, self.rx.replace(rx));
                self.old_counts = self.old.is_some();
            }
        }
    }

    /// Protects and sends; false when it was not sent.
    pub(crate) fn send(
        &mut self,
        sockets: &RtpSockets,
        port: Port,
        to: SocketAddr,
        data: &[u8],
    ) -> bool {
        let rtcp = port == Port::Rtcp;
        let Some(tx) = &mut self.tx else { return sockets.send(rtcp, to, data) };
        let mut buf = [0; LONGEST + OVERHEAD];
        let Some(room) = buf.get_mut(..data.len()) else { return false };
        room.copy_from_slice(data);
        // RTCP may share RTP's port (RFC 5761).
        let sealed = if classify(data) == Kind::Rtcp {
            tx.protect_rtcp(&mut buf, data.len())
        } else {
            tx.protect_rtp(&mut buf, data.len())
        };
        let packet = sealed.ok().and_then(|len| buf.get(..len));
        packet.is_some_and(|packet| sockets.send(rtcp, to, packet))
    }

    /// Opens a datagram of `len` octets in place. Gives the length of what is in it, `None` when it is nobody's.
    pub(crate) fn open(&mut self, port: Port, buf: &mut [u8], len: usize) -> Option<usize> {
        let Some(rx) = &mut self.rx else { return Some(len) };
        let data = buf.get_mut(..len)?;
        let rtcp = match classify(data) {
            Kind::Rtcp => true,
            Kind::Rtp => port == Port::Rtcp,
            // STUN and the like: counted, and looked at no further.
            Kind::Stun | Kind::Other => return (port == Port::Rtp).then_some(len),
        };
        let open = |rx: &mut Receiver, data: &mut [u8]| {
            if rtcp {
                rx.open_rtcp(data)
            } else {
                rx.open_rtp(data)
            }
        };
        let mut opened = open(rx, data);
        match (&opened, &mut self.old) {
            (Ok(_), _) => self.old_counts = false,
            // Sent before the peer had our answer; a refused packet is as it was.
            (Err(Refused::Auth | Refused::Malformed), Some(old)) if self.old_counts => {
                opened = open(old, data);
            }
            _ => {}
        }
        match opened {
            Ok(len) => return Some(len),
            Err(Refused::Replay) => self.counters.srtp_replays.add(1),
            Err(_) => self.counters.srtp_auth_errors.add(1),
        }
        None
    }
}
