/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Life of the endpoint: PJSIP's global state, transports, the round of polling, log.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

_Static_assert(sizeof(vc_addr) == VC_SIZE_ADDR, "vc_addr differs from src/ffi.rs");
_Static_assert(sizeof(vc_media) == VC_SIZE_MEDIA, "vc_media differs from src/ffi.rs");
_Static_assert(sizeof(vc_event) == VC_SIZE_EVENT, "vc_event differs from src/ffi.rs");
_Static_assert(sizeof(vc_picked) == VC_SIZE_PICKED, "vc_picked differs from src/ffi.rs");

vc_endpoint *vc_ep;

void vc_emit(const vc_event *event)
{
    if (vc_ep) {
        vc_ep->emitted++;
        vc_ep->emit(vc_ep->user, event);
    }
}

void vc_log(unsigned level, const char *text)
{
    vc_event event = {.kind = VC_EV_LOG, .status = level, .flag = 1};
    event.text[0] = (vc_str){text, strlen(text)};
    vc_emit(&event);
}

static void on_pj_log(int level, const char *data, int len)
{
    vc_event event = {.kind = VC_EV_LOG, .status = (uint32_t)level};
    event.text[0] = (vc_str){data, len > 0 ? (size_t)len : 0};
    vc_emit(&event);
}

vc_str vc_text(const pj_str_t *s)
{
    return (vc_str){s->ptr, s->ptr && s->slen > 0 ? (size_t)s->slen : 0};
}

pj_str_t vc_pj(vc_str s)
{
    return (pj_str_t){(char *)s.ptr, (pj_ssize_t)s.len};
}

/* A copy that lives as long as the pool. */
vc_str vc_keep(pj_pool_t *pool, vc_str text)
{
    pj_str_t copy, in = vc_pj(text);
    pj_strdup_with_null(pool, &copy, &in);
    return vc_text(&copy);
}

/* Runs the timer in so many ms, and not when it would have run before. */
void vc_schedule(pj_timer_entry *entry, unsigned ms)
{
    pj_time_val delay = {(long)(ms / 1000), (long)(ms % 1000)};
    pjsip_endpt_cancel_timer(vc_ep->sip, entry);
    pjsip_endpt_schedule_timer(vc_ep->sip, entry, &delay);
}

uint64_t vc_next_id(void)
{
    static uint64_t last; /* never reset: ids are unique over all endpoints of the process */
    return ++last;
}

/* <URI>: without brackets parameters of the URI would become the header's (RFC 3261 20.10). */
pj_str_t vc_name_addr(pj_pool_t *pool, vc_str uri)
{
    pj_str_t out = {pj_pool_alloc(pool, uri.len + 3), (pj_ssize_t)uri.len + 2};
    out.ptr[0] = '<';
    pj_memcpy(out.ptr + 1, uri.ptr, uri.len);
    out.ptr[uri.len + 1] = '>';
    out.ptr[uri.len + 2] = '\0';
    return out;
}

void vc_addr_from(const pj_sockaddr *in, vc_addr *out)
{
    pj_bzero(out, sizeof(*out));
    if (in->addr.sa_family != pj_AF_INET() && in->addr.sa_family != pj_AF_INET6()) {
        return;
    }
    out->family = in->addr.sa_family == pj_AF_INET6() ? 6 : 4;
    out->port = pj_sockaddr_get_port(in);
    pj_memcpy(out->ip, pj_sockaddr_get_addr(in), out->family == 6 ? 16 : 4);
}

pj_status_t vc_addr_to(const vc_addr *in, pj_sockaddr *out)
{
    int af = in->family == 6 ? pj_AF_INET6() : pj_AF_INET();
    pj_status_t status = pj_sockaddr_init(af, out, NULL, in->port);
    if (status == PJ_SUCCESS) {
        pj_memcpy(pj_sockaddr_get_addr(out), in->ip, in->family == 6 ? 16 : 4);
    }
    return status;
}

