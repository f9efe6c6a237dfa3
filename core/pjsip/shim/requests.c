/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Requests outside of dialogs, what every message gets on its way out, and what was no message at all.
 */
#include <string.h>

#include "internal.h"

#define UDP_SAFE_SIZE 1300 /* RFC 3261 18.1.1 */

void vc_refuse(pjsip_rx_data *rdata, int status, const char *why, pjsip_hdr *headers)
{
    vc_event event = {.kind = VC_EV_REJECTED, .status = (uint32_t)status};
    event.text[0] = (vc_str){why, strlen(why)};
    vc_addr_from(&rdata->pkt_info.src_addr, &event.source);
    if (!vc_guard_may_answer(rdata)) {
        return; /* counted by the gate */
    }
    pjsip_endpt_respond_stateless(vc_ep->sip, rdata, status, NULL, headers, NULL);
    vc_emit(&event);
}

static void add_capability(pj_pool_t *pool, pjsip_hdr *list, int type)
{
    const pjsip_hdr *have = pjsip_endpt_get_capability(vc_ep->sip, type, NULL);
    if (have) {
        pj_list_push_back(list, pjsip_hdr_clone(pool, have));
    }
}

/* RFC 3261 8.2.2.3: 420 with what we do not know. */
static pj_bool_t requires_unknown(pjsip_rx_data *rdata)
{
    pj_pool_t *pool = rdata->tp_info.pool;
    pjsip_require_hdr *require = NULL;
    pjsip_unsupported_hdr *unsupported = pjsip_unsupported_hdr_create(pool);
    pjsip_hdr list;
    while ((require = pjsip_msg_find_hdr(rdata->msg_info.msg, PJSIP_H_REQUIRE, require ? require->next : NULL))) {
        for (unsigned i = 0; i < require->count; i++) {
            if (!pjsip_endpt_has_capability(vc_ep->sip, PJSIP_H_SUPPORTED, NULL, &require->values[i]) &&
                unsupported->count < PJSIP_GENERIC_ARRAY_MAX_COUNT) {
                unsupported->values[unsupported->count++] = require->values[i];
            }
        }
        if ((void *)require->next == (void *)&rdata->msg_info.msg->hdr) {
            break;
        }
    }
    if (unsupported->count == 0) {
        return PJ_FALSE;
    }
    pj_list_init(&list);
    pj_list_push_back(&list, unsupported);
    add_capability(pool, &list, PJSIP_H_SUPPORTED);
    vc_refuse(rdata, PJSIP_SC_BAD_EXTENSION, "Require names an extension that is not supported", &list);
    return PJ_TRUE;
}

static void answer_options(pjsip_rx_data *rdata)
{
    pj_pool_t *pool = rdata->tp_info.pool;
    pjsip_hdr list;
    pj_list_init(&list);
    add_capability(pool, &list, PJSIP_H_ALLOW);
    add_capability(pool, &list, PJSIP_H_ACCEPT);
    add_capability(pool, &list, PJSIP_H_SUPPORTED);
    pjsip_endpt_respond_stateless(vc_ep->sip, rdata, PJSIP_SC_OK, NULL, &list, NULL);
}

static void refuse_method(pjsip_rx_data *rdata, int status, const char *why)
{
    pjsip_hdr list;
    pj_list_init(&list);
    add_capability(rdata->tp_info.pool, &list, PJSIP_H_ALLOW);
    vc_refuse(rdata, status, why, &list);
}

/* Methods that exist but are not served here; all others are unknown (501). */
static pj_bool_t is_known_method(const pjsip_method *method)
{
    static const char *const known[] = {"REGISTER", "MESSAGE", "REFER", "NOTIFY", "SUBSCRIBE", "PUBLISH"};
    for (unsigned i = 0; i < PJ_ARRAY_SIZE(known); i++) {
        if (pj_strcmp2(&method->name, known[i]) == 0) {
            return PJ_TRUE;
        }
    }
    return PJ_FALSE;
}

static pj_bool_t needs_dialog(const pjsip_method *method)
{
    return method->id == PJSIP_BYE_METHOD || method->id == PJSIP_CANCEL_METHOD ||
           pj_strcmp2(&method->name, "UPDATE") == 0 || pj_strcmp2(&method->name, "PRACK") == 0 ||
           pj_strcmp2(&method->name, "INFO") == 0;
}

