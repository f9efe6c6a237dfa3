// SPDX-License-Identifier: GPL-3.0-or-later
//! One endpoint for the life of the thread, its peer and its time; what must hold between and after inputs.

use std::cell::RefCell;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use pjsip_sys::{
    CallId, Credentials, DialRequest, Endpoint, EndpointConfig, MediaDescription, RegId,
    Registration, SipEvent,
};

/// Few, so that inputs reach the limit.
const MAX_CALLS: usize = 4;
/// Timers that one input may set off before it is called endless.
const MAX_STEPS: u32 = 3000;
/// Messages that one input may make us send: 32 records, each of at most a dozen with their repeats.
const MAX_SENT: u32 = 4000;

/// Our SDP with all codecs, and with one.
const LOCAL: [&str; 2] = [
    "v=0\r\no=voice 7 7 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
     m=audio 30000 RTP/AVP 8 0 101\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\n\
     a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=ptime:20\r\na=sendrecv\r\n",
    "v=0\r\no=voice 7 7 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
     m=audio 30000 RTP/AVP 0\r\na=sendrecv\r\n",
];

mod ffi {
    #[repr(C)]
    #[derive(Debug, Default, PartialEq, Eq)]
    pub(super) struct Left {
        pub transactions: u32,
        pub dialogs: u32,
        pub calls: u32,
        pub streams: u32,
    }

    // c/world.h.
    extern "C" {
        pub(super) fn vcf_begin();
        pub(super) fn vcf_datagram(data: *const u8, len: usize, source: u32);
        pub(super) fn vcf_stream(data: *const u8, len: usize);
        pub(super) fn vcf_stream_close();
        pub(super) fn vcf_advance(ms: u32);
        pub(super) fn vcf_next_timer() -> i64;
        pub(super) fn vcf_sent(which: u32, out: *mut u8, size: usize) -> usize;
        pub(super) fn vcf_sent_count() -> u32;
        pub(super) fn vcf_left_over(out: *mut Left);
        pub(super) fn vcf_sdp(
            mode: u32,
            first: *const u8,
            first_len: usize,
            second: *const u8,
            second_len: usize,
        );
    }
}

/// Which of the messages that the endpoint sent.
#[derive(Clone, Copy)]
pub(crate) enum Sent {
    Request = 0,
    Response = 1,
}

pub(crate) struct World {
    endpoint: Endpoint,
    /// Every call told of in this input, and those not yet over.
    known: HashSet<CallId>,
    pub(crate) calls: Vec<CallId>,
    regs: Vec<RegId>,
    /// Outcome of the last offer and answer.
    pub(crate) media: Option<MediaDescription>,
    events: Vec<SipEvent>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// One input: made ready before, everything over after.
pub(crate) fn with(run: impl FnOnce(&mut World)) {
    WORLD.with_borrow_mut(|world| {
        let world = world.get_or_insert_with(World::new);
        // SAFETY: the endpoint exists, and this is its thread; so in all the calls below.
        unsafe { ffi::vcf_begin() };
        run(world);
        world.end();
    });
}

/// Ends the endpoint, so that another thread can have one.
pub fn close() {
    WORLD.with_borrow_mut(|world| *world = None);
}

impl World {
    fn new() -> World {
        let config = EndpointConfig { max_calls: MAX_CALLS, ..EndpointConfig::default() };
        let made = Endpoint::new(&config);
        assert!(made.is_ok(), "{:?}", made.err());
        let Ok((mut endpoint, _)) = made else { unreachable!() };
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        for bound in [endpoint.add_udp(any, None), endpoint.add_tcp(any, None)] {
            assert!(bound.is_ok(), "{bound:?}");
        }
        World {
            endpoint,
            known: HashSet::new(),
            calls: Vec::new(),
            regs: Vec::new(),
            media: None,
            events: Vec::new(),
        }
    }

    pub(crate) fn datagram(&mut self, data: &[u8], source: u32) {
        // SAFETY: the bytes live for the call; see `with`.
        unsafe { ffi::vcf_datagram(data.as_ptr(), data.len(), source) };
        self.poll();
    }

    pub(crate) fn stream(&mut self, data: &[u8]) {
        // SAFETY: as above.
        unsafe { ffi::vcf_stream(data.as_ptr(), data.len()) };
        self.poll();
    }

    pub(crate) fn close_stream(&mut self) {
        // SAFETY: see `with`.
        unsafe { ffi::vcf_stream_close() };
        self.poll();
    }

    /// Lets `ms` pass, timer by timer.
    pub(crate) fn pass(&mut self, ms: u32) {
        let mut left = ms;
        for _ in 0..MAX_STEPS {
            // SAFETY: see `with`.
            let next = unsafe { ffi::vcf_next_timer() };
            let step = u32::try_from(next).unwrap_or(left).min(left);
            // SAFETY: see `with`.
            unsafe { ffi::vcf_advance(step) };
            self.poll();
            left -= step;
            if left == 0 {
                return;
            }
        }
    }

    /// The last message of that kind sent in this input.
    pub(crate) fn sent(&self, which: Sent) -> Vec<u8> {
        // SAFETY: nothing is written into no bytes.
        let len = unsafe { ffi::vcf_sent(which as u32, [].as_mut_ptr(), 0) };
        let mut out = vec![0; len];
        // SAFETY: out has as many bytes as said.
        unsafe { ffi::vcf_sent(which as u32, out.as_mut_ptr(), len) };
        out
    }

