/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The baseline of the transport benchmark: what an agent on pjsua-lib does for a call. Answers every call; the
 * conference bridge, on its own clock, mixes each call's own player into it and takes its audio into a port of
 * its own, as an application's audio port would. No voice activity detection, no Python.
 *
 *     bridge CALLS PCM     (16-bit little-endian samples at 8 kHz)
 *
 * Prints `ready PORT`; ends with stdin.
 */
#include <pjsua-lib/pjsua.h>
#include <stdio.h>
#include <stdlib.h>

#define RATE 8000
#define FRAME 160

struct leg {
    pj_pool_t *pool;
    pjmedia_port *player, *sink;
    pjsua_conf_port_id player_slot, sink_slot;
};

static struct leg legs[PJSUA_MAX_CALLS];
static pj_int16_t *voice;
static size_t samples;
static pjsua_acc_id account;

static void check(const char *what, pj_status_t status)
{
    char text[PJ_ERR_MSG_SIZE];
    if (status == PJ_SUCCESS)
        return;
    pj_strerror(status, text, sizeof(text));
    fprintf(stderr, "%s: %s\n", what, text);
    exit(1);
}

static void on_incoming_call(pjsua_acc_id acc, pjsua_call_id id, pjsip_rx_data *rdata)
{
    PJ_UNUSED_ARG(acc);
    PJ_UNUSED_ARG(rdata);
    check("answer", pjsua_call_answer(id, 200, NULL, NULL));
}

static void on_call_media_state(pjsua_call_id id)
{
    struct leg *leg = &legs[id];
    pjsua_conf_port_id slot = pjsua_call_get_conf_port(id);
    size_t offset = (size_t)id * 31 * 50 * FRAME % (samples / 2);

    if (leg->pool || slot == PJSUA_INVALID_ID)
        return;
    leg->pool = pjsua_pool_create("leg", 1024, 1024);
    offset -= offset % FRAME;
    check("player", pjmedia_mem_player_create(leg->pool, voice + offset, (samples - offset) * 2, RATE, 1, FRAME, 16,
                                              0, &leg->player));
    check("sink", pjmedia_null_port_create(leg->pool, RATE, 1, FRAME, 16, &leg->sink));
    check("add player", pjsua_conf_add_port(leg->pool, leg->player, &leg->player_slot));
    check("add sink", pjsua_conf_add_port(leg->pool, leg->sink, &leg->sink_slot));
    check("speak", pjsua_conf_connect(leg->player_slot, slot));
    check("listen", pjsua_conf_connect(slot, leg->sink_slot));
}

static void on_call_state(pjsua_call_id id, pjsip_event *event)
{
    struct leg *leg = &legs[id];
    pjsua_call_info info;

    PJ_UNUSED_ARG(event);
    if (pjsua_call_get_info(id, &info) != PJ_SUCCESS || info.state != PJSIP_INV_STATE_DISCONNECTED || !leg->pool)
        return;
    pjsua_conf_remove_port(leg->player_slot);
    pjsua_conf_remove_port(leg->sink_slot);
    pjmedia_port_destroy(leg->player);
    pjmedia_port_destroy(leg->sink);
    pj_pool_release(leg->pool);
    leg->pool = NULL;
}

static void load(const char *path)
{
    FILE *file = fopen(path, "rb");
    long size;
    if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 4 * FRAME || fseek(file, 0, SEEK_SET)) {
        perror(path);
        exit(1);
    }
    samples = (size_t)size / 2;
    voice = malloc(samples * 2);
    if (!voice || fread(voice, 2, samples, file) != samples) {
        perror(path);
        exit(1);
    }
    fclose(file);
}

int main(int argc, char *argv[])
{
    pjsua_config config;
    pjsua_logging_config logging;
    pjsua_media_config media;
    pjsua_transport_config transport;
    pjsua_transport_id transport_id;
    pjsua_transport_info bound;
    pjsua_acc_config acc;
    int calls = argc > 2 ? atoi(argv[1]) : 0;

    if (calls < 1 || calls > PJSUA_MAX_CALLS) {
        fprintf(stderr, "bridge CALLS PCM; at most %d calls\n", PJSUA_MAX_CALLS);
        return 2;
    }
    load(argv[2]);
    check("create", pjsua_create());
    pjsua_config_default(&config);
    config.max_calls = (unsigned)calls;
    config.cb.on_incoming_call = &on_incoming_call;
    config.cb.on_call_media_state = &on_call_media_state;
    config.cb.on_call_state = &on_call_state;
    pjsua_logging_config_default(&logging);
    logging.level = logging.console_level = 1;
    logging.msg_logging = PJ_FALSE;
    pjsua_media_config_default(&media);
    media.clock_rate = media.snd_clock_rate = RATE;
    media.channel_count = 1;
    media.audio_frame_ptime = 20;
    media.max_media_ports = (unsigned)calls * 3 + 8;
    media.ec_tail_len = 0;
    media.no_vad = PJ_TRUE;
    check("init", pjsua_init(&config, &logging, &media));

    pjsua_transport_config_default(&transport);
    transport.bound_addr = pj_str("127.0.0.1");
    check("transport", pjsua_transport_create(PJSIP_TRANSPORT_UDP, &transport, &transport_id));
    check("transport", pjsua_transport_get_info(transport_id, &bound));
    check("start", pjsua_start());
    check("clock", pjsua_set_null_snd_dev());
    check("account", pjsua_acc_add_local(transport_id, PJ_TRUE, &account));
    pjsua_acc_config_default(&acc);
    {
        pj_pool_t *pool = pjsua_pool_create("acc", 1024, 1024);
        check("account", pjsua_acc_get_config(account, pool, &acc));
        acc.rtp_cfg.bound_addr = pj_str("127.0.0.1");
        acc.rtp_cfg.port = 16384;
        check("account", pjsua_acc_modify(account, &acc));
        pj_pool_release(pool);
    }
    printf("ready %d\n", bound.local_name.port);
    fflush(stdout);
    while (getchar() != EOF) {
    }
    pjsua_destroy2(PJSUA_DESTROY_NO_TX_MSG);
    return 0;
}
