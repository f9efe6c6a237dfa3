/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Names to addresses without waiting: Rust looks names up beside the SIP thread (src/dns/), here requests for it are kept until
 * its answer comes. And hops: the servers behind one name, tried in turn (RFC 3263 4.3).
 */
#include <stdlib.h>

#include "internal.h"

struct vc_query {
    struct vc_query *next;
    uint64_t id;
    pjsip_transport_type_e type;
    void *token;
    pjsip_resolver_callback *done; /* NULL: nobody waits any more */
};

static pj_bool_t literal(const pjsip_host_info *target, pjsip_transport_type_e type, pjsip_server_addresses *out)
{
    pjsip_server_address_record *entry = &out->entry[0];
    int af = pj_strchr(&target->addr.host, ':') ? pj_AF_INET6() : pj_AF_INET();
    pj_bzero(out, sizeof(*out));
    pj_sockaddr_init(af, &entry->addr, NULL, 0);
    if (target->addr.host.slen > PJ_INET6_ADDRSTRLEN ||
        pj_inet_pton(af, &target->addr.host, pj_sockaddr_get_addr(&entry->addr)) != PJ_SUCCESS) {
        return PJ_FALSE;
    }
    entry->type = af == pj_AF_INET6() ? type | PJSIP_TRANSPORT_IPV6 : type & ~PJSIP_TRANSPORT_IPV6;
    pj_sockaddr_set_port(&entry->addr, (pj_uint16_t)(target->addr.port ? target->addr.port
                                                                       : pjsip_transport_get_default_port_for_type(type)));
    entry->addr_len = (int)pj_sockaddr_get_len(&entry->addr);
    entry->name = target->addr.host;
    out->count = 1;
    return PJ_TRUE;
}

/* UDP unless the URI says otherwise (RFC 3263 4.1, without NAPTR). */
static pjsip_transport_type_e type_of(const pjsip_host_info *target)
{
    if (target->type != PJSIP_TRANSPORT_UNSPECIFIED) {
        return target->type & ~PJSIP_TRANSPORT_IPV6;
    }
    return target->flag & PJSIP_TRANSPORT_SECURE     ? PJSIP_TRANSPORT_TLS
           : target->flag & PJSIP_TRANSPORT_RELIABLE ? PJSIP_TRANSPORT_TCP
                                                     : PJSIP_TRANSPORT_UDP;
}

static uint64_t query_start(const pjsip_host_info *target, void *token, pjsip_resolver_callback *done)
{
    pjsip_transport_type_e type = type_of(target);
    vc_event event = {.kind = VC_EV_RESOLVE};
    pjsip_server_addresses list;
    struct vc_query *query;
    if (literal(target, type, &list)) {
        done(PJ_SUCCESS, token, &list);
        return 0;
    }
    query = vc_ep ? calloc(1, sizeof(*query)) : NULL;
    if (query == NULL) {
        done(PJ_ERESOLVE, token, NULL);
        return 0;
    }
    query->id = vc_next_id();
    query->type = type;
    query->token = token;
    query->done = done;
    query->next = vc_ep->queries;
    vc_ep->queries = query;
    event.id = query->id;
    event.status = vc_kind_of(type);
    event.expires = (uint32_t)target->addr.port;
    event.text[0] = vc_text(&target->addr.host);
    vc_emit(&event);
    return query->id;
}

static void on_resolve(pjsip_resolver_t *resolver, pj_pool_t *pool, const pjsip_host_info *target, void *token,
                       pjsip_resolver_callback *done)
{
    PJ_UNUSED_ARG(resolver);
    PJ_UNUSED_ARG(pool);
    query_start(target, token, done);
}

static struct vc_query *query_take(vc_endpoint *ep, uint64_t id)
{
    struct vc_query **at = &ep->queries;
    while (*at && (*at)->id != id) {
        at = &(*at)->next;
    }
    if (*at) {
        struct vc_query *query = *at;
        *at = query->next;
        return query;
    }
    return NULL;
}

static void query_cancel(uint64_t id)
{
    for (struct vc_query *query = vc_ep ? vc_ep->queries : NULL; query; query = query->next) {
        if (query->id == id) {
            query->done = NULL;
        }
    }
}

void vc_resolved(vc_endpoint *ep, uint64_t id, const vc_addr *addresses, size_t count)
{
    struct vc_query *query = query_take(ep, id);
    pjsip_server_addresses list;
    if (query == NULL) {
        return;
    }
    pj_bzero(&list, sizeof(list));
    for (size_t i = 0; i < count && list.count < PJSIP_MAX_RESOLVED_ADDRESSES; i++) {
        pjsip_server_address_record *entry = &list.entry[list.count];
        if (vc_addr_to(&addresses[i], &entry->addr) != PJ_SUCCESS) {
            continue;
        }
        entry->type = addresses[i].family == 6 ? query->type | PJSIP_TRANSPORT_IPV6 : query->type;
        entry->addr_len = (int)pj_sockaddr_get_len(&entry->addr);
        list.count++;
    }
    if (query->done) {
        query->done(list.count ? PJ_SUCCESS : PJ_ERESOLVE, query->token, list.count ? &list : NULL);
    }
    free(query);
}

