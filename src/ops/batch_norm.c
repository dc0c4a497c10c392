/* Batch normalisation over x [N,C,...], channel in dimension 1, with the residual sum and the relu
 * that often follow. Statistics, gamma and beta are float (double in f64 graphs) also for half x.
 */
#include "ops/ops.h"

#include <math.h>

/* [N,C,...] as batch x channels x inner. */
typedef struct sizes {
    int64_t batch, channels, inner;
} sizes;

static sizes sizes_of(const brim_shape *s)
{
    sizes z = {s->dim[0], s->dim[1], 1};
    for (int k = 2; k < s->rank; k++) z.inner *= s->dim[k];
    return z;
}

/* Offset of element k (of batch * inner) of channel c. */
static int64_t at(const brim_tensor *t, sizes z, int64_t c, int64_t k)
{
    return brim_tensor_offset(t, (k / z.inner * z.channels + c) * z.inner + k % z.inner);
}

static double at1(const brim_tensor *t, int64_t c)
{
    return brim_tensor_get(t, c * t->stride[0]);
}

static void set1(const brim_tensor *t, int64_t c, double x)
{
    if (t->data) brim_tensor_set(t, c * t->stride[0], x);
}

static brim_status check_x(const brim_node *n, int input, brim_error *err)
{
    char text[128];
    const brim_shape *s = &n->in[input]->shape;
    BRIM_TRY(brim_want_real(n, input, err));
    if (s->rank >= 2 && s->rank <= 5 && s->dim[1]) return BRIM_OK;
    return brim_fail(err, BRIM_ESHAPE,
                     "input %d has shape %s, wants [N,C], [N,C,L], [N,C,H,W] or [N,C,D,H,W]", input,
                     brim_shape_text(text, s));
}

/* Inputs from..to hold one float a channel. */
static brim_status check_channels(const brim_node *n, int from, int to, int64_t channels,
                                  brim_dtype t, brim_error *err)
{
    for (int k = from; k <= to; k++) {
        BRIM_TRY(brim_want_rank(n, k, 1, err));
        BRIM_TRY(brim_want_dim(n, k, 0, channels, err));
        BRIM_TRY(brim_want_type(n, k, brim_dtype_accum(t), err));
    }
    return BRIM_OK;
}

/* An optional input like x. */
static brim_status check_like(const brim_node *n, int input, int x, brim_error *err)
{
    if (input >= n->n_in || !n->in[input]) return BRIM_OK;
    BRIM_TRY(brim_want_type(n, input, n->in[x]->dtype, err));
    if (brim_shape_equal(&n->in[input]->shape, &n->in[x]->shape)) return BRIM_OK;
    char a[128], b[128];
    return brim_fail(err, BRIM_ESHAPE, "input %d has shape %s, wants %s like input %d", input,
                     brim_shape_text(a, &n->in[input]->shape), brim_shape_text(b, &n->in[x]->shape),
                     x);
}

static brim_status check_real(const brim_node *n, const char *key, double otherwise, double most,
                              brim_error *err)
{
    double v = brim_attr_float(n, key, otherwise);
    if (v >= 0 && v <= most) return BRIM_OK;
    return brim_fail(err, BRIM_EINVAL, "%s is %g (wants 0 to %g)", key, v, most);
}

static brim_status forward_infer(brim_node *n, brim_error *err)
{
    BRIM_TRY(check_x(n, 0, err));
    BRIM_TRY(check_channels(n, 1, 4, n->in[0]->shape.dim[1], n->in[0]->dtype, err));
    BRIM_TRY(check_like(n, 5, 0, err));
    BRIM_TRY(check_real(n, "eps", 1e-5, 1, err));
    brim_out_set(n, 0, n->in[0]->dtype, &n->in[0]->shape);
    return BRIM_OK;
}

static brim_status batch_norm_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(forward_infer(n, err));
    BRIM_TRY(check_real(n, "momentum", 0.1, 1, err));
    sizes z = sizes_of(&n->in[0]->shape);
    if (z.batch == 1 && z.inner == 1)
        return brim_fail(err, BRIM_ESHAPE,
                         "one value in each channel has no variance (train with a larger batch)");
    brim_shape channels = {1, {z.channels}};
    for (int k = 1; k < 3; k++) brim_out_set(n, k, brim_dtype_accum(n->in[0]->dtype), &channels);
    return BRIM_OK;
}

