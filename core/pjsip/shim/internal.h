/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What the files of the shim share.
 */
#ifndef VC_INTERNAL_H
#define VC_INTERNAL_H

#include <pjlib-util.h>
#include <pjlib.h>
#include <pjmedia/errno.h>
#include <pjmedia/sdp.h>
#include <pjmedia/sdp_neg.h>
#include <pjsip.h>
#include <pjsip_simple.h>
#include <pjsip_ua.h>

#include "vc.h"

#define VC_BUCKETS 512
#define VC_LISTENERS 64
#define VC_URI_MAX 1024
#define VC_PATH_MAX 1024
#define VC_TLS_WHY 256

typedef struct vc_dialling vc_dialling;

#define VC_POLICIES 16

typedef struct vc_fork vc_fork;

/* An offer of ours inside of a dialog (offer.c). */
typedef struct vc_offering {
    enum { VC_OFFER_NONE = 0, VC_OFFER_WAITS, VC_OFFER_SENT } state;
    unsigned tries;
    pj_bool_t update; /* sent as UPDATE */
    pj_bool_t agreed; /* its answer can be run */
    pjsip_transaction *tsx;
    pj_timer_entry again;
} vc_offering;

typedef struct vc_call {
    struct vc_call *next; /* in its bucket */
    uint64_t id;
    pjsip_inv_session *inv;
    pjmedia_sdp_session *sdp; /* ours with all codecs, for every answer and offer */
    pj_bool_t outgoing;
    pj_bool_t media_up; /* an offer was answered at least once */
    pj_bool_t told;     /* ENDED was emitted: nothing of this call is told any more */
    const pjsip_transaction *info_tsx; /* its transaction; compared only */
    uint64_t info_token; /* of the INFO under way; 0: none */
    unsigned doomed;    /* > 0: end it after this round with this status */
    pj_bool_t unacked;  /* doomed only as long as our ACK has not gone out */
    vc_policy policy;
    pj_pool_t *sdp_pool; /* of sdp, when it was set after the session began */
    pj_bool_t late;      /* we sent INVITE without offer */
    pj_bool_t early;     /* 183 with SDP was sent */
    pj_bool_t proved;    /* and the caller has it */
    struct {
        pj_bool_t pending, sdp; /* waits for its PRACK; has a body */
        pj_bool_t heard;        /* the caller has one with a body */
        pj_uint32_t rseq, cseq;
    } reliable;                 /* the response that went out last (within.c) */
    pj_bool_t answered;         /* a 2xx came or went */
    pj_bool_t secure;           /* SRTP is agreed on */
    unsigned codec;             /* VC_CODEC_* that runs */
    unsigned redirects;  /* followed so far */
    vc_offering offering;
    vc_fork *forks, *heard_fork; /* of our INVITE: who sent an early answer, and whose media runs */
    unsigned fork_count;
    vc_dialling *dial;  /* while another server may be tried; see dial.c */
} vc_call;

/* A REFER under way, ours or the peer's. It outlives its call, in the pool of the dialog. */
typedef struct vc_transfer {
    struct vc_transfer *next;
    uint64_t call;
    pjsip_evsub *sub;
    pj_bool_t ours;
    unsigned status; /* last one heard of */
    pj_bool_t done;
    pj_timer_entry limit;
} vc_transfer;

typedef struct vc_reg vc_reg;
typedef struct vc_probe vc_probe;

typedef struct vc_listener {
    unsigned kind;  /* VC_UDP, VC_TCP, VC_TLS */
    unsigned group; /* of one engine */
    int af;
    pj_sockaddr bound;
    pj_sockaddr shown; /* address told to peers; family 0: the one that routes to the peer */
    pjsip_transport *udp;
    pjsip_tpfactory *factory;
} vc_listener;

/* The servers behind the name in a URI. Lives inside of what sends to them. */
typedef void (*vc_hop_fn)(void *owner, pj_status_t status);
typedef struct vc_hop {
    const pjsip_sip_uri *uri;
    pjsip_host_info target;
    pjsip_server_addresses list; /* in the order to be tried */
    unsigned at;
    uint64_t query; /* > 0: being looked up */
    void *owner;
    vc_hop_fn done; /* may be called from within vc_hop_resolve */
} vc_hop;