static pj_bool_t on_rx_request(pjsip_rx_data *rdata)
{
    const pjsip_method *method = &rdata->msg_info.msg->line.req.method;
    pjsip_uri *target = rdata->msg_info.msg->line.req.uri;
    if (method->id == PJSIP_ACK_METHOD) {
        return PJ_TRUE; /* nothing is ever sent back to an ACK */
    }
    if (needs_dialog(method)) {
        vc_refuse(rdata, PJSIP_SC_CALL_TSX_DOES_NOT_EXIST, "no such dialog or transaction", NULL);
        return PJ_TRUE;
    }
    /* sips: promises TLS all the way. */
    if (target == NULL ||
        !(PJSIP_URI_SCHEME_IS_SIP(target) ||
          (PJSIP_URI_SCHEME_IS_SIPS(target) && vc_kind_of(rdata->tp_info.transport->key.type) == VC_TLS))) {
        vc_refuse(rdata, PJSIP_SC_UNSUPPORTED_URI_SCHEME, "Request-URI is not sip:", NULL);
        return PJ_TRUE;
    }
    if (requires_unknown(rdata)) {
        return PJ_TRUE;
    }
    if (method->id == PJSIP_INVITE_METHOD) {
        vc_incoming(rdata);
    } else if (method->id == PJSIP_OPTIONS_METHOD) {
        answer_options(rdata);
    } else if (is_known_method(method)) {
        refuse_method(rdata, PJSIP_SC_METHOD_NOT_ALLOWED, "method not allowed");
    } else {
        refuse_method(rdata, PJSIP_SC_NOT_IMPLEMENTED, "method not known");
    }
    return PJ_TRUE;
}

static pj_status_t add_agent(pjsip_tx_data *tdata, const char *name)
{
    pj_str_t header = pj_str((char *)name);
    if (vc_ep && vc_ep->user_agent.slen && pjsip_msg_find_hdr_by_name(tdata->msg, &header, NULL) == NULL) {
        pjsip_generic_string_hdr *agent =
            pjsip_generic_string_hdr_create(tdata->pool, &header, &vc_ep->user_agent);
        if (agent) {
            pjsip_msg_add_hdr(tdata->msg, (pjsip_hdr *)agent);
        }
    }
    return PJ_SUCCESS;
}

static pj_status_t on_tx_request(pjsip_tx_data *tdata)
{
    return add_agent(tdata, "User-Agent");
}

static pj_status_t on_tx_response(pjsip_tx_data *tdata)
{
    if (vc_ep) {
        vc_within_sent(tdata);
    }
    return add_agent(tdata, "Server");
}

pjsip_module vc_module = {
    NULL,
    NULL,
    {"vc-app", 6},
    -1,
    PJSIP_MOD_PRIORITY_APPLICATION,
    NULL,
    NULL,
    NULL,
    NULL,
    &on_rx_request,
    NULL,
    &on_tx_request,
    &on_tx_response,
    NULL,
};

/* Sees the printed message. */
static pj_status_t check_size(pjsip_tx_data *tdata)
{
    long size = tdata->buf.cur - tdata->buf.start;
    if (size > UDP_SAFE_SIZE && tdata->tp_info.transport &&
        (tdata->tp_info.transport->flag & PJSIP_TRANSPORT_DATAGRAM)) {
        char text[160];
        pj_ansi_snprintf(text, sizeof(text),
                         "a SIP message of %ld bytes leaves over UDP and may be fragmented; use TCP for this peer", size);
        vc_log(2, text);
    }
    return PJ_SUCCESS;
}

static pjsip_module size_module = {
    NULL,
    NULL,
    {"vc-size", 7},
    -1,
    PJSIP_MOD_PRIORITY_TRANSPORT_LAYER - 1,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    &check_size,
    &check_size,
    NULL,
};

void vc_on_dropped(pjsip_tp_dropped_data *data)
{
    vc_event event = {.kind = VC_EV_MALFORMED, .status = (uint32_t)data->status};
    char text[PJ_ERR_MSG_SIZE];
    if (data->status == PJ_EIGNORED) {
        return; /* keep-alive */
    }
    event.text[0] = (vc_str){text, vc_error_text(data->status, text, sizeof(text))};
    if (data->rdata) {
        if (vc_guard_may_answer(data->rdata)) {
            vc_strict_answer(data);
        }
        vc_addr_from(&data->rdata->pkt_info.src_addr, &event.source);
    } else if (data->tp && pj_sockaddr_has_addr(&data->tp->key.rem_addr)) {
        vc_addr_from(&data->tp->key.rem_addr, &event.source);
    }
    vc_emit(&event);
}

pj_status_t vc_requests_init(pjsip_endpoint *sip)
{
    pj_str_t options[] = {pj_str("OPTIONS"), pj_str("INFO")}, sdp = pj_str("application/sdp");
    pj_str_t keys[] = {pj_str("application/dtmf-relay"), pj_str("application/dtmf")};
    pj_status_t status = pjsip_endpt_register_module(sip, &vc_module);
    if (status == PJ_SUCCESS) status = pjsip_endpt_register_module(sip, &size_module);
    if (status == PJ_SUCCESS) {
        status = pjsip_endpt_add_capability(sip, &vc_module, PJSIP_H_ALLOW, NULL, PJ_ARRAY_SIZE(options), options);
    }
    if (status == PJ_SUCCESS) {
        status = pjsip_endpt_add_capability(sip, &vc_module, PJSIP_H_ACCEPT, NULL, PJ_ARRAY_SIZE(keys), keys);
    }
    if (status == PJ_SUCCESS && !pjsip_endpt_has_capability(sip, PJSIP_H_ACCEPT, NULL, &sdp)) {
        status = pjsip_endpt_add_capability(sip, &vc_module, PJSIP_H_ACCEPT, NULL, 1, &sdp);
    }
    return status;
}
