/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What our side of a description takes over from the peer's: packet length, comfort noise, where RTCP goes.
 */
#include "internal.h"

#define PTIME_MIN 10
#define PTIME_MAX 60

/* A peer that sends packets of 30 ms is answered that we like them; we take any length (RFC 8866 6.4). */
static void ptime_like(pj_pool_t *pool, pjmedia_sdp_media *m, unsigned ms)
{
    char text[8];
    pj_str_t value;
    ms = PJ_MAX(PTIME_MIN, PJ_MIN(PTIME_MAX, (ms + 5) / 10 * 10));
    pj_ansi_snprintf(text, sizeof(text), "%u", ms);
    pj_strdup2(pool, &value, text);
    pjmedia_sdp_media_remove_all_attr(m, "ptime");
    pjmedia_sdp_media_add_attr(m, pjmedia_sdp_attr_create(pool, "ptime", &value));
}

static void drop_noise(pjmedia_sdp_media *m)
{
    static const pj_str_t NOISE = {"13", 2};
    pjmedia_sdp_attr *map = pjmedia_sdp_media_find_attr2(m, "rtpmap", &NOISE);
    for (unsigned i = 0; i < m->desc.fmt_count; i++) {
        if (pj_strcmp(&m->desc.fmt[i], &NOISE) == 0) {
            pj_array_erase(m->desc.fmt, sizeof(m->desc.fmt[0]), m->desc.fmt_count, i);
            m->desc.fmt_count--;
            break;
        }
    }
    if (map) {
        pjmedia_sdp_media_remove_attr(m, map);
    }
}

void vc_shape_answer(pj_pool_t *pool, pjmedia_sdp_session *answer, const pjmedia_sdp_session *offer)
{
    unsigned codecs;
    if (answer == NULL || offer == NULL) {
        return;
    }
    vc_rtcp_answer(pool, answer, offer);
    codecs = vc_media_codecs(answer);
    for (unsigned i = 0; i < offer->media_count; i++) {
        unsigned ms = vc_media_ptime(offer->media[i], 0);
        if (ms && vc_media_usable(offer, offer->media[i], codecs)) {
            ptime_like(pool, answer->media[0], ms);
            break;
        }
    }
}

/* In mid-call comfort noise is not offered to a peer that had none of it. */
void vc_shape_offer(const pjsip_inv_session *inv, pjmedia_sdp_session *offer)
{
    const pjmedia_sdp_session *remote;
    if (offer == NULL) {
        return;
    }
    vc_rtcp_offer(inv, offer);
    if (inv->neg == NULL || pjmedia_sdp_neg_get_active_remote(inv->neg, &remote) != PJ_SUCCESS) {
        return;
    }
    for (unsigned i = 0; i < remote->media_count; i++) {
        if (vc_media_has_noise(remote->media[i])) {
            return;
        }
    }
    for (unsigned i = 0; i < offer->media_count; i++) {
        drop_noise(offer->media[i]);
    }
}
