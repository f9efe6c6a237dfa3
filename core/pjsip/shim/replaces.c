/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * INVITE with Replaces (RFC 3891): which of our calls it is to take over.
 */
#include "internal.h"

/* True when there is no Replaces, or it names a call of ours (*out). Else the request was refused. */
pj_bool_t vc_replaced(pjsip_rx_data *rdata, const vc_policy *policy, vc_call **out)
{
    const pj_str_t name = {"Replaces", 8};
    vc_event event = {.kind = VC_EV_REJECTED};
    pjsip_tx_data *tdata = NULL;
    pjsip_dialog *dialog = NULL;
    pjsip_inv_session *inv;
    *out = NULL;
    if (pjsip_msg_find_hdr_by_name(rdata->msg_info.msg, &name, NULL) == NULL) {
        return PJ_TRUE;
    }
    if (!policy->replaces) {
        vc_refuse(rdata, PJSIP_SC_FORBIDDEN, "Replaces is switched off", NULL);
        return PJ_FALSE;
    }
    if (pjsip_replaces_verify_request(rdata, &dialog, PJ_FALSE, &tdata) != PJ_SUCCESS) {
        static const char why[] = "Replaces names no call that can be taken over";
        if (tdata) {
            event.status = (uint32_t)tdata->msg->line.status.code;
            event.text[0] = (vc_str){why, sizeof(why) - 1};
            vc_addr_from(&rdata->pkt_info.src_addr, &event.source);
            pjsip_endpt_send_response2(vc_ep->sip, rdata, tdata, NULL, NULL);
            vc_emit(&event);
        }
        return PJ_FALSE;
    }
    inv = dialog ? pjsip_dlg_get_inv_session(dialog) : NULL;
    *out = inv ? vc_call_of(inv) : NULL;
    if (*out == NULL || (*out)->told) {
        vc_refuse(rdata, PJSIP_SC_DECLINE, "Replaces names a call that has ended", NULL);
        *out = NULL;
        return PJ_FALSE;
    }
    return PJ_TRUE;
}
