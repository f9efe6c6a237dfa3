/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What the application asks of a call: ring, answer, reject, hang up, dial.
 */
#include "internal.h"

/* Parses in pool, which keeps the text: PJSIP's strings point into it. */
int vc_sdp_parse(pj_pool_t *pool, vc_str text, pjmedia_sdp_session **out)
{
    char *copy = pj_pool_alloc(pool, text.len + 1);
    if (text.len == 0 || copy == NULL) {
        return VC_ESDP;
    }
    pj_memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    if (pjmedia_sdp_parse(pool, copy, text.len, out) != PJ_SUCCESS || pjmedia_sdp_validate(*out) != PJ_SUCCESS) {
        return VC_ESDP;
    }
    return 0;
}

static pj_bool_t is_waiting(const vc_call *call)
{
    return !call->outgoing &&
           (call->inv->state == PJSIP_INV_STATE_INCOMING || call->inv->state == PJSIP_INV_STATE_EARLY);
}

int vc_ring(vc_endpoint *ep, uint64_t id)
{
    vc_call *call = vc_find(ep, id);
    pjsip_tx_data *tdata;
    pj_status_t status;
    if (call == NULL) {
        return VC_ENOCALL;
    }
    if (!is_waiting(call)) {
        return VC_ESTATE;
    }
    status = pjsip_inv_answer(call->inv, PJSIP_SC_RINGING, NULL, NULL, &tdata);
    return status == PJ_SUCCESS ? pjsip_inv_send_msg(call->inv, tdata) : status;
}

int vc_set_local_sdp(vc_endpoint *ep, uint64_t id, vc_str text, vc_str *why)
{
    vc_call *call = vc_find(ep, id);
    const pjmedia_sdp_session *offer;
    pjmedia_sdp_session *sdp;
    const char *no;
    pj_pool_t *pool;
    int status;
    if (call == NULL) {
        return VC_ENOCALL;
    }
    /* A pool of its own: a call may be held and resumed all day. PJSIP copies what it is given. */
    pool = pjsip_endpt_create_pool(ep->sip, "sdp", 1000, 1000);
    status = vc_sdp_parse(pool, text, &sdp);
    /* The application may offer less than the endpoint: that must be known before it hears of the call. */
    offer = status == 0 ? vc_pending_offer(call) : NULL;
    if (offer && !vc_media_offer_ok(offer, vc_media_codecs(sdp))) {
        status = VC_ENOCODEC;
    } else if (offer && vc_srtp_answer(call->inv->pool_prov, sdp, offer, &no) == NULL) {
        *why = (vc_str){no, strlen(no)};
        status = VC_ESRTP;
    }
    if (status != 0) {
        pj_pool_release(pool);
        return status;
    }
    vc_srtp_forget(call);
    if (call->sdp_pool) {
        pj_pool_release(call->sdp_pool);
    }
    call->sdp_pool = pool;
    call->sdp = sdp;
    return 0;
}

/* The peer's offer that waits for our answer, or NULL. */
const pjmedia_sdp_session *vc_pending_offer(const vc_call *call)
{
    const pjmedia_sdp_session *offer;
    return call->inv->neg &&
                   pjmedia_sdp_neg_get_state(call->inv->neg) == PJMEDIA_SDP_NEG_STATE_REMOTE_OFFER &&
                   pjmedia_sdp_neg_get_neg_remote(call->inv->neg, &offer) == PJ_SUCCESS
               ? offer
               : NULL;
}

/* Hands PJSIP our side of the first exchange: the answer to the offer, or an offer. */
pj_status_t vc_local_sdp(vc_call *call)
{
    const pjmedia_sdp_session *offer = vc_pending_offer(call);
    const char *why = "";
    pjmedia_sdp_session *sdp = offer ? vc_srtp_answer(call->inv->pool_prov, call->sdp, offer, &why)
                                     : vc_srtp_offer(call->inv->pool_prov, call->sdp, call);
    return sdp ? pjsip_inv_set_local_sdp(call->inv, sdp) : PJMEDIA_SDPNEG_EINVANSTP;
}

