/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Sockets that SIP listens on, which of them leads to a peer, and the address of ours that the peer is told.
 */
#include "internal.h"

static vc_listener *listener_add(vc_endpoint *ep, const vc_listen *want)
{
    vc_listener *listener = &ep->listeners[ep->listener_count++];
    pj_bzero(listener, sizeof(*listener));
    listener->kind = want->kind;
    listener->group = want->group;
    listener->af = want->bind.family == 6 ? pj_AF_INET6() : pj_AF_INET();
    if (want->shown.family) {
        vc_addr_to(&want->shown, &listener->shown);
    }
    return listener;
}

/* The name in our Via: the public address, else the bound one, else the default route's. Given always, since PJSIP would look
 * this machine's host name up, which can take as long as a name server that does not answer. */
static pj_status_t published(const vc_listen *want, char *buf, int size, pjsip_host_port *out)
{
    pj_sockaddr address;
    pj_status_t status = vc_addr_to(want->shown.family ? &want->shown : &want->bind, &address);
    if (status == PJ_SUCCESS && !pj_sockaddr_has_addr(&address)) {
        int af = want->bind.family == 6 ? pj_AF_INET6() : pj_AF_INET();
        if (pj_getdefaultipinterface(af, &address) != PJ_SUCCESS) {
            pj_str_t loopback = pj_str(want->bind.family == 6 ? "::1" : "127.0.0.1");
            status = pj_sockaddr_init(af, &address, &loopback, 0);
        }
    }
    out->host = pj_str((char *)pj_sockaddr_print(&address, buf, size, 0));
    out->port = want->shown.family ? want->shown.port : 0; /* 0: the bound one */
    return status;
}

static pj_status_t start_udp(vc_endpoint *ep, const vc_listen *want, const pjsip_host_port *name, vc_listener *out)
{
    pjsip_udp_transport_cfg config;
    pj_status_t status;
    pjsip_udp_transport_cfg_default(&config, out->af);
    vc_addr_to(&want->bind, &config.bind_addr);
    config.addr_name = *name;
    status = pjsip_udp_transport_start2(ep->sip, &config, &out->udp);
    if (status != PJ_SUCCESS) {
        return status;
    }
    if (out->udp->local_name.port == 0) {
        out->udp->local_name.port = pj_sockaddr_get_port(&out->udp->local_addr);
    }
    out->bound = out->udp->local_addr;
    return PJ_SUCCESS;
}

static pj_status_t start_tcp(vc_endpoint *ep, const vc_listen *want, const pjsip_host_port *name, vc_listener *out)
{
    pjsip_tcp_transport_cfg config;
    pj_status_t status;
    pjsip_tcp_transport_cfg_default(&config, out->af);
    vc_addr_to(&want->bind, &config.bind_addr);
    config.reuse_addr = PJ_TRUE;
    /* A connection that never sends a request is closed. */
    config.initial_timeout = 30;
    config.addr_name = *name;
    status = pjsip_tcp_transport_start3(ep->sip, &config, &out->factory);
    if (status == PJ_SUCCESS) {
        out->bound = out->factory->local_addr;
    }
    return status;
}

int vc_listen_on(vc_endpoint *ep, const vc_listen *want, const vc_tls *tls, vc_addr *bound)
{
    char text[PJ_INET6_ADDRSTRLEN + 10];
    pjsip_host_port name;
    vc_listener *listener;
    pj_status_t status;
    if (ep->listener_count == VC_LISTENERS) {
        return VC_ELIMIT;
    }
    status = published(want, text, sizeof(text), &name);
    if (status != PJ_SUCCESS) {
        return status;
    }
    listener = listener_add(ep, want);
    switch (want->kind) {
    case VC_UDP:
        status = start_udp(ep, want, &name, listener);
        break;
    case VC_TCP:
        status = start_tcp(ep, want, &name, listener);
        break;
    default:
        status = vc_tls_start(ep, want, tls, &name, listener);
        break;
    }
    if (status != PJ_SUCCESS) {
        ep->listener_count--;
        return status;
    }
    /* PJSIP resolves 0.0.0.0 to an address it thinks of as ours; we want to know what was bound. */
    if (want->bind.family) {
        pj_sockaddr address;
        vc_addr_to(&want->bind, &address);
        pj_sockaddr_copy_addr(&listener->bound, &address);
    }
    vc_addr_from(&listener->bound, bound);
    return 0;
}

unsigned vc_kind_of(pjsip_transport_type_e type)
{
    unsigned flag = pjsip_transport_get_flag_from_type(type);
    return flag & PJSIP_TRANSPORT_DATAGRAM ? VC_UDP : flag & PJSIP_TRANSPORT_SECURE ? VC_TLS : VC_TCP;
}

/* The listener of this group, kind and family; NULL when there is none. Group 0 is any. */
vc_listener *vc_listener_for(unsigned kind, int af, unsigned group)
{
    for (unsigned i = 0; i < vc_ep->listener_count; i++) {
        vc_listener *candidate = &vc_ep->listeners[i];
        if (candidate->kind == kind && candidate->af == af && (group == 0 || candidate->group == group)) {
            return candidate;
        }
    }
    return NULL;
}

