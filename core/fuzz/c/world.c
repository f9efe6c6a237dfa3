/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Bytes into PJSIP as its transports would hand them over; time, chance, names and sockets replaced (build.rs wraps the
 * functions at the end of this file).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "world.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define VCF_POISON(at, len) ASAN_POISON_MEMORY_REGION(at, len)
#define VCF_UNPOISON(at, len) ASAN_UNPOISON_MEMORY_REGION(at, len)
#endif
#endif
#ifndef VCF_POISON
#define VCF_POISON(at, len) ((void)(at), (void)(len))
#define VCF_UNPOISON(at, len) ((void)(at), (void)(len))
#endif

/* PJSIP's UDP transport takes less for a keep-alive. */
#define MIN_DATAGRAM 32
#define KEPT 16384

typedef struct stream {
    pjsip_transport base;
    pjsip_rx_data rdata;
} stream;

static uint64_t now_ms = 1000000;
static uint32_t unique, random_state, sent_count;
static stream *the_stream;
static struct {
    uint64_t id;
    unsigned addresses;
} asked[64];
static unsigned asked_count;
static struct {
    uint8_t data[KEPT];
    size_t len;
} kept[2];

/* For a person who looks at one input: VCF_TRACE=1 in the environment shows the messages both ways. */
static void trace(const char *which, const void *data, size_t len)
{
    static int wanted = -1;
    if (wanted < 0) {
        wanted = getenv("VCF_TRACE") != NULL;
    }
    if (wanted) {
        fprintf(stderr, "--- %s at %llu ms\n%.*s\n", which, (unsigned long long)now_ms, (int)len, (const char *)data);
    }
}

static void keep(const void *data, size_t len)
{
    unsigned which = len > 8 && memcmp(data, "SIP/2.0 ", 8) == 0;
    if (len > 64) { /* keep-alives are shorter */
        kept[which].len = PJ_MIN(len, KEPT);
        memcpy(kept[which].data, data, kept[which].len);
    }
    sent_count++;
    trace("sent", data, len);
}

void vcf_begin(void)
{
    unique = random_state = sent_count = asked_count = 0;
    kept[0].len = kept[1].len = 0;
    vcf_same();
}

void vcf_resolve(void)
{
    static const char *const ips[] = {"192.0.2.9", "192.0.2.10"};
    vc_addr found[PJ_ARRAY_SIZE(ips)];
    pj_sockaddr address;
    for (unsigned i = 0; i < PJ_ARRAY_SIZE(ips); i++) {
        pj_str_t text = pj_str((char *)ips[i]);
        pj_sockaddr_init(pj_AF_INET(), &address, &text, 5060);
        vc_addr_from(&address, &found[i]);
    }
    while (asked_count > 0) {
        asked_count--;
        vc_resolved(vc_ep, asked[asked_count].id, found, asked[asked_count].addresses);
    }
}

void vcf_advance(uint32_t ms)
{
    now_ms += ms;
}

int64_t vcf_next_timer(void)
{
    pj_time_val earliest, now;
    pj_timer_heap_t *timers = pjsip_endpt_get_timer_heap(vc_ep->sip);
    if (pj_timer_heap_earliest_time(timers, &earliest) != PJ_SUCCESS) {
        return -1;
    }
    pj_gettickcount(&now);
    PJ_TIME_VAL_SUB(earliest, now);
    return PJ_MAX(PJ_TIME_VAL_MSEC(earliest), 0);
}

size_t vcf_sent(uint32_t which, uint8_t *out, size_t size)
{
    memcpy(out, kept[which & 1].data, PJ_MIN(kept[which & 1].len, size));
    return kept[which & 1].len;
}

uint32_t vcf_sent_count(void)
{
    return sent_count;
}

void vcf_left_over(vcf_left *out)
{
    out->transactions = pjsip_tsx_layer_get_tsx_count();
    out->dialogs = pjsip_ua_get_dlg_set_count();
    out->calls = vc_ep->call_count;
    out->streams = the_stream != NULL;
    out->lookups = 0;
    /* Its first member links the list (shim/resolve.c). */
    for (struct vc_query *query = vc_ep->queries; query; query = *(struct vc_query **)query) {
        out->lookups++;
    }
}

static void from_address(pjsip_rx_data *rdata, const char *ip, uint16_t port, int af)
{
    pj_str_t text = pj_str((char *)ip);
    pj_sockaddr_init(af, &rdata->pkt_info.src_addr, &text, port);
    rdata->pkt_info.src_addr_len = pj_sockaddr_get_len(&rdata->pkt_info.src_addr);
    pj_ansi_strxcpy(rdata->pkt_info.src_name, ip, sizeof(rdata->pkt_info.src_name));
    rdata->pkt_info.src_port = port;
    pj_gettimeofday(&rdata->pkt_info.timestamp);
}

