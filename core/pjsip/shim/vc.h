/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The narrow C interface between PJSIP and Rust. src/ffi.rs repeats these declarations; sizes and offsets are asserted on
 * both sides (VC_SIZE_*). One endpoint a process, used from one thread; only the wake socket is touched by others.
 *
 * Functions return 0 or an error: > 0 a pj_status_t, < 0 a VC_E*.
 */
#ifndef VC_H
#define VC_H

#include <stddef.h>
#include <stdint.h>

enum { VC_ENOCALL = -1, VC_ENOREG = -2, VC_ESTATE = -3, VC_ESDP = -4, VC_EURI = -5, VC_ELIMIT = -6, VC_ENOSDP = -7, VC_ENOCODEC = -8,
       VC_ESRTP = -9, VC_EBUSY = -10, VC_EUNRELIABLE = -11, VC_ETLS = -20 };

enum { VC_UDP = 1, VC_TCP = 2, VC_TLS = 3 };

enum { VC_CODEC_PCMA = 1, VC_CODEC_PCMU = 2, VC_CODEC_G722 = 4 }; /* bits */

enum { VC_SENDS = 1, VC_RECEIVES = 2 }; /* bits of vc_media.direction, as seen from us */
enum { VC_RTCP_MUX = 4, VC_RTCP_OFF = 8 }; /* more of its bits: RTCP on RTP's port, or none; else on its own */

typedef struct vc_str {
    const char *ptr;
    size_t len;
} vc_str;

/* family 0: none, 4 or 6. ip holds 4 or 16 bytes in network order, port is in host order. */
typedef struct vc_addr {
    uint8_t ip[16];
    uint16_t port;
    uint8_t family;
    uint8_t reserved;
} vc_addr;

typedef struct vc_media {
    vc_addr rtp;
    vc_addr rtcp;
    uint8_t codec; /* VC_CODEC_* */
    uint8_t tx_pt;
    uint8_t rx_pt;
    uint8_t tx_event_pt; /* 0xff: none */
    uint8_t rx_event_pt; /* 0xff: none */
    uint8_t ptime_ms;
    uint8_t direction; /* VC_SENDS | VC_RECEIVES | VC_RTCP_* */
    uint8_t cn_pt;     /* of comfort noise; 0xff: none */
} vc_media;

enum {
    VC_EV_INCOMING = 1, /* id, source, flag = has offer, expires = port of ours, text = Call-ID, From, To, Request-URI */
    VC_EV_PROGRESS,     /* id, status */
    VC_EV_MEDIA,        /* id, media, flag = SIP runs over TLS, text = our and their a=crypto line, or both empty */
    VC_EV_CONFIRMED,    /* id */
    VC_EV_ENDED,        /* id, status, flag = by remote, text[0] = reason, [1] = our own words */
    VC_EV_REGISTRATION, /* id, status, expires, flag = ms until the next try, source = server, text = reason, our own words */
    VC_EV_REJECTED,     /* source, status, text[0] = why, a literal */
    VC_EV_MALFORMED,    /* source, text[0] = why */
    VC_EV_LOG,          /* status = level, flag = written here (not PJSIP's text), text[0] */
    VC_EV_EARLY,        /* id: an early session runs: the callee's, or the caller has ours (PRACK, or the 183 asked for none) */
    VC_EV_OFFERED,      /* id, status: outcome of vc_offer */
    VC_EV_REFERRED,     /* id, status, flag = last: progress of vc_refer */
    VC_EV_REFER,        /* id, text = Refer-To's URI, its Replaces: a transfer is asked for and accepted with 202 */
    VC_EV_TAKEOVER,     /* as VC_EV_INCOMING, other = the call that Replaces names (RFC 3891) */
    VC_EV_DTMF = 60,    /* id, status = event code of RFC 4733, expires = duration in ms: a key by INFO; in no log */
    VC_EV_INFO_DONE,    /* id, status, expires:flag = token: outcome of vc_info_dtmf */
    VC_EV_RESOLVE = 40, /* id, status = VC_UDP.., expires = port or 0, text[0] = host; answered by vc_resolved */
    VC_EV_BLAME,        /* source, status = VC_UDP.., expires = s that others are to come first */
    VC_EV_PROBE,        /* id, status, flag = alive, expires = round trip in ms, source = server, text[0] = reason, [1] = our own words */
};

typedef struct vc_event {
    uint32_t kind;
    uint32_t status;
    uint64_t id;
    uint32_t expires;
    uint32_t flag;
    vc_str text[4];
    vc_addr source;
    vc_media media;
    uint64_t other;
} vc_event;

#define VC_SIZE_ADDR 20
#define VC_SIZE_MEDIA 48
#define VC_SIZE_EVENT 168
#define VC_SIZE_POLICY 20

/* Called inside vc_* functions on their thread. Must not call back into vc_*; what it points at lives for the call. */
typedef void (*vc_event_fn)(void *user, const vc_event *event);

/* Two indices, or why there are none: a literal. */
typedef struct vc_picked {
    uint32_t theirs;
    uint32_t ours;
    vc_str why;
} vc_picked;

