/* Layer norm and softmax: rows that fit in L1, each finished before the next. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/rows.h"

enum { MOST_PARTS = 64 };

static bool supports(const brim_node *n, const char **why)
{
    bool backward = n->op == &brim_op_layer_norm_bwd || n->op == &brim_op_softmax_bwd;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]->dtype == BRIM_F64) return *why = "f64", false;
    if (backward && n->in[0]->dtype != n->in[1]->dtype)
        return *why = "inputs of different types", false;
    return true;
}

static float *floats(const brim_tensor *t, int64_t from)
{
    return t->data ? (float *)t->data + from : NULL;
}

static void run(const brim_step *s)
{
    const brim_tensor *x = &s->in[0];
    const brim_kernels *k = brim_kernels_get();
    double eps = brim_attr_float(s->node, "eps", 1e-5);
    int64_t rows = brim_row_count(x), c = brim_row_length(x);
    int parts = brim_thread_parts(rows, 2 * c);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++) {
        int64_t from = brim_part_begin(rows, p, parts), to = brim_part_begin(rows, p + 1, parts);
        k->layer_norm(brim_row(&s->out[0], from), floats(&s->out[1], from),
                      floats(&s->out[2], from), brim_row(x, from), x->dtype, to - from, c,
                      s->in[1].data, s->in[2].data, eps);
    }
}

static int bwd_parts(const brim_step *s)
{
    return brim_sum_parts(brim_row_count(&s->in[1]), 2 * brim_row_length(&s->in[1]), MOST_PARTS);
}

static brim_status bwd_prepare(brim_step *s, brim_error *err)
{
    (void)err;
    size_t sums = 2 * (size_t)brim_row_length(&s->in[1]);
    s->workspace_bytes = (size_t)bwd_parts(s) * sums * sizeof(float);
    return BRIM_OK;
}

/* out[j] = sum over parts of sums[part][from + j]. */
static void add_parts(float *out, const float *sums, int parts, int64_t from, int64_t c)
{
    for (int64_t j = 0; out && j < c; j++) {
        double sum = 0;
        for (int p = 0; p < parts; p++) sum += sums[2 * p * c + from + j];
        out[j] = (float)sum;
    }
}

static void bwd_run(const brim_step *s)
{
    const brim_tensor *dy = &s->in[0], *x = &s->in[1];
    const brim_kernels *k = brim_kernels_get();
    int64_t rows = brim_row_count(x), c = brim_row_length(x);
    float *sums = s->workspace, *dgamma = s->out[1].data, *dbeta = s->out[2].data;
    int parts = bwd_parts(s);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++) {
        int64_t from = brim_part_begin(rows, p, parts), to = brim_part_begin(rows, p + 1, parts);
        float *dg = sums + 2 * p * c, *db = dg + c;
        for (int64_t j = 0; j < 2 * c; j++) dg[j] = 0;
        k->layer_norm_bwd(brim_row(&s->out[0], from), dgamma ? dg : NULL, dbeta ? db : NULL,
                          brim_row(dy, from), brim_row(x, from), x->dtype, to - from, c,
                          s->in[2].data, floats(&s->in[3], from), floats(&s->in[4], from));
    }
    add_parts(dgamma, sums, parts, 0, c);
    add_parts(dbeta, sums, parts, c, c);
}

static void softmax_run(const brim_step *s)
{
    const brim_tensor *x = &s->in[0];
    const brim_kernels *k = brim_kernels_get();
    int64_t rows = brim_row_count(x), c = brim_row_length(x);
    int parts = brim_thread_parts(rows, 8 * c);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++) {
        int64_t to = brim_part_begin(rows, p + 1, parts);
        for (int64_t i = brim_part_begin(rows, p, parts); i < to; i++) {
            float max, exps, sum;
            k->row_exp_sum(brim_row(x, i), x->dtype, c, &max, &exps, &sum);
            k->row_exp(brim_row(&s->out[0], i), brim_row(x, i), x->dtype, c, max, 1 / exps, 0);
        }
    }
}

static void softmax_bwd_run(const brim_step *s)
{
    const brim_tensor *dy = &s->in[0], *y = &s->in[1];
    const brim_kernels *k = brim_kernels_get();
    int64_t rows = brim_row_count(y), c = brim_row_length(y);
    int parts = brim_thread_parts(rows, 2 * c);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++) {
        int64_t to = brim_part_begin(rows, p + 1, parts);
        for (int64_t i = brim_part_begin(rows, p, parts); i < to; i++)
            k->softmax_bwd_row(brim_row(&s->out[0], i), brim_row(dy, i), brim_row(y, i), y->dtype,
                               c);
    }
}

const brim_impl brim_cpu_layer_norm[] = {
    {.name = "brim.layer_norm", .op = &brim_op_layer_norm, .supports = supports, .run = run},
    {.name = "brim.layer_norm_bwd",
     .op = &brim_op_layer_norm_bwd,
     .supports = supports,
     .prepare = bwd_prepare,
     .run = bwd_run},
    {.name = "brim.softmax", .op = &brim_op_softmax, .supports = supports, .run = softmax_run},
    {.name = "brim.softmax_bwd",
     .op = &brim_op_softmax_bwd,
     .supports = supports,
     .run = softmax_bwd_run},
};
const int brim_cpu_layer_norm_count = 4;
