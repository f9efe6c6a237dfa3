/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Calls: the table, PJSIP's invite-session callbacks, and how a call ends.
 */
#include <string.h>

#include "internal.h"

vc_call *vc_find(vc_endpoint *ep, uint64_t id)
{
    vc_call *call = ep->calls[id % VC_BUCKETS];
    while (call && call->id != id) {
        call = call->next;
    }
    return call && !call->told ? call : NULL;
}

vc_call *vc_call_of(pjsip_inv_session *inv)
{
    /* While PJSIP is being destroyed our module may have no number any more. */
    return vc_ep && vc_module.id >= 0 ? inv->mod_data[vc_module.id] : NULL;
}

static void call_insert(vc_call *call)
{
    vc_call **bucket = &vc_ep->calls[call->id % VC_BUCKETS];
    call->next = *bucket;
    *bucket = call;
}

vc_call *vc_call_new(pjsip_inv_session *inv, pj_bool_t outgoing, vc_dialling *dial)
{
    vc_call *call = PJ_POOL_ZALLOC_T(inv->dlg->pool, vc_call);
    if (call == NULL) {
        return NULL;
    }
    call->id = dial ? vc_dial_id(dial) : vc_next_id();
    call->dial = dial;
    call->inv = inv;
    call->outgoing = outgoing;
    call_insert(call);
    inv->mod_data[vc_module.id] = call;
    vc_ep->call_count++;
    if (dial == NULL) {
        vc_ep->live_count++; /* a dialled one counts from its first attempt on */
    }
    return call;
}

static pj_bool_t call_unlink(vc_call *call)
{
    vc_call **at = &vc_ep->calls[call->id % VC_BUCKETS];
    while (*at && *at != call) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        return PJ_FALSE;
    }
    *at = call->next;
    return PJ_TRUE;
}

static void call_forget(vc_call *call)
{
    if (call_unlink(call)) {
        vc_ep->call_count--;
        if (call->doomed) {
            vc_ep->doomed_count--;
        }
    }
    call->inv->mod_data[vc_module.id] = NULL;
    vc_srtp_forget(call);
    vc_offer_drop(call);
    if (call->sdp_pool) {
        pj_pool_release(call->sdp_pool);
        call->sdp_pool = NULL;
    }
}

/* An attempt that came to nothing: its number lives on in the next one. */
void vc_call_drop(vc_call *call)
{
    call->told = PJ_TRUE;
    call->dial = NULL;
    call_forget(call);
}

/* As vc_call_drop, but the server may still ring: the attempt ends by itself, as a call that was hung up. */
void vc_call_abandon(vc_call *call)
{
    if (call_unlink(call)) {
        call->id = vc_next_id();
        call_insert(call);
    }
    call->told = PJ_TRUE;
    call->dial = NULL;
    vc_call_end(call, PJSIP_SC_REQUEST_TERMINATED, -1);
}

void vc_call_told(vc_call *call, unsigned status, const pj_str_t *reason, pj_bool_t by_remote)
{
    vc_event event = {.kind = VC_EV_ENDED, .id = call->id, .status = status, .flag = by_remote ? 1 : 0};
    if (call->told) {
        return;
    }
    call->told = PJ_TRUE;
    vc_ep->live_count--;
    if (reason == NULL || reason->slen == 0) {
        reason = pjsip_get_status_text((int)status);
    }
    event.text[0] = vc_text(reason);
    if (call->dial && !by_remote) {
        const pj_sockaddr *peer = vc_dial_peer(call);
        const char *why = peer ? vc_tls_why(peer, reason) : NULL;
        event.text[1] = (vc_str){why, why ? strlen(why) : 0};
    }
    vc_emit(&event);
}

void vc_call_doom(vc_call *call, unsigned status)
{
    if (call->doomed == 0) {
        call->doomed = status;
        vc_ep->doomed_count++;
    }
}