#define VC_SIZE_PICKED 24

/* Reads a=crypto lines (their values) and finds the pair to use: answering, the first of an offer that we have a suite for;
 * else the one that offer and answer have in common. Not 0: there is none. Holds no state and does not call back. */
typedef int (*vc_sdes_fn)(int answering, const vc_str *theirs, uint32_t their_count, const vc_str *ours,
                          uint32_t our_count, vc_picked *picked);

/* Cuts a description that is longer than PJSIP has room for, in its place; gives its new length. No state, no calls back. */
typedef size_t (*vc_slim_fn)(uint8_t *text, size_t len);

typedef struct vc_config {
    vc_str user_agent;
    uint32_t log_level;
    uint32_t codecs; /* VC_CODEC_* bits */
    uint32_t max_calls;
    vc_sdes_fn sdes;
    vc_slim_fn slim;
    int32_t wake_fd; /* owned by the endpoint from vc_create on, whatever it returns */
} vc_config;

typedef struct vc_credentials {
    vc_str realm, username, password;
} vc_credentials;

/* How far an extension goes. ALWAYS: session timers run even when the peer knows none. */
enum { VC_OFF = 0, VC_SUPPORTED, VC_REQUIRED, VC_ALWAYS };

/* What is agreed to inside of dialogs, by the port of ours that a request came in by. Port 0: all that name no other. */
typedef struct vc_policy {
    uint16_t port;
    uint8_t reliable;  /* 100rel (RFC 3262): OFF, SUPPORTED, REQUIRED */
    uint8_t timer;     /* session timers (RFC 4028): OFF to ALWAYS */
    uint8_t refer;     /* 1: REFER is taken and told; 0: 603 */
    uint8_t replaces;  /* 1: INVITE with Replaces takes over; 0: 403 */
    uint8_t redirects; /* 3xx followed in one call at most */
    uint8_t large_tcp; /* 1: an INVITE too large for UDP goes over TCP, where we have that (RFC 3261 18.1.1) */
    uint32_t session_expires, min_se; /* s */
    uint32_t reserved2;
} vc_policy;

/* Beside what every outgoing call has. */
typedef struct vc_dial_extra {
    vc_str replaces; /* value of a Replaces header, or empty */
    uint16_t port;   /* whose policy */
    uint8_t late;    /* 1: INVITE without offer; ours answers the peer's */
} vc_dial_extra;

typedef struct vc_endpoint vc_endpoint;

/* What the gate (guard.c) is asked of what strangers send, before anything is answered. */
enum {
    VC_GATE_CONNECTION = 1, /* id = the connection, flag CLOSED when it is gone; DROP closes it */
    VC_GATE_PACKET,         /* text = bytes not yet parsed; on a stream all that is there of a message */
    VC_GATE_REQUEST,        /* text = method; before transactions and dialogs see it */
    VC_GATE_INVITE,         /* digests; a new call, before its dialog is made */
    VC_GATE_MISBEHAVED,     /* it was malformed or is to be refused; DROP: without an answer */
    VC_GATE_OPENED,         /* id = the call that an INVITE became */
    VC_GATE_REGISTERING,    /* source = where a REGISTER or OPTIONS of ours goes: a trunk */
};
enum { VC_GATE_STREAM = 1, VC_GATE_TO_TAG = 2, VC_GATE_IN_DIALOG = 4, VC_GATE_CLOSED = 8 }; /* flags */
enum { VC_GATE_PASS = 0, VC_GATE_DROP = 1, VC_GATE_ANSWER = 2 };

/* Of an Authorization header, unquoted; absent ones are empty. */
typedef struct vc_digest {
    vc_str username, realm, nonce, uri, response, algorithm, cnonce, qop, nc;
} vc_digest;

typedef struct vc_gate_query {
    uint32_t kind;
    uint32_t flags;
    vc_addr source;
    uint16_t local_port;
    uint16_t digest_count;
    uint64_t id;
    vc_str text;
    const vc_digest *digests;
} vc_gate_query;

typedef struct vc_gate_reply {
    uint32_t verdict;
    uint32_t status; /* of the answer */
    int64_t retry_after; /* < 0: none */
    vc_str why; /* a literal */
    uint64_t challenges_len;
    char challenges[1024]; /* values of WWW-Authenticate, each ended by a line feed */
} vc_gate_reply;

#define VC_SIZE_GATE_QUERY 64
#define VC_SIZE_GATE_REPLY 1064

/* As vc_event_fn. The reply comes as PASS. */
typedef void (*vc_gate_fn)(void *user, const vc_gate_query *query, vc_gate_reply *reply);

/* Makes the answer to a request that did not parse: its length in out, and where it goes; 0 when there is none. */
typedef size_t (*vc_refusal_fn)(void *user, vc_str request, const vc_addr *source, uint32_t stream, uint8_t *out,
                                size_t size, vc_addr *to);

int vc_create(const vc_config *config, vc_event_fn emit, void *user, vc_endpoint **out);
void vc_destroy(vc_endpoint *ep);
void vc_set_gate(vc_endpoint *ep, vc_gate_fn gate);
void vc_set_refusal(vc_endpoint *ep, vc_refusal_fn refusal);

