/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The gate: what strangers send is shown to the owner of the endpoint before it is parsed, before transactions and
 * dialogs see it, and before an INVITE becomes a call. Who decides is in Rust; here is only where it is asked.
 */
#include <openssl/evp.h>
#include <string.h>

#include "internal.h"

_Static_assert(sizeof(vc_gate_query) == VC_SIZE_GATE_QUERY, "vc_gate_query differs from src/ffi.rs");
_Static_assert(sizeof(vc_gate_reply) == VC_SIZE_GATE_REPLY, "vc_gate_reply differs from src/ffi.rs");

#define CREDENTIALS 4 /* Authorization headers that are looked at */

/* PJSIP's own, which tells its transactions; we stand before it. */
static pjsip_tp_state_callback next_state_cb;

static vc_gate_query query_of(uint32_t kind, const pjsip_rx_data *rdata)
{
    vc_gate_query query = {.kind = kind};
    const pjsip_transport *tp = rdata->tp_info.transport;
    vc_addr_from(&rdata->pkt_info.src_addr, &query.source);
    query.local_port = pj_sockaddr_get_port(&tp->local_addr);
    query.flags = (tp->flag & PJSIP_TRANSPORT_DATAGRAM) ? 0 : VC_GATE_STREAM;
    return query;
}

static uint32_t ask(const vc_gate_query *query, vc_gate_reply *reply)
{
    reply->verdict = VC_GATE_PASS;
    reply->status = 0;
    reply->retry_after = -1;
    reply->why = (vc_str){NULL, 0};
    reply->challenges_len = 0;
    if (vc_ep && vc_ep->gate && !vc_ep->closing) {
        vc_ep->gate(vc_ep->user, query, reply);
    }
    return reply->verdict;
}

static void answer(pjsip_rx_data *rdata, const vc_gate_reply *reply)
{
    static const pj_str_t name = {"WWW-Authenticate", 16};
    vc_event event = {.kind = VC_EV_REJECTED, .status = reply->status, .text = {reply->why}};
    pj_pool_t *pool = rdata->tp_info.pool;
    const char *line = reply->challenges, *end = reply->challenges + reply->challenges_len;
    pjsip_hdr list;
    pj_list_init(&list);
    if (reply->retry_after >= 0) {
        pj_list_push_back(&list, pjsip_retry_after_hdr_create(pool, (int)reply->retry_after));
    }
    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        pj_str_t value = {(char *)line, (stop ? stop : end) - line};
        pj_list_push_back(&list, pjsip_generic_string_hdr_create(pool, &name, &value));
        line += value.slen + 1;
    }
    pjsip_endpt_respond_stateless(vc_ep->sip, rdata, (int)reply->status, NULL, &list, NULL);
    vc_addr_from(&rdata->pkt_info.src_addr, &event.source);
    vc_emit(&event);
}

/* Whether a request goes on; else it was answered or not, as the gate said. */
static pj_bool_t passes(pjsip_rx_data *rdata, const vc_gate_query *query)
{
    vc_gate_reply reply;
    switch (ask(query, &reply)) {
    case VC_GATE_PASS:
        return PJ_TRUE;
    case VC_GATE_ANSWER:
        answer(rdata, &reply);
        return PJ_FALSE;
    default:
        return PJ_FALSE;
    }
}

static unsigned credentials_of(pjsip_rx_data *rdata, vc_digest *out)
{
    static const pj_str_t digest = {"Digest", 6};
    pjsip_authorization_hdr *header = NULL;
    pjsip_msg *msg = rdata->msg_info.msg;
    unsigned count = 0;
    while (count < CREDENTIALS &&
           (header = pjsip_msg_find_hdr(msg, PJSIP_H_AUTHORIZATION, header ? header->next : NULL))) {
        const pjsip_digest_credential *in = &header->credential.digest;
        if (pj_stricmp(&header->scheme, &digest) == 0) {
            out[count++] = (vc_digest){
                .username = vc_text(&in->username), .realm = vc_text(&in->realm), .nonce = vc_text(&in->nonce),
                .uri = vc_text(&in->uri), .response = vc_text(&in->response), .algorithm = vc_text(&in->algorithm),
                .cnonce = vc_text(&in->cnonce), .qop = vc_text(&in->qop), .nc = vc_text(&in->nc)};
        }
        if ((void *)header->next == (void *)&msg->hdr) {
            break;
        }
    }
    return count;
}