/* The buffer is far longer than what arrived, so a sanitizer would see nothing of reads past the end. */
static pj_ssize_t receive(pjsip_rx_data *rdata)
{
    char *end = rdata->pkt_info.packet + rdata->pkt_info.len + 1;
    size_t rest = (size_t)(rdata->pkt_info.packet + sizeof(rdata->pkt_info.packet) - end);
    pj_ssize_t eaten;
    trace("received", rdata->pkt_info.packet, (size_t)rdata->pkt_info.len);
    VCF_POISON(end, rest);
    eaten = pjsip_tpmgr_receive_packet(rdata->tp_info.transport->tpmgr, rdata);
    VCF_UNPOISON(end, rest);
    return eaten;
}

void vcf_datagram(const uint8_t *data, size_t len, uint32_t source)
{
    static const struct {
        const char *ip;
        uint16_t port;
    } sources[] = {{"192.0.2.7", 5060}, {"192.0.2.7", 5099}, {"198.51.100.9", 5060}, {"203.0.113.200", 1}};
    pjsip_transport *transport;
    pjsip_rx_data *rdata;
    pj_sockaddr anywhere;
    pj_pool_t *pool;
    if (len <= MIN_DATAGRAM || len >= sizeof(rdata->pkt_info.packet)) {
        return;
    }
    pj_sockaddr_init(pj_AF_INET(), &anywhere, NULL, 5060);
    anywhere.ipv4.sin_addr.s_addr = pj_htonl(0xC0000207);
    if (pjsip_endpt_acquire_transport(vc_ep->sip, PJSIP_TRANSPORT_UDP, &anywhere, sizeof(pj_sockaddr_in), NULL,
                                      &transport) != PJ_SUCCESS) {
        abort();
    }
    pool = pjsip_endpt_create_pool(vc_ep->sip, "rtd%p", PJSIP_POOL_RDATA_LEN, PJSIP_POOL_RDATA_INC);
    rdata = PJ_POOL_ZALLOC_T(pool, pjsip_rx_data);
    rdata->tp_info.pool = pool;
    rdata->tp_info.transport = transport;
    memcpy(rdata->pkt_info.packet, data, len);
    rdata->pkt_info.len = (pj_ssize_t)len;
    from_address(rdata, sources[source % PJ_ARRAY_SIZE(sources)].ip, sources[source % PJ_ARRAY_SIZE(sources)].port,
                 pj_AF_INET());
    receive(rdata);
    pj_pool_release(pool);
    pjsip_transport_dec_ref(transport);
}

static pj_status_t stream_send(pjsip_transport *transport, pjsip_tx_data *tdata, const pj_sockaddr_t *to, int to_len,
                               void *token, pjsip_transport_callback callback)
{
    PJ_UNUSED_ARG(transport);
    PJ_UNUSED_ARG(to);
    PJ_UNUSED_ARG(to_len);
    PJ_UNUSED_ARG(token);
    PJ_UNUSED_ARG(callback);
    keep(tdata->buf.start, (size_t)(tdata->buf.cur - tdata->buf.start));
    return PJ_SUCCESS;
}

static pj_status_t stream_shutdown(pjsip_transport *transport)
{
    PJ_UNUSED_ARG(transport);
    return PJ_SUCCESS;
}

static pj_status_t stream_destroy(pjsip_transport *transport)
{
    stream *it = (stream *)transport;
    if (the_stream == it) {
        the_stream = NULL;
    }
    pj_pool_release(it->rdata.tp_info.pool);
    pj_lock_destroy(transport->lock);
    pj_atomic_destroy(transport->ref_cnt);
    pj_pool_release(transport->pool);
    return PJ_SUCCESS;
}

