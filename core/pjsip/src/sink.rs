// SPDX-License-Identifier: GPL-3.0-or-later
//! Where the shim's callbacks put their events: a queue on the SIP thread, with a bound on what strangers can cause.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant};

use crate::convert::{addr_from_c, media_from_c};
use crate::ffi;
use crate::gate::Gate;
use crate::redact::redact_text;
use crate::sdes::SrtpKeys;
use crate::types::{CallId, ProbeId, RegId, SipEvent, Transport};

/// Malformed, Rejected and Log events a second, and in one burst. Anyone who reaches the port can cause them.
const RATE_PER_S: f64 = 10.0;
const BURST: f64 = 20.0;
/// How often held-back events are summed up in a log line.
const SUMMARY_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Default)]
pub(crate) struct Counters {
    pub malformed: u64,
    pub rejected: u64,
    pub suppressed: u64,
}

struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn new(now: Instant) -> Bucket {
        Bucket { tokens: BURST, at: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * RATE_PER_S;
        self.tokens = (self.tokens + gained).min(BURST);
        self.at = now;
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }
}

/// What the shim asks of the resolver, in order.
pub(crate) enum Ask {
    /// Look up, and answer with this number.
    Resolve { query: u64, host: String, port: u16, transport: Transport },
    /// This server failed: others come first for so long.
    Blame { server: SocketAddr, transport: Transport, time: Duration },
}

struct Inner {
    queue: VecDeque<SipEvent>,
    asks: VecDeque<Ask>,
    malformed: Bucket,
    rejected: Bucket,
    log: Bucket,
    suppressed_told: u64,
    summary_at: Instant,
}

/// Single-threaded; the shim holds its address.
pub(crate) struct Sink {
    inner: RefCell<Inner>,
    counters: Cell<Counters>,
    gate: RefCell<Option<Box<dyn Gate>>>,
}

impl Sink {
    pub(crate) fn new(now: Instant) -> Sink {
        Sink {
            inner: RefCell::new(Inner {
                queue: VecDeque::with_capacity(256),
                asks: VecDeque::new(),
                malformed: Bucket::new(now),
                rejected: Bucket::new(now),
                log: Bucket::new(now),
                suppressed_told: 0,
                summary_at: now,
            }),
            counters: Cell::new(Counters::default()),
            gate: RefCell::new(None),
        }
    }

    pub(crate) fn set_gate(&self, gate: Box<dyn Gate>) {
        *self.gate.borrow_mut() = Some(gate);
    }

    /// `None` without a gate, or when it is being asked already: it must not call the endpoint.
    pub(crate) fn with_gate<R>(&self, f: impl FnOnce(&mut dyn Gate) -> R) -> Option<R> {
        let mut gate = self.gate.try_borrow_mut().ok()?;
        let gate = gate.as_mut()?;
        Some(f(gate.as_mut()))
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters.get()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inner.try_borrow().map_or(true, |inner| inner.queue.is_empty())
    }

    /// The oldest wish to the resolver.
    pub(crate) fn next_ask(&self) -> Option<Ask> {
        self.inner.try_borrow_mut().ok()?.asks.pop_front()
    }

    fn ask(&self, ask: Ask) {
        if let Ok(mut inner) = self.inner.try_borrow_mut() {
            inner.asks.push_back(ask);
        }
    }

    /// Moves all events to `out`, oldest first.
    pub(crate) fn drain(&self, now: Instant, out: &mut Vec<SipEvent>) {
        let Ok(mut inner) = self.inner.try_borrow_mut() else { return };
        let suppressed = self.counters.get().suppressed;
        if suppressed > inner.suppressed_told
            && now.saturating_duration_since(inner.summary_at) >= SUMMARY_EVERY
        {
            let count = suppressed - inner.suppressed_told;
            inner.suppressed_told = suppressed;
            inner.summary_at = now;
            let message =
                format!("{count} SIP log lines and rejections were held back by the rate bound");
            inner.queue.push_back(SipEvent::Log { level: 2, message });
        }
        out.extend(inner.queue.drain(..));
    }

    fn push(&self, event: SipEvent, now: Instant) {
        // The shim never calls back while we hold the queue, so this cannot fail; losing an event beats a panic in C.
        let Ok(mut inner) = self.inner.try_borrow_mut() else { return };
        let mut counters = self.counters.get();
        let pass = match &event {
            SipEvent::Malformed { .. } => {
                counters.malformed += 1;
                inner.malformed.take(now)
            }
            SipEvent::Rejected { .. } => {
                counters.rejected += 1;
                inner.rejected.take(now)
            }
            SipEvent::Log { .. } => inner.log.take(now),
            _ => true,
        };
        if pass {
            inner.queue.push_back(event);
        } else {
            counters.suppressed += 1;
        }
        self.counters.set(counters);
    }
}

