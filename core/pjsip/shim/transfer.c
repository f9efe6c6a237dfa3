/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * REFER (RFC 3515), ours and the peer's, with PJSIP's subscriptions behind it. A transfer lasts until its last NOTIFY,
 * which may be after its call.
 */
#include "internal.h"

/* For what is left of a transfer whose call has ended. The peer's: as long as its subscription lasts unrefreshed. */
#define AFTER_CALL_S 32 /* 64*T1 */
#define PEER_AFTER_CALL_S 600

static const pj_str_t REFER_TO = {"Refer-To", 8}, REFER_TO_SHORT = {"r", 1}, REPLACES = {"Replaces", 8};

static vc_transfer *transfer_find(uint64_t call, pj_bool_t ours)
{
    vc_transfer *transfer = vc_ep->transfers;
    while (transfer && (transfer->call != call || transfer->ours != ours)) {
        transfer = transfer->next;
    }
    return transfer;
}

static vc_transfer *transfer_of(pjsip_evsub *sub)
{
    return vc_ep && vc_module.id >= 0 ? pjsip_evsub_get_mod_data(sub, (unsigned)vc_module.id) : NULL;
}

static void transfer_forget(vc_transfer *transfer)
{
    vc_transfer **at = &vc_ep->transfers;
    while (*at && *at != transfer) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = transfer->next;
    }
    if (transfer->limit.id != 0) {
        pjsip_endpt_cancel_timer(vc_ep->sip, &transfer->limit);
        transfer->limit.id = 0;
    }
    pjsip_evsub_set_mod_data(transfer->sub, (unsigned)vc_module.id, NULL);
}

static void tell_progress(vc_transfer *transfer, unsigned status, pj_bool_t last)
{
    vc_event event = {.kind = VC_EV_REFERRED, .id = transfer->call, .status = status, .flag = last ? 1 : 0};
    if (!transfer->done) {
        transfer->done = last;
        vc_emit(&event);
    }
}

static void on_sub_state(pjsip_evsub *sub, pjsip_event *e)
{
    vc_transfer *transfer = transfer_of(sub);
    PJ_UNUSED_ARG(e);
    if (transfer == NULL || pjsip_evsub_get_state(sub) != PJSIP_EVSUB_STATE_TERMINATED) {
        return;
    }
    if (transfer->ours) {
        /* Accepted, and then nothing final: what became of it is not known. */
        tell_progress(transfer, transfer->status < 200 ? PJSIP_SC_ACCEPTED : transfer->status, PJ_TRUE);
    }
    transfer_forget(transfer);
}

static void on_limit(pj_timer_heap_t *heap, pj_timer_entry *entry)
{
    vc_transfer *transfer = entry->user_data;
    PJ_UNUSED_ARG(heap);
    entry->id = 0;
    pjsip_evsub_terminate(transfer->sub, PJ_TRUE);
}

/* Nothing more is expected of it: it goes by itself if the peer does not end it. */
static void limit_start(vc_transfer *transfer)
{
    pj_time_val limit = {transfer->ours ? AFTER_CALL_S : PEER_AFTER_CALL_S, 0};
    if (transfer->limit.id == 0) {
        pj_timer_entry_init(&transfer->limit, 1, transfer, &on_limit);
        pjsip_endpt_schedule_timer(vc_ep->sip, &transfer->limit, &limit);
    }
}

/* Whether the peer's 2xx says that no NOTIFY will come (RFC 4488). */
static pj_bool_t tells_nothing(const pjsip_event *e)
{
    const pj_str_t name = {"Refer-Sub", 9}, no = {"false", 5};
    const pjsip_generic_string_hdr *hdr =
        e->body.tsx_state.type == PJSIP_EVENT_RX_MSG
            ? pjsip_msg_find_hdr_by_name(e->body.tsx_state.src.rdata->msg_info.msg, &name, NULL)
            : NULL;
    return hdr && pj_strnicmp(&hdr->hvalue, &no, 5) == 0;
}

/* The answer to our REFER. PJSIP sends it again with credentials by itself. */
static void on_sub_tsx(pjsip_evsub *sub, pjsip_transaction *tsx, pjsip_event *e)
{
    vc_transfer *transfer = transfer_of(sub);
    if (transfer == NULL || !transfer->ours || tsx->role != PJSIP_ROLE_UAC || tsx->status_code < 200 ||
        tsx->state != PJSIP_TSX_STATE_COMPLETED || pj_strcmp(&tsx->method.name, &pjsip_get_refer_method()->name) != 0) {
        return;
    }
    if (tsx->status_code / 100 == 2) {
        if (transfer->status == 0 || transfer->status >= 300) { /* 401 or 407 went before */
            transfer->status = 100;
            tell_progress(transfer, (unsigned)tsx->status_code, PJ_FALSE);
            if (tells_nothing(e)) {
                tell_progress(transfer, PJSIP_SC_ACCEPTED, PJ_TRUE);
                limit_start(transfer);
            }
        }
    } else {
        transfer->status = (unsigned)tsx->status_code; /* told when the subscription ends */
    }
}

