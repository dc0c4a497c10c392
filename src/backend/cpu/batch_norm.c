/* Batch norm over channels-last images or plain rows: one pass for the statistics and one to apply
 * them, forward and backward. Rows are cut into parts whose moments are merged in order. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/parallel.h"

#include <math.h>

enum { MOST_PARTS = 64 };

/* Is v [rows, channels] in memory? */
static bool channels_last(const brim_value *v)
{
    const brim_shape *s = &v->shape;
    if (s->rank == 4 && v->layout == BRIM_LAYOUT_CHANNELS_LAST) return true;
    for (int k = 2; k < s->rank; k++)
        if (s->dim[k] != 1 && s->dim[1] != 1) return false;
    return true;
}

static bool supports_like(const brim_node *n, int x, const char **why)
{
    for (int k = 0; k < n->n_in + n->n_out; k++) {
        const brim_value *v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
        if (v && v->shape.rank > 1 && !channels_last(v))
            return *why = "channels are not last in memory", false;
    }
    if (n->in[x]->dtype == BRIM_F64) return *why = "f64", false;
    return true;
}

static bool supports(const brim_node *n, const char **why)
{
    return supports_like(n, 0, why);
}

static bool bwd_supports(const brim_node *n, const char **why)
{
    return supports_like(n, 1, why);
}

static int64_t channels_of(const brim_tensor *x)
{
    return x->shape.dim[1];
}

static int64_t rows_of(const brim_tensor *x)
{
    return brim_tensor_count(x) / channels_of(x);
}

static const void *row_at(const brim_tensor *x, int64_t row)
{
    if (!x->data) return NULL;
    return (const char *)x->data + row * channels_of(x) * (int64_t)brim_dtype_bytes(x->dtype);
}

/* Scratch of one part: 2 doubles and 3 floats a channel; then 4 floats a channel for all. */
typedef struct scratch {
    double *sums; /* parts x 2 x c */
    float *tmp;   /* parts x 3 x c */
    float *a, *b, *k, *mean;
} scratch;

static scratch scratch_of(const brim_step *s, int parts, int64_t c)
{
    scratch z = {.sums = s->workspace};
    z.tmp = (float *)(z.sums + 2 * parts * c);
    z.a = z.tmp + 3 * parts * c;
    z.b = z.a + c;
    z.k = z.b + c;
    z.mean = z.k + c;
    return z;
}

static int parts_of(const brim_tensor *x)
{
    return brim_sum_parts(rows_of(x), channels_of(x), MOST_PARTS);
}

static brim_status prepare_like(brim_step *s, const brim_tensor *x)
{
    size_t c = (size_t)channels_of(x), parts = (size_t)parts_of(x);
    s->workspace_bytes =
        parts * c * (2 * sizeof(double) + 3 * sizeof(float)) + 4 * c * sizeof(float);
    return BRIM_OK;
}

static brim_status prepare(brim_step *s, brim_error *err)
{
    (void)err;
    return prepare_like(s, &s->in[0]);
}

static brim_status bwd_prepare(brim_step *s, brim_error *err)
{
    (void)err;
    return prepare_like(s, &s->in[1]);
}

/* Moments of all rows from those of the parts, into part 0's. */
static void merge(scratch *z, int64_t rows, int parts, int64_t c)
{
    double *mean = z->sums, *m2 = z->sums + c, old = (double)brim_part_begin(rows, 1, parts);
    for (int p = 1; p < parts; p++) {
        const double *pm = z->sums + 2 * p * c, *pq = pm + c;
        double n = (double)(brim_part_begin(rows, p + 1, parts) - brim_part_begin(rows, p, parts));
        double w = n / (old + n);
        for (int64_t j = 0; j < c; j++) {
            double delta = pm[j] - mean[j];
            m2[j] += pq[j] + delta * delta * old * w;
            mean[j] += delta * w;
        }
        old += n;
    }
}

static void apply(const brim_step *s, const scratch *z)
{
    const brim_tensor *x = &s->in[0];
    const brim_kernels *k = brim_kernels_get();
    static const brim_tensor absent;
    const brim_tensor *res = s->node->n_in > 5 ? &s->in[5] : &absent;
    bool act = brim_attr_int(s->node, "act", 0);
    int64_t rows = rows_of(x), c = channels_of(x);
    int parts = brim_thread_parts(rows, c);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++) {
        int64_t from = brim_part_begin(rows, p, parts), to = brim_part_begin(rows, p + 1, parts);
        k->bn_apply((void *)row_at(&s->out[0], from), row_at(x, from), row_at(res, from), x->dtype,
                    to - from, c, z->mean, z->a, z->b, act);
    }
}

static void update_running(const brim_step *s, const scratch *z, double rows)
{
    float *mean = s->in[3].data, *variance = s->in[4].data;
    double m = brim_attr_float(s->node, "momentum", 0.1);
    int64_t c = channels_of(&s->in[0]);
    for (int64_t j = 0; j < c && rows >= 2; j++) {
        mean[j] = (float)((1 - m) * mean[j] + m * z->sums[j]);
        variance[j] = (float)((1 - m) * variance[j] + m * z->sums[c + j] / (rows - 1));
    }
}