static void moments(const brim_tensor *x, sizes z, int64_t c, double *mean, double *variance)
{
    int64_t count = z.batch * z.inner;
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < count; k++) sum += brim_tensor_get(x, at(x, z, c, k));
    *mean = count ? sum / (double)count : 0;
    for (int64_t k = 0; k < count; k++) {
        double d = brim_tensor_get(x, at(x, z, c, k)) - *mean;
        squares += d * d;
    }
    *variance = count ? squares / (double)count : 0;
}

/* y of one channel from its mean and 1/std. */
static void normalise(const brim_node *n, const brim_tensor *in, const brim_tensor *y, sizes z,
                      int64_t c, double mean, double rstd)
{
    const brim_tensor *x = &in[0], *residual = n->n_in > 5 && in[5].data ? &in[5] : NULL;
    bool relu = brim_attr_int(n, "act", 0);
    double gamma = at1(&in[1], c), beta = at1(&in[2], c);
    for (int64_t k = 0; k < z.batch * z.inner; k++) {
        double v = (brim_tensor_get(x, at(x, z, c, k)) - mean) * rstd * gamma + beta;
        if (residual) v += brim_tensor_get(residual, at(residual, z, c, k));
        brim_tensor_set(y, at(y, z, c, k), relu && v < 0 ? 0 : v);
    }
}

static void batch_norm_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    sizes z = sizes_of(&in[0].shape);
    double eps = brim_attr_float(n, "eps", 1e-5), m = brim_attr_float(n, "momentum", 0.1);
    double count = (double)(z.batch * z.inner);
    for (int64_t c = 0; c < z.channels; c++) {
        double mean, variance;
        moments(&in[0], z, c, &mean, &variance);
        double rstd = 1 / sqrt(variance + eps);
        if (out[0].data) normalise(n, in, &out[0], z, c, mean, rstd);
        set1(&out[1], c, mean);
        set1(&out[2], c, rstd);
        if (count < 2) continue; /* an empty batch leaves the running statistics alone */
        set1(&in[3], c, (1 - m) * at1(&in[3], c) + m * mean);
        set1(&in[4], c, (1 - m) * at1(&in[4], c) + m * variance * count / (count - 1));
    }
}

static brim_status batch_norm_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                   const bool *need, brim_value **din)
{
    if (!dout[0]) return BRIM_OK; /* the statistics are for the gradient, not for the loss */
    bool relu = brim_attr_int(n, "act", 0);
    brim_value *in[] = {dout[0], n->in[0], relu ? n->out[0] : NULL, n->in[1], n->out[1], n->out[2]};
    brim_node *d = brim_emit(g, &brim_op_batch_norm_bwd, NULL, in, 6, &BRIM_INT("act", relu), 1);
    if (!d) return brim_graph_check(g, NULL);
    for (int k = 0; k < 3; k++)
        if (need[k]) din[k] = d->out[k];
    if (n->n_in > 5 && n->in[5] && need[5]) din[5] = d->out[3];
    return BRIM_OK;
}

static void batch_norm_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 8 * (double)brim_shape_count(&n->in[0]->shape);
}