pj_bool_t vc_guard_invite(pjsip_rx_data *rdata)
{
    vc_gate_query query = query_of(VC_GATE_INVITE, rdata);
    vc_digest digests[CREDENTIALS];
    query.digest_count = (uint16_t)credentials_of(rdata, digests);
    query.digests = digests;
    return passes(rdata, &query);
}

/* Called for what is malformed or about to be refused. */
pj_bool_t vc_guard_may_answer(pjsip_rx_data *rdata)
{
    vc_gate_query query = query_of(VC_GATE_MISBEHAVED, rdata);
    vc_gate_reply reply;
    return ask(&query, &reply) == VC_GATE_PASS;
}

void vc_guard_opened(pjsip_rx_data *rdata, uint64_t call)
{
    vc_gate_query query = query_of(VC_GATE_OPENED, rdata);
    vc_gate_reply reply;
    query.id = call;
    ask(&query, &reply);
}

/* What follows a message in its datagram is to be thrown away (RFC 3261 18.3); PJSIP would take it for another one. */
static pj_bool_t is_surplus(const pjsip_tp_rx_data *data)
{
    const char *at = data->rdata->pkt_info.packet;
    if ((data->tp->flag & PJSIP_TRANSPORT_DATAGRAM) == 0) {
        return PJ_FALSE;
    }
    while (at < (const char *)data->data && (*at == '\r' || *at == '\n')) {
        at++;
    }
    return at < (const char *)data->data;
}

static pj_status_t on_data(pjsip_tp_rx_data *data)
{
    vc_gate_query query = query_of(VC_GATE_PACKET, data->rdata);
    vc_gate_reply reply;
    query.text = (vc_str){data->data, data->len};
    if (is_surplus(data)) {
        data->len = 0;
    } else if (ask(&query, &reply) != VC_GATE_PASS) {
        data->len = 0;
        if (query.flags & VC_GATE_STREAM) {
            pjsip_transport_shutdown(data->tp);
        }
    }
    return PJ_SUCCESS;
}

static void on_state(pjsip_transport *tp, pjsip_transport_state state, const pjsip_transport_state_info *info)
{
    if (tp->dir == PJSIP_TP_DIR_INCOMING && (tp->flag & PJSIP_TRANSPORT_DATAGRAM) == 0 &&
        (state == PJSIP_TP_STATE_CONNECTED || state == PJSIP_TP_STATE_DESTROY)) {
        vc_gate_query query = {.kind = VC_GATE_CONNECTION, .flags = VC_GATE_STREAM, .id = (uint64_t)(uintptr_t)tp};
        vc_gate_reply reply;
        vc_addr_from(&tp->key.rem_addr, &query.source);
        query.local_port = pj_sockaddr_get_port(&tp->local_addr);
        if (state == PJSIP_TP_STATE_DESTROY) {
            query.flags |= VC_GATE_CLOSED;
        }
        if (ask(&query, &reply) != VC_GATE_PASS && state == PJSIP_TP_STATE_CONNECTED) {
            pjsip_transport_shutdown(tp);
        }
    }
    if (next_state_cb) {
        next_state_cb(tp, state, info);
    }
}