struct vc_endpoint {
    pj_caching_pool caching;
    pj_pool_t *pool;
    pjsip_endpoint *sip;
    vc_event_fn emit;
    void *user;
    vc_sdes_fn sdes;
    vc_slim_fn slim;
    vc_gate_fn gate; /* NULL: all pass */
    vc_refusal_fn refusal;
    unsigned codecs;
    unsigned max_calls;
    pj_str_t user_agent;
    vc_call *calls[VC_BUCKETS];
    unsigned call_count; /* in the table */
    unsigned live_count; /* of these, not yet told to be over */
    unsigned doomed_count;
    vc_reg *regs;
    vc_transfer *transfers;
    vc_policy policies[VC_POLICIES];
    unsigned policy_count;
    vc_probe *probes;
    vc_dialling *dials;
    struct vc_query *queries;
    pj_sockaddr tls_peer; /* of the last TLS failure */
    pj_time_val tls_at;
    char tls_why[VC_TLS_WHY];
    vc_listener listeners[VC_LISTENERS];
    unsigned listener_count;
    pj_ioqueue_key_t *wake_key;
    pj_ioqueue_op_key_t wake_op;
    char wake_buf[64];
    pj_bool_t woken;
    unsigned emitted; /* events since the round began */
    pj_bool_t closing;
};

/* The one endpoint of the process; NULL before vc_create and after vc_destroy. */
extern vc_endpoint *vc_ep;
extern pjsip_module vc_module;

/* endpoint.c */
void vc_emit(const vc_event *event);
void vc_log(unsigned level, const char *text);
vc_str vc_text(const pj_str_t *s);
pj_str_t vc_pj(vc_str s);
vc_str vc_keep(pj_pool_t *pool, vc_str text);
void vc_schedule(pj_timer_entry *entry, unsigned ms);
pj_str_t vc_name_addr(pj_pool_t *pool, vc_str uri);
void vc_addr_from(const pj_sockaddr *in, vc_addr *out);
pj_status_t vc_addr_to(const vc_addr *in, pj_sockaddr *out);
uint64_t vc_next_id(void);

/* listen.c */
pj_status_t vc_listen_init(pjsip_endpoint *sip);
unsigned vc_kind_of(pjsip_transport_type_e type);
vc_listener *vc_listener_for(unsigned kind, int af, unsigned group);
vc_listener *vc_listener_of(const pjsip_transport *transport);
void vc_listener_select(const vc_listener *listener, pjsip_tpselector *out);
pj_status_t vc_local_address(const vc_listener *listener, const pj_sockaddr *peer, pj_sockaddr *out);
int vc_contact(pj_pool_t *pool, const vc_listener *listener, const pj_sockaddr *peer, pj_bool_t sips, const pj_str_t *user,
               pj_str_t *out);

/* tls.c */
pj_status_t vc_tls_start(vc_endpoint *ep, const vc_listen *want, const vc_tls *tls, const pjsip_host_port *name,
                         vc_listener *out);
void vc_tls_state(pjsip_transport *transport, const pjsip_transport_state_info *info);
const char *vc_tls_why(const pj_sockaddr *peer, const pj_str_t *reason);

/* resolve.c */
pj_status_t vc_resolve_init(vc_endpoint *ep);
void vc_resolve_destroy(vc_endpoint *ep);
int vc_hop_init(vc_hop *hop, pj_pool_t *pool, vc_str text, void *owner, vc_hop_fn done);
void vc_hop_resolve(vc_hop *hop);
void vc_hop_cancel(vc_hop *hop);
const pjsip_server_address_record *vc_hop_now(const vc_hop *hop);
pj_bool_t vc_hop_has_next(const vc_hop *hop);
void vc_hop_blame(const vc_hop *hop, unsigned seconds);
vc_listener *vc_hop_listener(const vc_hop *hop, unsigned group);
void vc_hop_aim(const vc_hop *hop, const vc_listener *listener, pjsip_tx_data *tdata);
pj_bool_t vc_hop_at_fault(unsigned status);
void vc_hop_tell(const vc_hop *hop, vc_event *event, const pj_str_t *reason, pj_bool_t well, const char *why);
unsigned vc_retry_after(const pjsip_rx_data *rdata);