/* BYE, CANCEL or a final answer, whichever fits the state. The call stays in the table until PJSIP is through with it. */
void vc_call_end(vc_call *call, unsigned status, int64_t retry_after)
{
    pjsip_inv_session *inv = call->inv;
    pjsip_dialog *dialog = inv->dlg;
    pjsip_tx_data *tdata = NULL;
    pj_status_t result;
    pjsip_dlg_inc_lock(dialog);
    result = pjsip_inv_end_session(inv, (int)status, NULL, &tdata);
    if (result == PJ_SUCCESS && tdata) {
        if (retry_after >= 0) {
            pjsip_msg_add_hdr(tdata->msg,
                              (pjsip_hdr *)pjsip_retry_after_hdr_create(tdata->pool, (int)retry_after));
        }
        result = pjsip_inv_send_msg(inv, tdata);
    }
    /* tdata NULL with success: CANCEL waits for a provisional answer (RFC 3261 9.1). */
    if (result != PJ_SUCCESS && vc_call_of(inv) == call) {
        /* With notice: on_disconnected takes the call, whose memory is the dialog's, out of the table. */
        pjsip_inv_terminate(inv, (int)status, PJ_TRUE);
    }
    pjsip_dlg_dec_lock(dialog);
}

/* Ends what a callback condemned: PJSIP is not inside of the session any more. */
void vc_calls_reap(vc_endpoint *ep)
{
    for (unsigned i = 0; i < VC_BUCKETS && ep->doomed_count > 0; i++) {
        vc_call *call = ep->calls[i];
        while (call) {
            vc_call *next = call->next;
            if (call->doomed) {
                unsigned status = call->doomed;
                call->doomed = 0;
                ep->doomed_count--;
                vc_call_told(call, status, NULL, PJ_FALSE);
                vc_call_end(call, status, -1);
            }
            call = next;
        }
    }
}

/* A session can end before an INVITE of ours does (a PRACK that nobody answers; our re-INVITE in a call of either side):
 * without CANCEL and a deadline the transaction, and the dialog with it, would wait for a final answer as long as the
 * process lives (RFC 3261, 9.1). */
static void end_pending_invite(const pjsip_inv_session *inv)
{
    pjsip_transaction *tsx = inv->invite_tsx;
    pjsip_tx_data *cancel;
    if (tsx == NULL || tsx->role != PJSIP_ROLE_UAC || tsx->state != PJSIP_TSX_STATE_PROCEEDING) {
        return;
    }
    if (!inv->cancelling && pjsip_endpt_create_cancel(vc_ep->sip, tsx->last_tx, &cancel) == PJ_SUCCESS) {
        pjsip_endpt_send_request(vc_ep->sip, cancel, -1, NULL, NULL);
    }
    pjsip_tsx_set_timeout(tsx, pjsip_cfg()->tsx.td);
}

/* The same for one that had no answer when the session ended: a provisional one stops its last timer. */
static void end_late_invite(pjsip_transaction *tsx)
{
    if (tsx->role == PJSIP_ROLE_UAC && tsx->method.id == PJSIP_INVITE_METHOD && tsx->timeout_timer.id == 0) {
        pjsip_tsx_set_timeout(tsx, pjsip_cfg()->tsx.td);
    }
}

static void on_disconnected(vc_call *call, const pjsip_event *e)
{
    pjsip_inv_session *inv = call->inv;
    static const pj_str_t EARLY = {"BYE before the call was answered", 32};
    unsigned status = inv->cause ? (unsigned)inv->cause : PJSIP_SC_OK;
    const pj_str_t *reason = &inv->cause_text;
    pj_bool_t received = e && e->type == PJSIP_EVENT_TSX_STATE && e->body.tsx_state.type == PJSIP_EVENT_RX_MSG;
    /* What we end ourselves was told before. Left are: the peer, silence (408) and our own sockets. */
    pj_bool_t by_remote = call->outgoing && !call->media_up
                              ? received
                              : status != PJSIP_SC_REQUEST_TIMEOUT && status != PJSIP_SC_TSX_TRANSPORT_ERROR;
    if (!call->answered && status / 100 == 2) {
        /* BYE inside of an early dialog (RFC 3261 15): 200 is its answer, not what became of the call. */
        status = PJSIP_SC_REQUEST_TERMINATED;
        reason = &EARLY;
        by_remote = PJ_TRUE;
    }
    end_pending_invite(inv);
    if (vc_dial_again(call, status, received ? e->body.tsx_state.src.rdata : NULL)) {
        vc_call_drop(call);
        return;
    }
    vc_call_told(call, status, reason, by_remote);
    vc_transfer_call_over(call);
    vc_dial_done(call);
    call_forget(call);
}