/// The function pointer that the shim gets. `user` is a `*const Sink` that outlives the endpoint.
pub(crate) unsafe extern "C" fn on_event(user: *mut c_void, event: *const ffi::Event) {
    // SAFETY: the shim hands back the Sink given to vc_create, which lives until vc_destroy has returned, and an event
    // that lives for this call (vc.h). Both are on the SIP thread, and Sink is only ever shared.
    let (sink, event) = unsafe { (&*user.cast::<Sink>(), &*event) };
    // Nothing here panics by design; if it ever did, it must not unwind into C.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if let Some(ask) = ask_of(event) {
            sink.ask(ask);
        } else if let Some(event) = convert(event) {
            match &event {
                SipEvent::Confirmed { call } => sink.with_gate(|gate| gate.confirmed(*call)),
                SipEvent::Ended { call, .. } => sink.with_gate(|gate| gate.ended(*call)),
                _ => None,
            };
            sink.push(event, Instant::now());
        }
    }));
}

fn ask_of(event: &ffi::Event) -> Option<Ask> {
    let [text, ..] = &event.text;
    let transport = match event.status {
        ffi::UDP => Transport::Udp,
        ffi::TCP => Transport::Tcp,
        _ => Transport::Tls,
    };
    match event.kind {
        ffi::EV_RESOLVE => Some(Ask::Resolve {
            query: event.id,
            host: owned(text),
            port: u16::try_from(event.expires).unwrap_or(0),
            transport,
        }),
        ffi::EV_BLAME => Some(Ask::Blame {
            server: addr_from_c(&event.source)?,
            transport,
            time: Duration::from_secs(u64::from(event.expires)),
        }),
        _ => None,
    }
}

/// Our own words, which name addresses and nothing private, else the peer's without what might be private.
fn reason_of(event: &ffi::Event) -> String {
    let [theirs, ours, ..] = &event.text;
    if bytes(ours).is_empty() {
        redact_text(&owned(theirs))
    } else {
        owned(ours)
    }
}

fn convert(event: &ffi::Event) -> Option<SipEvent> {
    let [text, ..] = &event.text;
    let status = u16::try_from(event.status).unwrap_or(0);
    let call = CallId(event.id);
    Some(match event.kind {
        ffi::EV_INCOMING => {
            let [sip_call_id, from, to, request_uri] = &event.text;
            SipEvent::Incoming {
                call,
                sip_call_id: owned(sip_call_id),
                from: owned(from),
                to: owned(to),
                request_uri: owned(request_uri),
                source: source_of(event),
                local_port: u16::try_from(event.expires).unwrap_or(0),
                has_offer: event.flag != 0,
            }
        }
        ffi::EV_PROGRESS => SipEvent::Progress { call, status },
        ffi::EV_MEDIA => media_event(event)?,
        ffi::EV_CONFIRMED => SipEvent::Confirmed { call },
        ffi::EV_ENDED => {
            SipEvent::Ended { call, status, reason: reason_of(event), by_remote: event.flag != 0 }
        }
        ffi::EV_REGISTRATION => SipEvent::Registration {
            reg: RegId(event.id),
            status,
            reason: reason_of(event),
            expires_s: event.expires,
            server: addr_from_c(&event.source),
            retry: (event.flag != 0).then(|| Duration::from_millis(u64::from(event.flag))),
        },
        ffi::EV_PROBE => SipEvent::Probe {
            probe: ProbeId(event.id),
            alive: event.flag != 0,
            status,
            reason: reason_of(event),
            rtt: (event.flag != 0).then(|| Duration::from_millis(u64::from(event.expires))),
            server: addr_from_c(&event.source),
        },
        ffi::EV_DTMF => SipEvent::Dtmf {
            call,
            event: u8::try_from(event.status).ok()?,
            duration_ms: event.expires,
        },
        ffi::EV_INFO_DONE => SipEvent::InfoDone {
            call,
            token: u64::from(event.expires) << 32 | u64::from(event.flag),
            status,
        },
        ffi::EV_REJECTED => {
            SipEvent::Rejected { source: source_of(event), status, why: literal(text) }
        }
        ffi::EV_MALFORMED => SipEvent::Malformed {
            source: addr_from_c(&event.source),
            why: redact_text(&owned(text)),
        },
        ffi::EV_LOG => log_event(event, &owned(text))?,
        ffi::EV_EARLY => SipEvent::EarlyMedia { call },
        ffi::EV_OFFERED => SipEvent::Offered { call, status },
        ffi::EV_REFERRED => SipEvent::Referred { call, status, last: event.flag != 0 },
        ffi::EV_REFER => {
            let [target, replaces, ..] = &event.text;
            let replaces = Some(owned(replaces)).filter(|text| !text.is_empty());
            SipEvent::Refer { call, target: owned(target), replaces }
        }
        ffi::EV_TAKEOVER => {
            let [sip_call_id, from, ..] = &event.text;
            SipEvent::Takeover {
                call,
                replaced: CallId(event.other),
                sip_call_id: owned(sip_call_id),
                from: owned(from),
                source: source_of(event),
            }
        }
        _ => return None,
    })
}

