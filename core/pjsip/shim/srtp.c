/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * SRTP in SDP: narrows our description, which lists a key for every suite, to what an offer or an answer may say (RFC 4568,
 * RFC 8643), and finds the two lines that were agreed on. The lines themselves are read in Rust (src/sdes).
 *
 * Our description tells the policy: no a=crypto, off; a=crypto under RTP/AVP, optional; under RTP/SAVP, required.
 */
#include "internal.h"

#define LINES_MAX 32
/* Suites in an offer of ours: a line is some 100 bytes, and an INVITE should fit a datagram (RFC 3261 18.1.1). */
#define OFFERED 2

static const pj_str_t AVP = {"RTP/AVP", 7};
static const pj_str_t SAVP = {"RTP/SAVP", 8};

enum { OFF, OPTIONAL, REQUIRED };

static pj_bool_t is_crypto(const pjmedia_sdp_attr *attr)
{
    return pj_stricmp2(&attr->name, "crypto") == 0;
}

static pj_bool_t is_savp(const pjmedia_sdp_media *m)
{
    return pj_stricmp(&m->desc.transport, &SAVP) == 0;
}

static unsigned lines_of(const pjmedia_sdp_media *m, vc_str lines[LINES_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < m->attr_count && count < LINES_MAX; i++) {
        if (is_crypto(m->attr[i])) {
            lines[count++] = vc_text(&m->attr[i]->value);
        }
    }
    return count;
}

static int policy_of(const pjmedia_sdp_media *ours)
{
    vc_str lines[LINES_MAX];
    return is_savp(ours) ? REQUIRED : lines_of(ours, lines) > 0 ? OPTIONAL : OFF;
}

/* Asks Rust for the pair of lines; NULL, or why there is none. */
static const char *pick(int answering, const pjmedia_sdp_media *theirs, const pjmedia_sdp_media *ours, vc_str *their,
                        vc_str *our)
{
    vc_str t[LINES_MAX], o[LINES_MAX];
    unsigned tn = lines_of(theirs, t), on = lines_of(ours, o);
    vc_picked picked = {0};
    if (vc_ep->sdes(answering, t, tn, o, on, &picked) != 0) {
        /* A literal, without a final NUL. */
        static char why[128];
        size_t len = PJ_MIN(picked.why.len, sizeof(why) - 1);
        pj_memcpy(why, picked.why.ptr, len);
        why[len] = '\0';
        return why;
    }
    if (picked.theirs >= tn || picked.ours >= on) {
        return "a defect of ours";
    }
    *their = t[picked.theirs];
    *our = o[picked.ours];
    return NULL;
}

/* Leaves of the a=crypto lines only those that begin at the addresses given, in at most `most` lines. */
static void keep_lines(pjmedia_sdp_media *m, const char *only, unsigned most)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < m->attr_count;) {
        pjmedia_sdp_attr *attr = m->attr[i];
        if (is_crypto(attr) && (kept >= most || (only && attr->value.ptr != only))) {
            pj_array_erase(m->attr, sizeof(m->attr[0]), m->attr_count, i);
            m->attr_count--;
        } else {
            kept += is_crypto(attr) ? 1 : 0;
            i++;
        }
    }
}

/* The line with the tag of another one. */
static void retag(pj_pool_t *pool, pjmedia_sdp_media *m, vc_str our, vc_str their)
{
    const char *rest = memchr(our.ptr, ' ', our.len), *end = their.ptr;
    size_t tag, tail;
    while (end < their.ptr + their.len && *end >= '0' && *end <= '9') {
        end++;
    }
    if (rest == NULL) {
        return;
    }
    tag = (size_t)(end - their.ptr);
    tail = our.len - (size_t)(rest - our.ptr);
    for (unsigned i = 0; i < m->attr_count; i++) {
        if (is_crypto(m->attr[i])) {
            pj_str_t value = {pj_pool_alloc(pool, tag + tail), (pj_ssize_t)(tag + tail)};
            pj_memcpy(value.ptr, their.ptr, tag);
            pj_memcpy(value.ptr + tag, rest, tail);
            m->attr[i]->value = value;
        }
    }
}

static pjmedia_sdp_session *plain(pj_pool_t *pool, const pjmedia_sdp_session *full)
{
    pjmedia_sdp_session *out = pjmedia_sdp_session_clone(pool, full);
    keep_lines(out->media[0], NULL, 0);
    out->media[0]->desc.transport = AVP;
    return out;
}

/* Ours for a stream of theirs, with the one line that answers it; NULL and why. */
static pjmedia_sdp_session *secure(pj_pool_t *pool, const pjmedia_sdp_session *full, const pjmedia_sdp_media *theirs,
                                   const char **why)
{
    pjmedia_sdp_session *out = pjmedia_sdp_session_clone(pool, full);
    pjmedia_sdp_media *m = out->media[0];
    vc_str their, our;
    *why = pick(1, theirs, m, &their, &our);
    if (*why) {
        return NULL;
    }
    keep_lines(m, our.ptr, 1);
    retag(pool, m, our, their);
    /* The profile of the offer: a peer that offers keys under RTP/AVP expects them there (RFC 8643 3.2). */
    m->desc.transport = is_savp(theirs) ? SAVP : AVP;
    return out;
}