static void on_state(pjsip_inv_session *inv, pjsip_event *e)
{
    vc_call *call = vc_call_of(inv);
    vc_event event = {.kind = VC_EV_CONFIRMED};
    if (call == NULL) {
        return;
    }
    event.id = call->id;
    if (inv->state >= PJSIP_INV_STATE_EARLY && inv->state <= PJSIP_INV_STATE_CONFIRMED) {
        vc_dial_done(call);
    }
    switch (inv->state) {
    case PJSIP_INV_STATE_EARLY:
        if (call->outgoing && !call->told && inv->invite_tsx && e->type == PJSIP_EVENT_TSX_STATE) {
            event.kind = VC_EV_PROGRESS;
            event.status = (uint32_t)inv->invite_tsx->status_code;
            vc_emit(&event);
        }
        break;
    case PJSIP_INV_STATE_CONNECTING:
        call->answered = PJ_TRUE;
        /* Our ACK goes out within this event, unless nothing can be sent to the peer's Contact. */
        if (call->outgoing && call->doomed == 0) {
            vc_call_doom(call, PJSIP_SC_BAD_GATEWAY);
            call->unacked = PJ_TRUE;
        }
        break;
    case PJSIP_INV_STATE_CONFIRMED:
        if (call->unacked && call->doomed) {
            call->doomed = 0;
            vc_ep->doomed_count--;
        }
        call->unacked = PJ_FALSE;
        if (call->told) {
            /* 200 and our CANCEL crossed: the call is up for the peer only (RFC 3261 9.1). An answered call that we
             * hung up before its ACK ends through PJSIP's own pending BYE. */
            if (call->outgoing) {
                vc_call_doom(call, PJSIP_SC_REQUEST_TERMINATED);
            }
        } else if (!call->media_up) {
            /* No answer to our offer in the ACK, or none that fits (RFC 3261 13.2.1). */
            vc_call_doom(call, PJSIP_SC_NOT_ACCEPTABLE_HERE);
        } else {
            if (vc_fork_confirmed(call)) {
                vc_on_media(inv, PJ_SUCCESS);
            }
            vc_emit(&event);
        }
        break;
    case PJSIP_INV_STATE_DISCONNECTED:
        on_disconnected(call, e);
        break;
    default:
        break;
    }
}

static void add_capability(pjsip_tx_data *tdata, int type)
{
    const pjsip_hdr *have = pjsip_endpt_get_capability(vc_ep->sip, type, NULL);
    if (have) {
        pjsip_msg_add_hdr(tdata->msg, pjsip_hdr_clone(tdata->pool, have));
    }
}

