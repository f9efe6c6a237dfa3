/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * PJSIP's SDP parser and offer/answer with what the shim makes of the outcome, without messages around them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "world.h"

static const char BOTH[] = "v=0\r\no=voice 7 7 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n"
                           "m=audio 30000 RTP/AVP 8 0 101\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\n"
                           "a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=ptime:20\r\na=sendrecv\r\n";
static const char ONE[] = "v=0\r\no=voice 7 7 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n"
                          "m=audio 30000 RTP/AVP 0\r\na=sendrecv\r\n";

static const char KEYS[] = "v=0\r\no=voice 7 7 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n"
                           "m=audio 30000 RTP/AVP 8 0\r\n"
                           "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n";

static void must(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "sdp: %s\n", what);
        abort();
    }
}

/* What we send must fit and must parse; printing what came in must not run over. */
static void check_print(pj_pool_t *pool, const pjmedia_sdp_session *sdp, pj_bool_t own)
{
    char text[8192], cut[64];
    pjmedia_sdp_session *again;
    int len = pjmedia_sdp_print(sdp, text, sizeof(text) - 1);
    must(pjmedia_sdp_print(sdp, cut, sizeof(cut)) <= (int)sizeof(cut), "printed past a short buffer");
    if (len < 0) {
        return; /* too long: the message is not sent */
    }
    must(len < (int)sizeof(text), "printed past the buffer");
    text[len] = '\0';
    if (own) {
        must(pjmedia_sdp_parse(pool, text, (pj_size_t)len, &again) == PJ_SUCCESS, "our own SDP does not parse");
    }
}

static void check_outcome(pj_pool_t *pool, pjmedia_sdp_neg *neg)
{
    const pjmedia_sdp_session *local, *remote;
    vc_media media;
    must(pjmedia_sdp_neg_get_active_local(neg, &local) == PJ_SUCCESS, "no local SDP after success");
    must(pjmedia_sdp_neg_get_active_remote(neg, &remote) == PJ_SUCCESS, "no remote SDP after success");
    check_print(pool, local, PJ_TRUE);
    if (!vc_media_describe(local, remote, &media)) {
        return;
    }
    must(media.codec != 0 && (media.codec & (media.codec - 1)) == 0, "not one codec");
    must(media.tx_pt < 128 && media.rx_pt < 128, "a payload type has 7 bits");
    must(media.tx_event_pt < 128 || media.tx_event_pt == 0xff, "a payload type of events has 7 bits");
    must(media.rx_event_pt < 128 || media.rx_event_pt == 0xff, "our payload type of events has 7 bits");
    must(media.rtp.family == 4 || media.rtp.family == 6, "no address to send to");
}

static pjmedia_sdp_session *parse(pj_pool_t *pool, const uint8_t *data, size_t len)
{
    pjmedia_sdp_session *sdp;
    vc_str text = {(const char *)data, len};
    /* As the shim does with bodies (shim/incoming.c). */
    if (len == 0 || memchr(data, 0, len) != NULL || vc_sdp_parse(pool, text, &sdp) != 0) {
        return NULL;
    }
    return sdp;
}

static pjmedia_sdp_session *ours(pj_pool_t *pool, unsigned mode)
{
    const char *text = mode & 8 ? KEYS : mode & 1 ? ONE : BOTH;
    return parse(pool, (const uint8_t *)text, strlen(text));
}

static void run(pj_pool_t *pool, unsigned mode, pjmedia_sdp_session *local, pjmedia_sdp_session *first,
                pjmedia_sdp_session *second)
{
    pjmedia_sdp_neg *neg;
    pj_status_t status;
    const char *why;
    if (mode & 8) {
        local = mode & 2 ? vc_srtp_offer(pool, local, NULL) : vc_srtp_answer(pool, local, first, &why);
        if (local == NULL) {
            return;
        }
    }
    if (mode & 2) {
        status = pjmedia_sdp_neg_create_w_local_offer(pool, local, &neg);
        must(status == PJ_SUCCESS, "our own offer is refused");
        status = pjmedia_sdp_neg_set_remote_answer(pool, neg, first);
    } else {
        if (!vc_media_offer_ok(first, vc_media_codecs(local))) {
            return;
        }
        status = pjmedia_sdp_neg_create_w_remote_offer(pool, local, first, &neg);
    }
    if (status != PJ_SUCCESS || pjmedia_sdp_neg_negotiate(pool, neg, 0) != PJ_SUCCESS) {
        return;
    }
    check_outcome(pool, neg);
    if (second == NULL) {
        return;
    }
    if (mode & 4) {
        status = pjmedia_sdp_neg_modify_local_offer(pool, neg, local);
        if (status == PJ_SUCCESS) status = pjmedia_sdp_neg_set_remote_answer(pool, neg, second);
    } else {
        status = pjmedia_sdp_neg_set_remote_offer(pool, neg, second);
        if (status == PJ_SUCCESS && !vc_media_offer_ok(second, vc_media_codecs(local))) {
            return;
        }
        if (status == PJ_SUCCESS) status = pjmedia_sdp_neg_set_local_answer(pool, neg, local);
    }
    if (status == PJ_SUCCESS && pjmedia_sdp_neg_negotiate(pool, neg, 0) == PJ_SUCCESS) {
        check_outcome(pool, neg);
    }
}

void vcf_sdp(uint32_t mode, const uint8_t *first, size_t first_len, const uint8_t *second, size_t second_len)
{
    pj_pool_t *pool = pj_pool_create(&vc_ep->caching.factory, "sdp", 4000, 4000, NULL);
    pjmedia_sdp_session *local = ours(pool, mode), *a = parse(pool, first, first_len),
                        *b = parse(pool, second, second_len);
    must(local != NULL, "our own SDP does not parse");
    if (a) {
        check_print(pool, a, PJ_FALSE);
        run(pool, mode, local, a, b);
    }
    pj_pool_release(pool);
}
