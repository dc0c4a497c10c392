/* Softmax cross-entropy and its gradient, and top-k counting: rows of logits, row by row. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/parallel.h"

#include <math.h>
#include <string.h>

static bool supports(const brim_node *n, const char **why)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && n->in[k]->dtype == BRIM_F64) return *why = "f64", false;
    return true;
}

/* What a row is compared to: up to two labels and what multiplies each one's loss. */
typedef struct row_target {
    int64_t label[2];
    double factor[2]; /* 0: left out */
} row_target;

static double real_at(const brim_tensor *t, int64_t i)
{
    return brim_tensor_get(t, i);
}

/* in: label, weight, label2, lam; n_in of them given */
static row_target target_of(const brim_tensor *in, int n_in, int64_t row, int64_t classes)
{
    double w = n_in > 1 && in[1].data ? real_at(&in[1], row) : 1;
    bool mixed = n_in > 3 && in[2].data;
    double lam = mixed ? real_at(&in[3], row) : 1;
    row_target t = {.label = {((const int32_t *)in[0].data)[row]}, .factor = {w * lam}};
    if (mixed) {
        t.label[1] = ((const int32_t *)in[2].data)[row];
        t.factor[1] = w * (1 - lam);
    }
    for (int k = 0; k < 2; k++)
        if (t.label[k] < 0 || t.label[k] >= classes) t.factor[k] = 0;
    return t;
}

static void *row_of(const brim_tensor *x, int64_t row)
{
    return (char *)x->data + row * x->shape.dim[1] * (int64_t)brim_dtype_bytes(x->dtype);
}

static brim_status prepare(brim_step *s, brim_error *err)
{
    (void)err;
    s->workspace_bytes = sizeof(double) * (size_t)s->in[0].shape.dim[0];
    return BRIM_OK;
}

/* Loss of one row; its log-sum-exp goes to *lse. */
static double row_loss(const brim_step *s, const brim_kernels *k, int64_t row, double *lse)
{
    const brim_tensor *x = &s->in[0];
    int64_t classes = x->shape.dim[1];
    double smoothing = brim_attr_float(s->node, "smoothing", 0), loss = 0;
    float max, exps, sum;
    k->row_exp_sum(row_of(x, row), x->dtype, classes, &max, &exps, &sum);
    double log_exps = log(exps), mean = sum / (double)classes; /* both relative to max */
    *lse = max + log_exps;
    row_target t = target_of(s->in + 1, s->node->n_in - 1, row, classes);
    for (int j = 0; j < 2; j++) {
        if (t.factor[j] == 0) continue;
        double nll = log_exps - (real_at(x, row * classes + t.label[j]) - max);
        if (smoothing != 0) nll = (1 - smoothing) * nll + smoothing * (log_exps - mean);
        loss += t.factor[j] * nll;
    }
    return loss;
}

static void run(const brim_step *s)
{
    const brim_kernels *k = brim_kernels_get();
    int64_t rows = s->in[0].shape.dim[0];
    double *loss = s->workspace, sum = 0;
    float *lse = s->out[1].data;
    int parts = brim_thread_parts(rows, 8 * s->in[0].shape.dim[1]);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++)
        for (int64_t i = brim_part_begin(rows, p, parts); i < brim_part_begin(rows, p + 1, parts);
             i++) {
            double l;
            loss[i] = row_loss(s, k, i, &l);
            if (lse) lse[i] = (float)l;
        }
    for (int64_t i = 0; i < rows; i++) sum += loss[i];
    if (s->out[0].data) *(float *)s->out[0].data = (float)sum;
}

static void row_gradient(const brim_step *s, const brim_kernels *k, int64_t row, double dloss)
{
    const brim_tensor *x = &s->in[1], *dx = &s->out[0];
    int64_t classes = x->shape.dim[1];
    row_target t = target_of(s->in + 3, s->node->n_in - 3, row, classes);
    double smoothing = brim_attr_float(s->node, "smoothing", 0), lse = real_at(&s->in[2], row);
    double factor = t.factor[0] + t.factor[1], at_label[2] = {0},
           even = smoothing / (double)classes;
    if (t.factor[0] == 0 && t.factor[1] == 0) {
        memset(row_of(dx, row), 0, (size_t)classes * brim_dtype_bytes(dx->dtype));
        return;
    }
    for (int j = 0; j < 2; j++) {
        if (t.factor[j] == 0) continue;
        double p = exp(real_at(x, row * classes + t.label[j]) - lse);
        for (int m = 0; m < 2; m++)
            if (t.factor[m] != 0)
                at_label[j] +=
                    t.factor[m] * (p - (t.label[m] == t.label[j] ? 1 - smoothing : 0) - even);
    }
    k->row_exp(row_of(dx, row), row_of(x, row), x->dtype, classes, (float)lse,
               (float)(dloss * factor), (float)(-dloss * factor * even));
    for (int j = 0; j < 2; j++)
        if (t.factor[j] != 0) brim_tensor_set(dx, row * classes + t.label[j], dloss * at_label[j]);
}

static void bwd_run(const brim_step *s)
{
    const brim_kernels *k = brim_kernels_get();
    int64_t rows = s->in[1].shape.dim[0];
    double dloss = real_at(&s->in[0], 0);
    int parts = brim_thread_parts(rows, 8 * s->in[1].shape.dim[1]);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++)
        for (int64_t i = brim_part_begin(rows, p, parts); i < brim_part_begin(rows, p + 1, parts);
             i++)
            row_gradient(s, k, i, dloss);
}

/* Is the label's logit among the `most` largest? Ties: the lower index wins. */
static bool row_correct(const brim_tensor *x, const brim_kernels *k, int64_t row, int64_t label,
                        int64_t most)
{
    enum { CHUNK = 256 };
    float v[CHUNK];
    int64_t classes = x->shape.dim[1], before = 0;
    if (label < 0 || label >= classes) return false;
    float own = (float)real_at(x, row * classes + label);
    for (int64_t from = 0; from < classes; from += CHUNK) {
        int64_t n = classes - from < CHUNK ? classes - from : CHUNK;
        int larger = 0, ties = 0;
        k->widen(v, (char *)row_of(x, row) + from * (int64_t)brim_dtype_bytes(x->dtype), x->dtype,
                 n);
        for (int j = 0; j < n; j++) larger += v[j] > own;
        for (int j = 0; j < n && from + j < label; j++) ties += v[j] == own;
        before += larger + ties;
    }
    return own == own && before < most;
}

static void topk_run(const brim_step *s)
{
    const brim_tensor *x = &s->in[0];
    const brim_kernels *k = brim_kernels_get();
    int64_t most = brim_attr_int(s->node, "k", 1);
    bool weighted = s->node->n_in > 2 && s->in[2].data;
    double sum = 0;
    for (int64_t i = 0; i < x->shape.dim[0]; i++)
        if (row_correct(x, k, i, ((const int32_t *)s->in[1].data)[i], most))
            sum += weighted ? real_at(&s->in[2], i) : 1;
    if (s->out[0].data) *(float *)s->out[0].data = (float)sum;
}

const brim_impl brim_cpu_cross_entropy[] = {
    {.name = "brim.cross_entropy",
     .op = &brim_op_cross_entropy,
     .supports = supports,
     .prepare = prepare,
     .run = run},
    {.name = "brim.cross_entropy_bwd",
     .op = &brim_op_cross_entropy_bwd,
     .supports = supports,
     .run = bwd_run},
    {.name = "brim.topk_correct",
     .op = &brim_op_topk_correct,
     .supports = supports,
     .run = topk_run},
};
const int brim_cpu_cross_entropy_count = 3;
