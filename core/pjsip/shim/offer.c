/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Offers of ours inside of a dialog: re-INVITE once it is confirmed, UPDATE before (RFC 3311 5.1). One at a time; what
 * finds another exchange under way waits for its end, glare backs off (RFC 3261 14.1).
 */
#include "internal.h"

#define BUSY_MS 40
#define TRIES 8 /* 491 and the like in a row before the offer is given up */

static const pj_str_t UPDATE = {"UPDATE", 6};

static void offer_try(vc_call *call);

static void offer_done(vc_call *call, unsigned status)
{
    vc_event event = {.kind = VC_EV_OFFERED, .id = call->id, .status = status};
    call->offering.state = VC_OFFER_NONE;
    call->offering.tsx = NULL;
    if (!call->told) {
        vc_emit(&event);
    }
}

static void on_again(pj_timer_heap_t *heap, pj_timer_entry *entry)
{
    vc_call *call = entry->user_data;
    pjsip_dialog *dialog = call->inv->dlg;
    PJ_UNUSED_ARG(heap);
    entry->id = 0;
    if (call->told || call->offering.state != VC_OFFER_WAITS) {
        return;
    }
    pjsip_dlg_inc_lock(dialog);
    offer_try(call);
    pjsip_dlg_dec_lock(dialog);
}

static void offer_later(vc_call *call, unsigned ms)
{
    pj_time_val delay = {(long)(ms / 1000), (long)(ms % 1000)};
    call->offering.state = VC_OFFER_WAITS;
    call->offering.tsx = NULL;
    if (call->offering.again.id == 0) {
        pj_timer_entry_init(&call->offering.again, 1, call, &on_again);
        pjsip_endpt_schedule_timer(vc_ep->sip, &call->offering.again, &delay);
    }
}

/* Whether an exchange can begin now. *update: by UPDATE. */
static pj_bool_t offer_can(const vc_call *call, pj_bool_t *update)
{
    const pjsip_inv_session *inv = call->inv;
    if (inv->neg == NULL || pjmedia_sdp_neg_get_state(inv->neg) != PJMEDIA_SDP_NEG_STATE_DONE) {
        return PJ_FALSE;
    }
    *update = inv->state == PJSIP_INV_STATE_EARLY;
    if (*update) {
        return (inv->sdp_done_early_rel || call->proved) &&
               pjsip_dlg_remote_has_cap(inv->dlg, PJSIP_H_ALLOW, NULL, &UPDATE) == PJSIP_DIALOG_CAP_SUPPORTED;
    }
    return inv->state == PJSIP_INV_STATE_CONFIRMED && inv->invite_tsx == NULL;
}

static void offer_try(vc_call *call)
{
    pjsip_tx_data *tdata = NULL;
    pjmedia_sdp_session *offer;
    pj_bool_t update;
    pj_status_t status;
    if (!offer_can(call, &update)) {
        offer_later(call, BUSY_MS);
        return;
    }
    offer = vc_srtp_offer(call->inv->pool_prov, call->sdp, call);
    vc_shape_offer(call->inv, offer);
    status = update ? pjsip_inv_update(call->inv, NULL, offer, &tdata)
                    : pjsip_inv_reinvite(call->inv, NULL, offer, &tdata);
    if (status == PJ_SUCCESS) {
        call->offering.state = VC_OFFER_SENT;
        call->offering.agreed = PJ_FALSE;
        call->offering.update = update;
        call->offering.tsx = NULL;
        status = pjsip_inv_send_msg(call->inv, tdata);
    }
    if (status != PJ_SUCCESS && call->offering.state != VC_OFFER_NONE) {
        if (pjmedia_sdp_neg_get_state(call->inv->neg) == PJMEDIA_SDP_NEG_STATE_LOCAL_OFFER) {
            pjmedia_sdp_neg_cancel_offer(call->inv->neg);
        }
        offer_done(call, PJSIP_SC_INTERNAL_SERVER_ERROR);
    }
}

/* RFC 3261 14.1: the side that made the Call-ID waits 2.1 to 4 s, the other one up to 2 s. */
static unsigned glare_ms(const vc_call *call)
{
    unsigned tens = (unsigned)pj_rand();
    return call->inv->dlg->role == PJSIP_ROLE_UAC ? 2100 + tens % 191 * 10 : tens % 201 * 10;
}