/* dial.c */
uint64_t vc_dial_id(const vc_dialling *d);
pj_bool_t vc_dial_cancel(vc_endpoint *ep, uint64_t id);
void vc_dial_done(vc_call *call);
void vc_dial_redirected(vc_call *call);
pj_bool_t vc_dial_again(vc_call *call, unsigned status, const pjsip_rx_data *rdata);
const pj_sockaddr *vc_dial_peer(const vc_call *call);
void vc_dials_hangup(vc_endpoint *ep);
void vc_dials_destroy(vc_endpoint *ep);

/* auth.c */
pj_status_t vc_auth_init(pjsip_endpoint *sip);
void vc_credentials_to(const vc_credentials *in, pjsip_cred_info *out);

/* requests.c */
pj_status_t vc_requests_init(pjsip_endpoint *sip);
void vc_refuse(pjsip_rx_data *rdata, int status, const char *why, pjsip_hdr *headers);
void vc_on_dropped(pjsip_tp_dropped_data *data);

/* control.c */
const pjmedia_sdp_session *vc_pending_offer(const vc_call *call);
pj_status_t vc_local_sdp(vc_call *call);

/* call.c */
pj_status_t vc_calls_init(pjsip_endpoint *sip);
pjsip_dialog *vc_on_forked(pjsip_dialog *first, pjsip_rx_data *rdata);
vc_call *vc_find(vc_endpoint *ep, uint64_t id);
vc_call *vc_call_new(pjsip_inv_session *inv, pj_bool_t outgoing, vc_dialling *dial);
void vc_call_drop(vc_call *call);
void vc_call_abandon(vc_call *call);
void vc_call_told(vc_call *call, unsigned status, const pj_str_t *reason, pj_bool_t by_remote);
void vc_call_doom(vc_call *call, unsigned status);
void vc_call_end(vc_call *call, unsigned status, int64_t retry_after);
void vc_calls_reap(vc_endpoint *ep);
int vc_sdp_parse(pj_pool_t *pool, vc_str text, pjmedia_sdp_session **out);
void vc_sdp_fill(pj_pool_t *pool, pjmedia_sdp_session *sdp, const pjsip_dialog *dialog);

/* target.c */
pj_bool_t vc_target_parse(const pjmedia_sdp_session *sdp, const pjmedia_sdp_media *m, unsigned port, pj_sockaddr *out);
pj_bool_t vc_target_ok(const pj_sockaddr *address);
pj_bool_t vc_target_loops(const pjmedia_sdp_session *offer, const pj_sockaddr *source);
pj_bool_t vc_target_reachable(const pjmedia_sdp_session *offer, const pjmedia_sdp_session *local);

/* strict.c */
pj_bool_t vc_strict(pjsip_rx_data *rdata);
void vc_strict_answer(pjsip_tp_dropped_data *data);

/* guard.c */
pj_status_t vc_guard_init(pjsip_endpoint *sip);
pj_bool_t vc_guard_invite(pjsip_rx_data *rdata);
pj_bool_t vc_guard_may_answer(pjsip_rx_data *rdata);
void vc_guard_opened(pjsip_rx_data *rdata, uint64_t call);

/* rtcp.c */
void vc_rtcp_answer(pj_pool_t *pool, pjmedia_sdp_session *answer, const pjmedia_sdp_session *offer);
void vc_shape_answer(pj_pool_t *pool, pjmedia_sdp_session *answer, const pjmedia_sdp_session *offer);
void vc_shape_offer(const pjsip_inv_session *inv, pjmedia_sdp_session *offer);
void vc_rtcp_offer(const pjsip_inv_session *inv, pjmedia_sdp_session *offer);
unsigned vc_rtcp_way(const pjmedia_sdp_media *ours, const pjmedia_sdp_media *theirs);

/* info.c */
int vc_info_received(vc_call *call, pjsip_rx_data *rdata); /* the status to answer with */
void vc_info_answered(vc_call *call, const pjsip_transaction *tsx);

/* incoming.c */
void vc_incoming(pjsip_rx_data *rdata);

