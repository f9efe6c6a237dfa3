/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Registrations. PJSIP writes the REGISTER, answers challenges and reads the lifetime; when to send and where to is decided here:
 * the name is looked up for each round, one server after the other is tried, and after a round without success we wait ever
 * longer.
 */
#include <string.h>

#include "reg.h"

#define BLAME_S 30
/* A wrong password does not mend itself, and registrars shut out who tries too often. */
#define REFUSED_FACTOR 12
#define DOUBLINGS 6

/* Half to the whole of it, so that those who failed together do not come back together. */
unsigned vc_reg_jitter(unsigned ms)
{
    return ms - (ms / 2 ? (unsigned)pj_rand() % (ms / 2) : 0);
}

void vc_reg_tell(const vc_reg *reg, unsigned status, const pj_str_t *reason, unsigned expires, unsigned next_ms,
                 const char *why)
{
    vc_event event = {.kind = VC_EV_REGISTRATION, .id = reg->id, .status = status, .expires = expires, .flag = next_ms};
    vc_hop_tell(&reg->hop, &event, reason, status < 300, why);
}

/* The round is over without success. */
static void failed(vc_reg *reg, unsigned status, const pj_str_t *reason, unsigned after_s, const char *why)
{
    unsigned wait = reg->want.retry_first_ms, most = reg->want.retry_max_ms;
    pj_bool_t refused = status == PJSIP_SC_UNAUTHORIZED || status == PJSIP_SC_FORBIDDEN ||
                        status == PJSIP_SC_PROXY_AUTHENTICATION_REQUIRED;
    if (refused) {
        wait *= REFUSED_FACTOR;
        most *= REFUSED_FACTOR;
    }
    wait = PJ_MIN(wait << PJ_MIN(reg->failures, DOUBLINGS), most);
    reg->failures++;
    reg->bound = PJ_FALSE;
    /* Not before the server says (RFC 3261 20.33), and not all of its clients in the same second. */
    wait = after_s ? after_s * 1000 + (unsigned)pj_rand() % 1000 : vc_reg_jitter(wait);
    vc_reg_tell(reg, status, reason, 0, wait, why);
    vc_schedule(&reg->timer, wait);
}

void vc_reg_drop(vc_reg *reg)
{
    if (reg->regc) {
        /* With a request under way PJSIP frees it later. */
        pjsip_regc_destroy2(reg->regc, PJ_TRUE);
        reg->regc = NULL;
    }
    reg->sending = PJ_FALSE;
    pjsip_endpt_cancel_timer(vc_ep->sip, &reg->silent);
}

/* This server failed: the next one at once, else a pause. */
static void server_failed(vc_reg *reg, unsigned status, const pj_str_t *reason, unsigned after_s)
{
    vc_hop_blame(&reg->hop, after_s ? after_s : BLAME_S);
    if (vc_hop_has_next(&reg->hop)) {
        vc_log(2, "a registrar fails; trying the next server of its name");
        reg->hop.at++;
        reg->timer.id = 1; /* go on with this list */
        vc_schedule(&reg->timer, 0);
        return;
    }
    failed(reg, status, reason, after_s, NULL);
}

static void on_silent(pj_timer_heap_t *heap, pj_timer_entry *entry)
{
    vc_reg *reg = entry->user_data;
    PJ_UNUSED_ARG(heap);
    if (reg->sending && !reg->leaving && !reg->dead) {
        vc_reg_drop(reg);
        server_failed(reg, PJSIP_SC_REQUEST_TIMEOUT, NULL, 0);
    }
}

static void on_alive(pj_timer_heap_t *heap, pj_timer_entry *entry)
{
    static const char data[] = "\r\n\r\n";
    vc_reg *reg = entry->user_data;
    const pjsip_server_address_record *now = vc_hop_now(&reg->hop);
    const vc_listener *listener = vc_hop_listener(&reg->hop, reg->want.group);
    PJ_UNUSED_ARG(heap);
    if (now && listener && listener->udp && reg->bound && !reg->leaving) {
        pjsip_tpselector selector;
        vc_listener_select(listener, &selector);
        pjsip_tpmgr_send_raw(pjsip_endpt_get_tpmgr(vc_ep->sip), now->type, &selector, NULL, data, sizeof(data) - 1,
                             &now->addr, now->addr_len, NULL, NULL);
        vc_schedule(entry, reg->want.keepalive_ms);
    }
}

