/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Requests inside of a dialog that PJSIP takes though it should not. They are seen between transactions and dialogs, so
 * that a request that is sent again gets its transaction's answer.
 */
#include "internal.h"

static const pj_str_t PRACK = {"PRACK", 5};
static const pj_str_t UPDATE = {"UPDATE", 6};

/* A whole token as a number of 32 bits; moves *at behind it. */
static pj_bool_t number_at(const char **at, const char *end, pj_uint32_t *out)
{
    pj_uint64_t value = 0;
    const char *from = *at;
    while (*at < end && pj_isdigit(**at) && *at - from < 10) {
        value = value * 10 + (unsigned)(*(*at)++ - '0');
    }
    *out = (pj_uint32_t)value;
    return *at > from && value <= 0xffffffffu && (*at == end || pj_isspace(**at));
}

static void skip_blanks(const char **at, const char *end)
{
    while (*at < end && pj_isspace(**at)) {
        ++*at;
    }
}

/* RAck: response-num LWS CSeq-num LWS Method (RFC 3262 10). */
static pj_bool_t rack_parse(const pj_str_t *value, pj_uint32_t *rseq, pj_uint32_t *cseq, pj_str_t *method)
{
    const char *at = value->ptr, *end = value->ptr + value->slen;
    skip_blanks(&at, end);
    if (!number_at(&at, end, rseq)) {
        return PJ_FALSE;
    }
    skip_blanks(&at, end);
    if (!number_at(&at, end, cseq)) {
        return PJ_FALSE;
    }
    skip_blanks(&at, end);
    *method = (pj_str_t){(char *)at, end - at};
    pj_strrtrim(method);
    return method->slen > 0;
}

/* Remembers the reliable response that goes out: PJSIP sends the next one when this one has its PRACK. */
void vc_within_sent(const pjsip_tx_data *tdata)
{
    static const pj_str_t RSEQ = {"RSeq", 4};
    const pjsip_msg *msg = tdata->msg;
    const pjsip_generic_string_hdr *rseq;
    const pjsip_cid_hdr *id;
    const pjsip_fromto_hdr *from, *to;
    const pjsip_cseq_hdr *cseq;
    pjsip_dialog *dialog;
    pjsip_inv_session *inv;
    pj_uint32_t number;
    const char *at;
    vc_call *call;
    if (msg->line.status.code <= 100 || msg->line.status.code >= 200 ||
        (rseq = pjsip_msg_find_hdr_by_name(msg, &RSEQ, NULL)) == NULL) {
        return;
    }
    id = PJSIP_MSG_CID_HDR(msg);
    from = PJSIP_MSG_FROM_HDR(msg);
    to = PJSIP_MSG_TO_HDR(msg);
    cseq = PJSIP_MSG_CSEQ_HDR(msg);
    if (id == NULL || from == NULL || to == NULL || cseq == NULL) {
        return;
    }
    dialog = pjsip_ua_find_dialog(&id->id, &to->tag, &from->tag, PJ_FALSE);
    inv = dialog ? pjsip_dlg_get_inv_session(dialog) : NULL;
    call = inv ? vc_call_of(inv) : NULL;
    at = rseq->hvalue.ptr;
    if (call == NULL || !number_at(&at, at + rseq->hvalue.slen, &number) ||
        (number == call->reliable.rseq && (pj_uint32_t)cseq->cseq == call->reliable.cseq)) {
        return; /* not the first time */
    }
    call->reliable.pending = PJ_TRUE;
    call->reliable.rseq = number;
    call->reliable.cseq = (pj_uint32_t)cseq->cseq;
    call->reliable.sdp = msg->body != NULL;
}

/* RFC 3262 3: a PRACK that matches no unacknowledged reliable response gets 481. */
static int prack_status(vc_call *call, const pjsip_msg *msg, const char **why)
{
    static const pj_str_t RACK = {"RAck", 4}, INVITE = {"INVITE", 6};
    const pjsip_generic_string_hdr *rack = pjsip_msg_find_hdr_by_name(msg, &RACK, NULL);
    pj_uint32_t rseq, cseq;
    pj_str_t method;
    if (rack == NULL || !rack_parse(&rack->hvalue, &rseq, &cseq, &method)) {
        *why = "PRACK without a good RAck";
        return PJSIP_SC_BAD_REQUEST;
    }
    if (call == NULL || !call->reliable.pending || rseq != call->reliable.rseq || cseq != call->reliable.cseq ||
        pj_strcmp(&method, &INVITE) != 0) {
        *why = "PRACK acknowledges no reliable response that waits for one";
        return PJSIP_SC_CALL_TSX_DOES_NOT_EXIST;
    }
    call->reliable.pending = PJ_FALSE;
    call->reliable.heard = call->reliable.heard || call->reliable.sdp;
    return 0;
}

static void add_accept(pjsip_rx_data *rdata, pjsip_hdr *list)
{
    const pjsip_hdr *accept = pjsip_endpt_get_capability(vc_ep->sip, PJSIP_H_ACCEPT, NULL);
    if (accept) {
        pj_list_push_back(list, pjsip_hdr_clone(rdata->tp_info.pool, accept));
    }
}

static pj_bool_t is_identity(const pj_str_t *encoding)
{
    pj_str_t value = *encoding;
    pj_strtrim(&value);
    return value.slen == 0 || pj_stricmp2(&value, "identity") == 0;
}

