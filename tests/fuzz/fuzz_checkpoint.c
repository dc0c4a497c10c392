/* Any bytes as the state file of a training: refused with a text, or taken, and a step runs. */
#include "train/run_folder.h"

#include <string.h>

enum { PREFIX = 8, MAX_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);

static brim_status build(brim_graph *g, int64_t batch, void *user, brim_error *err)
{
    int64_t shape[] = {batch, 3};
    brim_value *x = brim_input(g, "x", BRIM_F32, 2, shape),
               *y = brim_input(g, "y", BRIM_I32, 1, &batch);
    x = brim_nn_linear(g, x, "fc", 2, true);
    brim_output_mark(g, "loss", brim_cross_entropy(g, x, y, NULL, NULL, NULL, 0));
    return brim_graph_check(g, err);
}

static brim_session *session(void)
{
    static brim_session *s;
    if (s) return s;
    brim_session_opts o;
    brim_session_opts_init(&o);
    o.batch = 4;
    o.threads = 1;
    o.optimizer.ema = true;
    BRIM_CHECK(brim_session_new(build, NULL, &o, &s, NULL) == BRIM_OK);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const float x[12] = {1, 2, 3, -1, 0, 1, 4, -2, 0.5f, 0, 1, 0};
    static const int32_t y[4] = {0, 1, 1, 0};
    brim_st_file *f = NULL;
    brim_position p;
    brim_error err = {0};
    brim_status st = brim_st_parse("fuzz", data, n, &f, &err);
    brim_model_card card;
    if (st == BRIM_OK && brim_model_card_take("fuzz", f, &card, NULL) == BRIM_OK) {
        BRIM_CHECK(card.channels == 0 || card.channels == 1 || card.channels == 3);
        brim_model_card_release(&card);
    }
    if (st == BRIM_OK) st = brim_run_take_state("fuzz", f, session(), "fuzz", &p, &err);
    brim_st_close(f);
    if (st != BRIM_OK) {
        BRIM_CHECK(err.status == st && err.text[0]);
        return 0;
    }
    BRIM_CHECK(p.step >= 0 && p.epoch >= 0 && p.micro_done >= 0 && p.samples >= 0);
    brim_feed feed[] = {{"x", x}, {"y", y}};
    brim_micro m = {feed, 2, 4};
    BRIM_CHECK(brim_session_step(session(), &m, 1, 4, 0.1, 0.9, &err) == BRIM_OK);
    return 0;
}

/* Most often only the header, or only the tensors, are changed, and the header's length stays
 * right. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    uint8_t part[MAX_BYTES];
    size_t header = n < PREFIX ? 0 : (size_t)data[0] | (size_t)data[1] << 8;
    if (max > MAX_BYTES || n < PREFIX || header > n - PREFIX || seed % 8 == 0)
        return LLVMFuzzerMutate(data, n, max);
    uint8_t *rest = data + PREFIX + header;
    size_t rest_bytes = n - PREFIX - header;
    if (seed % 4 == 1) return n - rest_bytes + LLVMFuzzerMutate(rest, rest_bytes, rest_bytes);
    memcpy(part, data + PREFIX, header);
    header = LLVMFuzzerMutate(part, header, max - PREFIX - rest_bytes);
    memmove(data + PREFIX + header, rest, rest_bytes);
    memcpy(data + PREFIX, part, header);
    data[0] = (uint8_t)header;
    data[1] = (uint8_t)(header >> 8);
    return PREFIX + header + rest_bytes;
}
