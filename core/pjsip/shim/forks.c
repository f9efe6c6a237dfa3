/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Early answers of the forks of our INVITE. Media follows the newest; a 200 without SDP means what the 183 of that same fork
 * had (RFC 3262 5), which may not be the newest.
 */
#include "internal.h"

#define FORKS_MAX 16

struct vc_fork {
    struct vc_fork *next;
    pj_str_t tag;
    pjmedia_sdp_session *sdp;
};

static vc_fork *fork_find(vc_call *call, const pj_str_t *tag)
{
    vc_fork *fork = call->forks;
    while (fork && pj_stricmp(&fork->tag, tag) != 0) {
        fork = fork->next;
    }
    return fork;
}

/* An answer to our INVITE was agreed on. */
void vc_fork_agreed(vc_call *call, const pjmedia_sdp_session *answer)
{
    pjsip_dialog *dialog = call->inv->dlg;
    const pj_str_t *tag = &dialog->remote.info->tag;
    vc_fork *fork = fork_find(call, tag);
    if (!call->outgoing || call->inv->state >= PJSIP_INV_STATE_CONFIRMED) {
        return;
    }
    if (fork == NULL && call->fork_count < FORKS_MAX) {
        fork = PJ_POOL_ZALLOC_T(dialog->pool, vc_fork);
        pj_strdup(dialog->pool, &fork->tag, tag);
        fork->next = call->forks;
        call->forks = fork;
        call->fork_count++;
    }
    if (fork && fork->sdp == NULL) {
        fork->sdp = pjmedia_sdp_session_clone(dialog->pool, answer);
    }
    call->heard_fork = fork;
}

/* A fork is the peer now. True: its early answer has to be agreed on once more, and was. */
pj_bool_t vc_fork_confirmed(vc_call *call)
{
    pjsip_inv_session *inv = call->inv;
    vc_fork *fork = call->outgoing ? fork_find(call, &inv->dlg->remote.info->tag) : NULL;
    /* Not in the pools that PJSIP empties in turn: this exchange is none of its own. */
    pj_pool_t *pool = inv->pool;
    if (fork == NULL || fork == call->heard_fork || inv->neg == NULL ||
        pjmedia_sdp_neg_get_state(inv->neg) != PJMEDIA_SDP_NEG_STATE_DONE) {
        return PJ_FALSE;
    }
    return pjmedia_sdp_neg_modify_local_offer2(pool, inv->neg, inv->sdp_neg_flags,
                                               vc_srtp_offer(pool, call->sdp, NULL)) == PJ_SUCCESS &&
           pjmedia_sdp_neg_set_remote_answer(pool, inv->neg, fork->sdp) == PJ_SUCCESS &&
           pjmedia_sdp_neg_negotiate(pool, inv->neg, 0) == PJ_SUCCESS;
}
