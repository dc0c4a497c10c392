/* optimizer: one node that updates every weight. SGD is torch.optim.SGD, AdamW is Loshchilov and
 * Hutter's with decoupled decay, as torch.optim.AdamW.
 *
 * Inputs: step, scaler, then six per weight: param, grad, m, v, shadow (half copy), ema; the last
 * four may be absent. With g = grad / scaler[SCALE]: when any g is not finite nothing but the
 * scaler changes (GRAD_NORM keeps its last value), else all of them are clipped by their global
 * norm and applied. */
#include "ops/ops.h"

#include <math.h>

enum { STEP, SCALER, FIRST };
enum { PARAM, GRAD, M, V, SHADOW, EMA, PER_TENSOR };
enum { SGD, ADAMW };

static brim_status check_tensor(const brim_node *n, int at, bool needs_m, bool needs_v,
                                brim_error *err)
{
    if (!n->in[at + PARAM] || !n->in[at + GRAD])
        return brim_fail(err, BRIM_EINVAL, "input %d: a weight or its gradient is missing", at);
    if ((needs_m && !n->in[at + M]) || (needs_v && !n->in[at + V]))
        return brim_fail(err, BRIM_EINVAL, "%s has no momentum or variance to keep",
                         n->in[at]->name);
    for (int k = 0; k < PER_TENSOR; k++) {
        const brim_value *v = n->in[at + k];
        if (!v) continue;
        BRIM_TRY(brim_want_real(n, at + k, err));
        if (!brim_shape_equal(&v->shape, &n->in[at]->shape)) {
            char a[128], b[128];
            return brim_fail(err, BRIM_ESHAPE, "%s has shape %s, its weight %s", v->name,
                             brim_shape_text(a, &v->shape), brim_shape_text(b, &n->in[at]->shape));
        }
        if (k != GRAD && brim_dtype_half(v->dtype) != (k == SHADOW))
            return brim_fail(err, BRIM_EDTYPE, "input %d is %s (only the shadow is a half type)",
                             at + k, brim_dtype_name(v->dtype));
    }
    return BRIM_OK;
}

static brim_status optimizer_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(brim_want_rank(n, STEP, 1, err));
    BRIM_TRY(brim_want_dim(n, STEP, 0, BRIM_STEP_COUNT, err));
    BRIM_TRY(brim_want_rank(n, SCALER, 1, err));
    BRIM_TRY(brim_want_dim(n, SCALER, 0, BRIM_SCALER_COUNT, err));
    int64_t algo = brim_attr_int(n, "algo", SGD);
    if (algo != SGD && algo != ADAMW)
        return brim_fail(err, BRIM_EINVAL, "there is no algorithm %lld", (long long)algo);
    if ((n->n_in - FIRST) % PER_TENSOR)
        return brim_fail(err, BRIM_EINVAL, "%d inputs are not 2 and six per weight", n->n_in);
    bool momentum = algo == ADAMW || brim_attr_float(n, "momentum", 0) != 0;
    for (int at = FIRST; at < n->n_in; at += PER_TENSOR)
        BRIM_TRY(check_tensor(n, at, momentum, algo == ADAMW, err));
    return brim_node_set_outputs(g, n, 0) ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "out of memory");
}

/* Global L2 norm of all true gradients; not finite when any of them is not. */
static double gradient_norm(const brim_node *n, const brim_tensor *in, double scale)
{
    double sum = 0;
    bool finite = true;
    for (int at = FIRST; at < n->n_in; at += PER_TENSOR) {
        int64_t count = brim_tensor_count(&in[at + GRAD]);
        for (int64_t i = 0; i < count; i++) {
            double g = brim_tensor_at(&in[at + GRAD], i) / scale;
            finite &= isfinite(g) != 0;
            sum += g * g;
        }
    }
    return finite ? sqrt(sum) : NAN;
}

