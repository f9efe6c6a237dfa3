/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Early media towards a caller: 183 with SDP, reliable where the caller can (RFC 3262).
 */
#include "internal.h"

static const pj_str_t REL = {"100rel", 6};

static void tell_early(vc_call *call)
{
    vc_event event = {.kind = VC_EV_EARLY, .id = call->id};
    if (!call->proved && !call->told) {
        call->proved = PJ_TRUE;
        vc_emit(&event);
    }
}

void vc_early_on_prack(vc_call *call)
{
    if (call->early && call->reliable.heard) {
        tell_early(call);
    }
}

static pj_bool_t make_reliable(vc_call *call)
{
    pjsip_inv_session *inv = call->inv;
    if (inv->options & PJSIP_INV_REQUIRE_100REL) {
        return PJ_TRUE;
    }
    if (call->policy.reliable == VC_OFF ||
        pjsip_dlg_remote_has_cap(inv->dlg, PJSIP_H_SUPPORTED, NULL, &REL) != PJSIP_DIALOG_CAP_SUPPORTED) {
        return PJ_FALSE;
    }
    inv->options |= PJSIP_INV_SUPPORT_100REL | PJSIP_INV_REQUIRE_100REL;
    pjsip_100rel_attach(inv);
    return PJ_TRUE;
}

int vc_early(vc_endpoint *ep, uint64_t id)
{
    vc_call *call = vc_find(ep, id);
    pjsip_tx_data *tdata;
    pjsip_dialog *dialog;
    pj_bool_t reliable;
    pj_status_t status;
    if (call == NULL) {
        return VC_ENOCALL;
    }
    if (call->outgoing ||
        (call->inv->state != PJSIP_INV_STATE_INCOMING && call->inv->state != PJSIP_INV_STATE_EARLY)) {
        return VC_ESTATE;
    }
    if (call->early) {
        return 0;
    }
    if (call->sdp == NULL) {
        return VC_ENOSDP;
    }
    dialog = call->inv->dlg;
    pjsip_dlg_inc_lock(dialog);
    reliable = make_reliable(call);
    /* Without an offer the 183 makes one, and only a PRACK can bring the answer (RFC 3262 5). */
    if (call->inv->neg == NULL && !reliable) {
        pjsip_dlg_dec_lock(dialog);
        return VC_EUNRELIABLE;
    }
    status = vc_local_sdp(call);
    if (status == PJ_SUCCESS) {
        status = pjsip_inv_answer(call->inv, PJSIP_SC_PROGRESS, NULL, NULL, &tdata);
    }
    if (status == PJ_SUCCESS) {
        call->early = PJ_TRUE;
        status = pjsip_inv_send_msg(call->inv, tdata);
    } else {
        vc_call_doom(call, PJSIP_SC_NOT_ACCEPTABLE_HERE);
    }
    if (status == PJ_SUCCESS && !reliable) {
        tell_early(call);
    }
    pjsip_dlg_dec_lock(dialog);
    return status;
}
