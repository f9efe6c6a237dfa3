// SPDX-License-Identifier: GPL-3.0-or-later
//! The endpoint: PJSIP's user agent on one thread.

use std::ffi::{c_int, c_void};
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixDatagram;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::check;
use crate::convert::codec_bits;
use crate::dns::Resolver;
use crate::error::SipError;
use crate::ffi;
use crate::gate::{on_query, Gate};
use crate::refuse::on_refusal;
use crate::sdes::sdes;
use crate::sink::{bytes, on_event, Sink};
use crate::slim::slim;
use crate::types::{CallId, Credentials, EndpointConfig, EndpointStats, SipEvent};

/// How long [`Endpoint::shutdown`] waits for answers to its BYEs and REGISTERs.
const SHUTDOWN_WAIT: Duration = Duration::from_millis(1200);
/// Longest single wait; [`Endpoint::poll`] goes on until its own timeout.
const POLL_MAX: Duration = Duration::from_secs(3600);

/// PJSIP keeps its user agent in globals of the process.
static EXISTS: AtomicBool = AtomicBool::new(false);

#[derive(Debug)]
struct Bell {
    tx: UnixDatagram,
    rung: AtomicBool,
}

/// Ends a running or the next [`Endpoint::poll`] at once, from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waker {
    bell: Arc<Bell>,
}

impl Waker {
    #[cfg(test)]
    pub(crate) fn for_tests() -> Waker {
        let (tx, _) = wake_pair().unwrap();
        Waker { bell: Arc::new(Bell { tx, rung: AtomicBool::new(false) }) }
    }

    /// Wakes. Never blocks; wakes that pile up are one.
    pub fn wake(&self) {
        if !self.bell.rung.swap(true, Ordering::AcqRel) {
            // An error means that the endpoint is gone, so nobody needs waking.
            let _ = self.bell.tx.send(&[1]);
        }
    }
}

/// PJSIP's user agent. `!Send`: created, used and dropped on one thread. One at a time in a process.
pub struct Endpoint {
    pub(crate) raw: *mut ffi::RawEndpoint,
    pub(crate) sink: Box<Sink>,
    pub(crate) resolver: Resolver,
    bell: Arc<Bell>,
    max_calls: usize,
}

impl Endpoint {
    /// Starts PJSIP. Errors: [`SipError::EndpointExists`], [`SipError::BadArgument`], [`SipError::Pj`].
    pub fn new(cfg: &EndpointConfig) -> Result<(Endpoint, Waker), SipError> {
        let codecs = codec_bits(&cfg.codecs);
        if codecs == 0 {
            return Err(SipError::BadArgument("codecs"));
        }
        check::header_text(&cfg.user_agent, "user_agent")?;
        let max_calls =
            u32::try_from(cfg.max_calls).map_err(|_| SipError::BadArgument("max_calls"))?;
        let (tx, rx) = wake_pair()?;
        if EXISTS.swap(true, Ordering::AcqRel) {
            return Err(SipError::EndpointExists);
        }
        let sink = Box::new(Sink::new(Instant::now()));
        let config = ffi::Config {
            user_agent: ffi::Str::new(&cfg.user_agent),
            log_level: u32::from(cfg.log_level),
            codecs,
            max_calls,
            sdes,
            slim,
            wake_fd: rx.into_raw_fd(),
        };
        let mut raw = ptr::null_mut();
        let user = ptr::from_ref::<Sink>(&sink).cast_mut().cast::<c_void>();
        // SAFETY: config and its text live over the call; the sink's heap address lives until Drop has called vc_destroy;
        // EXISTS makes this the only endpoint, as vc.h asks; the descriptor is given away.
        let status = unsafe { ffi::vc_create(&config, on_event, user, &mut raw) };
        if status != 0 || raw.is_null() {
            EXISTS.store(false, Ordering::Release);
            return Err(error("starting PJSIP", status));
        }
        // SAFETY: raw came from vc_create just now.
        unsafe { ffi::vc_set_refusal(raw, on_refusal) };
        let bell = Arc::new(Bell { tx, rung: AtomicBool::new(false) });
        let waker = Waker { bell: Arc::clone(&bell) };
        let resolver = Resolver::new(cfg.nameservers.clone(), waker.clone());
        Ok((Endpoint { raw, sink, resolver, bell, max_calls: cfg.max_calls }, waker))
    }

    /// Sets who decides on what strangers send; without one all is served. What it holds is dropped with the endpoint.
    pub fn set_gate(&mut self, gate: Box<dyn Gate>) {
        self.sink.set_gate(gate);
        // SAFETY: raw is live until Drop; on_query uses the sink that vc_create was given.
        unsafe { ffi::vc_set_gate(self.raw, on_query) };
    }