    pub(crate) fn ring(&mut self, call: CallId) {
        let _ = self.endpoint.ring(call);
        self.poll();
    }

    /// 200 with one of our SDPs.
    pub(crate) fn answer(&mut self, call: CallId, local: usize) {
        let sdp = LOCAL[local % LOCAL.len()];
        if self.endpoint.set_local_sdp(call, sdp).is_ok() {
            let _ = self.endpoint.answer(call);
        }
        self.poll();
    }

    pub(crate) fn reject(&mut self, call: CallId, status: u16) {
        let after = (status == 503).then_some(5);
        let _ = self.endpoint.reject(call, status, after);
        self.poll();
    }

    pub(crate) fn hangup(&mut self, call: CallId) {
        let _ = self.endpoint.hangup(call);
        self.poll();
    }

    pub(crate) fn dial(&mut self, way: u32) {
        let request = DialRequest {
            uri: if way & 1 == 0 { "sip:bob@192.0.2.7" } else { "sip:bob@example.org" }.to_owned(),
            from: Some("sip:alice@example.net".to_owned()),
            sdp: LOCAL[(way as usize >> 1) % LOCAL.len()].to_owned(),
            credentials: Some(credentials()),
            route: (way & 4 != 0).then(|| "sip:192.0.2.20;lr".to_owned()),
        };
        if let Ok(call) = self.endpoint.dial(&request) {
            self.known.insert(call);
            self.calls.push(call);
        }
        self.poll();
    }

    pub(crate) fn register(&mut self) {
        if self.regs.len() < 2 {
            let request = Registration {
                aor: "sip:alice@example.net".to_owned(),
                registrar: "sip:192.0.2.7".to_owned(),
                credentials: credentials(),
                expires_s: 300,
            };
            if let Ok(reg) = self.endpoint.register(&request) {
                self.regs.push(reg);
            }
        }
        self.poll();
    }

    pub(crate) fn unregister(&mut self) {
        if let Some(reg) = self.regs.pop() {
            let _ = self.endpoint.unregister(reg);
        }
        self.poll();
    }

    /// Parser and offer/answer without messages around them (c/sdp.c).
    pub(crate) fn negotiate(&mut self, mode: u8, first: &[u8], second: &[u8]) {
        // Copies of exactly their length: a read past the end is seen.
        let (first, second) = (first.to_vec(), second.to_vec());
        // SAFETY: the bytes live for the call; see `with`.
        unsafe {
            ffi::vcf_sdp(
                u32::from(mode),
                first.as_ptr(),
                first.len(),
                second.as_ptr(),
                second.len(),
            );
        }
    }

    /// One round, and what its events must keep to.
    pub(crate) fn poll(&mut self) {
        let polled = self.endpoint.poll(Duration::ZERO, &mut self.events);
        assert!(polled.is_ok(), "{polled:?}");
        // SAFETY: see `with`.
        let sent = unsafe { ffi::vcf_sent_count() };
        assert!(sent <= MAX_SENT, "{sent} messages sent for one input");
        for event in std::mem::take(&mut self.events) {
            match event {
                SipEvent::Incoming { call, .. } => {
                    assert!(self.known.insert(call), "{call} came in twice");
                    self.calls.push(call);
                }
                SipEvent::Media { call, media } => {
                    self.must_live(call);
                    assert!(media.payload_type < 128 && media.rx_payload_type < 128, "{media:?}");
                    self.media = Some(media);
                }
                SipEvent::Progress { call, .. } | SipEvent::Confirmed { call } => {
                    self.must_live(call);
                }
                SipEvent::Ended { call, .. } => {
                    self.must_live(call);
                    self.calls.retain(|known| *known != call);
                }
                _ => {}
            }
        }
    }

    fn must_live(&self, call: CallId) {
        assert!(self.calls.contains(&call), "an event of call {call}, which is over or unknown");
    }

    /// The peer is gone and we hang up: after the timers of RFC 3261 nothing may be left.
    fn end(&mut self) {
        for call in self.calls.clone() {
            self.hangup(call);
        }
        while !self.regs.is_empty() {
            self.unregister();
        }
        self.close_stream();
        let mut left = ffi::Left::default();
        let mut passed = 0_i64;
        for _ in 0..MAX_STEPS {
            // SAFETY: `left` lives for the call; see `with`.
            unsafe { ffi::vcf_left_over(&mut left) };
            // SAFETY: see `with`.
            let next = unsafe { ffi::vcf_next_timer() };
            if left == ffi::Left::default() || next < 0 {
                break;
            }
            passed += next;
            // SAFETY: see `with`.
            unsafe { ffi::vcf_advance(u32::try_from(next).unwrap_or(u32::MAX)) };
            self.poll();
        }
        assert_eq!(left, ffi::Left::default(), "still there {passed} ms after the end");
        assert!(self.calls.is_empty(), "calls that never ended: {:?}", self.calls);
        self.known.clear();
        self.media = None;
    }
}

fn credentials() -> Credentials {
    Credentials { realm: "*".into(), username: "alice".into(), password: "secret".into() }
}
