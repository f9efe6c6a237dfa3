/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Whether a trunk is there: OPTIONS at an interval. Any answer but 408 and 503 shows that it is.
 */
#include <string.h>

#include "internal.h"

#define BLAME_S 30

struct vc_probe {
    vc_probe *next;
    uint64_t id;
    pj_pool_t *pool;
    vc_probe_request want; /* its texts are in pool */
    vc_hop hop;
    pj_timer_entry timer;  /* the next round */
    pj_timer_entry silent; /* too long without an answer */
    uint64_t asked;        /* number of the request under way; 0: none */
    pj_timestamp sent_at;
};

/* What an answer finds its probe by: the probe may be gone by then. */
typedef struct answer_token {
    uint64_t probe, asked;
} answer_token;

static void tell(vc_probe *probe, unsigned status, const pj_str_t *reason, pj_bool_t alive, unsigned rtt_ms, const char *why)
{
    vc_event event = {.kind = VC_EV_PROBE, .id = probe->id, .status = status, .flag = alive ? 1 : 0, .expires = rtt_ms};
    /* Spread over a tenth, so that many boxes do not ask as one. */
    vc_schedule(&probe->timer, probe->want.interval_ms - (unsigned)pj_rand() % (probe->want.interval_ms / 10 + 1));
    vc_hop_tell(&probe->hop, &event, reason, alive, why);
}

static void ask(vc_probe *probe);

static void server_failed(vc_probe *probe, unsigned status, const pj_str_t *reason, unsigned after_s)
{
    probe->asked = 0;
    pjsip_endpt_cancel_timer(vc_ep->sip, &probe->silent);
    vc_hop_blame(&probe->hop, after_s ? after_s : BLAME_S);
    if (vc_hop_has_next(&probe->hop)) {
        probe->hop.at++;
        ask(probe);
        return;
    }
    tell(probe, status, reason, PJ_FALSE, 0, NULL);
}

static vc_probe *probe_find(uint64_t id)
{
    vc_probe *probe = vc_ep ? vc_ep->probes : NULL;
    while (probe && probe->id != id) {
        probe = probe->next;
    }
    return probe;
}

static void on_answer(void *user, pjsip_event *e)
{
    const answer_token *token = user;
    pjsip_transaction *tsx = e->body.tsx_state.tsx;
    const pjsip_rx_data *rdata = e->body.tsx_state.type == PJSIP_EVENT_RX_MSG ? e->body.tsx_state.src.rdata : NULL;
    vc_probe *probe = probe_find(token->probe);
    pj_timestamp now;
    if (probe == NULL || vc_ep->closing || probe->asked != token->asked) {
        return;
    }
    if (vc_hop_at_fault((unsigned)tsx->status_code)) {
        server_failed(probe, (unsigned)tsx->status_code, &tsx->status_text, vc_retry_after(rdata));
        return;
    }
    probe->asked = 0;
    pjsip_endpt_cancel_timer(vc_ep->sip, &probe->silent);
    pj_get_timestamp(&now);
    tell(probe, (unsigned)tsx->status_code, &tsx->status_text, PJ_TRUE, pj_elapsed_msec(&probe->sent_at, &now), NULL);
}

static int request_make(vc_probe *probe, const vc_listener *listener, pjsip_tx_data **out)
{
    pj_str_t target = vc_pj(probe->want.uri), contact, from;
    const pjsip_server_address_record *now = vc_hop_now(&probe->hop);
    pj_pool_t *scratch = pjsip_endpt_create_pool(vc_ep->sip, "options", 2000, 2000);
    int status = vc_contact(scratch, listener, &now->addr, PJ_FALSE, NULL, &contact);
    if (status == 0) {
        from = probe->want.from.len ? vc_name_addr(scratch, probe->want.from) : contact;
        status = pjsip_endpt_create_request(vc_ep->sip, pjsip_get_options_method(), &target, &from, &target, &contact, NULL,
                                            -1, NULL, out);
    }
    pj_pool_release(scratch);
    if (status == 0 && probe->want.route.len) {
        pjsip_route_hdr *route = pjsip_route_hdr_create((*out)->pool);
        pjsip_sip_uri *uri = pjsip_uri_clone((*out)->pool, probe->hop.uri);
        uri->lr_param = 1;
        route->name_addr.uri = (pjsip_uri *)uri;
        pjsip_msg_add_hdr((*out)->msg, (pjsip_hdr *)route);
    }
    return status;
}

