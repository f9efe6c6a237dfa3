/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Registrations: PJSIP refreshes a binding that stands; after a failure we try again, ever more slowly.
 */
#include <stdlib.h>

#include "internal.h"

#define RETRY_FIRST_S 5
#define RETRY_MAX_S 300

void vc_credentials_to(const vc_credentials *in, pjsip_cred_info *out)
{
    pj_bzero(out, sizeof(*out));
    out->realm = in->realm.len ? vc_pj(in->realm) : pj_str("*");
    out->scheme = pj_str("digest");
    out->username = vc_pj(in->username);
    out->data_type = PJSIP_CRED_DATA_PLAIN_PASSWD;
    out->data = vc_pj(in->password);
}

static void tell(const vc_reg *reg, unsigned status, const pj_str_t *reason, unsigned expires)
{
    vc_event event = {.kind = VC_EV_REGISTRATION, .id = reg->id, .status = status, .expires = expires};
    if (reason == NULL || reason->slen == 0) {
        reason = pjsip_get_status_text((int)status);
    }
    event.text[0] = vc_text(reason);
    vc_emit(&event);
}

static void retry_later(vc_reg *reg)
{
    unsigned shift = PJ_MIN(reg->failures, 6);
    pj_time_val delay = {(long)PJ_MIN(RETRY_FIRST_S << shift, RETRY_MAX_S), 0};
    reg->failures++;
    pjsip_endpt_schedule_timer(vc_ep->sip, &reg->retry, &delay);
}

static pj_status_t send_register(vc_reg *reg)
{
    pjsip_tx_data *tdata;
    pj_status_t status = pjsip_regc_register(reg->regc, PJ_TRUE, &tdata);
    return status == PJ_SUCCESS ? pjsip_regc_send(reg->regc, tdata) : status;
}

static pj_status_t send_unregister(vc_reg *reg)
{
    pjsip_tx_data *tdata;
    pj_status_t status = pjsip_regc_unregister(reg->regc, &tdata);
    return status == PJ_SUCCESS ? pjsip_regc_send(reg->regc, tdata) : status;
}

static void on_retry(pj_timer_heap_t *heap, pj_timer_entry *entry)
{
    vc_reg *reg = entry->user_data;
    PJ_UNUSED_ARG(heap);
    if (!reg->leaving && !reg->dead && send_register(reg) != PJ_SUCCESS) {
        tell(reg, PJSIP_SC_SERVICE_UNAVAILABLE, NULL, 0);
        retry_later(reg);
    }
}

static void on_result(struct pjsip_regc_cbparam *param)
{
    vc_reg *reg = param->token;
    pj_bool_t good = param->status == PJ_SUCCESS && param->code / 100 == 2;
    unsigned status = param->code > 0 ? (unsigned)param->code : PJSIP_SC_REQUEST_TIMEOUT;
    if (vc_ep == NULL || reg->dead) {
        return;
    }
    if (reg->leaving) {
        /* A REGISTER was under way when we were asked to leave: its turn is over now. */
        if (good && !param->is_unreg && send_unregister(reg) == PJ_SUCCESS) {
            return;
        }
        tell(reg, status, &param->reason, 0);
        reg->dead = PJ_TRUE;
        return;
    }
    if (good && param->expiration > 0 && param->expiration != PJSIP_REGC_EXPIRATION_NOT_SPECIFIED) {
        reg->failures = 0;
        tell(reg, status, &param->reason, param->expiration);
        return;
    }
    tell(reg, good ? PJSIP_SC_TEMPORARILY_UNAVAILABLE : status, &param->reason, 0);
    retry_later(reg);
}

/* The user part of an address of record, for our Contact. */
static int parse_aor(pj_pool_t *pool, vc_str text, pj_str_t *user)
{
    pj_str_t copy, in = vc_pj(text);
    pjsip_uri *uri;
    pj_strdup_with_null(pool, &copy, &in);
    uri = pjsip_parse_uri(pool, copy.ptr, (pj_size_t)copy.slen, 0);
    if (uri == NULL || !PJSIP_URI_SCHEME_IS_SIP(uri)) {
        return VC_EURI;
    }
    *user = ((pjsip_sip_uri *)pjsip_uri_get_uri(uri))->user;
    return 0;
}