/* Before anybody reads the description of a message. */
static void slim_body(pjsip_rx_data *rdata)
{
    pjsip_msg_body *body = rdata->msg_info.msg->body;
    pjsip_media_type sdp;
    if (body == NULL || vc_ep == NULL) {
        return;
    }
    pjsip_media_type_init2(&sdp, "application", "sdp");
    if (pj_stricmp2(&body->content_type.type, "multipart") == 0) {
        pjsip_multipart_part *part = pjsip_multipart_find_part(body, &sdp, NULL);
        body = part ? part->body : NULL;
    } else if (pjsip_media_type_cmp(&body->content_type, &sdp, PJ_FALSE) != 0) {
        body = NULL;
    }
    if (body && body->data) {
        body->len = (unsigned)vc_ep->slim(body->data, body->len);
    }
}

static pj_bool_t on_rx_request(pjsip_rx_data *rdata)
{
    const pjsip_method *method = &rdata->msg_info.msg->line.req.method;
    vc_gate_query query = query_of(VC_GATE_REQUEST, rdata);
    query.text = vc_text(&method->name);
    if (rdata->msg_info.to->tag.slen > 0) {
        query.flags |= VC_GATE_TO_TAG;
        if (pjsip_ua_find_dialog(&rdata->msg_info.cid->id, &rdata->msg_info.to->tag, &rdata->msg_info.from->tag,
                                 PJ_FALSE)) {
            query.flags |= VC_GATE_IN_DIALOG;
        }
    }
    if (!passes(rdata, &query) || !vc_strict(rdata)) {
        return PJ_TRUE;
    }
    slim_body(rdata);
    return PJ_FALSE;
}

static pj_bool_t on_rx_response(pjsip_rx_data *rdata)
{
    vc_bounds_response(rdata);
    slim_body(rdata);
    return PJ_FALSE;
}

static pj_status_t on_tx_request(pjsip_tx_data *tdata)
{
    /* OPTIONS: the trunks that we watch are ours as well. */
    if ((tdata->msg->line.req.method.id == PJSIP_REGISTER_METHOD ||
         tdata->msg->line.req.method.id == PJSIP_OPTIONS_METHOD) &&
        tdata->tp_info.transport) {
        vc_gate_query query = {.kind = VC_GATE_REGISTERING};
        vc_gate_reply reply;
        vc_addr_from(&tdata->tp_info.dst_addr, &query.source);
        query.local_port = pj_sockaddr_get_port(&tdata->tp_info.transport->local_addr);
        ask(&query, &reply);
    }
    return PJ_SUCCESS;
}

static pjsip_module guard_module = {
    NULL,
    NULL,
    {"vc-guard", 8},
    -1,
    PJSIP_MOD_PRIORITY_TRANSPORT_LAYER + 2, /* before transactions and dialogs */
    NULL,
    NULL,
    NULL,
    NULL,
    &on_rx_request,
    &on_rx_response,
    &on_tx_request,
    NULL,
    NULL,
};

pj_status_t vc_guard_init(pjsip_endpoint *sip)
{
    pjsip_tpmgr *manager = pjsip_endpt_get_tpmgr(sip);
    pj_status_t status = pjsip_endpt_register_module(sip, &guard_module);
    if (status == PJ_SUCCESS) {
        status = pjsip_tpmgr_set_recv_data_cb(manager, &on_data);
    }
    if (status == PJ_SUCCESS) {
        next_state_cb = pjsip_tpmgr_get_state_cb(manager);
        status = pjsip_tpmgr_set_state_cb(manager, &on_state);
    }
    return status;
}

void vc_set_gate(vc_endpoint *ep, vc_gate_fn gate)
{
    ep->gate = gate;
}

void vc_set_refusal(vc_endpoint *ep, vc_refusal_fn refusal)
{
    ep->refusal = refusal;
}

size_t vc_hash(int sha256, const uint8_t *data, size_t len, uint8_t out[32])
{
    unsigned size = 0;
    return EVP_Digest(data, len, out, &size, sha256 ? EVP_sha256() : EVP_md5(), NULL) == 1 ? size : 0;
}