    /// Runs the stack until something happened, `timeout` passed or a [`Waker`] woke, and appends to `out`.
    pub fn poll(&mut self, timeout: Duration, out: &mut Vec<SipEvent>) -> Result<(), SipError> {
        let start = Instant::now();
        let deadline = start.checked_add(timeout).unwrap_or(start + POLL_MAX);
        self.resolve();
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).min(POLL_MAX);
            let wait = if self.sink.is_empty() { left } else { Duration::ZERO };
            // Rounded up: a wait of less than a millisecond must not become a busy loop.
            let ms = u32::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX);
            let mut woken = 0;
            // SAFETY: raw is live until Drop; woken lives over the call. The shim calls on_event only.
            let status = unsafe { ffi::vc_poll(self.raw, ms, &mut woken) };
            if woken != 0 {
                self.bell.rung.store(false, Ordering::Release);
            }
            if status != 0 {
                return Err(error("polling SIP", status));
            }
            self.resolve();
            if woken != 0 || !self.sink.is_empty() || left.is_zero() {
                self.sink.drain(Instant::now(), out);
                return Ok(());
            }
        }
    }

    /// Sends 180 Ringing. Errors: [`SipError::NoSuchCall`], [`SipError::NotReady`] when it is not a waiting call.
    pub fn ring(&mut self, call: CallId) -> Result<(), SipError> {
        // SAFETY: raw is live until Drop.
        self.done(call, "sending 180", unsafe { ffi::vc_ring(self.raw, call.0) })
    }

    /// Sets our SDP: the answer to the offer received, or the offer of our 200. Before `answer`; kept for later
    /// re-INVITEs, so it should list all codecs, and with SRTP a key for each suite (see [`crate::sdes`]).
    /// Errors: [`SipError::NoSuchCall`], [`SipError::BadSdp`].
    pub fn set_local_sdp(&mut self, call: CallId, sdp: &str) -> Result<(), SipError> {
        check::sdp(sdp)?;
        let mut why = ffi::Str::new("");
        // SAFETY: raw is live until Drop; the text and why live over the call, and the shim copies the text.
        let status =
            unsafe { ffi::vc_set_local_sdp(self.raw, call.0, ffi::Str::new(sdp), &mut why) };
        if status == ffi::ESRTP {
            // With this status the shim set why to text that is good until its next call.
            return Err(SipError::BadSdp(String::from_utf8_lossy(bytes(&why)).into_owned()));
        }
        self.done(call, "reading the local SDP", status)
    }

    /// Sends 200 with SDP. Needs `set_local_sdp` first. Errors: [`SipError::NoSuchCall`], [`SipError::NotReady`];
    /// [`SipError::Pj`] when our SDP does not fit the offer: then `Ended` with 488 follows.
    pub fn answer(&mut self, call: CallId) -> Result<(), SipError> {
        // SAFETY: raw is live until Drop.
        self.done(call, "answering", unsafe { ffi::vc_answer(self.raw, call.0) })
    }

    /// Refuses an incoming call with a status of 300..=699. `Ended` follows.
    pub fn reject(
        &mut self,
        call: CallId,
        status: u16,
        retry_after: Option<u32>,
    ) -> Result<(), SipError> {
        if !(300..=699).contains(&status) {
            return Err(SipError::BadArgument("status"));
        }
        let after = retry_after.map_or(-1, |s| i64::from(s.min(86_400)));
        // SAFETY: raw is live until Drop.
        let result = unsafe { ffi::vc_reject(self.raw, call.0, u32::from(status), after) };
        self.done(call, "rejecting", result)
    }

    /// Ends a call in whatever state it is: BYE, CANCEL or 603. `Ended` follows at once (200 for a BYE, 487 for a
    /// CANCEL, 603), while PJSIP goes on with retransmissions in the background.
    pub fn hangup(&mut self, call: CallId) -> Result<(), SipError> {
        // SAFETY: raw is live until Drop.
        self.done(call, "hanging up", unsafe { ffi::vc_hangup(self.raw, call.0) })
    }

    /// Sends one key (event code of RFC 4733 section 3.2) as INFO with `application/dtmf-relay`. `InfoDone` with the
    /// token follows. Errors: [`SipError::NoSuchCall`], [`SipError::NotReady`] before the call is confirmed and while
    /// another INFO is under way.
    pub fn info_dtmf(
        &mut self,
        call: CallId,
        event: u8,
        duration_ms: u32,
        token: u64,
    ) -> Result<(), SipError> {
        // SAFETY: raw is live until Drop.
        let status =
            unsafe { ffi::vc_info_dtmf(self.raw, call.0, u32::from(event), duration_ms, token) };
        self.done(call, "sending INFO", status)
    }

    /// Counters since creation.
    pub fn stats(&self) -> EndpointStats {
        let counters = self.sink.counters();
        // SAFETY: raw is live until Drop.
        let calls = unsafe { ffi::vc_calls(self.raw) };
        // SAFETY: as before.
        let transactions = unsafe { ffi::vc_transactions(self.raw) };
        // SAFETY: as before.
        let dialogs = unsafe { ffi::vc_dialogs(self.raw) };
        EndpointStats {
            malformed: counters.malformed,
            rejected: counters.rejected,
            events_suppressed: counters.suppressed,
            calls: calls as usize,
            transactions: transactions.into(),
            dialogs: dialogs.into(),
        }
    }

    /// Gives memory that is free back to the system. Takes some milliseconds after a rush of calls.
    pub fn trim(&self) {
        // SAFETY: takes no arguments; the allocator locks what it touches.
        unsafe { ffi::vc_trim() };
    }

    /// BYE to all calls, unregister, wait at most 1.2 s for answers, destroy.
    pub fn shutdown(mut self) {
        // SAFETY: raw is live until Drop.
        unsafe { ffi::vc_end_all(self.raw) };
        let deadline = Instant::now() + SHUTDOWN_WAIT;
        let mut events = Vec::new();
        // SAFETY: raw is live until Drop.
        while unsafe { ffi::vc_pending(self.raw) } > 0 && Instant::now() < deadline {
            if self.poll(Duration::from_millis(20), &mut events).is_err() {
                break;
            }
            events.clear();
        }
    }

    pub(crate) fn done(
        &self,
        call: CallId,
        place: &'static str,
        status: c_int,
    ) -> Result<(), SipError> {
        match status {
            0 => Ok(()),
            ffi::ENOCALL => Err(SipError::NoSuchCall(call)),
            ffi::ELIMIT => Err(SipError::TooManyCalls(self.max_calls)),
            ffi::ESTATE => Err(SipError::NotReady("the call is not in a state for that")),
            ffi::ENOSDP => Err(SipError::NotReady("set_local_sdp comes before answer")),
            ffi::ENOCODEC => Err(SipError::BadSdp("no codec in common with the offer".to_owned())),
            ffi::EBUSY => Err(SipError::NotReady("another one is under way; wait for its end")),
            ffi::EUNRELIABLE => Err(SipError::NotReady(
                "an INVITE without offer needs 100rel for early media; answer it instead",
            )),
            ffi::EURI => Err(SipError::BadUri("the target of the transfer")),
            ffi::ESDP => Err(SipError::BadSdp("it does not parse (RFC 8866)".to_owned())),
            other => Err(error(place, other)),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: raw came from vc_create and is destroyed once; this is its thread (Endpoint is !Send); the sink is
        // dropped after this.
        unsafe { ffi::vc_destroy(self.raw) };
        EXISTS.store(false, Ordering::Release);
    }
}