static const brim_case batch_norm_cases[] = {
    {.name = "image", .inputs = "f32[3,2,4,3] f32[2] f32[2] f32[2] f32[2]", .positive_in = 16},
    {.name = "options",
     .inputs = "f32[2,3,5,5] f32[3] f32[3] f32[3] f32[3] -",
     .attrs = "momentum=0.3 eps=0.001",
     .positive_in = 16},
    {.name = "one channel",
     .inputs = "f32[2,1,3,3] f32[1] f32[1] f32[1] f32[1]",
     .positive_in = 16},
    {.name = "rows", .inputs = "f32[7,5] f32[5] f32[5] f32[5] f32[5]", .positive_in = 16},
    {.name = "sequence", .inputs = "f32[3,2,5] f32[2] f32[2] f32[2] f32[2]", .positive_in = 16},
    {.name = "volume", .inputs = "f32[2,3,2,3,2] f32[3] f32[3] f32[3] f32[3]", .positive_in = 16},
    {.name = "one image", .inputs = "f32[1,3,4,5] f32[3] f32[3] f32[3] f32[3]", .positive_in = 16},
    {.name = "relu",
     .inputs = "f32[3,2,4,3] f32[2] f32[2] f32[2] f32[2]",
     .attrs = "act=1",
     .positive_in = 16},
    {.name = "residual",
     .inputs = "f32[3,2,4,3] f32[2] f32[2] f32[2] f32[2] f32[3,2,4,3]",
     .positive_in = 16},
    {.name = "residual and relu",
     .inputs = "f32[3,2,4,3] f32[2] f32[2] f32[2] f32[2] f32[3,2,4,3]",
     .attrs = "act=1",
     .positive_in = 16},
    {.name = "empty batch",
     .inputs = "f32[0,2,4,3] f32[2] f32[2] f32[2] f32[2]",
     .positive_in = 16},
    {.name = "one value",
     .inputs = "f32[1,2,1,1] f32[2] f32[2] f32[2] f32[2]",
     .refused = "has no variance"},
    {.name = "channels",
     .inputs = "f32[3,2,4,3] f32[3] f32[2] f32[2] f32[2]",
     .refused = "wants 2 in dimension 0"},
    {.name = "running channels",
     .inputs = "f32[3,2,4,3] f32[2] f32[2] f32[2] f32[3]",
     .refused = "wants 2 in dimension 0"},
    {.name = "rank", .inputs = "f32[3] f32[3] f32[3] f32[3] f32[3]", .refused = "wants [N,C]"},
    {.name = "no channels",
     .inputs = "f32[3,0,4,3] f32[0] f32[0] f32[0] f32[0]",
     .refused = "wants [N,C]"},
    {.name = "residual shape",
     .inputs = "f32[3,2,4,3] f32[2] f32[2] f32[2] f32[2] f32[3,2,4,4]",
     .refused = "like input 0"},
    {.name = "half gamma",
     .inputs = "bf16[3,2,4,3] bf16[2] f32[2] f32[2] f32[2]",
     .refused = "input 1 is bf16, wants f32"},
    {.name = "negative eps",
     .inputs = "f32[3,2,4,3] f32[2] f32[2] f32[2] f32[2]",
     .attrs = "eps=-1.0",
     .refused = "eps is -1"},
    {.name = "momentum above 1",
     .inputs = "f32[3,2,4,3] f32[2] f32[2] f32[2] f32[2]",
     .attrs = "momentum=1.5",
     .refused = "momentum is 1.5"},
    {.name = "integers", .inputs = "u8[3,2] f32[2] f32[2] f32[2] f32[2]", .refused = "cast it"},
};

const brim_op brim_op_batch_norm = {
    .name = "batch_norm",
    .doc = "y = act(gamma (x - mean) rstd + beta + residual), mean, rstd of the batch; updates "
           "the running statistics",
    .min_in = 5,
    .max_in = 6,
    .n_out = 3,
    .optional_in = 1 << 5,
    .mutates = 1 << 3 | 1 << 4,
    .inplace = 1 | 1 << 5,
    .no_grad_in = 1 << 3 | 1 << 4,
    .infer = batch_norm_infer,
    .grad = batch_norm_grad,
    .cost = batch_norm_cost,
    .ref = batch_norm_ref,
    .layout = BRIM_LAYOUT_CONV,
    .amp = BRIM_AMP_FOLLOW,
    .amp_in = 1 | 1 << 5,
    BRIM_CASES(batch_norm_cases)};

/* batch_norm_bwd: dx = gamma rstd (g - mean(g) - xhat mean(g xhat)) with g = dy masked by relu. */
static brim_status bwd_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(check_x(n, 1, err));
    BRIM_TRY(check_like(n, 0, 1, err));
    BRIM_TRY(check_like(n, 2, 1, err));
    if (brim_attr_int(n, "act", 0) && !n->in[2])
        return brim_fail(err, BRIM_EINVAL, "act=1 wants y (input 2)");
    const brim_shape *x = &n->in[1]->shape;
    brim_dtype t = n->in[1]->dtype;
    BRIM_TRY(check_channels(n, 3, 5, x->dim[1], t, err));
    brim_shape channels = {1, {x->dim[1]}};
    brim_out_set(n, 0, t, x);
    brim_out_set(n, 1, brim_dtype_accum(t), &channels);
    brim_out_set(n, 2, brim_dtype_accum(t), &channels);
    brim_out_set(n, 3, t, x);
    return BRIM_OK;
}

/* dy of element k of channel c, zero where relu was off. */
static double masked(const brim_tensor *dy, const brim_tensor *y, sizes z, int64_t c, int64_t k)
{
    if (y && !(brim_tensor_get(y, at(y, z, c, k)) > 0)) return 0;
    return brim_tensor_get(dy, at(dy, z, c, k));
}

