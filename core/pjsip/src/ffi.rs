// SPDX-License-Identifier: GPL-3.0-or-later
//! The shim's interface, by hand from `shim/vc.h`. Sizes are asserted here and there.

use std::ffi::{c_int, c_void};
use std::marker::{PhantomData, PhantomPinned};
use std::mem::size_of;

pub(crate) const ENOCALL: c_int = -1;
pub(crate) const ENOREG: c_int = -2;
pub(crate) const ESTATE: c_int = -3;
pub(crate) const ESDP: c_int = -4;
pub(crate) const EURI: c_int = -5;
pub(crate) const ELIMIT: c_int = -6;
pub(crate) const ENOSDP: c_int = -7;
pub(crate) const ENOCODEC: c_int = -8;
pub(crate) const ESRTP: c_int = -9;
pub(crate) const EBUSY: c_int = -10;
pub(crate) const EUNRELIABLE: c_int = -11;

pub(crate) const UDP: u32 = 1;
pub(crate) const TCP: u32 = 2;
pub(crate) const TLS: u32 = 3;

pub(crate) const CODEC_PCMA: u8 = 1;
pub(crate) const CODEC_PCMU: u8 = 2;
pub(crate) const CODEC_G722: u8 = 4;
pub(crate) const SENDS: u8 = 1;
pub(crate) const RECEIVES: u8 = 2;
pub(crate) const NO_PT: u8 = 0xff;
pub(crate) const RTCP_MUX: u8 = 4;
pub(crate) const RTCP_OFF: u8 = 8;

pub(crate) const EV_INCOMING: u32 = 1;
pub(crate) const EV_PROGRESS: u32 = 2;
pub(crate) const EV_MEDIA: u32 = 3;
pub(crate) const EV_CONFIRMED: u32 = 4;
pub(crate) const EV_ENDED: u32 = 5;
pub(crate) const EV_REGISTRATION: u32 = 6;
pub(crate) const EV_REJECTED: u32 = 7;
pub(crate) const EV_MALFORMED: u32 = 8;
pub(crate) const EV_LOG: u32 = 9;
pub(crate) const EV_EARLY: u32 = 10;
pub(crate) const EV_OFFERED: u32 = 11;
pub(crate) const EV_REFERRED: u32 = 12;
pub(crate) const EV_REFER: u32 = 13;
pub(crate) const EV_TAKEOVER: u32 = 14;
pub(crate) const EV_DTMF: u32 = 60;
pub(crate) const EV_INFO_DONE: u32 = 61;
pub(crate) const EV_RESOLVE: u32 = 40;
pub(crate) const EV_BLAME: u32 = 41;
pub(crate) const EV_PROBE: u32 = 42;

pub(crate) const GATE_CONNECTION: u32 = 1;
pub(crate) const GATE_PACKET: u32 = 2;
pub(crate) const GATE_REQUEST: u32 = 3;
pub(crate) const GATE_INVITE: u32 = 4;
pub(crate) const GATE_MISBEHAVED: u32 = 5;
pub(crate) const GATE_OPENED: u32 = 6;
pub(crate) const GATE_REGISTERING: u32 = 7;
pub(crate) const GATE_FLAG_STREAM: u32 = 1;
pub(crate) const GATE_FLAG_TO_TAG: u32 = 2;
pub(crate) const GATE_FLAG_IN_DIALOG: u32 = 4;
pub(crate) const GATE_FLAG_CLOSED: u32 = 8;
pub(crate) const GATE_PASS: u32 = 0;
pub(crate) const GATE_DROP: u32 = 1;
pub(crate) const GATE_ANSWER: u32 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Str {
    pub ptr: *const u8,
    pub len: usize,
}