static stream *stream_open(void)
{
    pj_str_t peer = pj_str("192.0.2.8"), us = pj_str("127.0.0.1");
    pj_pool_t *pool = pjsip_endpt_create_pool(vc_ep->sip, "stream", 1000, 1000);
    stream *it = PJ_POOL_ZALLOC_T(pool, stream);
    pjsip_transport *base = &it->base;
    pj_ansi_strxcpy(base->obj_name, "stream", sizeof(base->obj_name));
    base->pool = pool;
    base->key.type = PJSIP_TRANSPORT_TCP;
    pj_sockaddr_init(pj_AF_INET(), &base->key.rem_addr, &peer, 40000);
    pj_sockaddr_init(pj_AF_INET(), &base->local_addr, &us, 5060);
    base->type_name = (char *)pjsip_transport_get_type_name(base->key.type);
    base->flag = pjsip_transport_get_flag_from_type(base->key.type);
    base->info = (char *)"stream";
    base->addr_len = sizeof(pj_sockaddr_in);
    base->local_name.host = us;
    base->local_name.port = 5060;
    base->remote_name.host = peer;
    base->remote_name.port = 40000;
    base->dir = PJSIP_TP_DIR_INCOMING;
    base->endpt = vc_ep->sip;
    base->tpmgr = pjsip_endpt_get_tpmgr(vc_ep->sip);
    base->send_msg = &stream_send;
    base->do_shutdown = &stream_shutdown;
    base->destroy = &stream_destroy;
    it->rdata.tp_info.pool =
        pjsip_endpt_create_pool(vc_ep->sip, "rtd%p", PJSIP_POOL_RDATA_LEN, PJSIP_POOL_RDATA_INC);
    it->rdata.tp_info.transport = base;
    if (pj_atomic_create(pool, 0, &base->ref_cnt) != PJ_SUCCESS ||
        pj_lock_create_recursive_mutex(pool, "stream", &base->lock) != PJ_SUCCESS ||
        pjsip_transport_register(base->tpmgr, base) != PJ_SUCCESS) {
        abort();
    }
    return it;
}

void vcf_stream(const uint8_t *data, size_t len)
{
    pjsip_rx_data *rdata;
    pj_ssize_t eaten;
    size_t room;
    stream *it;
    if (the_stream == NULL) {
        the_stream = stream_open();
    }
    it = the_stream;
    rdata = &it->rdata;
    room = PJSIP_MAX_PKT_LEN - (size_t)rdata->pkt_info.len;
    len = PJ_MIN(len, room);
    if (it->base.is_shutdown || len == 0) {
        return;
    }
    memcpy(rdata->pkt_info.packet + rdata->pkt_info.len, data, len);
    rdata->pkt_info.len += (pj_ssize_t)len;
    from_address(rdata, "192.0.2.8", 40000, pj_AF_INET());
    pjsip_transport_add_ref(&it->base);
    eaten = receive(rdata);
    if (eaten < 0 || eaten > rdata->pkt_info.len) {
        abort();
    }
    rdata->pkt_info.len -= eaten;
    memmove(rdata->pkt_info.packet, rdata->pkt_info.packet + eaten, (size_t)rdata->pkt_info.len);
    pj_pool_reset(rdata->tp_info.pool);
    pjsip_transport_dec_ref(&it->base);
}

void vcf_stream_close(void)
{
    pjsip_transport *base = the_stream ? &the_stream->base : NULL;
    pjsip_tp_state_callback told;
    pjsip_transport_state_info info;
    if (base == NULL || base->is_shutdown) {
        return;
    }
    pjsip_transport_add_ref(base);
    told = pjsip_tpmgr_get_state_cb(base->tpmgr);
    pj_bzero(&info, sizeof(info));
    info.status = PJ_EEOF;
    if (told) {
        (*told)(base, PJSIP_TP_STATE_DISCONNECTED, &info);
    }
    pjsip_transport_shutdown2(base, PJ_TRUE);
    pjsip_transport_dec_ref(base);
}

/* ---- In place of PJLIB's own, by the linker. ---- */

pj_status_t __wrap_pj_get_timestamp(pj_timestamp *ts);
pj_status_t __wrap_pj_gettimeofday(pj_time_val *tv);
pj_str_t *__wrap_pj_generate_unique_string(pj_str_t *str);
int __wrap_pj_rand(void);
pj_status_t __wrap_pj_getaddrinfo(int af, const pj_str_t *name, unsigned *count, pj_addrinfo ai[]);
pj_status_t __wrap_pj_gethostip(int af, pj_sockaddr *addr);
pj_status_t __wrap_pj_getipinterface(int af, const pj_str_t *dst, pj_sockaddr *itf, pj_bool_t resolve,
                                     pj_sockaddr *p_dst);
pj_status_t __wrap_pj_sock_sendto(pj_sock_t sock, const void *data, pj_ssize_t *len, unsigned flags,
                                  const pj_sockaddr_t *to, int to_len);
pj_status_t __wrap_pj_sock_send(pj_sock_t sock, const void *data, pj_ssize_t *len, unsigned flags);
pj_status_t __wrap_pj_sock_connect(pj_sock_t sock, const pj_sockaddr_t *to, int to_len);

