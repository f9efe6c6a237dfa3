/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What the stack holds at the moment: for statistics, and for tests that all of it is given back.
 */
#include "internal.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

uint32_t vc_transactions(const vc_endpoint *ep)
{
    PJ_UNUSED_ARG(ep);
    return pjsip_tsx_layer_get_tsx_count();
}

uint32_t vc_dialogs(const vc_endpoint *ep)
{
    PJ_UNUSED_ARG(ep);
    return pjsip_ua_get_dlg_set_count();
}

void vc_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
