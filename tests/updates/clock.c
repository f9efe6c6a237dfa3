// SPDX-License-Identifier: GPL-3.0-or-later
// Preloaded: a process believes that it is CLOCK_SHIFT_S seconds later (or earlier) than it is.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void)
{
    const char *given = getenv("CLOCK_SHIFT_S");
    return given ? atol(given) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    long done = syscall(SYS_clock_gettime, clock, at);
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        at->tv_sec += shift();
    return (int)done;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