static void bwd_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    const brim_tensor *dy = &in[0], *x = &in[1], *dx = &out[0], *dresidual = &out[3];
    const brim_tensor *y = brim_attr_int(n, "act", 0) ? &in[2] : NULL;
    sizes z = sizes_of(&x->shape);
    int64_t count = z.batch * z.inner;
    for (int64_t c = 0; c < z.channels; c++) {
        double gamma = at1(&in[3], c), mean = at1(&in[4], c), rstd = at1(&in[5], c);
        double dgamma = 0, dbeta = 0;
        for (int64_t k = 0; k < count; k++) {
            double g = masked(dy, y, z, c, k);
            dbeta += g;
            dgamma += g * (brim_tensor_get(x, at(x, z, c, k)) - mean) * rstd;
        }
        for (int64_t k = 0; k < count; k++) {
            double g = masked(dy, y, z, c, k);
            double xhat = (brim_tensor_get(x, at(x, z, c, k)) - mean) * rstd;
            double d = gamma * rstd * (g - (dbeta + xhat * dgamma) / (double)count);
            if (dx->data) brim_tensor_set(dx, at(dx, z, c, k), d);
            if (dresidual->data) brim_tensor_set(dresidual, at(dresidual, z, c, k), g);
        }
        set1(&out[1], c, dgamma);
        set1(&out[2], c, dbeta);
    }
}

static void bwd_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 12 * (double)brim_shape_count(&n->in[1]->shape);
}

static const brim_case bwd_cases[] = {
    {.name = "image",
     .inputs = "f32[3,2,4,3] f32[3,2,4,3] - f32[2] f32[2] f32[2]",
     .positive_in = 32},
    {.name = "relu",
     .inputs = "f32[3,2,4,3] f32[3,2,4,3] f32[3,2,4,3] f32[2] f32[2] f32[2]",
     .attrs = "act=1",
     .positive_in = 32},
    {.name = "rows", .inputs = "f32[7,5] f32[7,5] - f32[5] f32[5] f32[5]", .positive_in = 32},
    {.name = "volume",
     .inputs = "f32[2,3,2,3,2] f32[2,3,2,3,2] - f32[3] f32[3] f32[3]",
     .positive_in = 32},
    {.name = "empty batch",
     .inputs = "f32[0,2,4,3] f32[0,2,4,3] - f32[2] f32[2] f32[2]",
     .positive_in = 32},
    {.name = "relu without y",
     .inputs = "f32[3,2] f32[3,2] - f32[2] f32[2] f32[2]",
     .attrs = "act=1",
     .refused = "wants y"},
    {.name = "shapes",
     .inputs = "f32[3,2] f32[2,2] - f32[2] f32[2] f32[2]",
     .refused = "like input 1"},
    {.name = "statistics",
     .inputs = "f32[3,2] f32[3,2] - f32[2] f32[3] f32[2]",
     .refused = "wants 2 in dimension 0"},
};

const brim_op brim_op_batch_norm_bwd = {
    .name = "batch_norm_bwd",
    .doc = "dx, dgamma, dbeta and dresidual = dy where y > 0 of batch_norm",
    .min_in = 6,
    .max_in = 6,
    .n_out = 4,
    .optional_in = 4,
    .inplace = 3,
    .infer = bwd_infer,
    .cost = bwd_cost,
    .ref = bwd_ref,
    .layout = BRIM_LAYOUT_CONV,
    .amp = BRIM_AMP_FOLLOW,
    .amp_in = 7,
    BRIM_CASES(bwd_cases)};

/* batch_norm_infer: with given statistics. */
static brim_status frozen_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    return forward_infer(n, err);
}

static void frozen_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    sizes z = sizes_of(&in[0].shape);
    double eps = brim_attr_float(n, "eps", 1e-5);
    for (int64_t c = 0; c < z.channels; c++)
        normalise(n, in, out, z, c, at1(&in[3], c), 1 / sqrt(at1(&in[4], c) + eps));
}

/* v [C] so that it broadcasts over [N,C,...]. */
static brim_value *per_channel(brim_graph *g, brim_value *v, int rank)
{
    int64_t dim[BRIM_MAX_RANK] = {1, brim_value_dim(v, 0), 1, 1, 1, 1};
    return v ? brim_reshape(g, v, rank - 1, dim + 1) : NULL;
}

