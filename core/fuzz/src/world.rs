// SPDX-License-Identifier: GPL-3.0-or-later
//! One endpoint for the life of the thread, its peer and its time; what must hold between and after inputs.

use std::cell::RefCell;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use pjsip_sys::{
    CallId, Credential, Credentials, DialExtra, DialRequest, Endpoint, EndpointConfig, Gate,
    Origin, Policy, Probe, ProbeId, Refusal, RegId, Registration, Request, SipEvent, Verdict,
};

/// Few, so that inputs reach the limit.
const MAX_CALLS: usize = 4;
/// Timers that one input may set off before it is called endless.
const MAX_STEPS: u32 = 3000;
/// Messages that one input may make us send: 32 records, each of at most a dozen with their repeats.
const MAX_SENT: u32 = 4000;

/// Our SDP with all codecs, with one, and with keys of SRTP.
const LOCAL: [&str; 3] = [
    "v=0\r\no=voice 7 7 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
     m=audio 30000 RTP/AVP 8 0 101\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\n\
     a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=ptime:20\r\na=sendrecv\r\n",
    "v=0\r\no=voice 7 7 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
     m=audio 30000 RTP/AVP 0\r\na=sendrecv\r\n",
    "v=0\r\no=voice 7 7 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
     m=audio 30000 RTP/AVP 8 0 101\r\na=rtpmap:101 telephone-event/8000\r\n\
     a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n\
     a=crypto:2 AES_CM_128_HMAC_SHA1_32 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n",
];

mod ffi {
    #[repr(C)]
    #[derive(Debug, Default, PartialEq, Eq)]
    pub(super) struct Left {
        pub transactions: u32,
        pub dialogs: u32,
        pub calls: u32,
        pub streams: u32,
        pub lookups: u32,
    }

