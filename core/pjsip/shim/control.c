/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What the application asks of a call: ring, answer, reject, hang up, dial.
 */
#include "internal.h"

/* Parses in pool, which keeps the text: PJSIP's strings point into it. */
int vc_sdp_parse(pj_pool_t *pool, vc_str text, pjmedia_sdp_session **out)
{
    char *copy = pj_pool_alloc(pool, text.len + 1);
    if (text.len == 0 || copy == NULL) {
        return VC_ESDP;
    }
    pj_memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    if (pjmedia_sdp_parse(pool, copy, text.len, out) != PJ_SUCCESS || pjmedia_sdp_validate(*out) != PJ_SUCCESS) {
        return VC_ESDP;
    }
    return 0;
}

/* A description that was written before the peer's address was known has 0.0.0.0 or :: where ours belongs: the one in our
 * Contact. */
void vc_sdp_fill(pj_pool_t *pool, pjmedia_sdp_session *sdp, const pjsip_dialog *dialog)
{
    const pjsip_sip_uri *contact = pjsip_uri_get_uri(dialog->local.contact->uri);
    if (sdp->conn == NULL || (pj_strcmp2(&sdp->conn->addr, "0.0.0.0") != 0 && pj_strcmp2(&sdp->conn->addr, "::") != 0)) {
        return;
    }
    pj_strdup_with_null(pool, &sdp->conn->addr, &contact->host);
    sdp->conn->addr_type = pj_str(pj_strchr(&contact->host, ':') ? "IP6" : "IP4");
    sdp->origin.addr = sdp->conn->addr;
    sdp->origin.addr_type = sdp->conn->addr_type;
}

static pj_bool_t is_waiting(const vc_call *call)
{
    return !call->outgoing &&
           (call->inv->state == PJSIP_INV_STATE_INCOMING || call->inv->state == PJSIP_INV_STATE_EARLY);
}

int vc_ring(vc_endpoint *ep, uint64_t id)
{
    vc_call *call = vc_find(ep, id);
    pjsip_tx_data *tdata;
    pj_status_t status;
    if (call == NULL) {
        return VC_ENOCALL;
    }
    if (!is_waiting(call)) {
        return VC_ESTATE;
    }
    status = pjsip_inv_answer(call->inv, PJSIP_SC_RINGING, NULL, NULL, &tdata);
    return status == PJ_SUCCESS ? pjsip_inv_send_msg(call->inv, tdata) : status;
}

int vc_set_local_sdp(vc_endpoint *ep, uint64_t id, vc_str text, vc_str *why)
{
    vc_call *call = vc_find(ep, id);
    const pjmedia_sdp_session *offer;
    pjmedia_sdp_session *sdp;
    const char *no;
    pj_pool_t *pool;
    int status;
    if (call == NULL) {
        return VC_ENOCALL;
    }
    /* A pool of its own: a call may be held and resumed all day. PJSIP copies what it is given. */
    pool = pjsip_endpt_create_pool(ep->sip, "sdp", 1000, 1000);
    status = vc_sdp_parse(pool, text, &sdp);
    if (status == 0) {
        vc_sdp_fill(pool, sdp, call->inv->dlg);
    }
    /* The application may offer less than the endpoint: that must be known before it hears of the call. */
    offer = status == 0 ? vc_pending_offer(call) : NULL;
    if (offer && (!vc_media_offer_ok(offer, vc_media_codecs(sdp)) || !vc_target_reachable(offer, sdp))) {
        status = VC_ENOCODEC;
    } else if (offer && vc_srtp_answer(call->inv->pool_prov, sdp, offer, &no) == NULL) {
        *why = (vc_str){no, strlen(no)};
        status = VC_ESRTP;
    }
    if (status != 0) {
        pj_pool_release(pool);
        return status;
    }
    vc_srtp_forget(call);
    if (call->sdp_pool) {
        pj_pool_release(call->sdp_pool);
    }
    call->sdp_pool = pool;
    call->sdp = sdp;
    return 0;
}

