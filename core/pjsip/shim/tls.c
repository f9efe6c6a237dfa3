/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * TLS: its settings checked before they are used, and why a connection did not come about.
 */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define HANDSHAKE_S 10
/* Where Debian keeps what its administrators trust. */
#define SYSTEM_CA "/etc/ssl/certs/ca-certificates.crt"

static void copy(vc_str text, char *buf, size_t size)
{
    size_t len = PJ_MIN(text.len, size - 1);
    pj_memcpy(buf, text.ptr, len);
    buf[len] = '\0';
}

static int problem(char *buf, size_t size, const char *what, const char *path)
{
    unsigned long code = ERR_peek_last_error();
    const char *why = code ? ERR_reason_error_string(code) : NULL;
    /* A file that is not there is an error of the system below OpenSSL's own. */
    for (unsigned long each; (each = ERR_get_error()) != 0;) {
        if (ERR_SYSTEM_ERROR(each)) {
            why = strerror(ERR_GET_REASON(each));
            break;
        }
    }
    ERR_clear_error();
    snprintf(buf, size, "%s %s: %s", what, path, why ? why : "refused by OpenSSL");
    return VC_ETLS;
}

/* Whether files can be read and belong together. */
int vc_tls_check(const vc_tls *tls, char *buf, size_t size)
{
    char path[VC_PATH_MAX], key[VC_PATH_MAX];
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());
    int result = 0;
    if (ctx == NULL) {
        return problem(buf, size, "TLS", "");
    }
    ERR_clear_error();
    if (tls->ca_file.len) {
        copy(tls->ca_file, path, sizeof(path));
        if (SSL_CTX_load_verify_locations(ctx, path, NULL) != 1) {
            result = problem(buf, size, "ca_file", path);
        }
    }
    if (result == 0 && tls->cert_file.len) {
        copy(tls->cert_file, path, sizeof(path));
        copy(tls->key_file, key, sizeof(key));
        if (SSL_CTX_use_certificate_chain_file(ctx, path) != 1) {
            result = problem(buf, size, "cert_file", path);
        } else if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1) {
            result = problem(buf, size, "key_file", key);
        } else if (SSL_CTX_check_private_key(ctx) != 1) {
            result = problem(buf, size, "key_file", key);
        }
    }
    SSL_CTX_free(ctx);
    return result;
}

static void setting_of(const vc_tls *tls, pjsip_tls_setting *out)
{
    pjsip_tls_setting_default(out);
    out->proto = PJ_SSL_SOCK_PROTO_TLS1_2 | PJ_SSL_SOCK_PROTO_TLS1_3;
    out->ca_list_file = tls->ca_file.len ? vc_pj(tls->ca_file) : pj_str(SYSTEM_CA);
    out->cert_file = vc_pj(tls->cert_file);
    out->privkey_file = vc_pj(tls->key_file);
    out->verify_server = PJ_TRUE;
    out->verify_client = tls->verify_client ? PJ_TRUE : PJ_FALSE;
    out->require_client_cert = out->verify_client;
    out->timeout.sec = HANDSHAKE_S;
    out->reuse_addr = PJ_TRUE;
    out->initial_timeout = 30;
}

pj_status_t vc_tls_start(vc_endpoint *ep, const vc_listen *want, const vc_tls *tls, const pjsip_host_port *name,
                         vc_listener *out)
{
    pjsip_tls_setting setting;
    pj_sockaddr local;
    pj_status_t status;
    setting_of(tls, &setting);
    vc_addr_to(&want->bind, &local);
    /* config_site.h keeps this call from listening: without a certificate there are outgoing connections only. */
    status = pjsip_tls_transport_start2(ep->sip, &setting, &local, name, 1, &out->factory);
    if (status == PJ_SUCCESS && tls->cert_file.len) {
        status = pjsip_tls_transport_lis_start(out->factory, &local, name);
        if (status != PJ_SUCCESS) {
            out->factory->destroy(out->factory);
            out->factory = NULL;
        }
    }
    if (status == PJ_SUCCESS) {
        out->bound = out->factory->local_addr;
    }
    return status;
}