/* The wake socket is read dry and armed again; the bytes mean nothing. */
static void on_wake(pj_ioqueue_key_t *key, pj_ioqueue_op_key_t *op, pj_ssize_t bytes)
{
    vc_endpoint *ep = pj_ioqueue_get_user_data(key);
    ep->woken = PJ_TRUE;
    while (bytes > 0) {
        pj_status_t status;
        bytes = sizeof(ep->wake_buf);
        status = pj_ioqueue_recv(key, op, ep->wake_buf, &bytes, 0);
        if (status != PJ_SUCCESS) {
            return; /* PJ_EPENDING: armed */
        }
    }
}

static pj_status_t wake_init(vc_endpoint *ep, int fd)
{
    pj_ioqueue_callback callback;
    pj_status_t status;
    pj_bzero(&callback, sizeof(callback));
    callback.on_read_complete = &on_wake;
    status = pj_ioqueue_register_sock2(ep->pool, pjsip_endpt_get_ioqueue(ep->sip), fd, NULL, ep, &callback,
                                       &ep->wake_key);
    if (status != PJ_SUCCESS) {
        close(fd);
        return status;
    }
    pj_ioqueue_op_key_init(&ep->wake_op, sizeof(ep->wake_op));
    on_wake(ep->wake_key, &ep->wake_op, 1);
    ep->woken = PJ_FALSE;
    return PJ_SUCCESS;
}

/* PJSIP's own, which tells transactions that their connection is gone. */
static pjsip_tp_state_callback inner_state_cb;

static void on_transport(pjsip_transport *transport, pjsip_transport_state state, const pjsip_transport_state_info *info)
{
    if (vc_ep && !vc_ep->closing && state == PJSIP_TP_STATE_DISCONNECTED) {
        if (transport->flag & PJSIP_TRANSPORT_SECURE) {
            vc_tls_state(transport, info);
        }
        vc_regs_lost(vc_ep, transport);
    }
    if (inner_state_cb) {
        inner_state_cb(transport, state, info);
    }
}

static pj_status_t stack_init(vc_endpoint *ep, const vc_config *config)
{
    pjsip_ua_init_param ua = {&vc_on_forked};
    pj_str_t agent = vc_pj(config->user_agent);
    pj_status_t status;
    ep->pool = pj_pool_create(&ep->caching.factory, "vc", 4000, 4000, NULL);
    if (ep->pool == NULL) {
        close(config->wake_fd);
        return PJ_ENOMEM;
    }
    pj_strdup_with_null(ep->pool, &ep->user_agent, &agent);
    status = pjsip_endpt_create(&ep->caching.factory, "vc", &ep->sip);
    if (status != PJ_SUCCESS) {
        close(config->wake_fd);
        return status;
    }
    /* Large requests stay on UDP: a switch to TCP nobody configured ends in a Via that does not match (logged in
     * requests.c instead). */
    pjsip_cfg()->endpt.disable_tcp_switch = PJ_TRUE;
    status = wake_init(ep, config->wake_fd);
    if (status == PJ_SUCCESS) status = pjsip_tsx_layer_init_module(ep->sip);
    if (status == PJ_SUCCESS) status = pjsip_ua_init_module(ep->sip, &ua);
    if (status == PJ_SUCCESS) status = vc_calls_init(ep->sip);
    if (status == PJ_SUCCESS) status = pjsip_100rel_init_module(ep->sip);
    if (status == PJ_SUCCESS) status = pjsip_timer_init_module(ep->sip);
    if (status == PJ_SUCCESS) status = vc_transfer_init(ep->sip);
    if (status == PJ_SUCCESS) status = vc_requests_init(ep->sip);
    if (status == PJ_SUCCESS) status = vc_listen_init(ep->sip);
    if (status == PJ_SUCCESS) status = vc_auth_init(ep->sip);
    if (status == PJ_SUCCESS) status = vc_resolve_init(ep);
    if (status == PJ_SUCCESS) {
        inner_state_cb = pjsip_tpmgr_get_state_cb(pjsip_endpt_get_tpmgr(ep->sip));
        status = pjsip_tpmgr_set_state_cb(pjsip_endpt_get_tpmgr(ep->sip), &on_transport);
    }
    if (status == PJ_SUCCESS) status = vc_guard_init(ep->sip);
    if (status == PJ_SUCCESS) status = vc_within_init(ep->sip);
    if (status == PJ_SUCCESS) {
        status = pjsip_tpmgr_set_drop_data_cb(pjsip_endpt_get_tpmgr(ep->sip), &vc_on_dropped);
    }
    return status;
}