/* Status of a message/sipfrag; 0 when it has none. */
static unsigned sipfrag_status(const pjsip_msg_body *body)
{
    static const char version[] = "SIP/2.0 ";
    const char *text = body ? body->data : NULL;
    unsigned status = 0;
    if (text == NULL || body->len < sizeof(version) + 2 || pj_memcmp(text, version, sizeof(version) - 1) != 0) {
        return 0;
    }
    for (unsigned i = 0; i < 3; i++) {
        char digit = text[sizeof(version) - 1 + i];
        if (digit < '0' || digit > '9') {
            return 0;
        }
        status = status * 10 + (unsigned)(digit - '0');
    }
    return status >= 100 && status <= 699 ? status : 0;
}

static void on_notify(pjsip_evsub *sub, pjsip_rx_data *rdata, int *status_code, pj_str_t **status_text, pjsip_hdr *headers,
                      pjsip_msg_body **body)
{
    vc_transfer *transfer = transfer_of(sub);
    unsigned status = sipfrag_status(rdata->msg_info.msg->body);
    PJ_UNUSED_ARG(status_text);
    PJ_UNUSED_ARG(headers);
    PJ_UNUSED_ARG(body);
    *status_code = PJSIP_SC_OK;
    if (transfer && transfer->ours && status != 0) {
        transfer->status = status;
        if (status < 200) {
            tell_progress(transfer, status, PJ_FALSE);
        }
    }
}

/* The subscription of a REFER is not kept up beyond its time. */
static void on_client_refresh(pjsip_evsub *sub)
{
    pjsip_evsub_terminate(sub, PJ_TRUE);
}

static const pjsip_evsub_user callbacks = {
    &on_sub_state, &on_sub_tsx, NULL, &on_notify, &on_client_refresh, NULL,
};

static vc_transfer *transfer_new(const vc_call *call, pjsip_evsub *sub, pj_bool_t ours)
{
    vc_transfer *transfer = PJ_POOL_ZALLOC_T(call->inv->dlg->pool, vc_transfer);
    transfer->call = call->id;
    transfer->sub = sub;
    transfer->ours = ours;
    transfer->next = vc_ep->transfers;
    vc_ep->transfers = transfer;
    pjsip_evsub_set_mod_data(sub, (unsigned)vc_module.id, transfer);
    return transfer;
}

static int refer(vc_call *call, const pj_str_t *target)
{
    pjsip_dialog *dialog = call->inv->dlg;
    vc_transfer *before;
    pjsip_evsub *sub;
    pjsip_tx_data *tdata;
    pj_status_t status;
    if (call->inv->state != PJSIP_INV_STATE_CONFIRMED) {
        return VC_ESTATE;
    }
    before = transfer_find(call->id, PJ_TRUE);
    if (before && before->status == 0) {
        return VC_EBUSY;
    }
    pjsip_dlg_inc_lock(dialog);
    if (before) {
        /* Accepted, and the application waits no longer for how it ends. */
        before->done = PJ_TRUE;
        pjsip_evsub_terminate(before->sub, PJ_TRUE);
    }
    status = pjsip_xfer_create_uac(dialog, &callbacks, &sub);
    if (status == PJ_SUCCESS) {
        vc_transfer *transfer = transfer_new(call, sub, PJ_TRUE);
        status = pjsip_xfer_initiate(sub, target, &tdata);
        if (status == PJ_SUCCESS) {
            const pj_str_t name = {"Referred-By", 11}; /* RFC 3892 */
            char text[VC_URI_MAX];
            int len = pjsip_uri_print(PJSIP_URI_IN_FROMTO_HDR, pjsip_uri_get_uri(dialog->local.info->uri), text + 1,
                                      sizeof(text) - 2);
            if (len > 0) {
                pj_str_t value = {text, len + 2};
                text[0] = '<';
                text[len + 1] = '>';
                pjsip_msg_add_hdr(tdata->msg,
                                  (pjsip_hdr *)pjsip_generic_string_hdr_create(tdata->pool, &name, &value));
            }
            transfer->done = PJ_TRUE; /* the caller gets the error, hence no event */
            status = pjsip_xfer_send_request(sub, tdata);
            transfer->done = PJ_FALSE;
        }
        if (status != PJ_SUCCESS) {
            transfer->done = PJ_TRUE;
            pjsip_evsub_terminate(sub, PJ_TRUE);
        }
    }
    pjsip_dlg_dec_lock(dialog);
    return status;
}