/* Before the binding runs out: a tenth earlier, at least 5 s, and spread. */
static void refresh_later(vc_reg *reg, unsigned expires)
{
    unsigned ms = PJ_MIN(expires, 86400) * 1000, margin = PJ_MAX(ms / 10, 5000);
    ms = ms > 2 * margin ? ms - margin : ms / 2;
    vc_schedule(&reg->timer, PJ_MAX(ms - (unsigned)pj_rand() % (ms / 10 + 1), 500));
}

static void registered(vc_reg *reg, const struct pjsip_regc_cbparam *param)
{
    const pjsip_server_address_record *now = vc_hop_now(&reg->hop);
    reg->failures = 0;
    reg->bound = PJ_TRUE;
    reg->transport = param->rdata ? param->rdata->tp_info.transport : NULL;
    refresh_later(reg, param->expiration);
    if (reg->want.keepalive_ms && now && vc_kind_of(now->type) == VC_UDP) {
        vc_schedule(&reg->alive, reg->want.keepalive_ms);
    }
    vc_reg_tell(reg, (unsigned)param->code, &param->reason, param->expiration, 0, NULL);
}

static void on_result(struct pjsip_regc_cbparam *param)
{
    vc_reg *reg = param->token;
    pj_bool_t good = param->status == PJ_SUCCESS && param->code / 100 == 2;
    unsigned status = param->code > 0 ? (unsigned)param->code : PJSIP_SC_REQUEST_TIMEOUT;
    if (vc_ep == NULL || reg->dead) {
        return;
    }
    reg->sending = PJ_FALSE;
    pjsip_endpt_cancel_timer(vc_ep->sip, &reg->silent);
    if (reg->leaving) {
        /* A REGISTER was under way when we were asked to leave: its turn is over now. */
        if (good && !param->is_unreg && vc_reg_unregister(reg) == 0) {
            return;
        }
        vc_reg_tell(reg, status, &param->reason, 0, 0, NULL);
        reg->dead = PJ_TRUE;
        return;
    }
    if (reg->again) {
        reg->again = PJ_FALSE;
        vc_schedule(&reg->timer, 0);
        return;
    }
    if (good && param->expiration > 0 && param->expiration != PJSIP_REGC_EXPIRATION_NOT_SPECIFIED) {
        registered(reg, param);
    } else if (!good && vc_hop_at_fault(status)) {
        server_failed(reg, status, &param->reason, vc_retry_after(param->rdata));
    } else {
        failed(reg, good ? PJSIP_SC_TEMPORARILY_UNAVAILABLE : status, &param->reason, vc_retry_after(param->rdata), NULL);
    }
}

static int regc_make(vc_reg *reg, const pj_str_t *contact)
{
    pj_str_t registrar = vc_pj(reg->want.registrar), party = vc_name_addr(reg->pool, reg->want.aor);
    pj_status_t status = pjsip_regc_create(vc_ep->sip, reg, &on_result, &reg->regc);
    if (status != PJ_SUCCESS) {
        return status;
    }
    status = pjsip_regc_init(reg->regc, &registrar, &party, &party, 1, contact, reg->want.expires);
    if (status == PJ_SUCCESS && reg->secret) {
        status = pjsip_regc_set_credentials(reg->regc, 1, &reg->credentials);
    }
    if (status == PJ_SUCCESS && reg->want.route.len) {
        pj_pool_t *pool = pjsip_regc_get_pool(reg->regc);
        pjsip_route_hdr set, *route = pjsip_route_hdr_create(pool);
        pjsip_sip_uri *uri = pjsip_uri_clone(pool, reg->hop.uri);
        uri->lr_param = 1;
        route->name_addr.uri = (pjsip_uri *)uri;
        pj_list_init(&set);
        pj_list_push_back(&set, route);
        status = pjsip_regc_set_route_set(reg->regc, &set);
    }
    if (status != PJ_SUCCESS) {
        vc_reg_drop(reg);
        return status;
    }
    if (pj_strcmp(&reg->contact, contact) != 0) {
        pj_strdup(reg->pool, &reg->contact, contact);
    }
    return 0;
}

