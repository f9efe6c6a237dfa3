/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A registration, shared by reg.c (what is sent when) and regs.c (their coming and going).
 */
#ifndef VC_REG_H
#define VC_REG_H

#include "internal.h"

struct vc_reg {
    vc_reg *next;
    uint64_t id;
    pj_pool_t *pool;
    vc_reg_request want; /* its texts are in pool */
    pj_str_t user;       /* of our Contact */
    pjsip_cred_info credentials;
    pj_pool_t *secret; /* what credentials points into; NULL: there are none */
    vc_hop hop;
    pjsip_regc *regc;
    pj_str_t contact; /* that regc was made with */
    pj_timer_entry timer;  /* the next REGISTER */
    pj_timer_entry silent; /* too long without an answer */
    pj_timer_entry alive;  /* CRLF */
    const pjsip_transport *transport; /* that the binding came about by, to be compared only */
    unsigned failures;
    pj_bool_t bound;
    pj_bool_t sending; /* a REGISTER is under way */
    pj_bool_t again;   /* send once more when it is through: the password changed */
    pj_bool_t leaving; /* being unregistered */
    pj_bool_t dead;    /* to be freed after this round */
};

unsigned vc_reg_jitter(unsigned ms);
void vc_reg_tell(const vc_reg *reg, unsigned status, const pj_str_t *reason, unsigned expires, unsigned next_ms,
                 const char *why);
void vc_reg_prepare(vc_reg *reg); /* timers; before anything else */
void vc_reg_round(vc_reg *reg);   /* looks the name up, then REGISTER */
void vc_reg_drop(vc_reg *reg);    /* PJSIP's part of it */
int vc_reg_unregister(vc_reg *reg);
void vc_reg_resolved(void *owner, pj_status_t status);

#endif
