/* SGD and AdamW over all weights: every weight is cut into stretches, and two parallel passes run
 * over the stretches of all of them: squares and finiteness of the gradients, then the update. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/parallel.h"
#include "base/mem.h"

#include <math.h>

enum { STEP, SCALER, FIRST };
enum { PARAM, GRAD, M, V, SHADOW, EMA, PER_TENSOR };
enum { SGD, ADAMW };
enum { STRETCH = 16384 };

typedef struct piece {
    int at; /* the weight's first input */
    int64_t from, count;
} piece;

typedef struct plan {
    int n;
    piece piece[];
} plan;

typedef struct result {
    double squares;
    bool finite;
} result;

static bool supports(const brim_node *n, const char **why)
{
    for (int at = 0; at < n->n_in; at++) {
        const brim_value *v = n->in[at];
        if (!v) continue;
        if (v->dtype == BRIM_F64) return *why = "f64", false;
        if (at < FIRST || v->shape.rank != 4) continue;
        if (v->layout != n->in[at - (at - FIRST) % PER_TENSOR]->layout)
            return *why = "a weight and its gradient or state lie differently in memory", false;
    }
    return true;
}

static brim_status prepare(brim_step *s, brim_error *err)
{
    int64_t n = 0;
    for (int at = FIRST; at < s->node->n_in; at += PER_TENSOR)
        n += (brim_tensor_count(&s->in[at]) + STRETCH - 1) / STRETCH;
    s->state_bytes = sizeof(plan) + (size_t)n * sizeof(piece);
    plan *p = s->state = brim_malloc(s->state_bytes);
    if (!p) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    p->n = 0;
    for (int at = FIRST; at < s->node->n_in; at += PER_TENSOR) {
        int64_t count = brim_tensor_count(&s->in[at]);
        for (int64_t from = 0; from < count; from += STRETCH)
            p->piece[p->n++] = (piece){at, from, count - from < STRETCH ? count - from : STRETCH};
    }
    s->workspace_bytes = (size_t)n * sizeof(result) + 1;
    return BRIM_OK;
}

static void release(brim_step *s)
{
    free(s->state);
    s->state = NULL;
}

static void *at(const brim_tensor *t, int64_t i)
{
    return t->data ? (char *)t->data + i * (int64_t)brim_dtype_bytes(t->dtype) : NULL;
}

/* Global norm of the gradients, still scaled; NaN when one is not finite. */
static double gradient_norm(const brim_step *s, const plan *p)
{
    const brim_kernels *k = brim_kernels_get();
    result *r = s->workspace;
    int parts = brim_thread_parts(p->n, STRETCH);
    BRIM_PARALLEL_FOR(parts)
    for (int part = 0; part < parts; part++)
        for (int64_t i = brim_part_begin(p->n, part, parts);
             i < brim_part_begin(p->n, part + 1, parts); i++) {
            const piece *q = &p->piece[i];
            const brim_tensor *g = &s->in[q->at + GRAD];
            r[i].finite = true;
            r[i].squares = k->square_sum(at(g, q->from), g->dtype, q->count, &r[i].finite);
        }
    double sum = 0;
    bool finite = true;
    for (int i = 0; i < p->n; i++) {
        sum += r[i].squares;
        finite &= r[i].finite;
    }
    return finite ? sqrt(sum) : NAN;
}

static void skip_step(const brim_node *n, float *scaler)
{
    if (brim_attr_int(n, "dynamic", 0))
        scaler[BRIM_SCALER_SCALE] =
            (float)fmax(scaler[BRIM_SCALER_SCALE] * brim_attr_float(n, "backoff", 0.5),
                        brim_attr_float(n, "min_scale", 1));
    scaler[BRIM_SCALER_GOOD] = 0;
    scaler[BRIM_SCALER_SKIPPED] += 1;
    scaler[BRIM_SCALER_OVERFLOW] = 1;
}