static int send_to_server(vc_reg *reg, pj_bool_t leave)
{
    const vc_listener *listener = vc_hop_listener(&reg->hop, reg->want.group);
    pjsip_tpselector selector;
    pj_pool_t *scratch;
    pjsip_tx_data *tdata;
    pj_str_t contact;
    int status;
    if (listener == NULL) {
        return VC_ESTATE;
    }
    scratch = pjsip_endpt_create_pool(vc_ep->sip, "contact", 2000, 2000);
    status = vc_contact(scratch, listener, &vc_hop_now(&reg->hop)->addr, PJ_FALSE, &reg->user, &contact);
    if (status == 0 && reg->regc && pj_strcmp(&contact, &reg->contact) != 0) {
        vc_reg_drop(reg); /* our address has changed */
    }
    if (status == 0 && reg->regc == NULL) {
        status = regc_make(reg, &contact);
    }
    pj_pool_release(scratch);
    if (status != 0) {
        return status;
    }
    vc_listener_select(listener, &selector);
    pjsip_regc_set_transport(reg->regc, &selector);
    status = leave ? pjsip_regc_unregister(reg->regc, &tdata) : pjsip_regc_register(reg->regc, PJ_FALSE, &tdata);
    if (status != PJ_SUCCESS) {
        return status;
    }
    vc_hop_aim(&reg->hop, listener, tdata);
    reg->sending = PJ_TRUE;
    status = pjsip_regc_send(reg->regc, tdata);
    if (!reg->sending) {
        return 0; /* on_result has seen to it already */
    }
    if (status != PJ_SUCCESS) {
        reg->sending = PJ_FALSE;
    } else if (!leave && vc_hop_has_next(&reg->hop)) {
        vc_schedule(&reg->silent, reg->want.failover_ms);
    }
    return status;
}

int vc_reg_unregister(vc_reg *reg)
{
    return vc_hop_now(&reg->hop) ? send_to_server(reg, PJ_TRUE) : VC_ESTATE;
}

/* To the server that is next. */
static void attempt(vc_reg *reg)
{
    int status;
    while (vc_hop_now(&reg->hop) && vc_hop_listener(&reg->hop, reg->want.group) == NULL && vc_hop_has_next(&reg->hop)) {
        reg->hop.at++; /* of a family or a kind that we have no socket for */
    }
    status = send_to_server(reg, PJ_FALSE);
    if (status == VC_ESTATE) {
        failed(reg, PJSIP_SC_SERVICE_UNAVAILABLE, NULL, 0, "no transport of ours leads there");
    } else if (status < 0) {
        failed(reg, PJSIP_SC_BAD_REQUEST, NULL, 0, "no REGISTER can be made of these settings");
    } else if (status != PJ_SUCCESS && status != PJSIP_EBUSY) {
        server_failed(reg, PJSIP_SC_SERVICE_UNAVAILABLE, NULL, 0);
    }
}

void vc_reg_resolved(void *owner, pj_status_t status)
{
    vc_reg *reg = owner;
    if (reg->dead || reg->leaving) {
        return;
    }
    if (status != PJ_SUCCESS) {
        failed(reg, PJSIP_SC_BAD_GATEWAY, NULL, 0, "the registrar's host name has no address");
        return;
    }
    attempt(reg);
}

void vc_reg_round(vc_reg *reg)
{
    reg->timer.id = 0;
    vc_hop_resolve(&reg->hop);
}

static void on_timer(pj_timer_heap_t *heap, pj_timer_entry *entry)
{
    vc_reg *reg = entry->user_data;
    PJ_UNUSED_ARG(heap);
    if (reg->leaving || reg->dead) {
        return;
    }
    if (entry->id == 1) {
        entry->id = 0;
        attempt(reg);
    } else {
        vc_reg_round(reg);
    }
}

void vc_reg_prepare(vc_reg *reg)
{
    pj_timer_entry_init(&reg->timer, 0, reg, &on_timer);
    pj_timer_entry_init(&reg->silent, 0, reg, &on_silent);
    pj_timer_entry_init(&reg->alive, 0, reg, &on_alive);
}