int vc_answer(vc_endpoint *ep, uint64_t id)
{
    vc_call *call = vc_find(ep, id);
    pjsip_dialog *dialog;
    pjsip_tx_data *tdata;
    pj_status_t status;
    if (call == NULL) {
        return VC_ENOCALL;
    }
    if (!is_waiting(call)) {
        return VC_ESTATE;
    }
    if (call->sdp == NULL) {
        return VC_ENOSDP;
    }
    dialog = call->inv->dlg;
    pjsip_dlg_inc_lock(dialog);
    /* After an early answer there is nothing more to negotiate. */
    status = call->early ? PJ_SUCCESS : vc_local_sdp(call);
    if (status == PJ_SUCCESS) {
        status = pjsip_inv_answer(call->inv, PJSIP_SC_OK, NULL, NULL, &tdata);
    }
    if (status == PJ_SUCCESS) {
        status = pjsip_inv_send_msg(call->inv, tdata);
    } else {
        /* Our SDP and the offer do not fit after all. */
        vc_call_doom(call, PJSIP_SC_NOT_ACCEPTABLE_HERE);
    }
    pjsip_dlg_dec_lock(dialog);
    return status;
}

int vc_reject(vc_endpoint *ep, uint64_t id, uint32_t status, int64_t retry_after)
{
    vc_call *call = vc_find(ep, id);
    if (call == NULL) {
        return VC_ENOCALL;
    }
    if (!is_waiting(call)) {
        return VC_ESTATE;
    }
    vc_call_told(call, status, NULL, PJ_FALSE);
    vc_call_end(call, status, retry_after);
    return 0;
}

/* What the application is told as the reason of its own hang-up. */
static unsigned hangup_status(const vc_call *call)
{
    if (call->inv->state >= PJSIP_INV_STATE_CONNECTING) {
        return PJSIP_SC_OK;
    }
    return call->outgoing ? PJSIP_SC_REQUEST_TERMINATED : PJSIP_SC_DECLINE;
}

int vc_hangup(vc_endpoint *ep, uint64_t id)
{
    vc_call *call = vc_find(ep, id);
    if (call == NULL) {
        return VC_ENOCALL;
    }
    vc_call_told(call, hangup_status(call), NULL, PJ_FALSE);
    vc_call_end(call, PJSIP_SC_DECLINE, -1);
    return 0;
}

void vc_end_all(vc_endpoint *ep)
{
    ep->closing = PJ_TRUE;
    for (unsigned i = 0; i < VC_BUCKETS; i++) {
        vc_call *call = ep->calls[i];
        while (call) {
            vc_call *next = call->next;
            if (!call->told) {
                vc_hangup(ep, call->id);
            }
            call = next;
        }
    }
    for (vc_reg *reg = ep->regs; reg; reg = reg->next) {
        vc_unregister(ep, reg->id);
    }
}

uint32_t vc_calls(const vc_endpoint *ep)
{
    return ep->live_count;
}

uint32_t vc_pending(const vc_endpoint *ep)
{
    uint32_t count = ep->call_count;
    for (const vc_reg *reg = ep->regs; reg; reg = reg->next) {
        count++;
    }
    return count;
}

typedef struct target {
    pj_str_t uri;
    pjsip_sip_uri *parsed;
    pj_bool_t tcp;
} target;

static int parse_target(pj_pool_t *pool, vc_str text, target *out)
{
    pj_str_t copy, in = vc_pj(text);
    pjsip_uri *uri;
    pj_strdup_with_null(pool, &copy, &in);
    uri = pjsip_parse_uri(pool, copy.ptr, (pj_size_t)copy.slen, 0);
    if (uri == NULL || !PJSIP_URI_SCHEME_IS_SIP(uri)) {
        return VC_EURI;
    }
    out->uri = vc_name_addr(pool, text);
    out->parsed = (pjsip_sip_uri *)pjsip_uri_get_uri(uri);
    out->tcp = pj_stricmp2(&out->parsed->transport_param, "tcp") == 0;
    return 0;
}

static int af_of(const pj_str_t *host)
{
    return pj_strchr(host, ':') ? pj_AF_INET6() : pj_AF_INET();
}

static int set_route(pjsip_dialog *dialog, const target *via)
{
    pjsip_route_hdr set, *route = pjsip_route_hdr_create(dialog->pool);
    pjsip_sip_uri *uri = pjsip_uri_clone(dialog->pool, via->parsed);
    uri->lr_param = 1;
    route->name_addr.uri = (pjsip_uri *)uri;
    pj_list_init(&set);
    pj_list_push_back(&set, route);
    return pjsip_dlg_set_route_set(dialog, &set);
}

