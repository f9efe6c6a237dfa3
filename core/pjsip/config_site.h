/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Build-time settings of the pinned PJSIP. Part of the cache key of tools/pjsip.py: a change here rebuilds it.
 */
#ifndef VC_CONFIG_SITE_H
#define VC_CONFIG_SITE_H

#define PJ_DEBUG 0
#define PJ_HAS_IPV6 1

/* 1 = error, 2 = warning. Levels above print whole messages, hence numbers and names of people. */
#define PJ_LOG_MAX_LEVEL 2

#define PJ_IOQUEUE_MAX_HANDLES 8192
#define PJ_IOQUEUE_HAS_SAFE_UNREG 1
#define PJ_IOQUEUE_MAX_EVENTS_IN_SINGLE_POLL 64

#define PJSIP_MAX_TSX_COUNT 16383
#define PJSIP_MAX_DIALOG_COUNT 8191
#define PJSIP_MAX_TRANSPORTS 4096
#define PJSIP_MAX_PKT_LEN 16384
#define PJSIP_MAX_NET_EVENTS 32

/* TLS without a certificate of ours has outgoing connections only; the shim starts to listen by itself when there is one. */
#define PJSIP_TLS_TRANSPORT_DONT_CREATE_LISTENER 1

/* Each call keeps some eight copies of a description, with room for as many. What is longer is cut to what we could use before
 * PJSIP reads it (src/slim.rs). */
#define PJMEDIA_MAX_SDP_FMT 12
#define PJMEDIA_MAX_SDP_ATTR 28

#define PJMEDIA_HAS_VIDEO 0
#define PJMEDIA_HAS_SRTP 1
#define PJMEDIA_RESAMPLE_IMP PJMEDIA_RESAMPLE_NONE
#define PJMEDIA_STREAM_ENABLE_KA 0

#endif