static void skip_step(const brim_node *n, const brim_tensor *scaler)
{
    if (brim_attr_int(n, "dynamic", 0)) {
        double scale =
            brim_tensor_at(scaler, BRIM_SCALER_SCALE) * brim_attr_float(n, "backoff", 0.5);
        brim_tensor_put(scaler, BRIM_SCALER_SCALE, fmax(scale, brim_attr_float(n, "min_scale", 1)));
    }
    brim_tensor_put(scaler, BRIM_SCALER_GOOD, 0);
    brim_tensor_put(scaler, BRIM_SCALER_SKIPPED, brim_tensor_at(scaler, BRIM_SCALER_SKIPPED) + 1);
    brim_tensor_put(scaler, BRIM_SCALER_OVERFLOW, 1);
}

static void good_step(const brim_node *n, const brim_tensor *scaler, double norm)
{
    double good = brim_tensor_at(scaler, BRIM_SCALER_GOOD) + 1;
    if (brim_attr_int(n, "dynamic", 0) &&
        good >= (double)brim_attr_int(n, "growth_interval", 2000)) {
        double scale = brim_tensor_at(scaler, BRIM_SCALER_SCALE) * brim_attr_float(n, "growth", 2);
        brim_tensor_put(scaler, BRIM_SCALER_SCALE,
                        fmin(scale, brim_attr_float(n, "max_scale", 65536)));
        good = 0;
    }
    brim_tensor_put(scaler, BRIM_SCALER_GOOD, good);
    brim_tensor_put(scaler, BRIM_SCALER_GRAD_NORM, norm);
    brim_tensor_put(scaler, BRIM_SCALER_OVERFLOW, 0);
    brim_tensor_put(scaler, BRIM_SCALER_UPDATES, brim_tensor_at(scaler, BRIM_SCALER_UPDATES) + 1);
}

static double sgd(const brim_node *n, const brim_tensor *t, int64_t i, double p, double g,
                  double lr, double decay)
{
    double momentum = brim_attr_float(n, "momentum", 0);
    g += decay * p;
    if (momentum == 0) return p - lr * g;
    double m = momentum * brim_tensor_at(&t[M], i) + g;
    brim_tensor_put(&t[M], i, m);
    return p - lr * (brim_attr_int(n, "nesterov", 0) ? g + momentum * m : m);
}

static double adamw(const brim_node *n, const brim_tensor *t, int64_t i, double p, double g,
                    double lr, double decay, double updates)
{
    double beta1 = brim_attr_float(n, "beta1", 0.9), beta2 = brim_attr_float(n, "beta2", 0.999);
    double m = beta1 * brim_tensor_at(&t[M], i) + (1 - beta1) * g;
    double v = beta2 * brim_tensor_at(&t[V], i) + (1 - beta2) * g * g;
    brim_tensor_put(&t[M], i, m);
    brim_tensor_put(&t[V], i, v);
    double mhat = m / (1 - pow(beta1, updates)), vhat = v / (1 - pow(beta2, updates));
    return p - lr * decay * p - lr * mhat / (sqrt(vhat) + brim_attr_float(n, "eps", 1e-8));
}

static void optimizer_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    (void)out;
    const brim_tensor *scaler = &in[SCALER];
    double scale = brim_tensor_at(scaler, BRIM_SCALER_SCALE);
    double norm = gradient_norm(n, in, scale), clip = brim_attr_float(n, "clip", 0);
    if (norm != norm) {
        skip_step(n, scaler);
        return;
    }
    good_step(n, scaler, norm);
    double lr = brim_tensor_at(&in[STEP], BRIM_STEP_LR);
    double keep = brim_tensor_at(&in[STEP], BRIM_STEP_EMA);
    double updates = brim_tensor_at(scaler, BRIM_SCALER_UPDATES);
    double factor = (clip > 0 ? fmin(1, clip / (norm + 1e-6)) : 1) / scale;
    for (int at = FIRST; at < n->n_in; at += PER_TENSOR) {
        const brim_tensor *t = &in[at];
        double decay = n->in[at]->decay ? brim_attr_float(n, "weight_decay", 0) : 0;
        int64_t count = brim_tensor_count(&t[PARAM]);
        for (int64_t i = 0; i < count; i++) {
            double p = brim_tensor_at(&t[PARAM], i), g = brim_tensor_at(&t[GRAD], i) * factor;
            p = brim_attr_int(n, "algo", SGD) == SGD ? sgd(n, t, i, p, g, lr, decay)
                                                     : adamw(n, t, i, p, g, lr, decay, updates);
            brim_tensor_put(&t[PARAM], i, p);
            if (t[SHADOW].data) brim_tensor_put(&t[SHADOW], i, p);
            if (t[EMA].data)
                brim_tensor_put(&t[EMA], i, keep * brim_tensor_at(&t[EMA], i) + (1 - keep) * p);
        }
    }
}

