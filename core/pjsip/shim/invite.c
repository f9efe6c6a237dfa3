/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The INVITE of a call out, to one server.
 */
#include "dial.h"

#define UDP_SAFE_SIZE 1300 /* RFC 3261 18.1.1 */
#define LATER_SIZE 430     /* Via, and the Authorization of a challenged INVITE */

static pj_status_t aim_via(pjsip_dialog *dialog, const vc_listener *listener, const pj_sockaddr *local)
{
    char host[PJ_INET6_ADDRSTRLEN + 10];
    pjsip_host_port via;
    /* On 0.0.0.0 PJSIP's own choice is the default route's address; over a connection it knows better. */
    if (listener->kind != VC_UDP) {
        return PJ_SUCCESS;
    }
    via.host = pj_str((char *)pj_sockaddr_print(local, host, sizeof(host), 0));
    pj_strdup(dialog->pool, &via.host, &via.host);
    via.port = pj_sockaddr_get_port(local);
    return pjsip_dlg_set_via_sent_by(dialog, &via, listener->udp);
}

static int set_route(pjsip_dialog *dialog, const pjsip_sip_uri *via)
{
    pjsip_route_hdr set, *route = pjsip_route_hdr_create(dialog->pool);
    pjsip_sip_uri *uri = pjsip_uri_clone(dialog->pool, via);
    uri->lr_param = 1;
    route->name_addr.uri = (pjsip_uri *)uri;
    pj_list_init(&set);
    pj_list_push_back(&set, route);
    return pjsip_dlg_set_route_set(dialog, &set);
}

static int invite_create(vc_dialling *d, pjsip_dialog *dialog, pjsip_inv_session **inv, pjmedia_sdp_session **sdp)
{
    const vc_policy *policy = vc_policy_of(d->extra.port);
    int status = vc_sdp_parse(dialog->pool, d->sdp, sdp);
    pj_pool_t *pool;
    if (status != 0) {
        return status;
    }
    vc_sdp_fill(dialog->pool, *sdp, dialog);
    if (d->has_credentials) {
        status = pjsip_auth_clt_set_credentials(&dialog->auth_sess, 1, &d->credentials);
        if (status != PJ_SUCCESS) {
            return status;
        }
    }
    /* PJSIP copies the offer. */
    pool = pjsip_endpt_create_pool(vc_ep->sip, "offer", 4000, 1000);
    status = pjsip_inv_create_uac(dialog, d->extra.late ? NULL : vc_srtp_offer(pool, *sdp, NULL), vc_policy_options(policy),
                                  inv);
    pj_pool_release(pool);
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

static int dialog_create(vc_dialling *d, const vc_listener *listener, const pj_sockaddr *local, pjsip_dialog **dialog)
{
    const pjsip_server_address_record *now = vc_hop_now(&d->hop);
    pj_str_t contact, from;
    int status = vc_contact(d->pool, listener, &now->addr, PJ_FALSE, NULL, &contact);
    if (status != 0) {
        return status;
    }
    from = d->from.slen ? d->from : contact;
    if (pjsip_dlg_create_uac(pjsip_ua_instance(), &from, &contact, &d->uri, NULL, dialog) != PJ_SUCCESS) {
        return VC_EURI;
    }
    pjsip_dlg_inc_lock(*dialog);
    status = aim_via(*dialog, listener, local);
    if (status == PJ_SUCCESS) {
        /* Also of the INVITE that answers a challenge, which PJSIP sends by itself. */
        pjsip_tpselector selector;
        vc_listener_select(listener, &selector);
        status = pjsip_dlg_set_transport(*dialog, &selector);
    }
    if (status == PJ_SUCCESS && d->has_route) {
        status = set_route(*dialog, d->hop.uri);
    }
    return status;
}

/* Whether this INVITE, or the one that a challenge asks for, is too large for a datagram and TCP is there. */
static pj_bool_t is_large(const vc_dialling *d, const vc_listener *listener, const pjsip_tx_data *tdata)
{
    char text[PJSIP_MAX_PKT_LEN];
    pj_ssize_t size;
    if (d->by_tcp || listener->kind != VC_UDP || !vc_policy_of(d->extra.port)->large_tcp ||
        vc_listener_for(VC_TCP, listener->af, d->group) == NULL) {
        return PJ_FALSE;
    }
    size = pjsip_msg_print(tdata->msg, text, sizeof(text));
    return size < 0 || size + (d->has_credentials ? LATER_SIZE : 80) >= UDP_SAFE_SIZE;
}

int vc_dial_attempt(vc_dialling *d, const vc_listener *listener)
{
    const pjsip_server_address_record *now = vc_hop_now(&d->hop);
    pjsip_dialog *dialog = NULL;
    pjsip_inv_session *inv = NULL;
    pjmedia_sdp_session *sdp;
    pjsip_tx_data *tdata;
    pj_sockaddr local;
    vc_call *call = NULL;
    int status = vc_local_address(listener, &now->addr, &local) == PJ_SUCCESS ? 0 : VC_ESTATE;
    if (status == 0) {
        status = dialog_create(d, listener, &local, &dialog);
    }
    if (dialog == NULL) {
        return status;
    }
    if (status == 0) {
        status = invite_create(d, dialog, &inv, &sdp);
    }
    call = status == 0 ? vc_call_new(inv, PJ_TRUE, d) : NULL;
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
    call->late = d->extra.late != 0;
    call->policy = *vc_policy_of(d->extra.port);
    d->call = call;
    status = pjsip_inv_invite(inv, &tdata);
    if (status == PJ_SUCCESS && is_large(d, listener, tdata)) {
        pjsip_tx_data_dec_ref(tdata);
        status = VC_DIAL_LARGE;
    }
    if (status == PJ_SUCCESS) {
        add_replaces(tdata, d->extra.replaces);
        vc_hop_aim(&d->hop, listener, tdata);
        status = pjsip_inv_send_msg(inv, tdata);
    }
    if (status != PJ_SUCCESS && inv->mod_data[vc_module.id] == call) {
        /* Not told: the next server, or the caller, hears of it. */
        d->call = NULL;
        vc_call_drop(call);
        pjsip_inv_terminate(inv, PJSIP_SC_INTERNAL_SERVER_ERROR, PJ_FALSE);
    } else {
        status = 0; /* under way, or ended inside already and followed up from there */
    }
    pjsip_dlg_dec_lock(dialog);
    return status;
}