static unsigned retry_after_ms(pjsip_event *e)
{
    const pjsip_retry_after_hdr *after = NULL;
    if (e->body.tsx_state.type == PJSIP_EVENT_RX_MSG) {
        after = pjsip_msg_find_hdr(e->body.tsx_state.src.rdata->msg_info.msg, PJSIP_H_RETRY_AFTER, NULL);
    }
    /* RFC 3261 14.2: 0 to 10 s for an INVITE that met another one. */
    return after && after->ivalue >= 0 && after->ivalue <= 10 ? (unsigned)after->ivalue * 1000 + 10 : 0;
}

/* 2xx with an answer that we cannot run, such as a codec that was not offered. A peer that lists the codec of before goes on
 * with it, as we do; with another one nobody would hear anything, so the call ends. */
static unsigned not_agreed(vc_call *call, pjsip_event *e)
{
    const pjsip_rdata_sdp_info *info =
        e->body.tsx_state.type == PJSIP_EVENT_RX_MSG ? pjsip_rdata_get_sdp_info(e->body.tsx_state.src.rdata) : NULL;
    if (info && info->sdp && (vc_media_codecs(info->sdp) & call->codec) == 0 && vc_media_codecs(info->sdp) != 0) {
        vc_log(2, "the peer answers our offer with a codec that was not in it; the call ends");
        vc_call_doom(call, PJSIP_SC_NOT_ACCEPTABLE_HERE);
    } else {
        vc_log(2, "the peer's answer does not fit our offer; the call goes on as it was");
    }
    return PJSIP_SC_NOT_ACCEPTABLE_HERE;
}

void vc_offer_on_tsx(vc_call *call, pjsip_transaction *tsx, pjsip_event *e)
{
    vc_offering *offering = &call->offering;
    unsigned status = (unsigned)tsx->status_code, wait = 0;
    /* By its method: a session timer's UPDATE may be out beside a re-INVITE of ours. */
    if (offering->state != VC_OFFER_SENT || tsx->role != PJSIP_ROLE_UAC ||
        (offering->update ? pj_strcmp(&tsx->method.name, &UPDATE) != 0 : tsx->method.id != PJSIP_INVITE_METHOD)) {
        return;
    }
    if (tsx->state == PJSIP_TSX_STATE_CALLING || tsx->state == PJSIP_TSX_STATE_TRYING) {
        offering->tsx = tsx; /* also when it goes out again with credentials */
        return;
    }
    if (offering->tsx != tsx || tsx->state < PJSIP_TSX_STATE_COMPLETED || status < 200) {
        return;
    }
    if (status == PJSIP_SC_REQUEST_PENDING) {
        wait = glare_ms(call) + 1;
    } else if (status == PJSIP_SC_INTERNAL_SERVER_ERROR) {
        wait = retry_after_ms(e);
    }
    if (status / 100 == 2 && !offering->agreed) {
        status = not_agreed(call, e);
    }
    if (wait && ++offering->tries < TRIES && !call->told) {
        offer_later(call, wait);
    } else {
        offer_done(call, status);
    }
}

void vc_offer_drop(vc_call *call)
{
    if (call->offering.again.id != 0) {
        pjsip_endpt_cancel_timer(vc_ep->sip, &call->offering.again);
        call->offering.again.id = 0;
    }
    call->offering.state = VC_OFFER_NONE;
}

/* The newest offer wins: one that still waits is replaced, one that is out is followed by this one. */
int vc_offer(vc_endpoint *ep, uint64_t id, vc_str text)
{
    vc_call *call = vc_find(ep, id);
    vc_str why;
    int status;
    if (call == NULL) {
        return VC_ENOCALL;
    }
    if (call->inv->state != PJSIP_INV_STATE_CONFIRMED && call->inv->state != PJSIP_INV_STATE_EARLY &&
        call->inv->state != PJSIP_INV_STATE_CONNECTING) {
        return VC_ESTATE;
    }
    if (call->offering.state == VC_OFFER_SENT) {
        return VC_EBUSY;
    }
    status = vc_set_local_sdp(ep, id, text, &why);
    if (status != 0) {
        return status;
    }
    if (call->offering.state == VC_OFFER_NONE) {
        pjsip_dialog *dialog = call->inv->dlg;
        call->offering.tries = 0;
        call->offering.state = VC_OFFER_WAITS;
        pjsip_dlg_inc_lock(dialog);
        offer_try(call);
        pjsip_dlg_dec_lock(dialog);
    }
    return 0;
}