int vc_refer(vc_endpoint *ep, uint64_t id, vc_str target)
{
    vc_call *call = vc_find(ep, id);
    pj_str_t uri;
    if (call == NULL) {
        return VC_ENOCALL;
    }
    uri = vc_name_addr(call->inv->dlg->pool, target);
    return refer(call, &uri);
}

/* Escapes what may not stand in a header of a URI (RFC 3261 25.1, hvalue). */
static char *escape(char *out, const char *end, const pj_str_t *text)
{
    static const char plain[] = "-_.!~*'()[]/?:+$";
    for (pj_ssize_t i = 0; i < text->slen && out + 4 < end; i++) {
        unsigned char c = (unsigned char)text->ptr[i];
        if (pj_isalnum(c) || (c && strchr(plain, c))) {
            *out++ = (char)c;
        } else {
            out += pj_ansi_snprintf(out, 4, "%%%02X", c);
        }
    }
    return out;
}

/* <target of other?Replaces=the dialog of other>: call's peer takes our place there (RFC 5589 7). */
int vc_refer_to(vc_endpoint *ep, uint64_t id, uint64_t other_id)
{
    vc_call *call = vc_find(ep, id), *other = vc_find(ep, other_id);
    const pj_str_t to_tag = {";to-tag=", 8}, from_tag = {";from-tag=", 10};
    const pjsip_dialog *dialog;
    char text[VC_URI_MAX * 2], *at = text;
    const char *end = text + sizeof(text) - 2;
    pj_str_t uri;
    int len;
    if (call == NULL || other == NULL) {
        return VC_ENOCALL;
    }
    if (call == other || other->inv->state != PJSIP_INV_STATE_CONFIRMED) {
        return VC_ESTATE;
    }
    dialog = other->inv->dlg;
    *at++ = '<';
    len = pjsip_uri_print(PJSIP_URI_IN_REQ_URI, pjsip_uri_get_uri(dialog->target), at, VC_URI_MAX);
    if (len <= 0) {
        return VC_EURI;
    }
    at += len;
    at += pj_ansi_snprintf(at, 16, "?Replaces=");
    at = escape(at, end, &dialog->call_id->id);
    at = escape(at, end, &to_tag);
    at = escape(at, end, &dialog->remote.info->tag);
    at = escape(at, end, &from_tag);
    at = escape(at, end, &dialog->local.info->tag);
    if (at + 4 >= end) {
        return VC_EURI;
    }
    *at++ = '>';
    uri = (pj_str_t){text, at - text};
    return refer(call, &uri);
}

pj_bool_t vc_has_subscription(const pjsip_dialog *dialog)
{
    return pjsip_dlg_has_usage((pjsip_dialog *)dialog, pjsip_evsub_instance());
}

static void answer_refer(pjsip_inv_session *inv, pjsip_transaction *tsx, pjsip_rx_data *rdata, int status)
{
    pjsip_tx_data *tdata;
    if (pjsip_dlg_create_response(inv->dlg, rdata, status, NULL, &tdata) == PJ_SUCCESS) {
        pjsip_dlg_send_response(inv->dlg, tsx, tdata);
    }
}

/* Reads Refer-To. Returns 0, or the status to refuse with. */
static int read_target(pjsip_rx_data *rdata, vc_event *event)
{
    pj_pool_t *pool = rdata->tp_info.pool;
    pjsip_msg *msg = rdata->msg_info.msg;
    pjsip_generic_string_hdr *header = pjsip_msg_find_hdr_by_names(msg, &REFER_TO, &REFER_TO_SHORT, NULL);
    pj_str_t text;
    pjsip_uri *parsed;
    pjsip_sip_uri *uri;
    pjsip_param *replaces;
    char *buf;
    int len;
    if (header == NULL || pjsip_msg_find_hdr_by_names(msg, &REFER_TO, &REFER_TO_SHORT, header->next)) {
        return PJSIP_SC_BAD_REQUEST;
    }
    pj_strdup_with_null(pool, &text, &header->hvalue);
    parsed = pjsip_parse_uri(pool, text.ptr, (pj_size_t)text.slen, PJSIP_PARSE_URI_AS_NAMEADDR);
    if (parsed == NULL) {
        return PJSIP_SC_BAD_REQUEST;
    }
    if (!PJSIP_URI_SCHEME_IS_SIP(parsed)) {
        return PJSIP_SC_UNSUPPORTED_URI_SCHEME;
    }
    uri = pjsip_uri_clone(pool, pjsip_uri_get_uri(parsed));
    if (uri->method_param.slen && pj_stricmp2(&uri->method_param, "INVITE") != 0) {
        return PJSIP_SC_DECLINE;
    }
    replaces = pjsip_param_find(&uri->header_param, &REPLACES);
    if (replaces) {
        event->text[1] = vc_text(&replaces->value);
    }
    /* Only Replaces is taken over: a stranger's headers have no place in our INVITE (RFC 3261 19.1.5). */
    pj_list_init(&uri->header_param);
    uri->method_param.slen = 0;
    buf = pj_pool_alloc(pool, VC_URI_MAX);
    len = pjsip_uri_print(PJSIP_URI_IN_REQ_URI, uri, buf, VC_URI_MAX);
    event->text[0] = (vc_str){buf, len > 0 ? (size_t)len : 0};
    return len > 0 ? 0 : PJSIP_SC_BAD_REQUEST;
}

