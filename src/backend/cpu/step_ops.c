/* Dropout, and what the training step adds: the seed of the gradients and their accumulation. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/parallel.h"

#include <math.h>

/* Both layouts are the same bytes. */
static bool plain(const brim_value *v)
{
    const int64_t *d = v->shape.dim;
    return v->layout == BRIM_LAYOUT_ROW || d[1] == 1 || (d[2] == 1 && d[3] == 1);
}

static bool dropout_supports(const brim_node *n, const char **why)
{
    if (n->in[0]->dtype == BRIM_F64) return *why = "f64", false;
    if (!plain(n->in[0]) || !plain(n->out[0])) return *why = "channels are last in memory", false;
    return true;
}

static void dropout_run(const brim_step *s)
{
    const brim_tensor *x = &s->in[0];
    const brim_kernels *k = brim_kernels_get();
    const uint32_t *rng = s->in[1].data;
    double p = brim_attr_float(s->node, "p", 0);
    uint64_t key = (uint64_t)rng[BRIM_RNG_SEED_HI] << 32 | rng[BRIM_RNG_SEED_LO];
    uint64_t hi = (uint64_t)rng[BRIM_RNG_STEP] << 32 |
                  (uint64_t)(rng[BRIM_RNG_MICRO] & 0xffff) << 16 |
                  (uint64_t)brim_attr_int(s->node, "key", 0);
    uint32_t limit = (uint32_t)ceil((double)(float)p * 0x1p24);
    int64_t count = brim_tensor_count(x), quads = (count + 3) / 4;
    int parts = brim_thread_parts(quads, 8);
    BRIM_PARALLEL_FOR(parts)
    for (int i = 0; i < parts; i++) {
        int64_t from = 4 * brim_part_begin(quads, i, parts);
        int64_t to = 4 * brim_part_begin(quads, i + 1, parts);
        k->dropout(s->out[0].data, x->data, x->dtype, from, (to < count ? to : count) - from, key,
                   hi, limit, (float)(1 / (1 - p)));
    }
}

static bool accumulate_supports(const brim_node *n, const char **why)
{
    if (n->in[0]->dtype != BRIM_F32 || n->in[1]->dtype == BRIM_F64) return *why = "f64", false;
    if (n->in[0]->layout != n->in[1]->layout) return *why = "two layouts", false;
    return true;
}

static void accumulate_run(const brim_step *s)
{
    const brim_tensor *g = &s->in[1];
    const brim_kernels *k = brim_kernels_get();
    bool first = ((const float *)s->in[2].data)[BRIM_STEP_ACC_BETA] == 0;
    int64_t count = brim_tensor_count(g), bytes = (int64_t)brim_dtype_bytes(g->dtype);
    int parts = brim_thread_parts(count, 1);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++) {
        int64_t from = brim_part_begin(count, p, parts), to = brim_part_begin(count, p + 1, parts);
        k->accumulate((float *)s->in[0].data + from, (const char *)g->data + from * bytes, g->dtype,
                      to - from, first);
    }
}

static bool seed_supports(const brim_node *n, const char **why)
{
    bool floats = n->in[0]->dtype == BRIM_F32 && n->in[1]->dtype == BRIM_F32;
    if (!floats) *why = "f64";
    return floats;
}

static void seed_run(const brim_step *s)
{
    const float *step = s->in[0].data, *scaler = s->in[1].data;
    *(float *)s->out[0].data = scaler[BRIM_SCALER_SCALE] * step[BRIM_STEP_INV_WINDOW];
}

const brim_impl brim_cpu_step_ops[] = {
    {.name = "brim.dropout",
     .op = &brim_op_dropout,
     .supports = dropout_supports,
     .run = dropout_run},
    {.name = "brim.accumulate",
     .op = &brim_op_accumulate,
     .supports = accumulate_supports,
     .run = accumulate_run},
    {.name = "brim.loss_seed",
     .op = &brim_op_loss_seed,
     .supports = seed_supports,
     .run = seed_run},
};
const int brim_cpu_step_ops_count = 3;