/* The listener that a message came in by. */
vc_listener *vc_listener_of(const pjsip_transport *transport)
{
    unsigned kind = vc_kind_of(transport->key.type);
    int af = transport->key.type & PJSIP_TRANSPORT_IPV6 ? pj_AF_INET6() : pj_AF_INET();
    vc_listener *best = NULL;
    for (unsigned i = 0; i < vc_ep->listener_count; i++) {
        vc_listener *candidate = &vc_ep->listeners[i];
        if (candidate->kind != kind || candidate->af != af) {
            continue;
        }
        if (candidate->udp == transport || (candidate->factory && candidate->factory == transport->factory) ||
            pj_sockaddr_get_port(&candidate->bound) == pj_sockaddr_get_port(&transport->local_addr)) {
            return candidate;
        }
        best = best ? best : candidate;
    }
    return best;
}

void vc_listener_select(const vc_listener *listener, pjsip_tpselector *out)
{
    pj_bzero(out, sizeof(*out));
    if (listener->udp) {
        out->type = PJSIP_TPSELECTOR_TRANSPORT;
        out->u.transport = listener->udp;
    } else {
        out->type = PJSIP_TPSELECTOR_LISTENER;
        out->u.listener = listener->factory;
    }
}

/* The address of ours that `peer` is told: the public one, else the bound one, else the one that routes to it. Its port is
 * the listener's. Looks no name up. */
pj_status_t vc_local_address(const vc_listener *listener, const pj_sockaddr *peer, pj_sockaddr *out)
{
    unsigned port = pj_sockaddr_get_port(&listener->bound);
    *out = listener->shown.addr.sa_family ? listener->shown : listener->bound;
    if (!pj_sockaddr_has_addr(out)) {
        char text[PJ_INET6_ADDRSTRLEN + 10];
        pj_str_t host = pj_str((char *)pj_sockaddr_print(peer, text, sizeof(text), 0));
        pj_status_t status = pj_getipinterface(listener->af, &host, out, PJ_FALSE, NULL);
        if (status != PJ_SUCCESS) {
            return status;
        }
    }
    if (pj_sockaddr_get_port(out) == 0 || !listener->shown.addr.sa_family) {
        /* TLS that does not listen: on_tx puts the port of the connection in. */
        pj_sockaddr_set_port(out, (pj_uint16_t)(port ? port : 5061));
    }
    return PJ_SUCCESS;
}

/* Our Contact towards `peer`. */
int vc_contact(pj_pool_t *pool, const vc_listener *listener, const pj_sockaddr *peer, pj_bool_t sips, const pj_str_t *user,
               pj_str_t *out)
{
    static const char *const params[] = {"", ";transport=tcp", ";transport=tls"};
    char host[PJ_INET6_ADDRSTRLEN + 10];
    pj_sockaddr address;
    if (listener == NULL || vc_local_address(listener, peer, &address) != PJ_SUCCESS) {
        return VC_ESTATE;
    }
    pj_sockaddr_print(&address, host, sizeof(host), 2);
    out->ptr = pj_pool_alloc(pool, VC_URI_MAX);
    out->slen = pj_ansi_snprintf(out->ptr, VC_URI_MAX, "<sip%s:%.*s%s%s:%d%s>", sips ? "s" : "",
                                 user ? (int)user->slen : 0, user ? user->ptr : "", user && user->slen ? "@" : "", host,
                                 pj_sockaddr_get_port(&address), params[listener->kind - VC_UDP]);
    return out->slen > 0 && out->slen < VC_URI_MAX ? 0 : VC_EURI;
}

/* TLS without a certificate does not listen: peers reach us by the connection that we opened, so it is what our Contact names
 * (they find it by its address and port, RFC 5923 5). The URI is the dialog's own. */
static pj_status_t on_tx(pjsip_tx_data *tdata)
{
    const pjsip_transport *transport = tdata->tp_info.transport;
    const vc_listener *listener;
    pjsip_contact_hdr *contact;
    if (vc_ep == NULL || transport == NULL || !(transport->flag & PJSIP_TRANSPORT_SECURE)) {
        return PJ_SUCCESS;
    }
    listener = vc_listener_of(transport);
    contact = pjsip_msg_find_hdr(tdata->msg, PJSIP_H_CONTACT, NULL);
    if (listener && pj_sockaddr_get_port(&listener->bound) == 0 && contact && contact->uri && !contact->star &&
        pj_sockaddr_get_port(&transport->local_addr) != 0) {
        pjsip_sip_uri *uri = pjsip_uri_get_uri(contact->uri);
        uri->port = pj_sockaddr_get_port(&transport->local_addr);
    }
    return PJ_SUCCESS;
}

static pjsip_module contact_module = {
    NULL,
    NULL,
    {"vc-contact", 10},
    -1,
    PJSIP_MOD_PRIORITY_TRANSPORT_LAYER + 1, /* the connection is known, the message not yet printed */
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    &on_tx,
    &on_tx,
    NULL,
};

pj_status_t vc_listen_init(pjsip_endpoint *sip)
{
    return pjsip_endpt_register_module(sip, &contact_module);
}