static void ask(vc_probe *probe)
{
    const vc_listener *listener;
    answer_token *token;
    pjsip_tx_data *tdata;
    uint64_t asked, id = probe->id;
    int status;
    while ((listener = vc_hop_listener(&probe->hop, probe->want.group)) == NULL && vc_hop_has_next(&probe->hop)) {
        probe->hop.at++; /* of a family or a kind that we have no socket for */
    }
    if (listener == NULL || request_make(probe, listener, &tdata) != 0) {
        tell(probe, PJSIP_SC_SERVICE_UNAVAILABLE, NULL, PJ_FALSE, 0, "no transport of ours leads there");
        return;
    }
    vc_hop_aim(&probe->hop, listener, tdata);
    token = PJ_POOL_ZALLOC_T(tdata->pool, answer_token);
    token->probe = id;
    token->asked = probe->asked = asked = vc_next_id();
    pj_get_timestamp(&probe->sent_at);
    vc_schedule(&probe->silent, probe->want.timeout_ms);
    status = pjsip_endpt_send_request(vc_ep->sip, tdata, -1, token, &on_answer);
    if (status != PJ_SUCCESS && probe_find(id) == probe && probe->asked == asked) {
        server_failed(probe, PJSIP_SC_SERVICE_UNAVAILABLE, NULL, 0);
    }
}

static void on_silent(pj_timer_heap_t *heap, pj_timer_entry *entry)
{
    vc_probe *probe = entry->user_data;
    PJ_UNUSED_ARG(heap);
    if (probe->asked) {
        server_failed(probe, PJSIP_SC_REQUEST_TIMEOUT, NULL, 0);
    }
}

static void on_resolved(void *owner, pj_status_t status)
{
    vc_probe *probe = owner;
    if (status != PJ_SUCCESS) {
        tell(probe, PJSIP_SC_BAD_GATEWAY, NULL, PJ_FALSE, 0, "the trunk's host name has no address");
        return;
    }
    ask(probe);
}

static void on_timer(pj_timer_heap_t *heap, pj_timer_entry *entry)
{
    vc_probe *probe = entry->user_data;
    PJ_UNUSED_ARG(heap);
    vc_hop_resolve(&probe->hop);
}

static void probe_free(vc_probe *probe)
{
    vc_hop_cancel(&probe->hop);
    pjsip_endpt_cancel_timer(vc_ep->sip, &probe->timer);
    pjsip_endpt_cancel_timer(vc_ep->sip, &probe->silent);
    pj_pool_release(probe->pool);
}

int vc_probe_start(vc_endpoint *ep, const vc_probe_request *request, uint64_t *id)
{
    pj_pool_t *pool = pjsip_endpt_create_pool(ep->sip, "probe", 2000, 2000);
    vc_probe *probe = pool ? PJ_POOL_ZALLOC_T(pool, vc_probe) : NULL;
    int status;
    if (probe == NULL) {
        return PJ_ENOMEM;
    }
    probe->pool = pool;
    probe->want = *request;
    probe->want.uri = vc_keep(pool, request->uri);
    probe->want.route = vc_keep(pool, request->route);
    probe->want.from = vc_keep(pool, request->from);
    pj_timer_entry_init(&probe->timer, 0, probe, &on_timer);
    pj_timer_entry_init(&probe->silent, 0, probe, &on_silent);
    status = vc_hop_init(&probe->hop, pool, probe->want.uri, probe, &on_resolved);
    if (status == 0 && probe->want.route.len) {
        status = vc_hop_init(&probe->hop, pool, probe->want.route, probe, &on_resolved);
    }
    if (status != 0) {
        pj_pool_release(pool);
        return status;
    }
    probe->id = vc_next_id();
    probe->next = ep->probes;
    ep->probes = probe;
    *id = probe->id;
    vc_schedule(&probe->timer, 0);
    return 0;
}

int vc_probe_stop(vc_endpoint *ep, uint64_t id)
{
    vc_probe **at = &ep->probes;
    while (*at && (*at)->id != id) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        return VC_ENOREG;
    }
    vc_probe *probe = *at;
    *at = probe->next;
    probe_free(probe);
    return 0;
}

void vc_probes_destroy(vc_endpoint *ep)
{
    while (ep->probes) {
        vc_probe *probe = ep->probes;
        ep->probes = probe->next;
        probe_free(probe);
    }
}
