/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Outgoing calls: the name is looked up, then one server after the other is tried until one speaks (RFC 3263 4.3).
 */
#include <string.h>

#include "dial.h"

#define BLAME_S 30

static void dial_free(vc_dialling *d)
{
    vc_dialling **at = &vc_ep->dials;
    while (*at && *at != d) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = d->next;
    }
    if (d->call) {
        d->call->dial = NULL;
    }
    vc_hop_cancel(&d->hop);
    pjsip_endpt_cancel_timer(vc_ep->sip, &d->timer);
    explicit_bzero((char *)d->sdp.ptr, d->sdp.len); /* may hold keys of SRTP */
    pj_pool_release(d->pool);
}

/* Over without any attempt that still runs. */
static void dial_over(vc_dialling *d, unsigned status, const char *why)
{
    vc_event event = {.kind = VC_EV_ENDED, .id = d->id, .status = status};
    const pjsip_server_address_record *now = vc_hop_now(&d->hop);
    const char *tls = now ? vc_tls_why(&now->addr, NULL) : NULL;
    event.text[0] = vc_text(pjsip_get_status_text((int)status));
    if (why || tls) {
        why = why ? why : tls;
        event.text[1] = (vc_str){why, strlen(why)};
    }
    vc_ep->live_count--;
    vc_emit(&event);
    dial_free(d);
}

/* The server that is next by TCP first, and then by UDP. */
static void tcp_first(vc_dialling *d)
{
    pjsip_server_addresses *list = &d->hop.list;
    d->by_tcp = PJ_TRUE;
    if (list->count == PJSIP_MAX_RESOLVED_ADDRESSES) {
        list->count--;
    }
    for (unsigned i = list->count++; i > d->hop.at; i--) {
        list->entry[i] = list->entry[i - 1];
    }
    list->entry[d->hop.at].type = PJSIP_TRANSPORT_TCP | (list->entry[d->hop.at].type & PJSIP_TRANSPORT_IPV6);
}

uint64_t vc_dial_id(const vc_dialling *d)
{
    return d->id;
}

static vc_dialling *dial_find(uint64_t id)
{
    vc_dialling *d = vc_ep->dials;
    while (d && d->id != id) {
        d = d->next;
    }
    return d;
}

/* Tries servers until an INVITE is on its way; an error when none is left. */
static int try_next(vc_dialling *d)
{
    int status = VC_ESTATE;
    uint64_t id = d->id;
    for (; vc_hop_now(&d->hop); d->hop.at++) {
        const vc_listener *listener = vc_hop_listener(&d->hop, d->group);
        if (listener == NULL) {
            continue; /* of a family or a kind that we have no socket for */
        }
        status = vc_dial_attempt(d, listener);
        if (status == VC_DIAL_LARGE) {
            tcp_first(d);
            status = vc_dial_attempt(d, vc_hop_listener(&d->hop, d->group));
        }
        if (status == 0) {
            d = dial_find(id); /* gone, if PJSIP found at once that it cannot be */
            if (d && d->call && vc_hop_has_next(&d->hop)) {
                vc_schedule(&d->timer, d->failover_ms);
            }
            return 0;
        }
        if (status < 0) {
            return status; /* of our own making: the same everywhere */
        }
    }
    return status;
}

static void proceed(vc_dialling *d)
{
    int status = try_next(d);
    if (status != 0) {
        char text[PJ_ERR_MSG_SIZE];
        if (status > 0) {
            vc_error_text(status, text, sizeof(text));
        }
        dial_over(d, d->last ? d->last : PJSIP_SC_SERVICE_UNAVAILABLE,
                  status > 0 ? text : status == VC_ESTATE ? "no transport of ours leads there" : NULL);
    }
}

static void on_resolved(void *owner, pj_status_t status)
{
    vc_dialling *d = owner;
    if (d->id == 0) {
        return; /* at once: vc_dial goes on by itself */
    }
    if (status != PJ_SUCCESS) {
        dial_over(d, PJSIP_SC_BAD_GATEWAY, "the host name has no address");
        return;
    }
    proceed(d);
}

/* The next attempt, or too long without a word of this one. */
static void on_timer(pj_timer_heap_t *heap, pj_timer_entry *entry)
{
    vc_dialling *d = entry->user_data;
    vc_call *call = d->call;
    PJ_UNUSED_ARG(heap);
    if (call == NULL) {
        proceed(d);
        return;
    }
    if (call->told || call->inv->invite_tsx == NULL || call->inv->invite_tsx->status_code >= 100) {
        return;
    }
    vc_hop_blame(&d->hop, BLAME_S);
    vc_log(2, "a server does not answer an INVITE; trying the next one");
    d->call = NULL;
    d->last = PJSIP_SC_REQUEST_TIMEOUT;
    vc_call_abandon(call);
    d->hop.at++;
    proceed(d);
}