int vc_create(const vc_config *config, vc_event_fn emit, void *user, vc_endpoint **out)
{
    vc_endpoint *ep;
    pj_status_t status;
    if (vc_ep) {
        close(config->wake_fd);
        return VC_ESTATE;
    }
    pj_log_set_level((int)PJ_MIN(config->log_level, PJ_LOG_MAX_LEVEL));
    pj_log_set_decor(PJ_LOG_HAS_SENDER);
    pj_log_set_log_func(&on_pj_log);
    status = pj_init();
    if (status != PJ_SUCCESS) {
        close(config->wake_fd);
        return status;
    }
    pjlib_util_init();
    ep = calloc(1, sizeof(*ep));
    if (ep == NULL) {
        close(config->wake_fd);
        pj_shutdown();
        return PJ_ENOMEM;
    }
    ep->emit = emit;
    ep->user = user;
    ep->sdes = config->sdes;
    ep->slim = config->slim;
    ep->codecs = config->codecs;
    ep->max_calls = config->max_calls;
    pj_caching_pool_init(&ep->caching, NULL, 4 * 1024 * 1024);
    vc_ep = ep;
    status = stack_init(ep, config);
    if (status != PJ_SUCCESS) {
        vc_destroy(ep);
        return status;
    }
    *out = ep;
    return 0;
}

void vc_destroy(vc_endpoint *ep)
{
    ep->closing = PJ_TRUE;
    if (ep->sip) {
        vc_probes_destroy(ep);
        vc_regs_destroy(ep);
        vc_dials_destroy(ep);
        vc_resolve_destroy(ep);
        if (ep->wake_key) {
            pj_ioqueue_unregister(ep->wake_key);
        }
        pjsip_endpt_destroy(ep->sip);
    }
    if (ep->pool) {
        pj_pool_release(ep->pool);
    }
    pj_caching_pool_destroy(&ep->caching);
    vc_ep = NULL;
    pj_shutdown();
    free(ep);
}

int vc_poll(vc_endpoint *ep, uint32_t timeout_ms, uint32_t *woken)
{
    pj_ioqueue_t *ioqueue = pjsip_endpt_get_ioqueue(ep->sip);
    pj_timer_heap_t *timers = pjsip_endpt_get_timer_heap(ep->sip);
    pj_time_val next = {0, 0}, limit = {(long)(timeout_ms / 1000), (long)(timeout_ms % 1000)};
    int count, total = 0;
    ep->emitted = 0;
    pj_timer_heap_poll(timers, &next);
    vc_calls_reap(ep);
    /* An event of a timer must not wait for the sockets. */
    if (ep->emitted > 0 || ep->woken) {
        limit.sec = limit.msec = 0;
    } else if (PJ_TIME_VAL_LT(next, limit)) {
        limit = next;
        pj_time_val_normalize(&limit);
    }
    do {
        count = pj_ioqueue_poll(ioqueue, &limit);
        if (count < 0 && pj_get_os_error() != PJ_STATUS_FROM_OS(EINTR)) {
            return -count;
        }
        total += count > 0 ? count : 0;
        limit.sec = limit.msec = 0;
    } while (count > 0 && total < 256);
    pj_timer_heap_poll(timers, NULL);
    vc_calls_reap(ep);
    vc_regs_reap(ep);
    *woken = ep->woken ? 1 : 0;
    ep->woken = PJ_FALSE;
    return 0;
}

size_t vc_error_text(int status, char *buf, size_t size)
{
    pj_str_t text = pj_strerror(status, buf, size);
    return text.slen > 0 ? (size_t)text.slen : 0;
}