pjmedia_sdp_session *vc_srtp_answer(pj_pool_t *pool, const pjmedia_sdp_session *full,
                                    const pjmedia_sdp_session *offer, const char **why)
{
    unsigned codecs = vc_media_codecs(full);
    const pjmedia_sdp_media *avp = NULL;
    pj_bool_t savp = PJ_FALSE;
    int policy = policy_of(full->media[0]);
    vc_str lines[LINES_MAX];
    *why = "the offer has no SRTP, and srtp is \"required\"";
    for (unsigned i = 0; i < offer->media_count; i++) {
        const pjmedia_sdp_media *m = offer->media[i];
        pjmedia_sdp_session *out;
        /* PJSIP answers the first stream of a profile, so others of that profile do not count. */
        if (!vc_media_usable(offer, m, codecs) || (is_savp(m) ? savp : avp != NULL)) {
            continue;
        }
        savp = savp || is_savp(m);
        avp = is_savp(m) ? avp : m;
        if (policy != OFF && (is_savp(m) || lines_of(m, lines) > 0)) {
            out = secure(pool, full, m, why);
            if (out) {
                return out;
            }
        }
    }
    if (avp && policy != REQUIRED) {
        return plain(pool, full);
    }
    if (policy == OFF) {
        *why = "the peer offers nothing but SRTP, and srtp is \"off\"";
    }
    return NULL;
}

const char *vc_srtp_agreed(const vc_call *call, const pjmedia_sdp_session *local, const pjmedia_sdp_session *remote,
                           vc_str *our, vc_str *their)
{
    int policy = call->sdp ? policy_of(call->sdp->media[0]) : OFF;
    unsigned count = PJ_MIN(local->media_count, remote->media_count);
    for (unsigned i = 0; i < count; i++) {
        const pjmedia_sdp_media *ours = local->media[i], *theirs = remote->media[i];
        vc_str lines[LINES_MAX];
        pj_bool_t we, they;
        if (ours->desc.port == 0 || pj_stricmp2(&ours->desc.media, "audio") != 0) {
            continue;
        }
        we = lines_of(ours, lines) > 0;
        they = lines_of(theirs, lines) > 0;
        if (we && (they || is_savp(ours) || is_savp(theirs))) {
            return pick(0, theirs, ours, their, our);
        }
        if (policy == REQUIRED) {
            return "no SRTP was agreed, and srtp is \"required\"";
        }
        return is_savp(theirs) ? "the peer answers with SRTP that was not offered" : NULL;
    }
    return NULL;
}

pj_bool_t vc_srtp_has_keys(const pjmedia_sdp_session *sdp)
{
    vc_str lines[LINES_MAX];
    return sdp->media_count > 0 && lines_of(sdp->media[0], lines) > 0;
}

/* Whether two lines say the same but for their tags. */
static pj_bool_t same_key(vc_str a, vc_str b)
{
    const char *x = memchr(a.ptr, ' ', a.len), *y = memchr(b.ptr, ' ', b.len);
    size_t n = x ? a.len - (size_t)(x - a.ptr) : 0;
    return x && y && n == b.len - (size_t)(y - b.ptr) && memcmp(x, y, n) == 0;
}

pjmedia_sdp_session *vc_srtp_offer(pj_pool_t *pool, const pjmedia_sdp_session *full, const vc_call *call)
{
    const pjmedia_sdp_session *local, *remote;
    pjmedia_sdp_neg *neg = call ? call->inv->neg : NULL;
    pjmedia_sdp_session *out = pjmedia_sdp_session_clone(pool, full);
    vc_str our = {0}, their, has[LINES_MAX];
    unsigned count;
    if (policy_of(full->media[0]) == OFF) {
        return out;
    }
    if (neg == NULL || pjmedia_sdp_neg_get_active_local(neg, &local) != PJ_SUCCESS ||
        pjmedia_sdp_neg_get_active_remote(neg, &remote) != PJ_SUCCESS) {
        keep_lines(out->media[0], NULL, OFFERED);
        return out;
    }
    /* In mid-call: what is in use, with the same key, so that the packet counters run on (RFC 4568 7.1.4). */
    if (vc_srtp_agreed(call, local, remote, &our, &their) == NULL && our.len > 0) {
        count = lines_of(out->media[0], has);
        for (unsigned k = 0; k < count; k++) {
            if (same_key(our, has[k])) {
                keep_lines(out->media[0], has[k].ptr, 1);
                return out;
            }
        }
    }
    return policy_of(full->media[0]) == REQUIRED ? out : plain(pool, full);
}

/* Keys do not outlive their call in our copy. PJSIP's own copies go with its pools. */
void vc_srtp_forget(vc_call *call)
{
    for (unsigned i = 0; call->sdp && i < call->sdp->media_count; i++) {
        const pjmedia_sdp_media *m = call->sdp->media[i];
        for (unsigned k = 0; k < m->attr_count; k++) {
            if (is_crypto(m->attr[k])) {
                volatile char *p = m->attr[k]->value.ptr;
                for (pj_ssize_t n = 0; n < m->attr[k]->value.slen; n++) {
                    p[n] = 0;
                }
            }
        }
    }
}