static int invite_create(pjsip_dialog *dialog, vc_str sdp_text, const vc_credentials *credentials,
                         const vc_dial_extra *extra, const vc_policy *policy, pjsip_inv_session **inv,
                         pjmedia_sdp_session **sdp)
{
    pjsip_cred_info info;
    int status = vc_sdp_parse(dialog->pool, sdp_text, sdp);
    if (status != 0) {
        return status;
    }
    if (credentials) {
        vc_credentials_to(credentials, &info);
        status = pjsip_auth_clt_set_credentials(&dialog->auth_sess, 1, &info);
        if (status != PJ_SUCCESS) {
            return status;
        }
    }
    status = pjsip_inv_create_uac(dialog, extra->late ? NULL : vc_srtp_offer(dialog->pool, *sdp, NULL),
                                  vc_policy_options(policy), inv);
    if (status == PJ_SUCCESS) {
        status = vc_policy_timer(*inv, policy);
    }
    return status;
}

static void add_replaces(pjsip_tx_data *tdata, vc_str text)
{
    const pj_str_t name = {"Replaces", 8};
    pj_str_t value = vc_pj(text);
    if (text.len) {
        pjsip_msg_add_hdr(tdata->msg, (pjsip_hdr *)pjsip_generic_string_hdr_create(tdata->pool, &name, &value));
    }
}

int vc_dial(vc_endpoint *ep, vc_str uri, vc_str from, vc_str sdp_text, vc_str route,
            const vc_credentials *credentials, const vc_dial_extra *extra, uint64_t *id)
{
    const vc_policy *policy = vc_policy_of(extra->port);
    pj_pool_t *pool;
    target to, via;
    const target *hop = &to;
    pj_str_t contact, local;
    pjsip_dialog *dialog = NULL;
    pjsip_inv_session *inv = NULL;
    pjmedia_sdp_session *sdp;
    pjsip_tx_data *tdata;
    vc_call *call;
    int status;

    if (ep->live_count >= ep->max_calls) {
        return VC_ELIMIT;
    }
    pool = pjsip_endpt_create_pool(ep->sip, "dial", 4000, 4000);
    status = parse_target(pool, uri, &to);
    if (status == 0 && route.len) {
        status = parse_target(pool, route, &via);
        hop = &via;
    }
    if (status == 0) {
        status = vc_contact(pool, hop->tcp, &hop->parsed->host, af_of(&hop->parsed->host), NULL, NULL,
                            &contact);
    }
    if (status == 0) {
        local = from.len ? vc_name_addr(pool, from) : contact;
        if (pjsip_dlg_create_uac(pjsip_ua_instance(), &local, &contact, &to.uri, NULL, &dialog) != PJ_SUCCESS) {
            status = VC_EURI;
        }
    }
    if (status != 0) {
        pj_pool_release(pool);
        return status;
    }
    pjsip_dlg_inc_lock(dialog);
    if (route.len) {
        status = set_route(dialog, &via);
    }
    pj_pool_release(pool);
    if (status == 0) {
        status = invite_create(dialog, sdp_text, credentials, extra, policy, &inv, &sdp);
    }
    call = status == 0 ? vc_call_new(inv, PJ_TRUE) : NULL;
    if (call == NULL) {
        /* Without a session nothing else takes the dialog away. */
        if (inv) {
            pjsip_inv_terminate(inv, PJSIP_SC_INTERNAL_SERVER_ERROR, PJ_FALSE);
        } else {
            pjsip_dlg_terminate(dialog);
        }
        pjsip_dlg_dec_lock(dialog);
        return status ? status : PJ_ENOMEM;
    }
    call->sdp = sdp;
    call->late = extra->late != 0;
    call->policy = *policy;
    *id = call->id;
    status = pjsip_inv_invite(inv, &tdata);
    if (status == PJ_SUCCESS) {
        add_replaces(tdata, extra->replaces);
        status = pjsip_inv_send_msg(inv, tdata);
    }
    if (status != PJ_SUCCESS && inv->mod_data[vc_module.id] == call) {
        /* The caller gets the error, hence no event. */
        if (!call->told) {
            call->told = PJ_TRUE;
            ep->live_count--;
        }
        pjsip_inv_terminate(inv, PJSIP_SC_INTERNAL_SERVER_ERROR, PJ_FALSE);
    } else if (status != PJ_SUCCESS) {
        status = 0; /* ended inside already, and an event says so */
    }
    pjsip_dlg_dec_lock(dialog);
    return status;
}
