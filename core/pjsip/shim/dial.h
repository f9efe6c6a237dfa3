/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A call out on its way to a server, shared by dial.c (which server) and invite.c (the INVITE).
 */
#ifndef VC_DIAL_H
#define VC_DIAL_H

#include "internal.h"

struct vc_dialling {
    struct vc_dialling *next;
    uint64_t id;
    pj_pool_t *pool;
    unsigned group;
    unsigned failover_ms;
    pj_str_t uri, from;
    vc_str sdp;
    vc_dial_extra extra;
    pj_bool_t has_route;
    pj_bool_t has_credentials;
    pj_bool_t by_tcp; /* TCP was put before UDP, for size */
    pjsip_cred_info credentials;
    vc_hop hop;
    vc_call *call; /* the attempt under way; NULL while names are looked up and between attempts */
    pj_timer_entry timer;
    unsigned last; /* status of the attempt before */
};

#define VC_DIAL_LARGE (-100) /* of vc_dial_attempt: for TCP */

/* One INVITE to the server that is next; 0 when it is on its way or has ended already, with all that follows from it. */
int vc_dial_attempt(vc_dialling *d, const vc_listener *listener);

#endif