fn wake_pair() -> Result<(UnixDatagram, UnixDatagram), SipError> {
    let pair = || {
        let (tx, rx) = UnixDatagram::pair()?;
        tx.set_nonblocking(true)?;
        rx.set_nonblocking(true)?;
        Ok((tx, rx))
    };
    pair().map_err(|e: std::io::Error| SipError::Pj {
        place: "opening the wake socket",
        status: e.raw_os_error().unwrap_or(0),
        text: e.to_string(),
    })
}

pub(crate) fn credentials_to_c(credentials: &Credentials) -> Result<ffi::Credentials, SipError> {
    check::header_text(&credentials.realm, "realm")?;
    check::header_text(&credentials.username, "username")?;
    Ok(ffi::Credentials {
        realm: ffi::Str::new(&credentials.realm),
        username: ffi::Str::new(&credentials.username),
        password: ffi::Str::new(&credentials.password),
    })
}

pub(crate) fn error(place: &'static str, status: c_int) -> SipError {
    SipError::Pj { place, status, text: text_of(status) }
}

pub(crate) fn text_of(status: c_int) -> String {
    if status <= 0 {
        return "refused by the shim".to_owned();
    }
    let mut buf = [0_u8; 160];
    // SAFETY: buf has the size given; the shim writes no more than that.
    let len = unsafe { ffi::vc_error_text(status, buf.as_mut_ptr(), buf.len()) };
    String::from_utf8_lossy(buf.get(..len.min(buf.len())).unwrap_or(&[])).into_owned()
}