/* The peer's offer that waits for our answer, or NULL. */
const pjmedia_sdp_session *vc_pending_offer(const vc_call *call)
{
    const pjmedia_sdp_session *offer;
    return call->inv->neg &&
                   pjmedia_sdp_neg_get_state(call->inv->neg) == PJMEDIA_SDP_NEG_STATE_REMOTE_OFFER &&
                   pjmedia_sdp_neg_get_neg_remote(call->inv->neg, &offer) == PJ_SUCCESS
               ? offer
               : NULL;
}

/* Hands PJSIP our side of the first exchange: the answer to the offer, or an offer. */
pj_status_t vc_local_sdp(vc_call *call)
{
    const pjmedia_sdp_session *offer = vc_pending_offer(call);
    const char *why = "";
    /* PJSIP copies what it is given. */
    pj_pool_t *pool = pjsip_endpt_create_pool(vc_ep->sip, "answer", 4000, 1000);
    pjmedia_sdp_session *sdp = offer ? vc_srtp_answer(pool, call->sdp, offer, &why) : vc_srtp_offer(pool, call->sdp, call);
    pj_status_t status = PJMEDIA_SDPNEG_EINVANSTP;
    vc_shape_answer(pool, sdp, offer);
    if (sdp) {
        status = pjsip_inv_set_local_sdp(call->inv, sdp);
    }
    pj_pool_release(pool);
    return status;
}

int vc_answer(vc_endpoint *ep, uint64_t id)
{
    vc_call *call = vc_find(ep, id);
    pjsip_dialog *dialog;
    pjsip_tx_data *tdata;
    pj_status_t status;
    if (call == NULL) {
        return VC_ENOCALL;
    }
    if (!is_waiting(call)) {
        return VC_ESTATE;
    }
    if (call->sdp == NULL) {
        return VC_ENOSDP;
    }
    dialog = call->inv->dlg;
    pjsip_dlg_inc_lock(dialog);
    /* After an early answer there is nothing more to negotiate. */
    status = call->early ? PJ_SUCCESS : vc_local_sdp(call);
    if (status == PJ_SUCCESS) {
        status = pjsip_inv_answer(call->inv, PJSIP_SC_OK, NULL, NULL, &tdata);
    }
    if (status == PJ_SUCCESS) {
        status = pjsip_inv_send_msg(call->inv, tdata);
    } else {
        /* Our SDP and the offer do not fit after all. */
        vc_call_doom(call, PJSIP_SC_NOT_ACCEPTABLE_HERE);
    }
    pjsip_dlg_dec_lock(dialog);
    return status;
}

int vc_reject(vc_endpoint *ep, uint64_t id, uint32_t status, int64_t retry_after)
{
    vc_call *call = vc_find(ep, id);
    if (call == NULL) {
        return VC_ENOCALL;
    }
    if (!is_waiting(call)) {
        return VC_ESTATE;
    }
    vc_call_told(call, status, NULL, PJ_FALSE);
    vc_call_end(call, status, retry_after);
    return 0;
}

/* What the application is told as the reason of its own hang-up. */
static unsigned hangup_status(const vc_call *call)
{
    if (call->inv->state >= PJSIP_INV_STATE_CONNECTING) {
        return PJSIP_SC_OK;
    }
    return call->outgoing ? PJSIP_SC_REQUEST_TERMINATED : PJSIP_SC_DECLINE;
}

int vc_hangup(vc_endpoint *ep, uint64_t id)
{
    vc_call *call = vc_find(ep, id);
    if (call == NULL) {
        return vc_dial_cancel(ep, id) ? 0 : VC_ENOCALL;
    }
    vc_call_told(call, hangup_status(call), NULL, PJ_FALSE);
    vc_call_end(call, PJSIP_SC_DECLINE, -1);
    return 0;
}

void vc_end_all(vc_endpoint *ep)
{
    ep->closing = PJ_TRUE;
    for (unsigned i = 0; i < VC_BUCKETS; i++) {
        vc_call *call = ep->calls[i];
        while (call) {
            vc_call *next = call->next;
            if (!call->told) {
                vc_hangup(ep, call->id);
            }
            call = next;
        }
    }
    vc_dials_hangup(ep);
    vc_regs_leave(ep);
}

uint32_t vc_calls(const vc_endpoint *ep)
{
    return ep->live_count;
}

uint32_t vc_pending(const vc_endpoint *ep)
{
    return ep->call_count + vc_regs_count(ep);
}
