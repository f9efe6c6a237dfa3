/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Reads the audio stream out of SDP: what an offer must have to be taken, and what was agreed (RFC 3264).
 */
#include "internal.h"

#define NO_PT 0xffu

/* Payload type of a format, or NO_PT: RTP/AVP formats are numbers of 7 bits (RFC 3550 5.1). */
static unsigned payload_type(const pj_str_t *fmt)
{
    unsigned value = 0;
    if (fmt->slen < 1 || fmt->slen > 3) {
        return NO_PT;
    }
    for (pj_ssize_t i = 0; i < fmt->slen; i++) {
        if (fmt->ptr[i] < '0' || fmt->ptr[i] > '9') {
            return NO_PT;
        }
        value = value * 10 + (unsigned)(fmt->ptr[i] - '0');
    }
    return value <= 127 ? value : NO_PT;
}

/* A number that RFC 3551 gives to a codec of ours stays that codec's, whatever an rtpmap makes of it. */
static pj_bool_t fixed_number_fits(unsigned pt, unsigned static_pt)
{
    return pt == static_pt || (pt != 0 && pt != 8 && pt != 9 && pt != 13);
}

/* Whether format i has this encoding and an RTP clock of 8 kHz, by rtpmap or else by its static number. Some write the
 * sampling rate of G.722 there, and mean the clock of RFC 3551 4.5.2 all the same. */
static pj_bool_t format_is(const pjmedia_sdp_media *m, unsigned i, const char *name, unsigned static_pt)
{
    const pjmedia_sdp_attr *attr = pjmedia_sdp_media_find_attr2(m, "rtpmap", &m->desc.fmt[i]);
    pjmedia_sdp_rtpmap map;
    if (attr == NULL) {
        return static_pt != NO_PT && payload_type(&m->desc.fmt[i]) == static_pt;
    }
    if (pjmedia_sdp_attr_get_rtpmap(attr, &map) != PJ_SUCCESS ||
        !fixed_number_fits(payload_type(&m->desc.fmt[i]), static_pt)) {
        return PJ_FALSE;
    }
    /* More than one channel is another format (RFC 3551 4.1). */
    if (map.param.slen > 0 && pj_strcmp2(&map.param, "1") != 0) {
        return PJ_FALSE;
    }
    return pj_stricmp2(&map.enc_name, name) == 0 &&
           (map.clock_rate == 8000 || (static_pt == 9 && map.clock_rate == 16000));
}

static unsigned codec_of(const pjmedia_sdp_media *m, unsigned i)
{
    if (format_is(m, i, "PCMA", 8)) {
        return VC_CODEC_PCMA;
    }
    if (format_is(m, i, "PCMU", 0)) {
        return VC_CODEC_PCMU;
    }
    return format_is(m, i, "G722", 9) ? VC_CODEC_G722 : 0;
}

static unsigned pt_of_codec(const pjmedia_sdp_media *m, unsigned codec)
{
    for (unsigned i = 0; i < m->desc.fmt_count; i++) {
        if (codec_of(m, i) == codec) {
            return payload_type(&m->desc.fmt[i]);
        }
    }
    return NO_PT;
}

static unsigned pt_of_events(const pjmedia_sdp_media *m)
{
    for (unsigned i = 0; i < m->desc.fmt_count; i++) {
        if (format_is(m, i, "telephone-event", NO_PT)) {
            return payload_type(&m->desc.fmt[i]);
        }
    }
    return NO_PT;
}

/* Comfort noise (RFC 3389). G.722 has an RTP clock of 8000 Hz, so 13 goes with each of our codecs. */
static unsigned pt_of_noise(const pjmedia_sdp_media *m)
{
    for (unsigned i = 0; i < m->desc.fmt_count; i++) {
        if (format_is(m, i, "CN", 13)) {
            return payload_type(&m->desc.fmt[i]);
        }
    }
    return NO_PT;
}

static pj_bool_t is_audio(const pjmedia_sdp_media *m)
{
    return pj_stricmp2(&m->desc.media, "audio") == 0 &&
           (pj_stricmp2(&m->desc.transport, "RTP/AVP") == 0 || pj_stricmp2(&m->desc.transport, "RTP/SAVP") == 0);
}