/* Tells the peer; a subscription that cannot tell ends. */
static pj_status_t notify(vc_transfer *transfer, pjsip_evsub_state state, int code)
{
    pjsip_evsub *sub = transfer->sub;
    pjsip_tx_data *tdata;
    pj_status_t status = pjsip_xfer_notify(sub, state, code, NULL, &tdata);
    if (status == PJ_SUCCESS) {
        return pjsip_xfer_send_request(sub, tdata); /* patches/0042 */
    }
    pjsip_evsub_terminate(sub, PJ_TRUE);
    return status;
}

void vc_on_refer(pjsip_inv_session *inv, vc_call *call, pjsip_transaction *tsx, pjsip_rx_data *rdata)
{
    vc_event event = {.kind = VC_EV_REFER};
    vc_transfer *transfer;
    pjsip_evsub *sub;
    int refused;
    if (call == NULL || call->told || inv->state != PJSIP_INV_STATE_CONFIRMED || !call->policy.refer) {
        answer_refer(inv, tsx, rdata, PJSIP_SC_DECLINE);
        return;
    }
    if (transfer_find(call->id, PJ_FALSE)) {
        answer_refer(inv, tsx, rdata, PJSIP_SC_REQUEST_PENDING);
        return;
    }
    refused = read_target(rdata, &event);
    if (refused) {
        answer_refer(inv, tsx, rdata, refused);
        return;
    }
    if (pjsip_xfer_create_uas(inv->dlg, &callbacks, rdata, &sub) != PJ_SUCCESS) {
        answer_refer(inv, tsx, rdata, PJSIP_SC_BAD_REQUEST);
        return;
    }
    transfer = transfer_new(call, sub, PJ_FALSE);
    if (pjsip_xfer_accept(sub, rdata, PJSIP_SC_ACCEPTED, NULL) != PJ_SUCCESS) {
        pjsip_evsub_terminate(sub, PJ_TRUE); /* it has no timer */
        return;
    }
    /* What was accepted is done, though the peer may not be told how it went. */
    notify(transfer, PJSIP_EVSUB_STATE_ACTIVE, PJSIP_SC_TRYING);
    event.id = call->id;
    vc_emit(&event);
}

/* How far the transfer that the peer asked for has come; 200 and above is the end of it. */
int vc_refer_status(vc_endpoint *ep, uint64_t id, uint32_t status)
{
    vc_transfer *transfer = vc_ep == ep ? transfer_find(id, PJ_FALSE) : NULL;
    if (transfer == NULL) {
        return VC_ENOCALL;
    }
    return notify(transfer, status < 200 ? PJSIP_EVSUB_STATE_ACTIVE : PJSIP_EVSUB_STATE_TERMINATED, (int)status);
}

void vc_transfer_call_over(vc_call *call)
{
    for (vc_transfer *transfer = vc_ep->transfers; transfer; transfer = transfer->next) {
        if (transfer->call == call->id) {
            limit_start(transfer);
        }
    }
}

pj_status_t vc_transfer_init(pjsip_endpoint *sip)
{
    pj_status_t status = pjsip_evsub_init_module(sip);
    if (status == PJ_SUCCESS) status = pjsip_xfer_init_module(sip);
    if (status == PJ_SUCCESS) status = pjsip_replaces_init_module(sip);
    if (status == PJ_SUCCESS) {
        /* Subscriptions are not served here but for REFER's. */
        pjsip_allow_hdr *allow = (pjsip_allow_hdr *)pjsip_endpt_get_capability(sip, PJSIP_H_ALLOW, NULL);
        for (unsigned i = 0; allow && i < allow->count; i++) {
            if (pj_strcmp2(&allow->values[i], "SUBSCRIBE") == 0) {
                pj_array_erase(allow->values, sizeof(allow->values[0]), allow->count--, i);
            }
        }
    }
    return status;
}
