/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * PJSIP without sockets and on a clock of ours. src/world.rs repeats these declarations.
 *
 * One thread, one endpoint of pjsip-sys. What the endpoint sends is kept, never put on a wire.
 */
#ifndef VCF_WORLD_H
#define VCF_WORLD_H

#include <stddef.h>
#include <stdint.h>

/* What must be nothing again when an input is over. */
typedef struct vcf_left {
    uint32_t transactions, dialogs, calls, streams, lookups;
} vcf_left;

/* A new input: identifiers and random numbers begin anew, time goes on. */
void vcf_begin(void);
void vcf_same(void); /* same.c */

/* A datagram for the endpoint's UDP transport, from one of a few addresses. */
void vcf_datagram(const uint8_t *data, size_t len, uint32_t source);

/* Bytes on the one TCP connection, which is made when it is not there. */
void vcf_stream(const uint8_t *data, size_t len);

/* The peer closes that connection. */
void vcf_stream_close(void);

/* Answers the names that were asked for: those that begin with x have no address. */
void vcf_resolve(void);

void vcf_advance(uint32_t ms);

/* Milliseconds to the next timer, -1 when none runs. */
int64_t vcf_next_timer(void);

/* The last request (0) or response (1) the endpoint sent in this input; how long it is. */
size_t vcf_sent(uint32_t which, uint8_t *out, size_t size);

/* Messages sent in this input. */
uint32_t vcf_sent_count(void);

void vcf_left_over(vcf_left *out);

/* sdp.c: parser and offer/answer alone. Dies when something is wrong. */
void vcf_sdp(uint32_t mode, const uint8_t *first, size_t first_len, const uint8_t *second, size_t second_len);

#endif