/* Lookups would leave for name servers: vcf_resolve answers them. */
void __real_vc_emit(const vc_event *event);
void __wrap_vc_emit(const vc_event *event);
void __wrap_vc_emit(const vc_event *event)
{
    if (event->kind != VC_EV_RESOLVE) {
        __real_vc_emit(event);
    } else if (asked_count < PJ_ARRAY_SIZE(asked)) {
        const vc_str *host = &event->text[0];
        asked[asked_count].id = event->id;
        asked[asked_count++].addresses = host->len == 0 || host->ptr[0] == 'x' ? 0 : 1 + host->len % 2;
    } else {
        abort();
    }
}

pj_status_t __wrap_pj_get_timestamp(pj_timestamp *ts)
{
    ts->u64 = now_ms * 1000000; /* pj_get_timestamp_freq: nanoseconds */
    return PJ_SUCCESS;
}

pj_status_t __wrap_pj_gettimeofday(pj_time_val *tv)
{
    tv->sec = (long)(1790000000 + now_ms / 1000);
    tv->msec = (long)(now_ms % 1000);
    return PJ_SUCCESS;
}

pj_str_t *__wrap_pj_generate_unique_string(pj_str_t *str)
{
    char text[64];
    int len = (int)pj_GUID_STRING_LENGTH();
    snprintf(text, sizeof(text), "u%0*u", len - 1, unique++);
    memcpy(str->ptr, text, (size_t)len);
    str->slen = len;
    return str;
}

int __wrap_pj_rand(void)
{
    random_state = random_state * 1103515245 + 12345;
    return (int)((random_state >> 8) & 0x7fffff);
}

/* Numbers are what they say; of names, those that begin with x are not known. */
pj_status_t __wrap_pj_getaddrinfo(int af, const pj_str_t *name, unsigned *count, pj_addrinfo ai[])
{
    pj_str_t four = pj_str("192.0.2.9"), six = pj_str("2001:db8::9");
    pj_sockaddr address;
    int numeric = 0;
    if (*count == 0 || name->slen <= 0) {
        return PJ_EINVAL;
    }
    pj_bzero(&address, sizeof(address));
    if (af != pj_AF_INET6() && pj_inet_pton(pj_AF_INET(), name, &address.ipv4.sin_addr) == PJ_SUCCESS) {
        numeric = pj_AF_INET();
    } else if (af != pj_AF_INET() && pj_inet_pton(pj_AF_INET6(), name, &address.ipv6.sin6_addr) == PJ_SUCCESS) {
        numeric = pj_AF_INET6();
    }
    if (numeric) {
        address.addr.sa_family = (pj_uint16_t)numeric;
    } else if (name->ptr[0] == 'x') {
        return PJ_ERESOLVE;
    } else if (af == pj_AF_INET6()) {
        pj_sockaddr_init(pj_AF_INET6(), &address, &six, 0);
    } else {
        pj_sockaddr_init(pj_AF_INET(), &address, &four, 0);
    }
    pj_bzero(&ai[0], sizeof(ai[0]));
    ai[0].ai_addr = address;
    *count = 1;
    return PJ_SUCCESS;
}

pj_status_t __wrap_pj_gethostip(int af, pj_sockaddr *addr)
{
    pj_str_t four = pj_str("192.0.2.1"), six = pj_str("2001:db8::1");
    return pj_sockaddr_init(af, addr, af == pj_AF_INET6() ? &six : &four, 0);
}

pj_status_t __wrap_pj_getipinterface(int af, const pj_str_t *dst, pj_sockaddr *itf, pj_bool_t resolve,
                                     pj_sockaddr *p_dst)
{
    PJ_UNUSED_ARG(resolve);
    if (p_dst && pj_sockaddr_init(af, p_dst, dst, 53) != PJ_SUCCESS) {
        return PJ_EINVAL;
    }
    return __wrap_pj_gethostip(af, itf);
}

pj_status_t __wrap_pj_sock_sendto(pj_sock_t sock, const void *data, pj_ssize_t *len, unsigned flags,
                                  const pj_sockaddr_t *to, int to_len)
{
    PJ_UNUSED_ARG(sock);
    PJ_UNUSED_ARG(flags);
    PJ_UNUSED_ARG(to);
    PJ_UNUSED_ARG(to_len);
    keep(data, (size_t)*len);
    return PJ_SUCCESS;
}

pj_status_t __wrap_pj_sock_send(pj_sock_t sock, const void *data, pj_ssize_t *len, unsigned flags)
{
    return __wrap_pj_sock_sendto(sock, data, len, flags, NULL, 0);
}

pj_status_t __wrap_pj_sock_connect(pj_sock_t sock, const pj_sockaddr_t *to, int to_len)
{
    PJ_UNUSED_ARG(sock);
    PJ_UNUSED_ARG(to);
    PJ_UNUSED_ARG(to_len);
    return PJ_STATUS_FROM_OS(ECONNREFUSED);
}