/* Requests inside of a dialog that the invite session leaves to the application. */
static void on_tsx(pjsip_inv_session *inv, pjsip_transaction *tsx, pjsip_event *e)
{
    const pj_str_t *name = &tsx->method.name;
    vc_call *call = vc_call_of(inv);
    pjsip_tx_data *tdata;
    int status;
    if (vc_ep && tsx->role == PJSIP_ROLE_UAC && pj_strcmp2(name, "INFO") == 0) {
        vc_info_answered(call, tsx);
        return;
    }
    if (inv->state == PJSIP_INV_STATE_DISCONNECTED && tsx->state == PJSIP_TSX_STATE_PROCEEDING) {
        end_late_invite(tsx);
    }
    if (call) {
        vc_offer_on_tsx(call, tsx, e);
    }
    if (vc_ep == NULL || tsx->role != PJSIP_ROLE_UAS || tsx->state != PJSIP_TSX_STATE_TRYING ||
        e->type != PJSIP_EVENT_TSX_STATE || e->body.tsx_state.type != PJSIP_EVENT_RX_MSG) {
        return;
    }
    if (call && pj_strcmp2(name, "PRACK") == 0) {
        vc_early_on_prack(call);
    }
    if (tsx->method.id == PJSIP_INVITE_METHOD || tsx->method.id == PJSIP_BYE_METHOD ||
               tsx->method.id == PJSIP_CANCEL_METHOD || pj_strcmp2(name, "UPDATE") == 0 ||
               pj_strcmp2(name, "PRACK") == 0) {
        return;
    } else if (tsx->method.id == PJSIP_OPTIONS_METHOD) {
        status = PJSIP_SC_OK;
    } else if (pj_strcmp2(name, "REFER") == 0) {
        vc_on_refer(inv, call, tsx, e->body.tsx_state.src.rdata);
        return;
    } else if (pj_strcmp2(name, "NOTIFY") == 0 && vc_has_subscription(inv->dlg)) {
        return; /* the subscription's */
    } else if (pj_strcmp2(name, "NOTIFY") == 0) {
        status = PJSIP_SC_CALL_TSX_DOES_NOT_EXIST; /* RFC 6665 4.1.3: no such subscription */
    } else if (pj_strcmp2(name, "INFO") == 0) {
        status = vc_info_received(call, e->body.tsx_state.src.rdata);
    } else if (pj_strcmp2(name, "MESSAGE") == 0 ||
               pj_strcmp2(name, "SUBSCRIBE") == 0) {
        status = PJSIP_SC_METHOD_NOT_ALLOWED;
    } else {
        status = PJSIP_SC_NOT_IMPLEMENTED;
    }
    if (pjsip_dlg_create_response(inv->dlg, e->body.tsx_state.src.rdata, status, NULL, &tdata) != PJ_SUCCESS) {
        return;
    }
    if (pjsip_msg_find_hdr(tdata->msg, PJSIP_H_ALLOW, NULL) == NULL) {
        add_capability(tdata, PJSIP_H_ALLOW);
    }
    if (status == PJSIP_SC_OK || status == PJSIP_SC_UNSUPPORTED_MEDIA_TYPE) {
        add_capability(tdata, PJSIP_H_ACCEPT);
    }
    pjsip_dlg_send_response(inv->dlg, tsx, tdata);
}

static void on_new_session(pjsip_inv_session *inv, pjsip_event *e)
{
    PJ_UNUSED_ARG(inv);
    PJ_UNUSED_ARG(e);
}

/* A proxy forked our INVITE and a second peer answered: it gets ACK and BYE (RFC 3261 13.2.2.4). */
pjsip_dialog *vc_on_forked(pjsip_dialog *first, pjsip_rx_data *rdata)
{
    pjsip_dialog *fork;
    pjsip_tx_data *tdata;
    pj_bool_t lives;
    if (!first->uac_has_2xx || rdata->msg_info.cseq->method.id != PJSIP_INVITE_METHOD ||
        rdata->msg_info.msg->line.status.code / 100 != 2 || pjsip_rdata_get_tsx(rdata) != NULL) {
        return first;
    }
    if (pjsip_dlg_fork(first, rdata, &fork) != PJ_SUCCESS) {
        return NULL;
    }
    pjsip_dlg_inc_lock(fork);
    if (pjsip_dlg_create_request(fork, &pjsip_ack_method, rdata->msg_info.cseq->cseq, &tdata) == PJ_SUCCESS) {
        pjsip_dlg_send_request(fork, tdata, -1, NULL);
    }
    if (pjsip_dlg_create_request(fork, pjsip_get_bye_method(), -1, &tdata) == PJ_SUCCESS) {
        pjsip_dlg_send_request(fork, tdata, -1, NULL);
    }
    /* A Contact that nothing can be sent to: then nothing holds the dialog, and unlocking it ends it. */
    lives = fork->tsx_count > 0;
    pjsip_dlg_dec_lock(fork);
    return lives ? fork : NULL;
}

pj_status_t vc_calls_init(pjsip_endpoint *sip)
{
    pjsip_inv_callback callback;
    pj_bzero(&callback, sizeof(callback));
    callback.on_state_changed = &on_state;
    callback.on_new_session = &on_new_session;
    callback.on_tsx_state_changed = &on_tsx;
    callback.on_rx_offer2 = &vc_on_offer;
    callback.on_create_offer = &vc_on_create_offer;
    callback.on_media_update = &vc_on_media;
    callback.on_redirected = &vc_on_redirected;
    return pjsip_inv_usage_init(sip, &callback);
}