static void run(const brim_step *s)
{
    const brim_tensor *x = &s->in[0];
    const brim_kernels *k = brim_kernels_get();
    int64_t rows = rows_of(x), c = channels_of(x);
    int parts = parts_of(x);
    scratch z = scratch_of(s, parts, c);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++) {
        int64_t from = brim_part_begin(rows, p, parts), to = brim_part_begin(rows, p + 1, parts);
        k->column_moments(row_at(x, from), x->dtype, to - from, c, z.sums + 2 * p * c,
                          z.sums + (2 * p + 1) * c, z.tmp + 3 * p * c);
    }
    merge(&z, rows, parts, c);
    const float *gamma = s->in[1].data, *beta = s->in[2].data;
    float *mean = s->out[1].data, *rstd = s->out[2].data;
    double eps = brim_attr_float(s->node, "eps", 1e-5);
    for (int64_t j = 0; j < c; j++) {
        double r = 1 / sqrt((rows ? z.sums[c + j] / (double)rows : 0) + eps);
        z.mean[j] = (float)z.sums[j];
        z.a[j] = (float)(gamma[j] * r);
        /* The mean's rounding is put right in beta. */
        z.b[j] = (float)(beta[j] - (z.sums[j] - z.mean[j]) * r * gamma[j]);
        if (mean) mean[j] = z.mean[j];
        if (rstd) rstd[j] = (float)r;
    }
    update_running(s, &z, (double)rows);
    if (s->out[0].data) apply(s, &z);
}

static void frozen_run(const brim_step *s)
{
    int64_t c = channels_of(&s->in[0]);
    scratch z = scratch_of(s, 0, c);
    const float *gamma = s->in[1].data, *beta = s->in[2].data;
    const float *mean = s->in[3].data, *variance = s->in[4].data;
    double eps = brim_attr_float(s->node, "eps", 1e-5);
    for (int64_t j = 0; j < c; j++) {
        z.mean[j] = mean[j];
        z.a[j] = (float)(gamma[j] / sqrt(variance[j] + eps));
        z.b[j] = beta[j];
    }
    apply(s, &z);
}

/* Columns' factors of the second pass, from the sums of all parts. */
static void bwd_factors(const brim_step *s, const scratch *z, int parts, int64_t rows, int64_t c)
{
    const float *gamma = s->in[3].data, *mean = s->in[4].data, *rstd = s->in[5].data;
    float *dgamma = s->out[1].data, *dbeta = s->out[2].data;
    for (int p = 1; p < parts; p++)
        for (int64_t j = 0; j < 2 * c; j++) z->sums[j] += z->sums[2 * p * c + j];
    for (int64_t j = 0; j < c; j++) {
        double r = rstd[j], db = z->sums[j], a = gamma[j] * r;
        double dg = rows ? z->sums[c + j] * r : 0;
        z->mean[j] = mean[j];
        z->a[j] = (float)a;
        z->b[j] = (float)(a * db / (double)rows);
        z->k[j] = (float)(a * r * dg / (double)rows);
        if (dgamma) dgamma[j] = (float)dg;
        if (dbeta) dbeta[j] = (float)db;
    }
}

static void bwd_run(const brim_step *s)
{
    static const brim_tensor absent;
    const brim_tensor *dy = &s->in[0], *x = &s->in[1], *dx = &s->out[0], *dres = &s->out[3];
    const brim_tensor *y = brim_attr_int(s->node, "act", 0) ? &s->in[2] : &absent;
    const brim_kernels *k = brim_kernels_get();
    int64_t rows = rows_of(x), c = channels_of(x);
    int parts = parts_of(x);
    scratch z = scratch_of(s, parts, c);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++) {
        int64_t from = brim_part_begin(rows, p, parts), to = brim_part_begin(rows, p + 1, parts);
        k->bn_reduce(row_at(dy, from), row_at(x, from), row_at(y, from), (void *)row_at(dres, from),
                     x->dtype, to - from, c, s->in[4].data, z.sums + 2 * p * c, z.tmp + 3 * p * c);
    }
    bwd_factors(s, &z, parts, rows, c);
    if (!dx->data) return;
    if (dres->data) { /* holds the masked dy already */
        dy = dres;
        y = &absent;
    }
    int cuts = brim_thread_parts(rows, c);
    BRIM_PARALLEL_FOR(cuts)
    for (int p = 0; p < cuts; p++) {
        int64_t from = brim_part_begin(rows, p, cuts), to = brim_part_begin(rows, p + 1, cuts);
        k->bn_apply_bwd((void *)row_at(dx, from), row_at(dy, from), row_at(x, from),
                        row_at(y, from), x->dtype, to - from, c, z.mean, z.a, z.b, z.k);
    }
}

const brim_impl brim_cpu_batch_norm[] = {
    {.name = "brim.batch_norm",
     .op = &brim_op_batch_norm,
     .supports = supports,
     .prepare = prepare,
     .run = run},
    {.name = "brim.batch_norm_bwd",
     .op = &brim_op_batch_norm_bwd,
     .supports = bwd_supports,
     .prepare = bwd_prepare,
     .run = bwd_run},
    {.name = "brim.batch_norm_infer",
     .op = &brim_op_batch_norm_infer,
     .supports = supports,
     .prepare = prepare,
     .run = frozen_run},
};
const int brim_cpu_batch_norm_count = 3;
