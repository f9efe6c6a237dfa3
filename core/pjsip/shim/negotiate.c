/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Offers and answers of a call: what PJSIP asks and tells while it negotiates.
 */
#include "internal.h"

void vc_on_media(pjsip_inv_session *inv, pj_status_t status)
{
    vc_call *call = vc_call_of(inv);
    const pjmedia_sdp_session *local, *remote;
    vc_event event = {.kind = VC_EV_MEDIA};
    const char *no_srtp;
    if (call == NULL || call->told) {
        return;
    }
    if (status != PJ_SUCCESS) {
        vc_log(2, call->media_up ? "a new offer does not fit; the session stays as it was"
                                 : "offer and answer do not fit");
        return;
    }
    if (pjmedia_sdp_neg_get_active_local(inv->neg, &local) != PJ_SUCCESS ||
        pjmedia_sdp_neg_get_active_remote(inv->neg, &remote) != PJ_SUCCESS ||
        !vc_media_describe(local, remote, &event.media)) {
        vc_log(2, "the SDP agreed on has no audio that can be run");
        if (!call->media_up && inv->state >= PJSIP_INV_STATE_CONNECTING) {
            vc_call_doom(call, PJSIP_SC_NOT_ACCEPTABLE_HERE);
        }
        return;
    }
    no_srtp = vc_srtp_agreed(call, local, remote, &event.text[0], &event.text[1]);
    if (no_srtp) {
        /* Without keys of both sides there is nothing that could be sent or heard. */
        vc_log(2, no_srtp);
        vc_call_doom(call, PJSIP_SC_NOT_ACCEPTABLE_HERE);
        return;
    }
    if (call->secure && event.text[0].len == 0 && inv->state == PJSIP_INV_STATE_CONFIRMED) {
        /* An answer cannot be refused, and what it agreed to is audio that anybody hears. */
        vc_log(2, "the peer answers without SRTP in a call that has it; the call ends");
        vc_call_doom(call, PJSIP_SC_NOT_ACCEPTABLE_HERE);
        return;
    }
    call->secure = event.text[0].len > 0;
    call->codec = event.media.codec;
    call->offering.agreed = PJ_TRUE;
    call->media_up = PJ_TRUE;
    vc_fork_agreed(call, remote);
    event.id = call->id;
    event.flag = inv->invite_tsx && inv->invite_tsx->transport &&
                 (inv->invite_tsx->transport->flag & PJSIP_TRANSPORT_SECURE);
    vc_emit(&event);
    if (call->outgoing && inv->state < PJSIP_INV_STATE_CONNECTING) {
        vc_event early = {.kind = VC_EV_EARLY, .id = call->id};
        vc_emit(&early);
    }
}

/* re-INVITE or UPDATE with an offer: answered from our full SDP, so that the peer may change codec (RFC 3264 8). Without an
 * answer set here PJSIP sends 488 and keeps the session. */
void vc_on_offer(pjsip_inv_session *inv, struct pjsip_inv_on_rx_offer_cb_param *param)
{
    vc_call *call = vc_call_of(inv);
    pjmedia_sdp_session *answer;
    const char *why;
    if (call == NULL || call->sdp == NULL || (!call->media_up && !call->late)) {
        return;
    }
    if (!vc_media_offer_ok(param->offer, vc_ep->codecs & vc_media_codecs(call->sdp))) {
        vc_log(2, "a new offer has no common codec; refused");
        return;
    }
    if (!vc_target_reachable(param->offer, call->sdp) ||
        (param->rdata && vc_target_loops(param->offer, &param->rdata->pkt_info.src_addr))) {
        vc_log(2, "a new offer names an address that media is not sent to; refused");
        return;
    }
    answer = vc_srtp_answer(inv->pool_prov, call->sdp, param->offer, &why);
    if (answer == NULL) {
        vc_log(2, why);
        return;
    }
    if (call->secure && !vc_srtp_has_keys(answer)) {
        vc_log(2, "a new offer is without SRTP in a call that has it; refused");
        return;
    }
    vc_shape_answer(inv->pool_prov, answer, param->offer);
    pjsip_inv_set_sdp_answer(inv, answer);
}

void vc_on_create_offer(pjsip_inv_session *inv, pjmedia_sdp_session **offer)
{
    vc_call *call = vc_call_of(inv);
    *offer = call && call->sdp ? vc_srtp_offer(inv->pool_prov, call->sdp, call) : NULL;
    vc_shape_offer(inv, *offer);
}
