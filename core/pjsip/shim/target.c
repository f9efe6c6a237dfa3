/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Where media may be sent to. An offer names any address its author likes: ours is not the hand that sends to a group, to a
 * service of somebody else or of this machine.
 */
#include "internal.h"

#define FIRST_PORT 1024

static pj_bool_t v4_ok(const pj_uint8_t *ip)
{
    /* 0/8 (0.0.0.0 was let through before), multicast 224/4, reserved and broadcast 240/4 (RFC 6890). */
    return ip[0] != 0 && ip[0] < 224;
}

static pj_bool_t v6_ok(const pj_uint8_t *ip)
{
    static const pj_uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (pj_memcmp(ip, mapped, sizeof(mapped)) == 0) {
        return v4_ok(ip + 12);
    }
    /* Multicast ff00::/8; link-local fe80::/10, which is nothing without the scope that SDP cannot name. */
    return ip[0] != 0xff && !(ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80);
}

/* Ports below 1024 belong to services (DNS, NTP, …) that a forged offer would have us flood; no RTP lives there. The
 * unspecified address is hold of the old kind (RFC 3264 8.4): nothing is sent to it, whatever its port. */
pj_bool_t vc_target_ok(const pj_sockaddr *address)
{
    const pj_uint8_t *ip = pj_sockaddr_get_addr(address);
    if (!pj_sockaddr_has_addr(address)) {
        return PJ_TRUE;
    }
    if (pj_sockaddr_get_port(address) != 0 && pj_sockaddr_get_port(address) < FIRST_PORT) {
        return PJ_FALSE;
    }
    return address->addr.sa_family == pj_AF_INET6() ? v6_ok(ip) : v4_ok(ip);
}

static pj_bool_t is_loopback(const pj_sockaddr *address)
{
    static const pj_uint8_t one[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    static const pj_uint8_t mapped[13] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
    const pj_uint8_t *ip = pj_sockaddr_get_addr(address);
    if (address->addr.sa_family == pj_AF_INET6()) {
        return pj_memcmp(ip, one, sizeof(one)) == 0 || pj_memcmp(ip, mapped, sizeof(mapped)) == 0;
    }
    return ip[0] == 127;
}

/* Address of a stream: its c= or the session's. Names are not resolved: that would block the SIP thread. */
pj_bool_t vc_target_parse(const pjmedia_sdp_session *sdp, const pjmedia_sdp_media *m, unsigned port, pj_sockaddr *out)
{
    const pjmedia_sdp_conn *conn = m->conn ? m->conn : sdp->conn;
    int af;
    if (conn == NULL || port > 65535 || conn->addr.slen < 1 || conn->addr.slen > 45) {
        return PJ_FALSE;
    }
    af = pj_stricmp2(&conn->addr_type, "IP6") == 0 ? pj_AF_INET6() : pj_AF_INET();
    pj_sockaddr_init(af, out, NULL, (pj_uint16_t)port);
    return pj_inet_pton(af, &conn->addr, pj_sockaddr_get_addr(out)) == PJ_SUCCESS;
}

static pj_bool_t is_audio(const pjmedia_sdp_media *m)
{
    return m->desc.port != 0 && pj_stricmp2(&m->desc.media, "audio") == 0;
}

/* Whether the offer sends us to this machine itself though it came from elsewhere. */
pj_bool_t vc_target_loops(const pjmedia_sdp_session *offer, const pj_sockaddr *source)
{
    pj_sockaddr address;
    if (is_loopback(source)) {
        return PJ_FALSE;
    }
    for (unsigned i = 0; i < offer->media_count; i++) {
        if (is_audio(offer->media[i]) && vc_target_parse(offer, offer->media[i], 0, &address) && is_loopback(&address)) {
            return PJ_TRUE;
        }
    }
    return PJ_FALSE;
}

/* Whether our sockets, as our description has them, reach one of the streams. */
pj_bool_t vc_target_reachable(const pjmedia_sdp_session *offer, const pjmedia_sdp_session *local)
{
    pj_sockaddr ours, theirs;
    if (local->media_count == 0 || !vc_target_parse(local, local->media[0], 0, &ours)) {
        return PJ_TRUE; /* nothing to compare with */
    }
    for (unsigned i = 0; i < offer->media_count; i++) {
        if (is_audio(offer->media[i]) && vc_target_parse(offer, offer->media[i], 0, &theirs) &&
            (theirs.addr.sa_family == ours.addr.sa_family || !pj_sockaddr_has_addr(&theirs))) {
            return PJ_TRUE;
        }
    }
    return PJ_FALSE;
}