typedef struct vc_listen {
    vc_addr bind, shown;
    uint32_t kind;  /* VC_UDP.. */
    uint32_t group; /* > 0: what belongs together; calls and registrations of a group leave by its sockets */
} vc_listen;

/* Empty: the system's authorities; no certificate of ours, so nobody can connect to us. Without verify_client callers need no
 * certificate. */
typedef struct vc_tls {
    vc_str ca_file, cert_file, key_file;
    uint32_t verify_client;
    uint32_t reserved;
} vc_tls;

int vc_listen_on(vc_endpoint *ep, const vc_listen *want, const vc_tls *tls, vc_addr *bound);
/* Listeners of the group show the certificate of the files as they are now. */
int vc_tls_reload(vc_endpoint *ep, uint32_t group, const vc_tls *tls);
/* VC_ETLS with the reason in buf. */
int vc_tls_check(const vc_tls *tls, char *buf, size_t size);

/* The answer to VC_EV_RESOLVE: addresses, the first to be tried first; none: the name has none. */
void vc_resolved(vc_endpoint *ep, uint64_t query, const vc_addr *addresses, size_t count);

/* One round: timers, then sockets with at most timeout_ms of waiting, then timers. */
int vc_poll(vc_endpoint *ep, uint32_t timeout_ms, uint32_t *woken);

int vc_ring(vc_endpoint *ep, uint64_t call);
/* Our description with a key for every suite of SRTP (see srtp.c). VC_ESRTP: it does not fit the offer, *why (a literal or
 * good until the next call) says why. */
int vc_set_local_sdp(vc_endpoint *ep, uint64_t call, vc_str sdp, vc_str *why);
int vc_answer(vc_endpoint *ep, uint64_t call);
int vc_reject(vc_endpoint *ep, uint64_t call, uint32_t status, int64_t retry_after);
int vc_hangup(vc_endpoint *ep, uint64_t call);
/* One key as INFO with application/dtmf-relay; VC_EV_INFO_DONE follows. One at a time for each call. */
int vc_info_dtmf(vc_endpoint *ep, uint64_t call, uint32_t key, uint32_t duration_ms, uint64_t token);

/* dialogs: early.c, offer.c, transfer.c, policy.c */
int vc_set_policy(vc_endpoint *ep, const vc_policy *policy);
int vc_early(vc_endpoint *ep, uint64_t call);
int vc_offer(vc_endpoint *ep, uint64_t call, vc_str sdp);
int vc_refer(vc_endpoint *ep, uint64_t call, vc_str target);
int vc_refer_to(vc_endpoint *ep, uint64_t call, uint64_t other);
int vc_refer_status(vc_endpoint *ep, uint64_t call, uint32_t status);

typedef struct vc_dial_request {
    vc_str uri, from, sdp, route;
    const vc_credentials *credentials;
    uint32_t group;
    uint32_t failover_ms; /* without any answer for so long the next server is asked, if there is one */
    const vc_dial_extra *extra;
} vc_dial_request;

int vc_dial(vc_endpoint *ep, const vc_dial_request *request, uint64_t *call);

typedef struct vc_reg_request {
    vc_str aor, registrar, route;
    const vc_credentials *credentials;
    uint32_t expires; /* s */
    uint32_t group;
    uint32_t failover_ms;
    uint32_t retry_first_ms, retry_max_ms; /* after a failure; doubles from the first to the greatest */
    uint32_t keepalive_ms;                 /* CRLF to the registrar over UDP; 0: none */
} vc_reg_request;

int vc_register(vc_endpoint *ep, const vc_reg_request *request, uint64_t *reg);
int vc_reregister(vc_endpoint *ep, uint64_t reg, const vc_credentials *credentials);
int vc_unregister(vc_endpoint *ep, uint64_t reg);

typedef struct vc_probe_request {
    vc_str uri, route, from;
    uint32_t group;
    uint32_t interval_ms;
    uint32_t timeout_ms; /* without an answer */
    uint32_t reserved;
} vc_probe_request;

int vc_probe_start(vc_endpoint *ep, const vc_probe_request *request, uint64_t *probe);
int vc_probe_stop(vc_endpoint *ep, uint64_t probe);

/* Ends everything that runs; vc_pending counts what still waits for an answer. */
void vc_end_all(vc_endpoint *ep);
uint32_t vc_pending(const vc_endpoint *ep);
uint32_t vc_calls(const vc_endpoint *ep);
uint32_t vc_transactions(const vc_endpoint *ep);
uint32_t vc_dialogs(const vc_endpoint *ep);
/* Gives memory that is free back to the system. */
void vc_trim(void);

/* Hashes for digests: 16 bytes of MD5 or 32 of SHA-256. 0 when the library refuses. */
size_t vc_hash(int sha256, const uint8_t *data, size_t len, uint8_t out[32]);

/* Text for a status > 0 into buf, always terminated; returns its length. */
size_t vc_error_text(int status, char *buf, size_t size);

#endif
