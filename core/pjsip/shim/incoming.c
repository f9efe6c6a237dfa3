/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A new INVITE: the checks it must pass before the application hears of it.
 */
#include "internal.h"

#define RETRY_AFTER_S 5

static const char SMALL_TIMER[] = "Session-Expires is below our minimum";

static void refuse_full(pjsip_rx_data *rdata)
{
    pjsip_hdr list;
    pj_list_init(&list);
    pj_list_push_back(&list, pjsip_retry_after_hdr_create(rdata->tp_info.pool, RETRY_AFTER_S));
    vc_refuse(rdata, PJSIP_SC_SERVICE_UNAVAILABLE, "all calls that max_calls allows are up", &list);
}

/* Prints the bare URI; 0 when it does not fit or is of a scheme that cannot be a party of a call. */
static int print_uri(pj_pool_t *pool, pjsip_uri_context_e context, const pjsip_uri *uri, vc_str *out)
{
    const pjsip_uri *bare;
    char *buf;
    int len;
    if (uri == NULL) {
        return 0;
    }
    bare = pjsip_uri_get_uri(uri);
    if (bare == NULL || !(PJSIP_URI_SCHEME_IS_SIP(bare) || PJSIP_URI_SCHEME_IS_SIPS(bare) ||
                          PJSIP_URI_SCHEME_IS_TEL(bare))) {
        return 0;
    }
    buf = pj_pool_alloc(pool, VC_URI_MAX);
    len = pjsip_uri_print(context, bare, buf, VC_URI_MAX);
    *out = (vc_str){buf, len > 0 ? (size_t)len : 0};
    return len > 0;
}

/* Whether the body is good. Sets *has_offer. */
static pj_bool_t check_offer(pjsip_rx_data *rdata, uint32_t *has_offer)
{
    pjsip_rdata_sdp_info *info;
    const char *why;
    pjsip_hdr list;
    *has_offer = 0;
    if (rdata->msg_info.msg->body == NULL || rdata->msg_info.msg->body->len == 0) {
        return PJ_TRUE;
    }
    pj_list_init(&list);
    why = vc_body_refused(rdata, &list);
    if (why) {
        vc_refuse(rdata, PJSIP_SC_UNSUPPORTED_MEDIA_TYPE, why, &list);
        return PJ_FALSE;
    }
    if (rdata->msg_info.msg->body == NULL) {
        return PJ_TRUE; /* it was optional */
    }
    info = pjsip_rdata_get_sdp_info(rdata);
    /* PJSIP's scanner takes NUL for a character like others; RFC 8866 9 forbids it. */
    if (memchr(info->body.ptr, 0, (size_t)info->body.slen) != NULL) {
        vc_refuse(rdata, PJSIP_SC_BAD_REQUEST, "NUL in the SDP", NULL);
        return PJ_FALSE;
    }
    if (info->sdp_err != PJ_SUCCESS || info->sdp == NULL) {
        vc_refuse(rdata, PJSIP_SC_BAD_REQUEST, "SDP does not parse", NULL);
        return PJ_FALSE;
    }
    if (!vc_media_offer_ok(info->sdp, vc_ep->codecs)) {
        vc_refuse(rdata, PJSIP_SC_NOT_ACCEPTABLE_HERE, "no common codec or no usable audio in the offer", NULL);
        return PJ_FALSE;
    }
    if (vc_target_loops(info->sdp, &rdata->pkt_info.src_addr)) {
        vc_refuse(rdata, PJSIP_SC_NOT_ACCEPTABLE_HERE, "the offer names this machine's own loopback", NULL);
        return PJ_FALSE;
    }
    *has_offer = 1;
    return PJ_TRUE;
}

static pjsip_inv_session *session_create(pjsip_rx_data *rdata, unsigned options, const vc_policy *policy)
{
    const vc_listener *listener = vc_listener_of(rdata->tp_info.transport);
    pj_bool_t sips = PJSIP_URI_SCHEME_IS_SIPS(rdata->msg_info.msg->line.req.uri);
    pj_str_t contact;
    pjsip_inv_session *inv = NULL;
    pjsip_dialog *dialog;
    pj_status_t status;
    if (vc_contact(rdata->tp_info.pool, listener, &rdata->pkt_info.src_addr, sips, NULL, &contact) != 0) {
        vc_refuse(rdata, PJSIP_SC_INTERNAL_SERVER_ERROR, "no local address towards the caller", NULL);
        return NULL;
    }
    status = pjsip_dlg_create_uas_and_inc_lock(pjsip_ua_instance(), rdata, &contact, &dialog);
    if (status != PJ_SUCCESS) {
        vc_refuse(rdata, PJSIP_SC_BAD_REQUEST, "no dialog can be made of it (Contact missing or not sip:)", NULL);
        return NULL;
    }
    status = pjsip_inv_create_uas(dialog, rdata, NULL, options, &inv);
    if (status == PJ_SUCCESS) {
        status = vc_policy_timer(inv, policy);
        if (status != PJ_SUCCESS) {
            pjsip_inv_terminate(inv, PJSIP_SC_INTERNAL_SERVER_ERROR, PJ_FALSE);
            inv = NULL;
        }
    } else {
        pjsip_dlg_respond(dialog, rdata, PJSIP_SC_INTERNAL_SERVER_ERROR, NULL, NULL, NULL);
        inv = NULL;
    }
    /* May destroy the dialog when no session holds it. */
    pjsip_dlg_dec_lock(dialog);
    return inv;
}

