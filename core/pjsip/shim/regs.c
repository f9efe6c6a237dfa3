/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Registrations come and go.
 */
#include "reg.h"

static int keep_credentials(vc_reg *reg, const vc_credentials *credentials)
{
    pj_pool_t *pool = pjsip_endpt_create_pool(vc_ep->sip, "secret", 512, 512);
    pjsip_cred_info info;
    if (pool == NULL) {
        return PJ_ENOMEM;
    }
    vc_credentials_to(credentials, &info);
    pjsip_cred_info_dup(pool, &reg->credentials, &info);
    if (reg->secret) {
        pj_pool_release(reg->secret);
    }
    reg->secret = pool;
    return 0;
}

static void reg_free(vc_reg *reg)
{
    vc_hop_cancel(&reg->hop);
    vc_reg_drop(reg);
    pjsip_endpt_cancel_timer(vc_ep->sip, &reg->timer);
    pjsip_endpt_cancel_timer(vc_ep->sip, &reg->alive);
    if (reg->secret) {
        pj_pool_release(reg->secret);
    }
    pj_pool_release(reg->pool);
}

/* The user part of an address of record. */
static int parse_aor(vc_reg *reg)
{
    vc_hop parsed;
    int status = vc_hop_init(&parsed, reg->pool, reg->want.aor, NULL, NULL);
    if (status == 0) {
        reg->user = parsed.uri->user;
    }
    return status;
}

static int check_registrar(vc_reg *reg)
{
    vc_hop parsed;
    return vc_hop_init(&parsed, reg->pool, reg->want.registrar, NULL, NULL);
}

int vc_register(vc_endpoint *ep, const vc_reg_request *request, uint64_t *id)
{
    pj_pool_t *pool = pjsip_endpt_create_pool(ep->sip, "reg", 2000, 2000);
    vc_reg *reg = pool ? PJ_POOL_ZALLOC_T(pool, vc_reg) : NULL;
    int status;
    if (reg == NULL) {
        return PJ_ENOMEM;
    }
    reg->pool = pool;
    reg->want = *request;
    reg->want.credentials = NULL; /* the caller's own */
    reg->want.aor = vc_keep(pool, request->aor);
    reg->want.registrar = vc_keep(pool, request->registrar);
    reg->want.route = vc_keep(pool, request->route);
    vc_reg_prepare(reg);
    status = parse_aor(reg);
    if (status == 0) status = check_registrar(reg);
    if (status == 0) {
        vc_str hop = reg->want.route.len ? reg->want.route : reg->want.registrar;
        status = vc_hop_init(&reg->hop, pool, hop, reg, &vc_reg_resolved);
    }
    if (status == 0 && request->credentials) status = keep_credentials(reg, request->credentials);
    if (status != 0) {
        reg_free(reg);
        return status;
    }
    reg->id = vc_next_id();
    reg->next = ep->regs;
    ep->regs = reg;
    *id = reg->id;
    vc_reg_round(reg);
    return 0;
}

static vc_reg *reg_find(vc_endpoint *ep, uint64_t id)
{
    vc_reg *reg = ep->regs;
    while (reg && reg->id != id) {
        reg = reg->next;
    }
    return reg && !reg->dead && !reg->leaving ? reg : NULL;
}

/* New credentials: used at once, by a REGISTER that refreshes the same binding. */
int vc_reregister(vc_endpoint *ep, uint64_t id, const vc_credentials *credentials)
{
    vc_reg *reg = reg_find(ep, id);
    int status;
    if (reg == NULL) {
        return VC_ENOREG;
    }
    status = keep_credentials(reg, credentials);
    if (status != 0) {
        return status;
    }
    reg->failures = 0;
    if (reg->sending) {
        reg->again = PJ_TRUE;
    }
    if (!reg->sending) {
        vc_reg_drop(reg);
        vc_schedule(&reg->timer, 0);
    } else if (reg->regc) {
        pjsip_regc_set_credentials(reg->regc, 1, &reg->credentials);
    }
    return 0;
}

static void leave(vc_reg *reg)
{
    int status;
    reg->leaving = PJ_TRUE;
    pjsip_endpt_cancel_timer(vc_ep->sip, &reg->timer);
    pjsip_endpt_cancel_timer(vc_ep->sip, &reg->silent);
    pjsip_endpt_cancel_timer(vc_ep->sip, &reg->alive);
    vc_hop_cancel(&reg->hop);
    if (reg->sending) {
        return; /* on_result goes on */
    }
    status = reg->bound ? vc_reg_unregister(reg) : PJ_SUCCESS;
    if (!reg->dead && (status != 0 || !reg->bound)) {
        vc_reg_tell(reg, reg->bound ? PJSIP_SC_SERVICE_UNAVAILABLE : PJSIP_SC_OK, NULL, 0, 0, NULL);
        reg->dead = PJ_TRUE;
    }
}

int vc_unregister(vc_endpoint *ep, uint64_t id)
{
    vc_reg *reg = reg_find(ep, id);
    if (reg == NULL) {
        return VC_ENOREG;
    }
    leave(reg);
    return 0;
}

/* The connection that a binding came about by is gone, and with it the way for calls to us: a new one is made soon. */
void vc_regs_lost(vc_endpoint *ep, const pjsip_transport *transport)
{
    for (vc_reg *reg = ep->regs; reg; reg = reg->next) {
        if (reg->transport == transport && !(transport->flag & PJSIP_TRANSPORT_DATAGRAM)) {
            reg->transport = NULL;
            if (reg->bound && !reg->sending && !reg->leaving && !reg->dead) {
                vc_log(2, "the connection to a registrar is lost; registering again");
                vc_reg_drop(reg);
                vc_schedule(&reg->timer, vc_reg_jitter(1000));
            }
        }
    }
}

void vc_regs_leave(vc_endpoint *ep)
{
    for (vc_reg *reg = ep->regs; reg; reg = reg->next) {
        if (!reg->dead && !reg->leaving) {
            leave(reg);
        }
    }
}

unsigned vc_regs_count(const vc_endpoint *ep)
{
    unsigned count = 0;
    for (const vc_reg *reg = ep->regs; reg; reg = reg->next) {
        count++;
    }
    return count;
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