int vc_dial(vc_endpoint *ep, const vc_dial_request *req, uint64_t *id)
{
    pj_pool_t *pool;
    vc_dialling *d;
    int status;
    if (ep->live_count >= ep->max_calls) {
        return VC_ELIMIT;
    }
    pool = pjsip_endpt_create_pool(ep->sip, "dial", 4000, 4000);
    d = pool ? PJ_POOL_ZALLOC_T(pool, vc_dialling) : NULL;
    if (d == NULL) {
        return PJ_ENOMEM;
    }
    d->pool = pool;
    d->group = req->group;
    d->failover_ms = req->failover_ms;
    d->uri = vc_name_addr(pool, req->uri);
    if (req->from.len) {
        d->from = vc_name_addr(pool, req->from);
    }
    d->has_route = req->route.len > 0;
    if (req->credentials) {
        pjsip_cred_info info;
        vc_credentials_to(req->credentials, &info);
        pjsip_cred_info_dup(pool, &d->credentials, &info);
        d->has_credentials = PJ_TRUE;
    }
    d->sdp = vc_keep(pool, req->sdp);
    d->extra = *req->extra;
    d->extra.replaces = vc_keep(pool, req->extra->replaces);
    pj_timer_entry_init(&d->timer, 0, d, &on_timer);
    status = vc_hop_init(&d->hop, pool, req->uri, d, &on_resolved);
    if (status == 0 && d->has_route) {
        status = vc_hop_init(&d->hop, pool, req->route, d, &on_resolved);
    }
    if (status != 0) {
        pj_pool_release(pool);
        return status;
    }
    vc_hop_resolve(&d->hop);
    d->id = vc_next_id();
    d->next = ep->dials;
    ep->dials = d;
    ep->live_count++;
    *id = d->id;
    if (d->hop.list.count == 0) {
        return 0; /* the answer comes with an event */
    }
    status = try_next(d);
    if (status != 0) {
        ep->live_count--;
        dial_free(d);
    }
    return status;
}

/* Before any server was asked, or between two. */
pj_bool_t vc_dial_cancel(vc_endpoint *ep, uint64_t id)
{
    for (vc_dialling *d = ep->dials; d; d = d->next) {
        if (d->id == id && d->call == NULL) {
            dial_over(d, PJSIP_SC_REQUEST_TERMINATED, NULL);
            return PJ_TRUE;
        }
    }
    return PJ_FALSE;
}

/* A peer spoke: this is the server. */
void vc_dial_done(vc_call *call)
{
    static const pjsip_tpselector any;
    if (call->dial) {
        /* What follows goes where Contact and Record-Route lead, by whatever leads there. */
        pjsip_dlg_set_transport(call->inv->dlg, &any);
        dial_free(call->dial);
    }
}

/* 3xx leads elsewhere: our servers are done with, and the new target may need another kind of socket. */
void vc_dial_redirected(vc_call *call)
{
    pjsip_tx_data *tdata = call->inv->invite_req;
    vc_dial_done(call);
    if (tdata) {
        pjsip_tpselector_dec_ref(&tdata->tp_sel);
        pj_bzero(&tdata->tp_sel, sizeof(tdata->tp_sel));
    }
}

/* An attempt is over. True: another one follows, and nobody is told of this one. */
pj_bool_t vc_dial_again(vc_call *call, unsigned status, const pjsip_rx_data *rdata)
{
    vc_dialling *d = call->dial;
    unsigned wait;
    if (d == NULL) {
        return PJ_FALSE;
    }
    if (call->told || vc_ep->closing || !vc_hop_at_fault(status)) {
        dial_free(d);
        return PJ_FALSE;
    }
    wait = vc_retry_after(rdata);
    vc_hop_blame(&d->hop, wait ? wait : BLAME_S);
    if (!vc_hop_has_next(&d->hop)) {
        return PJ_FALSE; /* freed with the call's end, which asks for the reason first */
    }
    vc_log(2, "a server fails an INVITE; trying the next one");
    d->call = NULL;
    call->dial = NULL;
    d->last = status;
    d->hop.at++;
    /* Not from inside of the session that ends. */
    vc_schedule(&d->timer, 0);
    return PJ_TRUE;
}

/* Where an attempt went, for the reason of its failure. */
const pj_sockaddr *vc_dial_peer(const vc_call *call)
{
    const pjsip_server_address_record *now = call->dial ? vc_hop_now(&call->dial->hop) : NULL;
    return now ? &now->addr : NULL;
}

void vc_dials_hangup(vc_endpoint *ep)
{
    vc_dialling *d = ep->dials;
    while (d) {
        vc_dialling *next = d->next;
        if (d->call == NULL) {
            dial_over(d, PJSIP_SC_REQUEST_TERMINATED, NULL);
        }
        d = next;
    }
}

void vc_dials_destroy(vc_endpoint *ep)
{
    while (ep->dials) {
        dial_free(ep->dials);
    }
}
