/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What an engine agrees to inside of dialogs, told apart by the port of ours; and redirections.
 */
#include "internal.h"

_Static_assert(sizeof(vc_policy) == VC_SIZE_POLICY, "vc_policy differs from src/ffi.rs");

static const vc_policy fallback = {
    .reliable = VC_SUPPORTED, .timer = VC_SUPPORTED, .replaces = 1, .redirects = 3, .session_expires = 1800, .min_se = 90};

const vc_policy *vc_policy_of(unsigned port)
{
    const vc_policy *common = &fallback;
    for (unsigned i = 0; i < vc_ep->policy_count; i++) {
        const vc_policy *policy = &vc_ep->policies[i];
        if (port != 0 && policy->port == port) {
            return policy;
        }
        /* Connections that we opened have a port of their own: the only engine there is, or the one for all. */
        if (policy->port == 0 || vc_ep->policy_count == 1) {
            common = policy;
        }
    }
    return common;
}

int vc_set_policy(vc_endpoint *ep, const vc_policy *policy)
{
    for (unsigned i = 0; i < ep->policy_count; i++) {
        if (ep->policies[i].port == policy->port) {
            ep->policies[i] = *policy;
            return 0;
        }
    }
    if (ep->policy_count == VC_POLICIES) {
        /* Ports of engines that are gone: the oldest one makes room. */
        pj_array_erase(ep->policies, sizeof(ep->policies[0]), ep->policy_count--, 0);
    }
    ep->policies[ep->policy_count++] = *policy;
    return 0;
}

unsigned vc_policy_options(const vc_policy *policy)
{
    static const unsigned reliable[] = {0, PJSIP_INV_SUPPORT_100REL, PJSIP_INV_SUPPORT_100REL | PJSIP_INV_REQUIRE_100REL,
                                        PJSIP_INV_SUPPORT_100REL};
    static const unsigned timer[] = {0, PJSIP_INV_SUPPORT_TIMER, PJSIP_INV_SUPPORT_TIMER | PJSIP_INV_REQUIRE_TIMER,
                                     PJSIP_INV_SUPPORT_TIMER | PJSIP_INV_ALWAYS_USE_TIMER};
    return reliable[policy->reliable & 3] | timer[policy->timer & 3];
}

pj_status_t vc_policy_timer(pjsip_inv_session *inv, const vc_policy *policy)
{
    pjsip_timer_setting timer;
    pjsip_timer_setting_default(&timer);
    timer.min_se = PJ_MAX(policy->min_se, timer.min_se);
    timer.sess_expires = PJ_MAX(policy->session_expires, timer.min_se);
    return pjsip_timer_init_session(inv, &timer);
}

/* 3xx (RFC 3261 8.1.3.4), and what further targets answer. PJSIP never tries a target twice in a call. */
pjsip_redirect_op vc_on_redirected(pjsip_inv_session *inv, const pjsip_uri *target, const pjsip_event *e)
{
    vc_call *call = vc_call_of(inv);
    PJ_UNUSED_ARG(target);
    PJ_UNUSED_ARG(e);
    if (call == NULL || call->told || call->redirects >= call->policy.redirects) {
        if (call && !call->told && call->redirects && call->redirects == call->policy.redirects) {
            call->redirects++; /* said once for all targets of the answer */
            vc_log(2, "a call was redirected too often; it ends with the last answer");
        }
        return PJSIP_REDIRECT_REJECT; /* with no target left the answer stands */
    }
    call->redirects++;
    vc_dial_redirected(call);
    /* Early media was agreed on with somebody else: the next answer is one to the offer again. */
    if (inv->neg && call->sdp && pjmedia_sdp_neg_get_state(inv->neg) == PJMEDIA_SDP_NEG_STATE_DONE) {
        pjmedia_sdp_neg_modify_local_offer2(inv->pool_prov, inv->neg, inv->sdp_neg_flags,
                                            vc_srtp_offer(inv->pool_prov, call->sdp, NULL));
    }
    return PJSIP_REDIRECT_ACCEPT;
}

/* Whether Require names an extension that this engine has switched off: then it was refused with 420 (RFC 3261 8.2.2.3). */
pj_bool_t vc_policy_refuses(pjsip_rx_data *rdata, const vc_policy *policy)
{
    const pj_str_t names[] = {{"100rel", 6}, {"timer", 5}};
    const pj_bool_t off[] = {policy->reliable == VC_OFF, policy->timer == VC_OFF};
    pjsip_require_hdr *require = pjsip_msg_find_hdr(rdata->msg_info.msg, PJSIP_H_REQUIRE, NULL);
    pjsip_unsupported_hdr *unsupported = pjsip_unsupported_hdr_create(rdata->tp_info.pool);
    pjsip_hdr list;
    for (unsigned i = 0; require && i < require->count; i++) {
        for (unsigned k = 0; k < PJ_ARRAY_SIZE(names); k++) {
            if (off[k] && pj_stricmp(&require->values[i], &names[k]) == 0 && unsupported->count < 2) {
                unsupported->values[unsupported->count++] = names[k];
            }
        }
    }
    if (unsupported->count == 0) {
        return PJ_FALSE;
    }
    pj_list_init(&list);
    pj_list_push_back(&list, unsupported);
    vc_refuse(rdata, PJSIP_SC_BAD_EXTENSION, "Require names an extension that is switched off", &list);
    return PJ_TRUE;
}
