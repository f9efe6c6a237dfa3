/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Where RTCP goes: on RTP's port when the peer offers that (RFC 5761 5.1.1), on its own, or nowhere when it gives RTCP no
 * bandwidth (RFC 3556). We do not offer to share a port: trunks expect two.
 */
#include "internal.h"

static const char MUX[] = "rtcp-mux";

static pj_bool_t has_mux(const pjmedia_sdp_media *m)
{
    return pjmedia_sdp_media_find_attr2(m, MUX, NULL) != NULL;
}

/* Audio lines of sdp, which is a copy of nobody else's, get the attribute if other has it. */
static void mux_like(pj_pool_t *pool, pjmedia_sdp_session *sdp, const pjmedia_sdp_session *other)
{
    pj_bool_t wanted = PJ_FALSE;
    for (unsigned i = 0; i < other->media_count && !wanted; i++) {
        const pjmedia_sdp_media *m = other->media[i];
        wanted = pj_stricmp2(&m->desc.media, "audio") == 0 && m->desc.port != 0 && has_mux(m);
    }
    for (unsigned i = 0; i < sdp->media_count && wanted; i++) {
        pjmedia_sdp_media *m = sdp->media[i];
        if (pj_stricmp2(&m->desc.media, "audio") == 0 && !has_mux(m)) {
            pjmedia_sdp_media_add_attr(m, pjmedia_sdp_attr_create(pool, MUX, NULL));
        }
    }
}

void vc_rtcp_answer(pj_pool_t *pool, pjmedia_sdp_session *answer, const pjmedia_sdp_session *offer)
{
    if (answer && offer) {
        mux_like(pool, answer, offer);
    }
}

/* A later offer of ours keeps what was agreed on. */
void vc_rtcp_offer(const pjsip_inv_session *inv, pjmedia_sdp_session *offer)
{
    const pjmedia_sdp_session *active;
    if (offer && inv->neg && pjmedia_sdp_neg_get_active_local(inv->neg, &active) == PJ_SUCCESS) {
        mux_like(inv->pool_prov, offer, active);
    }
}

static pj_bool_t no_bandwidth(unsigned count, pjmedia_sdp_bandw *const *lines, const char *modifier)
{
    for (unsigned i = 0; i < count; i++) {
        if (pj_stricmp2(&lines[i]->modifier, modifier) == 0) {
            return lines[i]->value == 0;
        }
    }
    return PJ_FALSE;
}

unsigned vc_rtcp_way(const pjmedia_sdp_media *ours, const pjmedia_sdp_media *theirs)
{
    /* Senders' share and receivers' share. */
    if (no_bandwidth(theirs->bandw_count, theirs->bandw, "RS") && no_bandwidth(theirs->bandw_count, theirs->bandw, "RR")) {
        return VC_RTCP_OFF;
    }
    return has_mux(ours) && has_mux(theirs) ? VC_RTCP_MUX : 0;
}
