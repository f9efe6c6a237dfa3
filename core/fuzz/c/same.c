/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What the system gives out anew in each process, made the same in all of them: an input, and a run of a seed, then take
 * the same way twice.
 */
#include <stdint.h>
#include <sys/types.h>

#include "internal.h"
#include "world.h"

pj_status_t __real_pj_sock_getsockname(pj_sock_t sock, pj_sockaddr_t *addr, int *namelen);
pj_status_t __wrap_pj_sock_getsockname(pj_sock_t sock, pj_sockaddr_t *addr, int *namelen);
ssize_t getrandom(void *buffer, size_t len, unsigned flags);

/* Ports of sockets bound to port 0 stand in our Via and Contact. */
pj_status_t __wrap_pj_sock_getsockname(pj_sock_t sock, pj_sockaddr_t *addr, int *namelen)
{
    pj_status_t status = __real_pj_sock_getsockname(sock, addr, namelen);
    if (status == PJ_SUCCESS) {
        pj_sockaddr_set_port(addr, 5060);
    }
    return status;
}

static uint32_t state;

void vcf_same(void)
{
    state = 0;
}

/* The C library's, for the seeds of Rust's hash tables. */
ssize_t getrandom(void *buffer, size_t len, unsigned flags)
{
    uint8_t *out = buffer;
    PJ_UNUSED_ARG(flags);
    for (size_t i = 0; i < len; i++) {
        state = state * 1103515245 + 12345;
        out[i] = (uint8_t)(state >> 16);
    }
    return (ssize_t)len;
}
