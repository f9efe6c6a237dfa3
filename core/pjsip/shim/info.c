/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Keys by INFO (RFC 2976 as everybody uses it): application/dtmf-relay and application/dtmf in, the former out. What is
 * typed may be a PIN: no text of these bodies reaches a log.
 */
#include "internal.h"

#define MAX_BODY 128 /* longest body that is looked at */
#define DEFAULT_MS 160

static const char KEYS[] = "0123456789*#ABCD!"; /* by event code, RFC 4733 3.2; the last is the hook flash */

/* Event code of a signal: one key, or the number of it from 10 to 16 as some gateways write; -1: none. */
static int key_of(const char *text, size_t len)
{
    if (len == 2 && text[0] == '1' && text[1] >= '0' && text[1] <= '6') {
        return 10 + (text[1] - '0');
    }
    if (len != 1) {
        return -1;
    }
    for (int code = 0; KEYS[code]; code++) {
        if (pj_toupper(text[0]) == KEYS[code]) {
            return code;
        }
    }
    return -1;
}

static void trim(const char **text, size_t *len)
{
    while (*len && ((*text)[0] == ' ' || (*text)[0] == '\t')) {
        (*text)++;
        (*len)--;
    }
    while (*len && ((*text)[*len - 1] == ' ' || (*text)[*len - 1] == '\t' || (*text)[*len - 1] == '\r')) {
        (*len)--;
    }
}

/* "Signal=5", "Duration=160" in lines of any order and case, with or without spaces. A body without '=' is the key. */
static int parse(const char *body, size_t len, unsigned *ms)
{
    const pj_str_t signal = {"Signal", 6}, duration = {"Duration", 8};
    int key = -1;
    *ms = DEFAULT_MS;
    while (len) {
        const char *end = memchr(body, '\n', len), *equals, *value;
        size_t line = end ? (size_t)(end - body) : len, name_len, value_len;
        equals = memchr(body, '=', line);
        if (equals) {
            const char *name = body;
            pj_str_t key_name;
            name_len = (size_t)(equals - body);
            value = equals + 1;
            value_len = line - name_len - 1;
            trim(&name, &name_len);
            trim(&value, &value_len);
            key_name = (pj_str_t){(char *)name, (pj_ssize_t)name_len};
            if (pj_stricmp(&key_name, &signal) == 0) {
                key = key_of(value, value_len);
            } else if (pj_stricmp(&key_name, &duration) == 0 && value_len >= 1 && value_len <= 5) {
                pj_str_t number = {(char *)value, (pj_ssize_t)value_len};
                *ms = (unsigned)pj_strtoul(&number);
            }
        } else if (key < 0) {
            value = body;
            value_len = line;
            trim(&value, &value_len);
            key = key_of(value, value_len);
        }
        body += line;
        len -= line;
        if (len) {
            body++;
            len--;
        }
    }
    return key;
}

static pj_bool_t is_dtmf(const pjsip_media_type *type)
{
    return pj_stricmp2(&type->type, "application") == 0 &&
           (pj_stricmp2(&type->subtype, "dtmf-relay") == 0 || pj_stricmp2(&type->subtype, "dtmf") == 0);
}

int vc_info_received(vc_call *call, pjsip_rx_data *rdata)
{
    const pjsip_msg_body *body = rdata->msg_info.msg->body;
    vc_event event = {.kind = VC_EV_DTMF};
    unsigned ms;
    int key;
    if (body == NULL || body->len == 0) {
        return PJSIP_SC_OK; /* a keep-alive of old */
    }
    if (!is_dtmf(&body->content_type)) {
        return PJSIP_SC_UNSUPPORTED_MEDIA_TYPE;
    }
    key = body->len <= MAX_BODY ? parse(body->data, body->len, &ms) : -1;
    if (key < 0) {
        return PJSIP_SC_BAD_REQUEST;
    }
    if (call && !call->told) {
        event.id = call->id;
        event.status = (uint32_t)key;
        event.expires = ms;
        vc_emit(&event);
    }
    return PJSIP_SC_OK;
}

int vc_info_dtmf(vc_endpoint *ep, uint64_t id, uint32_t key, uint32_t duration_ms, uint64_t token)
{
    static const pj_str_t name = {"INFO", 4}, type = {"application", 11}, subtype = {"dtmf-relay", 10};
    vc_call *call = vc_find(ep, id);
    pjsip_method method;
    pjsip_tx_data *tdata;
    pj_str_t text;
    char body[64];
    int status;
    if (call == NULL) {
        return VC_ENOCALL;
    }
    if (call->inv->state != PJSIP_INV_STATE_CONFIRMED || call->info_token != 0 || key >= sizeof(KEYS) - 1) {
        return VC_ESTATE;
    }
    pjsip_method_init_np(&method, (pj_str_t *)&name);
    pjsip_dlg_inc_lock(call->inv->dlg);
    status = pjsip_dlg_create_request(call->inv->dlg, &method, -1, &tdata);
    if (status == PJ_SUCCESS) {
        text.ptr = body;
        text.slen = pj_ansi_snprintf(body, sizeof(body), "Signal=%c\r\nDuration=%u\r\n", KEYS[key], duration_ms);
        tdata->msg->body = pjsip_msg_body_create(tdata->pool, &type, &subtype, &text);
        call->info_token = token;
        call->info_tsx = NULL;
        status = pjsip_dlg_send_request(call->inv->dlg, tdata, -1, NULL);
        if (status != PJ_SUCCESS) {
            call->info_token = 0;
        }
    }
    pjsip_dlg_dec_lock(call->inv->dlg);
    return status;
}

void vc_info_answered(vc_call *call, const pjsip_transaction *tsx)
{
    vc_event event = {.kind = VC_EV_INFO_DONE, .status = (uint32_t)tsx->status_code};
    if (call == NULL || call->info_token == 0) {
        return;
    }
    if (tsx->state == PJSIP_TSX_STATE_CALLING) {
        /* PJSIP answers a challenge by itself, in a transaction of its own, which begins before the challenged one is
         * told to be over: that one is none of ours any more. */
        call->info_tsx = tsx;
        return;
    }
    if (tsx != call->info_tsx ||
        (tsx->state != PJSIP_TSX_STATE_COMPLETED && tsx->state != PJSIP_TSX_STATE_TERMINATED)) {
        return;
    }
    event.id = call->id;
    event.flag = (uint32_t)call->info_token;
    event.expires = (uint32_t)(call->info_token >> 32);
    call->info_token = 0;
    call->info_tsx = NULL;
    if (!call->told) {
        vc_emit(&event);
    }
}