static int regc_init(vc_endpoint *ep, vc_reg *reg, vc_str aor, vc_str registrar, const vc_credentials *credentials,
                     uint32_t expires)
{
    pj_pool_t *pool = pjsip_regc_get_pool(reg->regc);
    pj_str_t contact, user, server, party, in = vc_pj(registrar);
    pjsip_cred_info info;
    pjsip_sip_uri *host;
    pjsip_uri *uri;
    pj_status_t status;
    PJ_UNUSED_ARG(ep);
    pj_strdup_with_null(pool, &server, &in);
    uri = pjsip_parse_uri(pool, server.ptr, (pj_size_t)server.slen, 0);
    if (uri == NULL || !PJSIP_URI_SCHEME_IS_SIP(uri) || parse_aor(pool, aor, &user) != 0) {
        return VC_EURI;
    }
    host = (pjsip_sip_uri *)pjsip_uri_get_uri(uri);
    status = vc_contact(pool, pj_stricmp2(&host->transport_param, "tcp") == 0, &host->host,
                        pj_strchr(&host->host, ':') ? pj_AF_INET6() : pj_AF_INET(), NULL, &user, &contact);
    if (status != 0) {
        return status;
    }
    pj_strdup_with_null(pool, &server, &in);
    party = vc_name_addr(pool, aor);
    if (pjsip_regc_init(reg->regc, &server, &party, &party, 1, &contact, expires) != PJ_SUCCESS) {
        return VC_EURI;
    }
    vc_credentials_to(credentials, &info);
    return pjsip_regc_set_credentials(reg->regc, 1, &info);
}

int vc_register(vc_endpoint *ep, vc_str aor, vc_str registrar, const vc_credentials *credentials, uint32_t expires,
                uint64_t *id)
{
    vc_reg *reg = calloc(1, sizeof(*reg));
    int status;
    if (reg == NULL) {
        return PJ_ENOMEM;
    }
    status = pjsip_regc_create(ep->sip, reg, &on_result, &reg->regc);
    if (status != PJ_SUCCESS) {
        free(reg);
        return status;
    }
    status = regc_init(ep, reg, aor, registrar, credentials, expires);
    if (status != 0) {
        pjsip_regc_destroy(reg->regc);
        free(reg);
        return status;
    }
    reg->id = vc_next_id();
    pj_timer_entry_init(&reg->retry, 0, reg, &on_retry);
    reg->next = ep->regs;
    ep->regs = reg;
    *id = reg->id;
    if (send_register(reg) != PJ_SUCCESS) {
        tell(reg, PJSIP_SC_SERVICE_UNAVAILABLE, NULL, 0);
        retry_later(reg);
    }
    return 0;
}

int vc_unregister(vc_endpoint *ep, uint64_t id)
{
    vc_reg *reg = ep->regs;
    pj_status_t status;
    while (reg && reg->id != id) {
        reg = reg->next;
    }
    if (reg == NULL || reg->dead || reg->leaving) {
        return VC_ENOREG;
    }
    reg->leaving = PJ_TRUE;
    pjsip_endpt_cancel_timer(ep->sip, &reg->retry);
    status = send_unregister(reg);
    if (status != PJ_SUCCESS && status != PJSIP_EBUSY && !reg->dead) {
        tell(reg, PJSIP_SC_SERVICE_UNAVAILABLE, NULL, 0);
        reg->dead = PJ_TRUE;
    }
    return 0;
}

static void reg_free(vc_reg *reg)
{
    pjsip_endpt_cancel_timer(vc_ep->sip, &reg->retry);
    pjsip_regc_destroy2(reg->regc, PJ_TRUE);
    free(reg);
}

void vc_regs_reap(vc_endpoint *ep)
{
    vc_reg **at = &ep->regs;
    while (*at) {
        vc_reg *reg = *at;
        if (reg->dead) {
            *at = reg->next;
            reg_free(reg);
        } else {
            at = &reg->next;
        }
    }
}

void vc_regs_destroy(vc_endpoint *ep)
{
    while (ep->regs) {
        vc_reg *reg = ep->regs;
        ep->regs = reg->next;
        reg->dead = PJ_TRUE;
        reg_free(reg);
    }
}