/* The socket is closed and opened again, within this call: PJSIP keeps what it read with the socket. */
int vc_tls_reload(vc_endpoint *ep, uint32_t group, const vc_tls *tls)
{
    pjsip_tls_setting setting;
    int result = 0;
    setting_of(tls, &setting);
    for (unsigned i = 0; i < ep->listener_count; i++) {
        vc_listener *listener = &ep->listeners[i];
        if (listener->kind == VC_TLS && listener->group == group && listener->factory) {
            pjsip_host_port name = listener->factory->addr_name;
            pj_status_t status = pjsip_tls_transport_restart2(listener->factory, &setting, &listener->bound, &name);
            result = status == PJ_SUCCESS ? result : status;
        }
    }
    return result;
}

/* What PJSIP's bits mean to who has to mend it. */
static const char *verdict(pj_uint32_t bits)
{
    if (bits & PJ_SSL_CERT_EVALIDITY_PERIOD) {
        return "it has expired or is not valid yet";
    }
    if (bits & PJ_SSL_CERT_EREVOKED) {
        return "it was revoked";
    }
    if (bits & (PJ_SSL_CERT_EUNTRUSTED | PJ_SSL_CERT_EISSUER_NOT_FOUND | PJ_SSL_CERT_EISSUER_MISMATCH)) {
        return "it is not signed by an authority in ca_file";
    }
    if (bits & PJ_SSL_CERT_EIDENTITY_NOT_MATCH) {
        return "it is made out to another host name";
    }
    if (bits & PJ_SSL_CERT_EINVALID_PURPOSE) {
        return "it is not meant for this purpose";
    }
    return "it does not pass OpenSSL's check";
}

static void remember(const pj_sockaddr *peer, const char *text)
{
    vc_ep->tls_peer = *peer;
    pj_gettimeofday(&vc_ep->tls_at);
    pj_ansi_snprintf(vc_ep->tls_why, sizeof(vc_ep->tls_why), "%s", text);
    vc_log(2, text);
}

/* Tells why TLS to or from a peer failed. */
void vc_tls_state(pjsip_transport *transport, const pjsip_transport_state_info *info)
{
    const pjsip_tls_state_info *tls = info->ext_info;
    const pj_ssl_sock_info *sock = tls ? tls->ssl_sock_info : NULL;
    char text[VC_TLS_WHY], addr[PJ_INET6_ADDRSTRLEN + 10], why[PJ_ERR_MSG_SIZE];
    const pj_sockaddr *peer = &transport->key.rem_addr;
    pj_bool_t out = transport->dir == PJSIP_TP_DIR_OUTGOING;
    pj_sockaddr_print(peer, addr, sizeof(addr), 3);
    if (info->status == PJSIP_TLS_ECERTVERIF && sock) {
        pj_ansi_snprintf(text, sizeof(text), "TLS %s %s: the certificate is refused: %s", out ? "to" : "from", addr,
                         verdict(sock->verify_status));
        remember(peer, text);
    } else if (info->status != PJ_SUCCESS && info->status != PJ_EEOF && info->status != PJ_ECANCELLED &&
               !(sock && sock->established)) {
        vc_error_text(info->status, why, sizeof(why));
        pj_ansi_snprintf(text, sizeof(text), "TLS %s %s: %s", out ? "to" : "from", addr, why);
        remember(peer, text);
    }
}

/* Why a request to this peer failed, as far as its connection tells: what TLS said a moment ago, or else the end of a
 * connection, which PJSIP tells only as the reason phrase. */
const char *vc_tls_why(const pj_sockaddr *peer, const pj_str_t *reason)
{
    char end[PJ_ERR_MSG_SIZE];
    pj_time_val now;
    pj_gettimeofday(&now);
    if (vc_ep->tls_why[0] && now.sec - vc_ep->tls_at.sec <= HANDSHAKE_S + 5 &&
        pj_sockaddr_cmp(peer, &vc_ep->tls_peer) == 0) {
        return vc_ep->tls_why;
    }
    if (reason) {
        const pj_str_t eof = pj_strerror(PJ_EEOF, end, sizeof(end));
        if (pj_strcmp(reason, &eof) == 0) {
            return "the peer closed the connection without an answer; "
                   "over TLS it may want a client certificate, or have nothing newer than TLS 1.1";
        }
    }
    return NULL;
}