/* PJSIP's own refusal: 420, 421 or 400 with the headers that belong to it. */
static void refuse_with(pjsip_rx_data *rdata, pjsip_tx_data *tdata)
{
    static const char why[] = "INVITE refused by PJSIP's check (Contact, Require, Supported)";
    vc_event event = {.kind = VC_EV_REJECTED};
    if (tdata == NULL) {
        vc_refuse(rdata, PJSIP_SC_BAD_REQUEST, why, NULL);
        return;
    }
    event.status = (uint32_t)tdata->msg->line.status.code;
    event.text[0] = (vc_str){why, sizeof(why) - 1};
    vc_addr_from(&rdata->pkt_info.src_addr, &event.source);
    pjsip_endpt_send_response2(vc_ep->sip, rdata, tdata, NULL, NULL);
    vc_emit(&event);
}

/* 100 Trying, or 422 when Session-Expires is too small (RFC 4028 9): then the session is over. */
static pj_bool_t send_trying(pjsip_inv_session *inv, pjsip_rx_data *rdata)
{
    vc_event event = {.kind = VC_EV_REJECTED};
    pjsip_tx_data *tdata = NULL;
    pj_status_t status = pjsip_inv_initial_answer(inv, rdata, PJSIP_SC_TRYING, NULL, NULL, &tdata);
    if (status == PJ_SUCCESS) {
        return pjsip_inv_send_msg(inv, tdata) == PJ_SUCCESS;
    }
    if (tdata == NULL) {
        pjsip_dlg_respond(inv->dlg, rdata, PJSIP_SC_INTERNAL_SERVER_ERROR, NULL, NULL, NULL);
        pjsip_inv_terminate(inv, PJSIP_SC_INTERNAL_SERVER_ERROR, PJ_FALSE);
        return PJ_FALSE;
    }
    event.status = (uint32_t)tdata->msg->line.status.code;
    event.text[0] = (vc_str){SMALL_TIMER, sizeof(SMALL_TIMER) - 1};
    vc_addr_from(&rdata->pkt_info.src_addr, &event.source);
    pjsip_inv_send_msg(inv, tdata);
    vc_emit(&event);
    return PJ_FALSE;
}

void vc_incoming(pjsip_rx_data *rdata)
{
    pj_pool_t *pool = rdata->tp_info.pool;
    /* By the listener: a connection that we opened has a port of its own. */
    const vc_listener *listener = vc_listener_of(rdata->tp_info.transport);
    const vc_policy *policy = vc_policy_of(listener ? pj_sockaddr_get_port(&listener->bound) : 0);
    unsigned options = vc_policy_options(policy);
    vc_event event = {.kind = VC_EV_INCOMING};
    pjsip_tx_data *refusal = NULL;
    pjsip_inv_session *inv;
    pjsip_dialog *dialog;
    vc_call *call, *replaced;

    if (pjsip_tsx_detect_merged_requests(rdata)) {
        vc_refuse(rdata, PJSIP_SC_LOOP_DETECTED, "the same request came twice over different paths", NULL);
        return;
    }
    if (vc_ep->closing) {
        vc_refuse(rdata, PJSIP_SC_SERVICE_UNAVAILABLE, "shutting down", NULL);
        return;
    }
    if (!vc_guard_invite(rdata)) {
        return;
    }
    if (vc_policy_refuses(rdata, policy) || !vc_replaced(rdata, policy, &replaced)) {
        return;
    }
    if (replaced == NULL && vc_ep->live_count >= vc_ep->max_calls) {
        refuse_full(rdata);
        return;
    }
    if (!print_uri(pool, PJSIP_URI_IN_FROMTO_HDR, rdata->msg_info.from->uri, &event.text[1]) ||
        !print_uri(pool, PJSIP_URI_IN_FROMTO_HDR, rdata->msg_info.to->uri, &event.text[2]) ||
        !print_uri(pool, PJSIP_URI_IN_REQ_URI, rdata->msg_info.msg->line.req.uri, &event.text[3])) {
        vc_refuse(rdata, PJSIP_SC_BAD_REQUEST, "From, To or Request-URI is no usable URI", NULL);
        return;
    }
    if (!check_offer(rdata, &event.flag)) {
        return;
    }
    if (pjsip_inv_verify_request(rdata, &options, NULL, NULL, vc_ep->sip, &refusal) != PJ_SUCCESS) {
        refuse_with(rdata, refusal);
        return;
    }
    inv = session_create(rdata, options, policy);
    if (inv == NULL) {
        return;
    }
    dialog = inv->dlg;
    pjsip_dlg_inc_lock(dialog);
    /* Before the 100 went out PJSIP's callbacks find no call, and tell nothing. */
    if (send_trying(inv, rdata)) {
        call = vc_call_new(inv, PJ_FALSE, NULL);
        if (call) {
            call->policy = *policy;
            if (replaced) {
                event.kind = VC_EV_TAKEOVER;
                event.other = replaced->id;
            }
            event.id = call->id;
            vc_guard_opened(rdata, call->id);
            event.text[0] = vc_text(&rdata->msg_info.cid->id);
            vc_addr_from(&rdata->pkt_info.src_addr, &event.source);
            event.expires = pj_sockaddr_get_port(&rdata->tp_info.transport->local_addr);
            vc_emit(&event);
        } else {
            pjsip_inv_terminate(inv, PJSIP_SC_INTERNAL_SERVER_ERROR, PJ_FALSE);
        }
    }
    pjsip_dlg_dec_lock(dialog);
}