pj_status_t vc_resolve_init(vc_endpoint *ep)
{
    static pjsip_ext_resolver resolver = {&on_resolve};
    return pjsip_endpt_set_ext_resolver(ep->sip, &resolver);
}

void vc_resolve_destroy(vc_endpoint *ep)
{
    while (ep->queries) {
        vc_resolved(ep, ep->queries->id, NULL, 0);
    }
}

/* Hops. */

int vc_hop_init(vc_hop *hop, pj_pool_t *pool, vc_str text, void *owner, vc_hop_fn done)
{
    pj_str_t copy, in = vc_pj(text);
    pjsip_uri *uri;
    pj_bzero(hop, sizeof(*hop));
    pj_strdup_with_null(pool, &copy, &in);
    uri = pjsip_parse_uri(pool, copy.ptr, (pj_size_t)copy.slen, 0);
    if (uri == NULL || !PJSIP_URI_SCHEME_IS_SIP(uri)) {
        return VC_EURI;
    }
    hop->uri = pjsip_uri_get_uri(uri);
    if (hop->uri->host.slen == 0 ||
        pjsip_get_dest_info((const pjsip_uri *)hop->uri, NULL, pool, &hop->target) != PJ_SUCCESS) {
        return VC_EURI;
    }
    hop->owner = owner;
    hop->done = done;
    return 0;
}

static void on_hop(pj_status_t status, void *token, const pjsip_server_addresses *list)
{
    vc_hop *hop = token;
    hop->query = 0;
    hop->at = 0;
    hop->list.count = 0;
    if (status == PJ_SUCCESS && list) {
        hop->list = *list;
    }
    hop->done(hop->owner, status);
}

void vc_hop_resolve(vc_hop *hop)
{
    vc_hop_cancel(hop);
    hop->query = query_start(&hop->target, hop, &on_hop);
}

void vc_hop_cancel(vc_hop *hop)
{
    if (hop->query) {
        query_cancel(hop->query);
        hop->query = 0;
    }
}

const pjsip_server_address_record *vc_hop_now(const vc_hop *hop)
{
    return hop->at < hop->list.count ? &hop->list.entry[hop->at] : NULL;
}

pj_bool_t vc_hop_has_next(const vc_hop *hop)
{
    return hop->at + 1 < hop->list.count;
}

/* This server failed: others come first for some time. */
void vc_hop_blame(const vc_hop *hop, unsigned seconds)
{
    const pjsip_server_address_record *now = vc_hop_now(hop);
    vc_event event = {.kind = VC_EV_BLAME, .expires = seconds};
    if (now) {
        event.status = vc_kind_of(now->type);
        vc_addr_from(&now->addr, &event.source);
        vc_emit(&event);
    }
}

vc_listener *vc_hop_listener(const vc_hop *hop, unsigned group)
{
    const pjsip_server_address_record *now = vc_hop_now(hop);
    return now ? vc_listener_for(vc_kind_of(now->type), now->addr.addr.sa_family, group) : NULL;
}

/* Sends to this server and no other; a certificate has to be made out to the name asked for (RFC 5922 4). */
void vc_hop_aim(const vc_hop *hop, const vc_listener *listener, pjsip_tx_data *tdata)
{
    pjsip_tpselector selector;
    vc_listener_select(listener, &selector);
    pjsip_tx_data_set_transport(tdata, &selector);
    pj_strdup(tdata->pool, &tdata->dest_info.name, &hop->target.addr.host);
    tdata->dest_info.cur_addr = 0;
    tdata->dest_info.addr.count = 1;
    tdata->dest_info.addr.entry[0] = *vc_hop_now(hop);
}

/* Of a failed request: whether another server may do better (RFC 3263 4.3: silence, 503, no connection). */
pj_bool_t vc_hop_at_fault(unsigned status)
{
    return status == PJSIP_SC_REQUEST_TIMEOUT || status == PJSIP_SC_SERVICE_UNAVAILABLE ||
           status == PJSIP_SC_TSX_TRANSPORT_ERROR || status == PJSIP_SC_BAD_GATEWAY;
}

/* Tells how a request to the hop's server of the moment went: the reason, the server, and why it failed when the
 * reason alone does not say so. */
void vc_hop_tell(const vc_hop *hop, vc_event *event, const pj_str_t *reason, pj_bool_t well, const char *why)
{
    const pjsip_server_address_record *now = vc_hop_now(hop);
    if (reason == NULL || reason->slen == 0) {
        reason = pjsip_get_status_text((int)event->status);
    }
    event->text[0] = vc_text(reason);
    if (now) {
        vc_addr_from(&now->addr, &event->source);
        why = why || well ? why : vc_tls_why(&now->addr, reason);
    }
    event->text[1] = (vc_str){why, why ? strlen(why) : 0};
    vc_emit(event);
}

/* Retry-After in s; 0 when the response has none. */
unsigned vc_retry_after(const pjsip_rx_data *rdata)
{
    const pjsip_retry_after_hdr *hdr =
        rdata ? pjsip_msg_find_hdr(rdata->msg_info.msg, PJSIP_H_RETRY_AFTER, NULL) : NULL;
    return hdr && hdr->ivalue > 0 ? (unsigned)PJ_MIN(hdr->ivalue, 86400) : 0;
}