static pj_bool_t is_sdp(const pjsip_msg_body *body)
{
    pjsip_media_type sdp;
    pjsip_media_type_init2(&sdp, "application", "sdp");
    if (pj_stricmp2(&body->content_type.type, "multipart") == 0) {
        return pjsip_multipart_find_part(body, &sdp, NULL) != NULL;
    }
    return pjsip_media_type_cmp(&body->content_type, &sdp, PJ_FALSE) == 0;
}

/* Content-Disposition with handling=optional: what is not understood is passed over (RFC 3261 8.2.3, 20.11). */
static pj_bool_t is_optional(const pjsip_msg *msg)
{
    static const pj_str_t NAME = {"Content-Disposition", 19}, OPTIONAL = {"handling=optional", 17};
    const pjsip_generic_string_hdr *hdr = pjsip_msg_find_hdr_by_name(msg, &NAME, NULL);
    return hdr && pj_stristr(&hdr->hvalue, &OPTIONAL) != NULL;
}

/* Whether a body that should be a description cannot be read (415): why, and in list what we take; else NULL. One that is
 * optional is taken off. */
const char *vc_body_refused(pjsip_rx_data *rdata, pjsip_hdr *list)
{
    static const pj_str_t NAME = {"Content-Encoding", 16}, SHORT = {"e", 1}, ACCEPT = {"Accept-Encoding", 15},
                          IDENTITY = {"identity", 8};
    pjsip_msg *msg = rdata->msg_info.msg;
    const pjsip_generic_string_hdr *encoding = pjsip_msg_find_hdr_by_names(msg, &NAME, &SHORT, NULL);
    pj_bool_t encoded = encoding && !is_identity(&encoding->hvalue);
    if (msg->body == NULL || msg->body->len == 0 || (!encoded && is_sdp(msg->body))) {
        return NULL;
    }
    if (is_optional(msg)) {
        msg->body = NULL;
        return NULL;
    }
    if (encoded) {
        add_accept(rdata, list);
        pj_list_push_back(list, pjsip_generic_string_hdr_create(rdata->tp_info.pool, &ACCEPT, &IDENTITY));
        return "body has a Content-Encoding";
    }
    add_accept(rdata, list);
    return "body is not application/sdp";
}

/* By a transaction, which takes the ACK of a refused INVITE too. */
static pj_bool_t refuse(pjsip_rx_data *rdata, int status, const char *why, pjsip_hdr *list)
{
    vc_event event = {.kind = VC_EV_REJECTED, .status = (uint32_t)status, .text = {{why, strlen(why)}}};
    vc_addr_from(&rdata->pkt_info.src_addr, &event.source);
    pjsip_endpt_respond(vc_ep->sip, NULL, rdata, status, NULL, list, NULL, NULL);
    vc_emit(&event);
    return PJ_TRUE;
}

static pj_bool_t on_rx_request(pjsip_rx_data *rdata)
{
    const pjsip_msg *msg = rdata->msg_info.msg;
    const pjsip_method *method = &msg->line.req.method;
    pj_bool_t prack = pj_strcmp(&method->name, &PRACK) == 0;
    pjsip_dialog *dialog;
    pjsip_inv_session *inv;
    const char *why = NULL;
    pjsip_hdr list;
    int status;
    if (rdata->msg_info.to->tag.slen == 0 || method->id == PJSIP_ACK_METHOD || vc_ep == NULL) {
        return PJ_FALSE;
    }
    dialog = pjsip_ua_find_dialog(&rdata->msg_info.cid->id, &rdata->msg_info.to->tag, &rdata->msg_info.from->tag, PJ_FALSE);
    inv = dialog ? pjsip_dlg_get_inv_session(dialog) : NULL;
    if (inv == NULL) {
        return PJ_FALSE;
    }
    pj_list_init(&list);
    if (method->id == PJSIP_BYE_METHOD && inv->state == PJSIP_INV_STATE_DISCONNECTED) {
        /* The dialog is kept for its transactions only (RFC 3261 15.1.2). */
        return refuse(rdata, PJSIP_SC_CALL_TSX_DOES_NOT_EXIST, "BYE after the end of the call", NULL);
    }
    if (method->id == PJSIP_INVITE_METHOD || prack || pj_strcmp(&method->name, &UPDATE) == 0) {
        why = vc_body_refused(rdata, &list);
        if (why) {
            return refuse(rdata, PJSIP_SC_UNSUPPORTED_MEDIA_TYPE, why, &list);
        }
    }
    if (prack) {
        status = prack_status(vc_call_of(inv), msg, &why);
        return status != 0 && refuse(rdata, status, why, NULL);
    }
    return PJ_FALSE;
}

static pjsip_module within_module = {
    NULL,
    NULL,
    {"vc-within", 9},
    -1,
    PJSIP_MOD_PRIORITY_TSX_LAYER + 8, /* behind transactions, before dialogs */
    NULL,
    NULL,
    NULL,
    NULL,
    &on_rx_request,
    NULL,
    NULL,
    NULL,
    NULL,
};

pj_status_t vc_within_init(pjsip_endpoint *sip)
{
    return pjsip_endpt_register_module(sip, &within_module);
}