fn media_event(event: &ffi::Event) -> Option<SipEvent> {
    let [ours, theirs, ..] = &event.text;
    let srtp = if ours.len == 0 {
        None
    } else {
        let line = |text| std::str::from_utf8(bytes(text)).ok();
        // The shim had both read before: without keys nothing is told, and no plain RTP flows.
        Some(Box::new(SrtpKeys::from_lines(line(ours)?, line(theirs)?).ok()?))
    };
    Some(SipEvent::Media {
        call: CallId(event.id),
        media: media_from_c(&event.media)?,
        srtp,
        confidential: event.flag != 0,
    })
}

fn log_event(event: &ffi::Event, text: &str) -> Option<SipEvent> {
    let level = u8::try_from(event.status).unwrap_or(2);
    if event.flag != 0 {
        return Some(SipEvent::Log { level, message: text.to_owned() });
    }
    // PJSIP quotes what it dropped; a Malformed event says so with its source.
    if text.contains("Error processing packet") || text.contains("Dropping ") {
        return None;
    }
    Some(SipEvent::Log { level, message: redact_text(text) })
}

fn source_of(event: &ffi::Event) -> SocketAddr {
    addr_from_c(&event.source).unwrap_or_else(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
}

pub(crate) fn bytes(text: &ffi::Str) -> &[u8] {
    if text.ptr.is_null() || text.len == 0 {
        return &[];
    }
    // SAFETY: the shim sets ptr and len of one live buffer (vc_text, literals), valid for the callback, hence for the
    // borrow of the event.
    unsafe { std::slice::from_raw_parts(text.ptr, text.len) }
}

fn owned(text: &ffi::Str) -> String {
    String::from_utf8_lossy(bytes(text)).into_owned()
}

fn literal(text: &ffi::Str) -> &'static str {
    if text.ptr.is_null() || text.len == 0 {
        return "";
    }
    // SAFETY: the text of EV_REJECTED is a C string literal (vc.h), which lives as long as the process.
    let bytes: &'static [u8] = unsafe { std::slice::from_raw_parts(text.ptr, text.len) };
    std::str::from_utf8(bytes).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_events_are_bounded_and_counted() {
        let start = Instant::now();
        let sink = Sink::new(start);
        for _ in 0..1000 {
            sink.push(SipEvent::Malformed { source: None, why: String::new() }, start);
        }
        let mut out = Vec::new();
        sink.drain(start, &mut out);
        assert_eq!(out.len(), BURST as usize);
        assert_eq!(sink.counters().malformed, 1000);
        assert_eq!(sink.counters().suppressed, 980);
        // A call's own events are never held back.
        for _ in 0..1000 {
            sink.push(SipEvent::Confirmed { call: CallId(1) }, start);
        }
        out.clear();
        sink.drain(start, &mut out);
        assert_eq!(out.len(), 1000);
    }

    #[test]
    fn held_back_events_are_summed_up() {
        let start = Instant::now();
        let sink = Sink::new(start);
        for _ in 0..100 {
            sink.push(SipEvent::Log { level: 2, message: "x".to_owned() }, start);
        }
        let mut out = Vec::new();
        sink.drain(start + SUMMARY_EVERY, &mut out);
        let Some(SipEvent::Log { message, .. }) = out.last() else { panic!("no summary: {out:?}") };
        assert!(message.starts_with("80 "), "{message}");
    }
}