static void count_step(const brim_node *n, float *scaler, double norm)
{
    float good = scaler[BRIM_SCALER_GOOD] + 1;
    if (brim_attr_int(n, "dynamic", 0) &&
        good >= (float)brim_attr_int(n, "growth_interval", 2000)) {
        scaler[BRIM_SCALER_SCALE] =
            (float)fmin(scaler[BRIM_SCALER_SCALE] * brim_attr_float(n, "growth", 2),
                        brim_attr_float(n, "max_scale", 65536));
        good = 0;
    }
    scaler[BRIM_SCALER_GOOD] = good;
    scaler[BRIM_SCALER_GRAD_NORM] = (float)norm;
    scaler[BRIM_SCALER_OVERFLOW] = 0;
    scaler[BRIM_SCALER_UPDATES] += 1;
}

static brim_update rule(const brim_node *n, const float *step, double factor, double updates)
{
    double beta1 = brim_attr_float(n, "beta1", 0.9), beta2 = brim_attr_float(n, "beta2", 0.999);
    return (brim_update){.lr = step[BRIM_STEP_LR],
                         .decay = (float)brim_attr_float(n, "weight_decay", 0),
                         .coef = (float)factor,
                         .momentum = (float)brim_attr_float(n, "momentum", 0),
                         .beta1 = (float)beta1,
                         .beta2 = (float)beta2,
                         .one_beta1 = (float)(1 - beta1),
                         .one_beta2 = (float)(1 - beta2),
                         .eps = (float)brim_attr_float(n, "eps", 1e-8),
                         .fix1 = (float)(1 / (1 - pow(beta1, updates))),
                         .fix2 = (float)(1 / (1 - pow(beta2, updates))),
                         .ema = step[BRIM_STEP_EMA],
                         .nesterov = brim_attr_int(n, "nesterov", 0) != 0};
}

static void update_piece(const brim_step *s, const piece *q, brim_update u)
{
    const brim_kernels *k = brim_kernels_get();
    const brim_tensor *t = &s->in[q->at];
    bool sgd = brim_attr_int(s->node, "algo", SGD) == SGD;
    brim_stretch x = {.p = at(&t[PARAM], q->from),
                      .m = at(&t[M], q->from),
                      .v = at(&t[V], q->from),
                      .ema = at(&t[EMA], q->from),
                      .g = at(&t[GRAD], q->from),
                      .shadow = at(&t[SHADOW], q->from),
                      .g_type = t[GRAD].dtype,
                      .shadow_type = t[SHADOW].dtype};
    if (!s->node->in[q->at]->decay) u.decay = 0;
    if (sgd && u.momentum == 0) x.m = NULL;
    if (sgd)
        k->sgd(&x, q->count, &u);
    else
        k->adamw(&x, q->count, &u);
}

static void run(const brim_step *s)
{
    const plan *p = s->state;
    const float *step = s->in[STEP].data;
    float *scaler = s->in[SCALER].data;
    double scale = scaler[BRIM_SCALER_SCALE], clip = brim_attr_float(s->node, "clip", 0);
    double norm = gradient_norm(s, p) / scale;
    if (norm != norm) {
        skip_step(s->node, scaler);
        return;
    }
    count_step(s->node, scaler, norm);
    double factor = (clip > 0 ? fmin(1, clip / (norm + 1e-6)) : 1) / scale;
    brim_update u = rule(s->node, step, factor, scaler[BRIM_SCALER_UPDATES]);
    int parts = brim_thread_parts(p->n, STRETCH);
    BRIM_PARALLEL_FOR(parts)
    for (int part = 0; part < parts; part++)
        for (int64_t i = brim_part_begin(p->n, part, parts);
             i < brim_part_begin(p->n, part + 1, parts); i++)
            update_piece(s, &p->piece[i], u);
}

const brim_impl brim_cpu_optimizer[] = {{.name = "brim.optimizer",
                                         .op = &brim_op_optimizer,
                                         .supports = supports,
                                         .prepare = prepare,
                                         .run = run,
                                         .release = release}};
const int brim_cpu_optimizer_count = 1;
