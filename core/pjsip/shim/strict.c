/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What PJSIP's parser lets pass and RFC 3261 does not (RFC 4475 sections 3.1.2, 3.3); and the answer to what it did not.
 */
#include "internal.h"

#define ANSWER_MAX 4096

/* Header fields of which there is one (RFC 3261 7.3.1). */
static pj_bool_t has_twice(const pjsip_msg *msg)
{
    static const pjsip_hdr_e single[] = {PJSIP_H_FROM,         PJSIP_H_TO,           PJSIP_H_CALL_ID,     PJSIP_H_CSEQ,
                                         PJSIP_H_MAX_FORWARDS, PJSIP_H_CONTENT_LENGTH, PJSIP_H_CONTENT_TYPE};
    unsigned seen[PJ_ARRAY_SIZE(single)] = {0};
    for (const pjsip_hdr *hdr = msg->hdr.next; hdr != &msg->hdr; hdr = hdr->next) {
        for (unsigned i = 0; i < PJ_ARRAY_SIZE(single); i++) {
            if (hdr->type == single[i] && ++seen[i] > 1) {
                return PJ_TRUE;
            }
        }
    }
    return PJ_FALSE;
}

/* A datagram ends before its body does. Of a body in parts PJSIP keeps the parts only. */
static pj_bool_t is_cut(const pjsip_rx_data *rdata)
{
    const pjsip_msg *msg = rdata->msg_info.msg;
    const pjsip_clen_hdr *length = rdata->msg_info.clen;
    if (length == NULL || (rdata->tp_info.transport->flag & PJSIP_TRANSPORT_DATAGRAM) == 0 ||
        (msg->body && pj_stricmp2(&msg->body->content_type.type, "multipart") == 0)) {
        return PJ_FALSE;
    }
    return length->len > (msg->body ? (int)msg->body->len : 0);
}

static pj_bool_t takes_sdp(const pj_str_t *value)
{
    static const char *const good[] = {"application/sdp", "application/*", "*/*"};
    for (unsigned i = 0; i < PJ_ARRAY_SIZE(good); i++) {
        if (pj_strnicmp2(value, good[i], strlen(good[i])) == 0) {
            return PJ_TRUE;
        }
    }
    return PJ_FALSE;
}

/* Without Accept it is application/sdp (RFC 3261 20.1). */
static pj_bool_t accepts_sdp(const pjsip_msg *msg)
{
    const pjsip_accept_hdr *accept = NULL;
    pj_bool_t any = PJ_FALSE;
    while ((accept = pjsip_msg_find_hdr(msg, PJSIP_H_ACCEPT, accept ? accept->next : NULL))) {
        any = PJ_TRUE;
        for (unsigned i = 0; i < accept->count; i++) {
            if (takes_sdp(&accept->values[i])) {
                return PJ_TRUE;
            }
        }
        if ((const void *)accept->next == (const void *)&msg->hdr) {
            break;
        }
    }
    return !any;
}

/* Whether the request may go on; it is answered otherwise, unless it is an ACK. */
pj_bool_t vc_strict(pjsip_rx_data *rdata)
{
    const pjsip_msg *msg = rdata->msg_info.msg;
    const pjsip_method *method = &msg->line.req.method;
    int status = PJSIP_SC_BAD_REQUEST;
    const char *why = NULL;
    if (pjsip_method_cmp(&rdata->msg_info.cseq->method, method) != 0) {
        why = "CSeq names another method";
    } else if (has_twice(msg)) {
        why = "a header field that there is one of came twice";
    } else if (is_cut(rdata)) {
        why = "Content-Length is more than there is";
    } else if (method->id == PJSIP_INVITE_METHOD && rdata->msg_info.to->tag.slen == 0 && !accepts_sdp(msg)) {
        status = PJSIP_SC_NOT_ACCEPTABLE;
        why = "Accept does not take application/sdp";
    } else if (method->id != PJSIP_ACK_METHOD) {
        why = vc_bounds_request(rdata);
    }
    if (why == NULL) {
        return PJ_TRUE;
    }
    if (method->id != PJSIP_ACK_METHOD) {
        vc_refuse(rdata, status, why, NULL);
    }
    return PJ_FALSE;
}

/* Answers a request that did not parse, from what Rust can read of it. */
void vc_strict_answer(pjsip_tp_dropped_data *data)
{
    pjsip_rx_data *rdata = data->rdata;
    pjsip_transport *tp = data->tp;
    pj_bool_t stream = (tp->flag & PJSIP_TRANSPORT_DATAGRAM) == 0;
    pjsip_tpselector selector = {.type = PJSIP_TPSELECTOR_TRANSPORT, .u.transport = tp};
    uint8_t text[ANSWER_MAX];
    vc_addr source, to;
    pj_sockaddr address;
    size_t len;
    if (vc_ep->refusal == NULL || (data->status != PJSIP_EINVALIDMSG && data->status != PJSIP_EMISSINGHDR)) {
        return;
    }
    vc_addr_from(&rdata->pkt_info.src_addr, &source);
    len = vc_ep->refusal(vc_ep->user, (vc_str){data->data, data->len}, &source, stream ? 1 : 0, text, sizeof(text), &to);
    if (len > 0 && vc_addr_to(&to, &address) == PJ_SUCCESS) {
        pjsip_tpmgr_send_raw(pjsip_endpt_get_tpmgr(vc_ep->sip), tp->key.type, &selector, NULL, text, len, &address,
                             (int)pj_sockaddr_get_len(&address), NULL, NULL);
    }
}