impl Str {
    pub(crate) fn new(text: &str) -> Str {
        Str { ptr: text.as_ptr(), len: text.len() }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Addr {
    pub ip: [u8; 16],
    pub port: u16,
    pub family: u8,
    pub reserved: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Media {
    pub rtp: Addr,
    pub rtcp: Addr,
    pub codec: u8,
    pub tx_pt: u8,
    pub rx_pt: u8,
    pub tx_event_pt: u8,
    pub rx_event_pt: u8,
    pub ptime_ms: u8,
    pub direction: u8,
    pub cn_pt: u8,
}

#[repr(C)]
pub(crate) struct Event {
    pub kind: u32,
    pub status: u32,
    pub id: u64,
    pub expires: u32,
    pub flag: u32,
    pub text: [Str; 4],
    pub source: Addr,
    pub media: Media,
    pub other: u64,
}

/// Two indices, or why there are none.
#[repr(C)]
pub(crate) struct Picked {
    pub theirs: u32,
    pub ours: u32,
    pub why: Str,
}

pub(crate) type SdesFn =
    unsafe extern "C" fn(c_int, *const Str, u32, *const Str, u32, *mut Picked) -> c_int;

pub(crate) type SlimFn = unsafe extern "C" fn(*mut u8, usize) -> usize;

#[repr(C)]
pub(crate) struct Config {
    pub user_agent: Str,
    pub log_level: u32,
    pub codecs: u32,
    pub max_calls: u32,
    pub sdes: SdesFn,
    pub slim: SlimFn,
    pub wake_fd: i32,
}

#[repr(C)]
pub(crate) struct Credentials {
    pub realm: Str,
    pub username: Str,
    pub password: Str,
}

#[repr(C)]
pub(crate) struct Digest {
    pub username: Str,
    pub realm: Str,
    pub nonce: Str,
    pub uri: Str,
    pub response: Str,
    pub algorithm: Str,
    pub cnonce: Str,
    pub qop: Str,
    pub nc: Str,
}

#[repr(C)]
pub(crate) struct GateQuery {
    pub kind: u32,
    pub flags: u32,
    pub source: Addr,
    pub local_port: u16,
    pub digest_count: u16,
    pub id: u64,
    pub text: Str,
    pub digests: *const Digest,
}

#[repr(C)]
pub(crate) struct GateReply {
    pub verdict: u32,
    pub status: u32,
    pub retry_after: i64,
    pub why: Str,
    pub challenges_len: u64,
    pub challenges: [u8; 1024],
}

#[repr(C)]
pub(crate) struct Policy {
    pub port: u16,
    pub reliable: u8,
    pub timer: u8,
    pub refer: u8,
    pub replaces: u8,
    pub redirects: u8,
    pub large_tcp: u8,
    pub session_expires: u32,
    pub min_se: u32,
    pub reserved2: u32,
}

#[repr(C)]
pub(crate) struct Listen {
    pub bind: Addr,
    pub shown: Addr,
    pub kind: u32,
    pub group: u32,
}

#[repr(C)]
pub(crate) struct Tls {
    pub ca_file: Str,
    pub cert_file: Str,
    pub key_file: Str,
    pub verify_client: u32,
    pub reserved: u32,
}

#[repr(C)]
pub(crate) struct DialRequest {
    pub uri: Str,
    pub from: Str,
    pub sdp: Str,
    pub route: Str,
    pub credentials: *const Credentials,
    pub group: u32,
    pub failover_ms: u32,
    pub extra: *const DialExtra,
}

#[repr(C)]
pub(crate) struct RegRequest {
    pub aor: Str,
    pub registrar: Str,
    pub route: Str,
    pub credentials: *const Credentials,
    pub expires: u32,
    pub group: u32,
    pub failover_ms: u32,
    pub retry_first_ms: u32,
    pub retry_max_ms: u32,
    pub keepalive_ms: u32,
}

#[repr(C)]
pub(crate) struct ProbeRequest {
    pub uri: Str,
    pub route: Str,
    pub from: Str,
    pub group: u32,
    pub interval_ms: u32,
    pub timeout_ms: u32,
    pub reserved: u32,
}

#[repr(C)]
pub(crate) struct DialExtra {
    pub replaces: Str,
    pub port: u16,
    pub late: u8,
}

/// Opaque; only ever behind a pointer, on one thread.
#[repr(C)]
pub(crate) struct RawEndpoint {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

const _: () = assert!(size_of::<Addr>() == 20);
const _: () = assert!(size_of::<Media>() == 48);
const _: () = assert!(size_of::<Event>() == 168);
const _: () = assert!(size_of::<Picked>() == 24);
const _: () = assert!(size_of::<GateQuery>() == 64);
const _: () = assert!(size_of::<GateReply>() == 1064);
const _: () = assert!(size_of::<Policy>() == 20);
const _: () = assert!(size_of::<Listen>() == 48);
const _: () = assert!(size_of::<Tls>() == 56);
const _: () = assert!(size_of::<DialRequest>() == 88);
const _: () = assert!(size_of::<RegRequest>() == 80);
const _: () = assert!(size_of::<ProbeRequest>() == 64);

pub(crate) type EventFn = unsafe extern "C" fn(user: *mut c_void, event: *const Event);
pub(crate) type RefusalFn = unsafe extern "C" fn(
    user: *mut c_void,
    request: Str,
    source: *const Addr,
    stream: u32,
    out: *mut u8,
    size: usize,
    to: *mut Addr,
) -> usize;
pub(crate) type GateFn =
    unsafe extern "C" fn(user: *mut c_void, query: *const GateQuery, reply: *mut GateReply);

extern "C" {
    pub(crate) fn vc_create(
        config: *const Config,
        emit: EventFn,
        user: *mut c_void,
        out: *mut *mut RawEndpoint,
    ) -> c_int;
    pub(crate) fn vc_destroy(ep: *mut RawEndpoint);
    pub(crate) fn vc_set_gate(ep: *mut RawEndpoint, gate: GateFn);
    pub(crate) fn vc_set_refusal(ep: *mut RawEndpoint, refusal: RefusalFn);
    pub(crate) fn vc_hash(sha256: c_int, data: *const u8, len: usize, out: *mut u8) -> usize;
    pub(crate) fn vc_listen_on(
        ep: *mut RawEndpoint,
        want: *const Listen,
        tls: *const Tls,
        bound: *mut Addr,
    ) -> c_int;
    pub(crate) fn vc_tls_reload(ep: *mut RawEndpoint, group: u32, tls: *const Tls) -> c_int;
    pub(crate) fn vc_tls_check(tls: *const Tls, buf: *mut u8, size: usize) -> c_int;
    pub(crate) fn vc_resolved(
        ep: *mut RawEndpoint,
        query: u64,
        addresses: *const Addr,
        count: usize,
    );
    pub(crate) fn vc_poll(ep: *mut RawEndpoint, timeout_ms: u32, woken: *mut u32) -> c_int;
    pub(crate) fn vc_ring(ep: *mut RawEndpoint, call: u64) -> c_int;
    pub(crate) fn vc_set_local_sdp(
        ep: *mut RawEndpoint,
        call: u64,
        sdp: Str,
        why: *mut Str,
    ) -> c_int;
    pub(crate) fn vc_answer(ep: *mut RawEndpoint, call: u64) -> c_int;
    pub(crate) fn vc_reject(
        ep: *mut RawEndpoint,
        call: u64,
        status: u32,
        retry_after: i64,
    ) -> c_int;
    pub(crate) fn vc_hangup(ep: *mut RawEndpoint, call: u64) -> c_int;
    pub(crate) fn vc_info_dtmf(
        ep: *mut RawEndpoint,
        call: u64,
        key: u32,
        duration_ms: u32,
        token: u64,
    ) -> c_int;
    pub(crate) fn vc_dial(
        ep: *mut RawEndpoint,
        request: *const DialRequest,
        call: *mut u64,
    ) -> c_int;
    pub(crate) fn vc_set_policy(ep: *mut RawEndpoint, policy: *const Policy) -> c_int;
    pub(crate) fn vc_early(ep: *mut RawEndpoint, call: u64) -> c_int;
    pub(crate) fn vc_offer(ep: *mut RawEndpoint, call: u64, sdp: Str) -> c_int;
    pub(crate) fn vc_refer(ep: *mut RawEndpoint, call: u64, target: Str) -> c_int;
    pub(crate) fn vc_refer_to(ep: *mut RawEndpoint, call: u64, other: u64) -> c_int;
    pub(crate) fn vc_refer_status(ep: *mut RawEndpoint, call: u64, status: u32) -> c_int;
    pub(crate) fn vc_register(
        ep: *mut RawEndpoint,
        request: *const RegRequest,
        reg: *mut u64,
    ) -> c_int;
    pub(crate) fn vc_reregister(
        ep: *mut RawEndpoint,
        reg: u64,
        credentials: *const Credentials,
    ) -> c_int;
    pub(crate) fn vc_unregister(ep: *mut RawEndpoint, reg: u64) -> c_int;
    pub(crate) fn vc_probe_start(
        ep: *mut RawEndpoint,
        request: *const ProbeRequest,
        probe: *mut u64,
    ) -> c_int;
    pub(crate) fn vc_probe_stop(ep: *mut RawEndpoint, probe: u64) -> c_int;
    pub(crate) fn vc_end_all(ep: *mut RawEndpoint);
    pub(crate) fn vc_pending(ep: *const RawEndpoint) -> u32;
    pub(crate) fn vc_calls(ep: *const RawEndpoint) -> u32;
    pub(crate) fn vc_transactions(ep: *const RawEndpoint) -> u32;
    pub(crate) fn vc_dialogs(ep: *const RawEndpoint) -> u32;
    pub(crate) fn vc_trim();
    pub(crate) fn vc_error_text(status: c_int, buf: *mut u8, size: usize) -> usize;
}
