/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Numbers of seconds in what peers send: PJSIP takes any, and a server's demand would have us wait for ever.
 */
#include "internal.h"

#define DAY_S 86400u
#define TOO_LARGE 0x7fffffffu /* of what does not fit (patch 0031) */

static const pj_str_t SE = {"Session-Expires", 15}, SE_SHORT = {"x", 1}, MIN_SE = {"Min-SE", 6};

/* A session that is refreshed once in a day at the least: who is called may lower Session-Expires down to Min-SE (RFC 4028 9).
 * A header that is no number of 31 bits: NULL else why it is refused. */
const char *vc_bounds_request(pjsip_rx_data *rdata)
{
    pjsip_msg *msg = rdata->msg_info.msg;
    pjsip_sess_expires_hdr *se = pjsip_msg_find_hdr_by_names(msg, &SE, &SE_SHORT, NULL);
    const pjsip_min_se_hdr *least = pjsip_msg_find_hdr_by_name(msg, &MIN_SE, NULL);
    if ((se && se->sess_expires >= TOO_LARGE) || (least && least->min_se >= TOO_LARGE)) {
        return "Session-Expires or Min-SE is out of range";
    }
    if (se && se->sess_expires > DAY_S) {
        unsigned floor = least ? PJ_MAX(least->min_se, DAY_S) : DAY_S;
        se->sess_expires = PJ_MIN(se->sess_expires, floor);
    }
    return NULL;
}

/* 422 and 423 that ask for more than a day are refusals like others: without the header PJSIP does not follow them. */
void vc_bounds_response(pjsip_rx_data *rdata)
{
    pjsip_msg *msg = rdata->msg_info.msg;
    if (msg->line.status.code == PJSIP_SC_SESSION_TIMER_TOO_SMALL) {
        pjsip_min_se_hdr *least = pjsip_msg_find_hdr_by_name(msg, &MIN_SE, NULL);
        if (least && least->min_se > DAY_S) {
            pj_list_erase(least);
            vc_log(2, "a peer asks for a session timer of more than a day; not followed");
        }
    } else if (msg->line.status.code == PJSIP_SC_INTERVAL_TOO_BRIEF) {
        pjsip_min_expires_hdr *least = pjsip_msg_find_hdr(msg, PJSIP_H_MIN_EXPIRES, NULL);
        if (least && (pj_uint32_t)least->ivalue > DAY_S) {
            pj_list_erase(least);
            vc_log(2, "a registrar asks for registrations of more than a day; not followed");
        }
    }
}