/* With fixed statistics it is y = x s + b, so the gradients are pointwise and sums. */
static brim_status frozen_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                               const bool *need, brim_value **din)
{
    brim_value *x = n->in[0], *dy = dout[0];
    int rank = x->shape.rank;
    unsigned others = ((1u << rank) - 1) & ~2u;
    double eps = brim_attr_float(n, "eps", 1e-5);
    if (brim_attr_int(n, "act", 0))
        dy = brim_emit1(g, &brim_op_relu_bwd, NULL, (brim_value *[]){dy, n->out[0]}, 2, NULL, 0);
    if (n->n_in > 5 && n->in[5] && need[5]) din[5] = dy;
    brim_value *std = NULL;
    if (need[0] || need[1]) std = brim_sqrt(g, brim_affine(g, n->in[4], 1, eps));
    if (need[0]) {
        brim_value *scale = per_channel(g, brim_div(g, n->in[1], std), rank);
        din[0] = brim_cast(g, brim_mul(g, dy, scale), x->dtype);
    }
    brim_value *wide = dy; /* sums are taken in float */
    if (need[1] || need[2]) wide = brim_cast(g, dy, brim_dtype_accum(x->dtype));
    if (need[1]) {
        brim_value *centred = brim_sub(g, x, per_channel(g, n->in[3], rank));
        brim_value *sum = brim_reduce_sum(g, brim_mul(g, wide, centred), others, false);
        din[1] = brim_div(g, sum, std);
    }
    if (need[2]) din[2] = brim_reduce_sum(g, wide, others, false);
    return brim_graph_check(g, NULL);
}

static void frozen_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 2 * (double)brim_shape_count(&n->in[0]->shape);
}

static const brim_case frozen_cases[] = {
    {.name = "image", .inputs = "f32[3,2,4,3] f32[2] f32[2] f32[2] f32[2]", .positive_in = 16},
    {.name = "eps",
     .inputs = "f32[2,3,5,5] f32[3] f32[3] f32[3] f32[3] -",
     .attrs = "eps=0.001",
     .positive_in = 16},
    {.name = "rows", .inputs = "f32[7,5] f32[5] f32[5] f32[5] f32[5]", .positive_in = 16},
    {.name = "volume", .inputs = "f32[2,3,2,3,2] f32[3] f32[3] f32[3] f32[3]", .positive_in = 16},
    {.name = "one value", .inputs = "f32[1,2,1,1] f32[2] f32[2] f32[2] f32[2]", .positive_in = 16},
    {.name = "relu",
     .inputs = "f32[3,2,4,3] f32[2] f32[2] f32[2] f32[2]",
     .attrs = "act=1",
     .positive_in = 16},
    {.name = "residual and relu",
     .inputs = "f32[3,2,4,3] f32[2] f32[2] f32[2] f32[2] f32[3,2,4,3]",
     .attrs = "act=1",
     .positive_in = 16},
    {.name = "empty batch",
     .inputs = "f32[0,2,4,3] f32[2] f32[2] f32[2] f32[2]",
     .positive_in = 16},
    {.name = "channels",
     .inputs = "f32[3,2,4,3] f32[2] f32[2] f32[1] f32[2]",
     .refused = "wants 2 in dimension 0"},
    {.name = "residual type",
     .inputs = "f32[3,2] f32[2] f32[2] f32[2] f32[2] bf16[3,2]",
     .refused = "input 5 is bf16"},
};

const brim_op brim_op_batch_norm_infer = {
    .name = "batch_norm_infer",
    .doc = "y = act(gamma (x - mean) / sqrt(var + eps) + beta + residual)",
    .min_in = 5,
    .max_in = 6,
    .n_out = 1,
    .optional_in = 1 << 5,
    .inplace = 1 | 1 << 5,
    .no_grad_in = 1 << 3 | 1 << 4,
    .infer = frozen_infer,
    .grad = frozen_grad,
    .cost = frozen_cost,
    .ref = frozen_ref,
    .layout = BRIM_LAYOUT_CONV,
    .amp = BRIM_AMP_FOLLOW,
    .amp_in = 1 | 1 << 5,
    BRIM_CASES(frozen_cases)};

brim_value *brim_batch_norm(brim_graph *g, brim_value *x, brim_value *gamma, brim_value *beta,
                            brim_value *running_mean, brim_value *running_var, double momentum,
                            double eps)
{
    brim_value *in[] = {x, gamma, beta, running_mean, running_var};
    if (brim_graph_training(g))
        return BRIM_EMIT(g, &brim_op_batch_norm, NULL, in, BRIM_FLOAT("momentum", momentum),
                         BRIM_FLOAT("eps", eps));
    return BRIM_EMIT(g, &brim_op_batch_norm_infer, NULL, in, BRIM_FLOAT("eps", eps));
}
