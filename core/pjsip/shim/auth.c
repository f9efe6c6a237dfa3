/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Digest: credentials, and which of several challenges is answered.
 */
#include "internal.h"

void vc_credentials_to(const vc_credentials *in, pjsip_cred_info *out)
{
    pj_bzero(out, sizeof(*out));
    out->realm = in->realm.len ? vc_pj(in->realm) : pj_str("*");
    out->scheme = pj_str("digest");
    out->username = vc_pj(in->username);
    out->data_type = PJSIP_CRED_DATA_PLAIN_PASSWD;
    out->data = vc_pj(in->password);
}

static const pjsip_auth_algorithm *algorithm_of(const pjsip_www_authenticate_hdr *challenge)
{
    static const pj_str_t digest = {"digest", 6};
    const pjsip_auth_algorithm *algorithm;
    if (pj_stricmp(&challenge->scheme, &digest) != 0) {
        return NULL;
    }
    algorithm = pjsip_auth_get_algorithm_by_iana_name(&challenge->challenge.digest.algorithm);
    switch (algorithm ? algorithm->algorithm_type : PJSIP_AUTH_ALGORITHM_NOT_SET) {
    case PJSIP_AUTH_ALGORITHM_MD5:
    case PJSIP_AUTH_ALGORITHM_SHA256:
    case PJSIP_AUTH_ALGORITHM_SHA512_256:
        return pjsip_auth_is_algorithm_supported(algorithm->algorithm_type) ? algorithm : NULL;
    default:
        return NULL;
    }
}

static pj_bool_t has_better(const pjsip_msg *msg, const pjsip_www_authenticate_hdr *than)
{
    const pjsip_auth_algorithm *ours = algorithm_of(than);
    for (const pjsip_hdr *hdr = msg->hdr.next; hdr != &msg->hdr; hdr = hdr->next) {
        const pjsip_www_authenticate_hdr *other = (const pjsip_www_authenticate_hdr *)hdr;
        const pjsip_auth_algorithm *theirs;
        if (hdr->type != than->type || other == than ||
            pj_stricmp(&other->challenge.common.realm, &than->challenge.common.realm) != 0) {
            continue;
        }
        theirs = algorithm_of(other);
        if (theirs && (ours == NULL || theirs->algorithm_type > ours->algorithm_type)) {
            return PJ_TRUE;
        }
    }
    return PJ_FALSE;
}

/* Whether the request that this answers had credentials for that realm, computed for the challenge just before. */
static pj_bool_t was_answered(pjsip_rx_data *rdata, const pjsip_www_authenticate_hdr *challenge)
{
    pjsip_hdr_e type = challenge->type == PJSIP_H_WWW_AUTHENTICATE ? PJSIP_H_AUTHORIZATION : PJSIP_H_PROXY_AUTHORIZATION;
    pjsip_transaction *tsx = NULL;
    pj_bool_t found = PJ_FALSE;
    pj_str_t key;
    if (pjsip_tsx_create_key(rdata->tp_info.pool, &key, PJSIP_ROLE_UAC, &rdata->msg_info.cseq->method, rdata) ==
        PJ_SUCCESS) {
        tsx = pjsip_tsx_layer_find_tsx(&key, PJ_FALSE);
    }
    if (tsx && tsx->last_tx && tsx->last_tx->msg->type == PJSIP_REQUEST_MSG) {
        const pjsip_msg *msg = tsx->last_tx->msg;
        for (const pjsip_hdr *hdr = msg->hdr.next; hdr != &msg->hdr && !found; hdr = hdr->next) {
            const pjsip_authorization_hdr *sent = (const pjsip_authorization_hdr *)hdr;
            found = hdr->type == type &&
                    pj_stricmp(&sent->credential.common.realm, &challenge->challenge.common.realm) == 0;
        }
    }
    return found;
}

static pj_bool_t is_refusal(pjsip_rx_data *rdata, const pjsip_hdr *hdr)
{
    const pjsip_www_authenticate_hdr *challenge = (const pjsip_www_authenticate_hdr *)hdr;
    return algorithm_of(challenge) && !challenge->challenge.digest.stale && was_answered(rdata, challenge);
}

/* A server that offers SHA-256 and MD5 sends a challenge for each (RFC 8760 2.4). PJSIP answers one after the other and keeps
 * the last: here the weaker ones are taken away before it sees them. A second challenge that does not say stale is a refusal
 * (RFC 7616 3.3), also with another nonce: PJSIP would try the same password again, and registrars shut out who does. */
static pj_bool_t on_rx_response(pjsip_rx_data *rdata)
{
    pjsip_msg *msg = rdata->msg_info.msg;
    pjsip_hdr *hdr, *next;
    if (msg->line.status.code != PJSIP_SC_UNAUTHORIZED && msg->line.status.code != PJSIP_SC_PROXY_AUTHENTICATION_REQUIRED) {
        return PJ_FALSE;
    }
    for (hdr = msg->hdr.next; hdr != &msg->hdr; hdr = next) {
        next = hdr->next;
        if ((hdr->type == PJSIP_H_WWW_AUTHENTICATE || hdr->type == PJSIP_H_PROXY_AUTHENTICATE) &&
            (has_better(msg, (const pjsip_www_authenticate_hdr *)hdr) || is_refusal(rdata, hdr))) {
            pj_list_erase(hdr);
        }
    }
    return PJ_FALSE;
}

static pjsip_module auth_module = {
    NULL,
    NULL,
    {"vc-auth", 7},
    -1,
    PJSIP_MOD_PRIORITY_TSX_LAYER - 1,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    &on_rx_response,
    NULL,
    NULL,
    NULL,
};

pj_status_t vc_auth_init(pjsip_endpoint *sip)
{
    return pjsip_endpt_register_module(sip, &auth_module);
}