/* Address of a stream that may be sent to. */
static pj_bool_t address_of(const pjmedia_sdp_session *sdp, const pjmedia_sdp_media *m, unsigned port,
                            pj_sockaddr *out)
{
    return vc_target_parse(sdp, m, port, out) && vc_target_ok(out);
}

/* The codecs that a description lists, as bits. */
unsigned vc_media_codecs(const pjmedia_sdp_session *sdp)
{
    unsigned codecs = 0;
    for (unsigned i = 0; i < sdp->media_count; i++) {
        for (unsigned k = 0; is_audio(sdp->media[i]) && k < sdp->media[i]->desc.fmt_count; k++) {
            codecs |= codec_of(sdp->media[i], k);
        }
    }
    return codecs;
}

/* RTP/SAVP without a=crypto has its keys from elsewhere (DTLS, MIKEY), which we do not do. */
static pj_bool_t has_keys(const pjmedia_sdp_media *m)
{
    return pj_stricmp2(&m->desc.transport, "RTP/AVP") == 0 || pjmedia_sdp_media_find_attr2(m, "crypto", NULL) != NULL;
}

/* Whether it is a stream of audio with one of these codecs that can be run. */
pj_bool_t vc_media_usable(const pjmedia_sdp_session *sdp, const pjmedia_sdp_media *m, unsigned codecs)
{
    pj_sockaddr address;
    if (!is_audio(m) || !has_keys(m) || m->desc.port == 0 || !address_of(sdp, m, m->desc.port, &address)) {
        return PJ_FALSE;
    }
    for (unsigned k = 0; k < m->desc.fmt_count; k++) {
        if ((codec_of(m, k) & codecs) != 0 && payload_type(&m->desc.fmt[k]) != NO_PT) {
            return PJ_TRUE;
        }
    }
    return PJ_FALSE;
}

pj_bool_t vc_media_offer_ok(const pjmedia_sdp_session *offer, unsigned codecs)
{
    /* PJSIP reads no more lines than this, and an answer needs as many as the offer (RFC 3264 6). */
    if (offer->media_count >= PJMEDIA_MAX_SDP_MEDIA) {
        return PJ_FALSE;
    }
    for (unsigned i = 0; i < offer->media_count; i++) {
        if (vc_media_usable(offer, offer->media[i], codecs)) {
            return PJ_TRUE;
        }
        /* PJSIP's negotiation puts our stream into the first line of audio; one that is off would take the call's. */
        if (is_audio(offer->media[i]) && offer->media[i]->desc.port == 0) {
            return PJ_FALSE;
        }
    }
    return PJ_FALSE;
}

static unsigned direction_of(const pjmedia_sdp_session *sdp, const pjmedia_sdp_media *m)
{
    static const struct {
        const char *name;
        unsigned bits;
    } table[] = {
        {"sendrecv", VC_SENDS | VC_RECEIVES}, {"sendonly", VC_SENDS}, {"recvonly", VC_RECEIVES}, {"inactive", 0}};
    for (unsigned i = 0; i < PJ_ARRAY_SIZE(table); i++) {
        if (pjmedia_sdp_media_find_attr2(m, table[i].name, NULL)) {
            return table[i].bits;
        }
    }
    for (unsigned i = 0; i < PJ_ARRAY_SIZE(table); i++) {
        if (pjmedia_sdp_attr_find2(sdp->attr_count, sdp->attr, table[i].name, NULL)) {
            return table[i].bits;
        }
    }
    return VC_SENDS | VC_RECEIVES;
}

/* An attribute of a number of ms; `absent` when it is not there or out of reason. */
static unsigned ms_of(const pjmedia_sdp_media *m, const char *name, unsigned absent)
{
    const pjmedia_sdp_attr *attr = pjmedia_sdp_media_find_attr2(m, name, NULL);
    pj_str_t value;
    unsigned long ms;
    if (attr == NULL) {
        return absent;
    }
    value = attr->value;
    pj_strtrim(&value);
    if (value.slen < 1 || value.slen > 3) {
        return absent;
    }
    ms = pj_strtoul(&value);
    return ms >= 10 && ms <= 200 ? (unsigned)ms : absent;
}