static void optimizer_cost(const brim_node *n, brim_cost *c)
{
    double each = brim_attr_int(n, "algo", SGD) == SGD ? 8 : 16;
    for (int at = FIRST; at < n->n_in; at++) {
        int role = (at - FIRST) % PER_TENSOR;
        if (!n->in[at]) continue;
        if (role == PARAM) c->flops += each * (double)brim_shape_count(&n->in[at]->shape);
        if (role != GRAD) c->bytes_written += (double)brim_value_bytes(n->in[at]);
    }
}

#define TWO_STATES "f32[8] f32[8] f32[5,7] f32[5,7] f32[5,7] f32[5,7] "
static const brim_case optimizer_cases[] = {
    {.name = "sgd",
     .inputs = "f32[8] f32[8] f32[5,7] f32[5,7] - - - -",
     .attrs = "weight_decay=0.01",
     .lo = 0.2,
     .hi = 2},
    {.name = "sgd, momentum, two weights",
     .inputs = "f32[8] f32[8] f32[5,7] f32[5,7] f32[5,7] - - - f32[3] f32[3] f32[3] - - -",
     .attrs = "momentum=0.9 weight_decay=0.01 clip=0.5",
     .lo = 0.2,
     .hi = 2},
    {.name = "sgd, nesterov, shadow, average",
     .inputs = "f32[8] f32[8] f32[67] f32[67] f32[67] - bf16[67] f32[67]",
     .attrs = "momentum=0.9 nesterov=1 dynamic=1 growth_interval=2",
     .lo = 0.2,
     .hi = 2},
    {.name = "adamw",
     .inputs = TWO_STATES "- -",
     .attrs = "algo=1 weight_decay=0.01",
     .lo = 0.2,
     .hi = 2},
    {.name = "adamw, all",
     .inputs = TWO_STATES "f16[5,7] f32[5,7] f32[130] f32[130] f32[130] f32[130] f16[130] f32[130]",
     .attrs = "algo=1 weight_decay=0.01 clip=0.1 beta1=0.8 beta2=0.95 eps=1e-6",
     .lo = 0.2,
     .hi = 2},
    {.name = "half gradient",
     .inputs = "f32[8] f32[8] f32[40] bf16[40] f32[40] - bf16[40] -",
     .attrs = "momentum=0.9",
     .lo = 0.2,
     .hi = 2},
    {.name = "no momentum kept",
     .inputs = "f32[8] f32[8] f32[3] f32[3] - - - -",
     .attrs = "momentum=0.9",
     .refused = "no momentum"},
    {.name = "not six", .inputs = "f32[8] f32[8] f32[3] f32[3]", .refused = "six per weight"},
    {.name = "no gradient",
     .inputs = "f32[8] f32[8] f32[3] - - - - -",
     .refused = "gradient is missing"},
    {.name = "shapes differ",
     .inputs = "f32[8] f32[8] f32[3] f32[4] - - - -",
     .refused = "its weight [3]"},
    {.name = "half weight",
     .inputs = "f32[8] f32[8] bf16[3] f32[3] - - - -",
     .refused = "only the shadow"},
    {.name = "no algorithm",
     .inputs = "f32[8] f32[8] f32[3] f32[3] - - - -",
     .attrs = "algo=9",
     .refused = "no algorithm 9"},
};
const brim_op brim_op_optimizer = {
    .name = "optimizer",
    .doc = "SGD or AdamW on every weight in place, with loss scaling, clipping, half copies and "
           "averages",
    .min_in = 2,
    .max_in = -1,
    .n_out = -1,
    .optional_in = ~3u,
    .mutates_all = true,
    .no_grad_in = ~0u,
    .layout = BRIM_LAYOUT_SAME,
    .amp = BRIM_AMP_KEEP,
    .infer = optimizer_infer,
    .cost = optimizer_cost,
    .ref = optimizer_ref,
    BRIM_CASES(optimizer_cases)};