    // c/world.h.
    extern "C" {
        pub(super) fn vcf_begin();
        pub(super) fn vcf_datagram(data: *const u8, len: usize, source: u32);
        pub(super) fn vcf_stream(data: *const u8, len: usize);
        pub(super) fn vcf_stream_close();
        pub(super) fn vcf_resolve();
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
    probes: Vec<ProbeId>,
    events: Vec<SipEvent>,
}

/// A gate that lets everybody in but one, whom it challenges, and does not answer the mistakes of another.
struct Door;

impl Gate for Door {
    fn connected(&mut self, _: &Origin, _: u64) -> bool {
        true
    }
    fn disconnected(&mut self, _: u64) {}
    fn packet(&mut self, _: &Origin, _: &[u8]) -> bool {
        true
    }
    fn request(&mut self, _: &Origin, _: &Request<'_>) -> Verdict {
        Verdict::Pass
    }
    fn invite(&mut self, origin: &Origin, credentials: &[Credential<'_>]) -> Verdict {
        if origin.source.ip() != IpAddr::from([203, 0, 113, 200]) {
            return Verdict::Pass;
        }
        // As the guard does: it reads all of them.
        let read = credentials.iter().map(|c| c.username.len() + c.response.len() + c.nc.len());
        Verdict::Refuse(Refusal {
            status: if read.sum::<usize>() > 1000 { 403 } else { 401 },
            why: "no",
            retry_after: Some(5),
            challenges: vec!["Digest realm=\"x\", nonce=\"1\"".to_owned(); 2],
        })
    }
    fn misbehaved(&mut self, origin: &Origin) -> bool {
        origin.source.ip() != IpAddr::from([198, 51, 100, 9])
    }
    fn opened(&mut self, _: &Origin, _: CallId) {}
    fn confirmed(&mut self, _: CallId) {}
    fn ended(&mut self, _: CallId) {}
    fn registering(&mut self, _: &Origin) {}
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
        let config = EndpointConfig {
            max_calls: MAX_CALLS,
            // Lookups are answered by c/world.c; were one to get past it, it would come no further than this.
            nameservers: vec![SocketAddr::from(([127, 0, 0, 1], 9))],
            ..EndpointConfig::default()
        };
        let made = Endpoint::new(&config);
        assert!(made.is_ok(), "{:?}", made.err());
        let Ok((mut endpoint, _)) = made else { unreachable!() };
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        for bound in [endpoint.add_udp(any, None), endpoint.add_tcp(any, None)] {
            assert!(bound.is_ok(), "{bound:?}");
        }
        let set = endpoint.set_policy(0, &Policy { refer: true, ..Policy::default() });
        assert!(set.is_ok(), "{set:?}");
        endpoint.set_gate(Box::new(Door));
        World {
            endpoint,
            known: HashSet::new(),
            calls: Vec::new(),
            regs: Vec::new(),
            probes: Vec::new(),
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

    /// 183 with one of our SDPs.
    pub(crate) fn early_media(&mut self, call: CallId, local: usize) {
        if self.endpoint.set_local_sdp(call, LOCAL[local % LOCAL.len()]).is_ok() {
            let _ = self.endpoint.early_media(call);
        }
        self.poll();
    }

    /// A new offer in the dialog.
    pub(crate) fn offer(&mut self, call: CallId, local: usize) {
        let _ = self.endpoint.offer(call, LOCAL[local % LOCAL.len()]);
        self.poll();
    }

    /// Transfers: attended to the oldest other call, or blind.
    pub(crate) fn refer(&mut self, call: CallId, attended: bool) {
        let other = self.calls.iter().copied().find(|c| *c != call);
        let _ = match other.filter(|_| attended) {
            Some(other) => self.endpoint.refer_to(call, other),
            None => self.endpoint.refer(call, "sip:carol@192.0.2.30"),
        };
        self.poll();
    }

    pub(crate) fn refer_status(&mut self, call: CallId, status: u16) {
        let _ = self.endpoint.refer_status(call, status);
        self.poll();
    }

    pub(crate) fn key(&mut self, call: CallId) {
        let _ = self.endpoint.info_dtmf(call, 5, 160, 7);
        self.poll();
    }

    pub(crate) fn dial(&mut self, way: u32) {
        let bit = |n: u32| way >> n & 1 != 0;
        let request = DialRequest {
            uri: if bit(0) { "sip:bob@example.org" } else { "sip:bob@192.0.2.7" }.to_owned(),
            from: Some("sip:alice@example.net".to_owned()),
            sdp: LOCAL[if bit(1) { 1 } else { usize::from(bit(3)) * 2 }].to_owned(),
            credentials: Some(credentials()),
            route: bit(2).then(|| "sip:192.0.2.20;lr".to_owned()),
            extra: DialExtra {
                replaces: bit(4).then(|| "a@b;to-tag=1;from-tag=2".to_owned()),
                late_offer: bit(5),
                ..DialExtra::default()
            },
            ..DialRequest::default()
        };
        if let Ok(call) = self.endpoint.dial(&request) {
            self.known.insert(call);
            self.calls.push(call);
        }
        self.poll();
    }

    pub(crate) fn register(&mut self, way: u32) {
        if self.regs.len() < 2 {
            let host = if way & 1 == 0 { "sip:192.0.2.7" } else { "sip:example.org" };
            let request = Registration {
                aor: "sip:alice@example.net".to_owned(),
                registrar: host.to_owned(),
                credentials: credentials(),
                proxy: (way & 2 != 0).then(|| "sip:192.0.2.20;lr".to_owned()),
                ..Registration::default()
            };
            if let Ok(reg) = self.endpoint.register(&request) {
                self.regs.push(reg);
            }
        } else if let Some(reg) = self.regs.last() {
            let _ = self.endpoint.reregister(*reg, &credentials());
        }
        self.poll();
    }

    pub(crate) fn probe(&mut self) {
        if self.probes.len() < 2 {
            let request = Probe {
                uri: "sip:192.0.2.7".to_owned(),
                from: None,
                proxy: None,
                group: 0,
                interval: Duration::from_secs(30),
                timeout: Duration::from_secs(5),
            };
            if let Ok(probe) = self.endpoint.probe(&request) {
                self.probes.push(probe);
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
        // SAFETY: see `with`.
        unsafe { ffi::vcf_resolve() };
        let polled = self.endpoint.poll(Duration::ZERO, &mut self.events);
        assert!(polled.is_ok(), "{polled:?}");
        // SAFETY: see `with`.
        let sent = unsafe { ffi::vcf_sent_count() };
        assert!(sent <= MAX_SENT, "{sent} messages sent for one input");
        for event in std::mem::take(&mut self.events) {
            match event {
                SipEvent::Incoming { call, .. } => self.came_in(call),
                SipEvent::Takeover { call, replaced, .. } => {
                    self.must_live(replaced);
                    self.came_in(call);
                }
                SipEvent::Media { call, media, .. } => {
                    self.must_live(call);
                    assert!(media.payload_type < 128 && media.rx_payload_type < 128, "{media:?}");
                }
                SipEvent::Progress { call, .. }
                | SipEvent::Confirmed { call }
                | SipEvent::EarlyMedia { call }
                | SipEvent::Offered { call, .. }
                | SipEvent::Refer { call, .. }
                | SipEvent::Dtmf { call, .. } => self.must_live(call),
                SipEvent::Ended { call, .. } => {
                    self.must_live(call);
                    self.calls.retain(|known| *known != call);
                }
                _ => {}
            }
        }
    }

    fn came_in(&mut self, call: CallId) {
        assert!(self.known.insert(call), "{call} came in twice");
        self.calls.push(call);
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
        for probe in std::mem::take(&mut self.probes) {
            let _ = self.endpoint.stop_probe(probe);
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
    }
}

fn credentials() -> Credentials {
    Credentials { realm: "*".into(), username: "alice".into(), password: "secret".into() }
}
