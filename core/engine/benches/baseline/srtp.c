/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The baseline of the SRTP benchmark: libsrtp, as PJSIP links it, on the packets that benches/srtp.rs protects and opens.
 * Prints `SUITE protect|open MICROSECONDS ALLOCATIONS` a line; allocations are OpenSSL's, for each packet.
 */
#include <openssl/crypto.h>
#include <srtp2/srtp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PACKETS 20000
#define RUNS 9
#define OCTETS 172

static unsigned long allocations;

static void *count_malloc(size_t size, const char *file, int line)
{
    (void)file, (void)line;
    allocations++;
    return malloc(size);
}

static void *count_realloc(void *old, size_t size, const char *file, int line)
{
    (void)file, (void)line;
    allocations++;
    return realloc(old, size);
}

static void count_free(void *old, const char *file, int line)
{
    (void)file, (void)line;
    free(old);
}

static double microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static srtp_t session(srtp_ssrc_type_t side, void (*set)(srtp_crypto_policy_t *))
{
    static unsigned char key[SRTP_MAX_KEY_LEN] = {7};
    srtp_policy_t policy;
    srtp_t made;
    memset(&policy, 0, sizeof(policy));
    set(&policy.rtp);
    set(&policy.rtcp);
    policy.ssrc.type = side;
    policy.key = key;
    policy.window_size = 128;
    if (srtp_create(&made, &policy) != srtp_err_status_ok) {
        fprintf(stderr, "libsrtp refuses the policy\n");
        exit(1);
    }
    return made;
}

static void measure(const char *name, void (*set)(srtp_crypto_policy_t *))
{
    static unsigned char packets[PACKETS][256];
    static int lengths[PACKETS];
    double protect[RUNS], open[RUNS];
    unsigned long protect_allocations = 0, open_allocations = 0;
    for (int run = 0; run < RUNS; run++) {
        srtp_t tx = session(ssrc_any_outbound, set), rx = session(ssrc_any_inbound, set);
        double start;
        for (int i = 0; i < PACKETS; i++) {
            memset(packets[i], i, OCTETS);
            memcpy(packets[i], (unsigned char[]){0x80, 8, i >> 8, i, 0, 0, 0, 0, 1, 2, 3, 4}, 12);
            lengths[i] = OCTETS;
        }
        allocations = 0;
        start = microseconds();
        for (int i = 0; i < PACKETS; i++) {
            if (srtp_protect(tx, packets[i], &lengths[i]) != srtp_err_status_ok) {
                exit(1);
            }
        }
        protect[run] = (microseconds() - start) / PACKETS;
        protect_allocations = allocations;
        allocations = 0;
        start = microseconds();
        for (int i = 0; i < PACKETS; i++) {
            if (srtp_unprotect(rx, packets[i], &lengths[i]) != srtp_err_status_ok) {
                exit(1);
            }
        }
        open[run] = (microseconds() - start) / PACKETS;
        open_allocations = allocations;
        srtp_dealloc(tx);
        srtp_dealloc(rx);
    }
    qsort(protect, RUNS, sizeof(double), by_size);
    qsort(open, RUNS, sizeof(double), by_size);
    printf("%s protect %.4f %.1f\n", name, protect[RUNS / 2], (double)protect_allocations / PACKETS);
    printf("%s open %.4f %.1f\n", name, open[RUNS / 2], (double)open_allocations / PACKETS);
}

int main(void)
{
    CRYPTO_set_mem_functions(count_malloc, count_realloc, count_free);
    if (srtp_init() != srtp_err_status_ok) {
        return 1;
    }
    measure("AES_CM_128_HMAC_SHA1_80", srtp_crypto_policy_set_rtp_default);
    measure("AES_CM_128_HMAC_SHA1_32", srtp_crypto_policy_set_aes_cm_128_hmac_sha1_32);
    measure("AES_256_CM_HMAC_SHA1_80", srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80);
    measure("AES_256_CM_HMAC_SHA1_32", srtp_crypto_policy_set_aes_cm_256_hmac_sha1_32);
    measure("AEAD_AES_128_GCM", srtp_crypto_policy_set_aes_gcm_128_16_auth);
    measure("AEAD_AES_256_GCM", srtp_crypto_policy_set_aes_gcm_256_16_auth);
    return 0;
}