/* media.c */
unsigned vc_media_codecs(const pjmedia_sdp_session *sdp);
unsigned vc_media_ptime(const pjmedia_sdp_media *m, unsigned absent);
pj_bool_t vc_media_has_noise(const pjmedia_sdp_media *m);
pj_bool_t vc_media_usable(const pjmedia_sdp_session *sdp, const pjmedia_sdp_media *m, unsigned codecs);
pj_bool_t vc_media_offer_ok(const pjmedia_sdp_session *offer, unsigned codecs);
pj_bool_t vc_media_describe(const pjmedia_sdp_session *local, const pjmedia_sdp_session *remote, vc_media *out);

/* srtp.c: what of our full SDP goes into an answer to this offer (NULL and why not: 488), and into an offer of ours
 * (the first one: call NULL); what was agreed on (NULL; two empty lines: plain RTP) or why that cannot be run; wipes the keys. */
pjmedia_sdp_session *vc_srtp_answer(pj_pool_t *pool, const pjmedia_sdp_session *full,
                                    const pjmedia_sdp_session *offer, const char **why);
pjmedia_sdp_session *vc_srtp_offer(pj_pool_t *pool, const pjmedia_sdp_session *full, const vc_call *call);
const char *vc_srtp_agreed(const vc_call *call, const pjmedia_sdp_session *local, const pjmedia_sdp_session *remote,
                           vc_str *our, vc_str *their);
void vc_srtp_forget(vc_call *call);
pj_bool_t vc_srtp_has_keys(const pjmedia_sdp_session *sdp); /* of a description of ours */

/* policy.c */
const vc_policy *vc_policy_of(unsigned port);
unsigned vc_policy_options(const vc_policy *policy);
pj_status_t vc_policy_timer(pjsip_inv_session *inv, const vc_policy *policy);
pj_bool_t vc_policy_refuses(pjsip_rx_data *rdata, const vc_policy *policy);
pjsip_redirect_op vc_on_redirected(pjsip_inv_session *inv, const pjsip_uri *target, const pjsip_event *e);

/* offer.c */
void vc_offer_on_tsx(vc_call *call, pjsip_transaction *tsx, pjsip_event *e);
void vc_offer_drop(vc_call *call);

/* forks.c */
void vc_fork_agreed(vc_call *call, const pjmedia_sdp_session *answer);
pj_bool_t vc_fork_confirmed(vc_call *call);

/* negotiate.c */
void vc_on_media(pjsip_inv_session *inv, pj_status_t status);
void vc_on_offer(pjsip_inv_session *inv, struct pjsip_inv_on_rx_offer_cb_param *param);
void vc_on_create_offer(pjsip_inv_session *inv, pjmedia_sdp_session **offer);

/* within.c */
pj_status_t vc_within_init(pjsip_endpoint *sip);
void vc_within_sent(const pjsip_tx_data *tdata);
const char *vc_body_refused(pjsip_rx_data *rdata, pjsip_hdr *list);

/* bounds.c */
const char *vc_bounds_request(pjsip_rx_data *rdata);
void vc_bounds_response(pjsip_rx_data *rdata);

/* early.c */
void vc_early_on_prack(vc_call *call);

/* transfer.c */
pj_status_t vc_transfer_init(pjsip_endpoint *sip);
void vc_on_refer(pjsip_inv_session *inv, vc_call *call, pjsip_transaction *tsx, pjsip_rx_data *rdata);
pj_bool_t vc_has_subscription(const pjsip_dialog *dialog);
void vc_transfer_call_over(vc_call *call);

/* replaces.c */
pj_bool_t vc_replaced(pjsip_rx_data *rdata, const vc_policy *policy, vc_call **out);

/* call.c */
vc_call *vc_call_of(pjsip_inv_session *inv);

/* regs.c */
void vc_regs_reap(vc_endpoint *ep);
void vc_regs_destroy(vc_endpoint *ep);
void vc_regs_lost(vc_endpoint *ep, const pjsip_transport *transport);
void vc_regs_leave(vc_endpoint *ep);
unsigned vc_regs_count(const vc_endpoint *ep);

/* probe.c */
void vc_probes_destroy(vc_endpoint *ep);

#endif