/* What a side wants to get (RFC 8866 6.4): a=ptime, `absent` without, and never more than its a=maxptime. */
unsigned vc_media_ptime(const pjmedia_sdp_media *m, unsigned absent)
{
    unsigned wanted = ms_of(m, "ptime", absent), most = ms_of(m, "maxptime", 200);
    return PJ_MIN(wanted, most / 10 * 10);
}

pj_bool_t vc_media_has_noise(const pjmedia_sdp_media *m)
{
    return pt_of_noise(m) != NO_PT;
}

/* a=rtcp (RFC 3605), else RTP's port + 1. */
static void rtcp_of(const pjmedia_sdp_session *sdp, const pjmedia_sdp_media *m, const pj_sockaddr *rtp, vc_addr *out)
{
    const pjmedia_sdp_attr *attr = pjmedia_sdp_media_find_attr2(m, "rtcp", NULL);
    pj_sockaddr address = *rtp;
    unsigned port = m->desc.port + 1u;
    pjmedia_sdp_rtcp_attr rtcp;
    PJ_UNUSED_ARG(sdp);
    if (attr && pjmedia_sdp_attr_get_rtcp(attr, &rtcp) == PJ_SUCCESS) {
        port = rtcp.port;
        if (rtcp.addr.slen > 0 && rtcp.addr.slen <= 45) {
            pj_inet_pton(address.addr.sa_family, &rtcp.addr, pj_sockaddr_get_addr(&address));
        }
    }
    if (m->desc.port == 0 || port == 0 || port > 65535) {
        return; /* family stays 0: none */
    }
    pj_sockaddr_set_port(&address, (pj_uint16_t)port);
    if (vc_target_ok(&address)) {
        vc_addr_from(&address, out);
    }
}

pj_bool_t vc_media_describe(const pjmedia_sdp_session *local, const pjmedia_sdp_session *remote, vc_media *out)
{
    unsigned count = PJ_MIN(local->media_count, remote->media_count);
    pj_bzero(out, sizeof(*out));
    for (unsigned i = 0; i < count; i++) {
        const pjmedia_sdp_media *ours = local->media[i], *theirs = remote->media[i];
        unsigned codec = 0, we, they, tx, rx;
        pj_sockaddr rtp;
        if (!is_audio(ours) || ours->desc.port == 0 || !address_of(remote, theirs, theirs->desc.port, &rtp)) {
            continue;
        }
        for (unsigned k = 0; k < ours->desc.fmt_count && codec == 0; k++) {
            codec = codec_of(ours, k);
        }
        rx = pt_of_codec(ours, codec);
        tx = pt_of_codec(theirs, codec);
        if (codec == 0 || rx == NO_PT) {
            continue;
        }
        out->codec = (uint8_t)codec;
        out->rx_pt = (uint8_t)rx;
        out->tx_pt = (uint8_t)(tx != NO_PT ? tx : rx);
        tx = pt_of_events(theirs);
        rx = pt_of_events(ours);
        out->tx_event_pt = (uint8_t)(rx != NO_PT ? tx : NO_PT);
        out->rx_event_pt = (uint8_t)(tx != NO_PT ? rx : NO_PT);
        out->cn_pt = (uint8_t)(pt_of_noise(theirs) != NO_PT ? pt_of_noise(ours) : NO_PT);
        out->ptime_ms = (uint8_t)vc_media_ptime(theirs, 20);
        out->direction = (uint8_t)vc_rtcp_way(ours, theirs);
        vc_addr_from(&rtp, &out->rtp);
        rtcp_of(remote, theirs, &rtp, &out->rtcp);
        we = direction_of(local, ours);
        they = direction_of(remote, theirs);
        /* c=0.0.0.0 is hold of the old kind (RFC 3264 8.4); port 0 ends the stream. */
        if ((we & VC_SENDS) && (they & VC_RECEIVES) && pj_sockaddr_has_addr(&rtp) && theirs->desc.port != 0) {
            out->direction |= VC_SENDS;
        }
        if ((we & VC_RECEIVES) && (they & VC_SENDS) && theirs->desc.port != 0) {
            out->direction |= VC_RECEIVES;
        }
        return PJ_TRUE;
    }
    return PJ_FALSE;
}
