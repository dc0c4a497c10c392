/* Layer normalisation over the last dimension of x [...,C], and its gradient. Statistics, gamma and
 * beta are float (double in f64 graphs) also for half x. */
#include "ops/ops.h"

#include <math.h>

static int64_t channels_of(const brim_shape *s)
{
    return s->dim[s->rank - 1];
}

/* The shape of the statistics: one a row. */
static brim_shape rows_shape(const brim_shape *x)
{
    brim_shape s = *x;
    s.dim[--s.rank] = 0;
    return s;
}

static double at(const brim_tensor *t, int64_t row, int64_t c)
{
    return brim_tensor_get(t, brim_tensor_offset(t, row * channels_of(&t->shape) + c));
}

static void put(const brim_tensor *t, int64_t i, double x)
{
    if (t->data) brim_tensor_set(t, brim_tensor_offset(t, i), x);
}

static brim_status check_x(const brim_node *n, int input, brim_error *err)
{
    BRIM_TRY(brim_want_real(n, input, err));
    if (n->in[input]->shape.rank && channels_of(&n->in[input]->shape)) return BRIM_OK;
    return brim_fail(err, BRIM_ESHAPE, "input %d has no last dimension to normalise", input);
}

static brim_status check_channels(const brim_node *n, int input, int x, brim_error *err)
{
    BRIM_TRY(brim_want_rank(n, input, 1, err));
    BRIM_TRY(brim_want_dim(n, input, 0, channels_of(&n->in[x]->shape), err));
    return brim_want_type(n, input, brim_dtype_accum(n->in[x]->dtype), err);
}

static brim_status check_shape(const brim_node *n, int input, const brim_shape *want,
                               brim_error *err)
{
    char a[128], b[128];
    if (brim_shape_equal(&n->in[input]->shape, want)) return BRIM_OK;
    return brim_fail(err, BRIM_ESHAPE, "input %d has shape %s, wants %s", input,
                     brim_shape_text(a, &n->in[input]->shape), brim_shape_text(b, want));
}

static brim_status layer_norm_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(check_x(n, 0, err));
    for (int k = 1; k < 3; k++) BRIM_TRY(check_channels(n, k, 0, err));
    double eps = brim_attr_float(n, "eps", 1e-5);
    if (!(eps >= 0 && eps <= 1))
        return brim_fail(err, BRIM_EINVAL, "eps is %g (wants 0 to 1)", eps);
    brim_dtype t = n->in[0]->dtype;
    brim_shape rows = rows_shape(&n->in[0]->shape);
    brim_out_set(n, 0, t, &n->in[0]->shape);
    for (int k = 1; k < 3; k++) brim_out_set(n, k, brim_dtype_accum(t), &rows);
    return BRIM_OK;
}

static void layer_norm_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    const brim_tensor *x = &in[0];
    double eps = brim_attr_float(n, "eps", 1e-5);
    int64_t channels = channels_of(&x->shape), rows = brim_tensor_count(x) / channels;
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, variance = 0;
        for (int64_t c = 0; c < channels; c++) mean += at(x, r, c) / (double)channels;
        for (int64_t c = 0; c < channels; c++) {
            double d = at(x, r, c) - mean;
            variance += d * d / (double)channels;
        }
        double rstd = 1 / sqrt(variance + eps);
        put(&out[1], r, mean);
        put(&out[2], r, rstd);
        for (int64_t c = 0; c < channels; c++) {
            double gamma = brim_tensor_get(&in[1], c * in[1].stride[0]);
            double beta = brim_tensor_get(&in[2], c * in[2].stride[0]);
            put(&out[0], r * channels + c, (at(x, r, c) - mean) * rstd * gamma + beta);
        }
    }
}

static brim_status layer_norm_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                   const bool *need, brim_value **din)
{
    if (!dout[0]) return BRIM_OK; /* the statistics are for the gradient, not for the loss */
    brim_value *in[] = {dout[0], n->in[0], n->in[1], n->out[1], n->out[2]};
    brim_node *d = brim_emit(g, &brim_op_layer_norm_bwd, NULL, in, 5, NULL, 0);
    for (int k = 0; d && k < 3; k++)
        if (need[k]) din[k] = d->out[k];
    return brim_graph_check(g, NULL);
}

static void layer_norm_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 8 * (double)brim_shape_count(&n->in[0]->shape);
}

static const brim_case layer_norm_cases[] = {
    {.name = "rows", .inputs = "f32[4,7] f32[7] f32[7]"},
    {.name = "tokens", .inputs = "f32[2,3,8] f32[8] f32[8]", .attrs = "eps=1e-12"},
    {.name = "image rows", .inputs = "f32[2,2,3,5] f32[5] f32[5]", .attrs = "eps=0.001"},
    {.name = "one row", .inputs = "f32[9] f32[9] f32[9]"},
    {.name = "odd size", .inputs = "f32[3,33] f32[33] f32[33]"},
    {.name = "one channel", .inputs = "f32[3,1] f32[1] f32[1]"},
    {.name = "empty batch", .inputs = "f32[0,7] f32[7] f32[7]"},
    {.name = "gamma size", .inputs = "f32[4,7] f32[4] f32[7]", .refused = "wants 7 in"},
    {.name = "beta rank", .inputs = "f32[4,7] f32[7] f32[1,7]", .refused = "wants 1 dimensions"},
    {.name = "half gamma", .inputs = "bf16[4,7] bf16[7] f32[7]", .refused = "wants f32"},
    {.name = "no channels", .inputs = "f32[4,0] f32[0] f32[0]", .refused = "no last dimension"},
    {.name = "scalar", .inputs = "f32[] f32[1] f32[1]", .refused = "no last dimension"},
    {.name = "eps",
     .inputs = "f32[4,7] f32[7] f32[7]",
     .attrs = "eps=-0.5",
     .refused = "eps is -0.5"},
    {.name = "integers", .inputs = "i32[4,7] f32[7] f32[7]", .refused = "cast it first"},
};

const brim_op brim_op_layer_norm = {
    .name = "layer_norm",
    .doc = "y = gamma (x - mean) rstd + beta over the last dimension, and mean, rstd of each row",
    .min_in = 3,
    .max_in = 3,
    .n_out = 3,
    .inplace = 1,
    .infer = layer_norm_infer,
    .grad = layer_norm_grad,
    .cost = layer_norm_cost,
    .ref = layer_norm_ref,
    .layout = BRIM_LAYOUT_PLAIN,
    .amp = BRIM_AMP_FOLLOW,
    .amp_in = 1,
    BRIM_CASES(layer_norm_cases)};

brim_value *brim_layer_norm(brim_graph *g, brim_value *x, brim_value *gamma, brim_value *beta,
                            double eps)
{
    return BRIM_EMIT(g, &brim_op_layer_norm, NULL, ((brim_value *[]){x, gamma, beta}),
                     BRIM_FLOAT("eps", eps));
}

/* layer_norm_bwd: dx = rstd (g - mean(g) - xhat mean(g xhat)) over the row, with g = dy gamma. */
static brim_status bwd_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(check_x(n, 1, err));
    const brim_shape *x = &n->in[1]->shape;
    brim_dtype t = n->in[1]->dtype, accum = brim_dtype_accum(t);
    brim_shape rows = rows_shape(x), channels = {1, {channels_of(x)}};
    BRIM_TRY(brim_want_type(n, 0, t, err));
    BRIM_TRY(check_shape(n, 0, x, err));
    BRIM_TRY(check_channels(n, 2, 1, err));
    for (int k = 3; k < 5; k++) {
        BRIM_TRY(check_shape(n, k, &rows, err));
        BRIM_TRY(brim_want_type(n, k, accum, err));
    }
    brim_out_set(n, 0, t, x);
    brim_out_set(n, 1, accum, &channels);
    brim_out_set(n, 2, accum, &channels);
    return BRIM_OK;
}

static double xhat_at(const brim_tensor *in, int64_t r, int64_t c)
{
    double mean = brim_tensor_get(&in[3], brim_tensor_offset(&in[3], r));
    double rstd = brim_tensor_get(&in[4], brim_tensor_offset(&in[4], r));
    return (at(&in[1], r, c) - mean) * rstd;
}

static void weight_grads(const brim_tensor *in, const brim_tensor *out, int64_t rows,
                         int64_t channels)
{
    for (int64_t c = 0; c < channels; c++) {
        double dgamma = 0, dbeta = 0;
        for (int64_t r = 0; r < rows; r++) {
            dgamma += at(&in[0], r, c) * xhat_at(in, r, c);
            dbeta += at(&in[0], r, c);
        }
        put(&out[1], c, dgamma);
        put(&out[2], c, dbeta);
    }
}

static void bwd_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    (void)n;
    const brim_tensor *dy = &in[0], *x = &in[1], *gamma = &in[2];
    int64_t channels = channels_of(&x->shape), rows = brim_tensor_count(x) / channels;
    weight_grads(in, out, rows, channels);
    for (int64_t r = 0; out[0].data && r < rows; r++) {
        double sum = 0, dot = 0, rstd = brim_tensor_get(&in[4], brim_tensor_offset(&in[4], r));
        for (int64_t c = 0; c < channels; c++) {
            double g = at(dy, r, c) * brim_tensor_get(gamma, c * gamma->stride[0]);
            sum += g;
            dot += g * xhat_at(in, r, c);
        }
        for (int64_t c = 0; c < channels; c++) {
            double g = at(dy, r, c) * brim_tensor_get(gamma, c * gamma->stride[0]);
            put(&out[0], r * channels + c,
                rstd * (g - (sum + xhat_at(in, r, c) * dot) / (double)channels));
        }
    }
}

static void bwd_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 14 * (double)brim_shape_count(&n->in[1]->shape);
}

static const brim_case bwd_cases[] = {
    {.name = "rows", .inputs = "f32[4,7] f32[4,7] f32[7] f32[4] f32[4]", .positive_in = 16},
    {.name = "tokens",
     .inputs = "f32[2,3,8] f32[2,3,8] f32[8] f32[2,3] f32[2,3]",
     .positive_in = 16},
    {.name = "one row", .inputs = "f32[9] f32[9] f32[9] f32[] f32[]", .positive_in = 16},
    {.name = "odd size", .inputs = "f32[3,33] f32[3,33] f32[33] f32[3] f32[3]", .positive_in = 16},
    {.name = "empty batch", .inputs = "f32[0,7] f32[0,7] f32[7] f32[0] f32[0]", .positive_in = 16},
    {.name = "dy shape",
     .inputs = "f32[4,8] f32[4,7] f32[7] f32[4] f32[4]",
     .refused = "input 0 has shape [4,8], wants [4,7]"},
    {.name = "statistics",
     .inputs = "f32[4,7] f32[4,7] f32[7] f32[4] f32[7]",
     .refused = "input 4 has shape [7], wants [4]"},
};

const brim_op brim_op_layer_norm_bwd = {.name = "layer_norm_bwd",
                                        .doc = "dx, dgamma and dbeta of layer_norm",
                                        .min_in = 5,
                                        .max_in = 5,
                                        .n_out = 3,
                                        .inplace = 3,
                                        .infer = bwd_infer,
                                        .cost = bwd_cost,
                                        .ref = bwd_ref,
                                        .layout = BRIM_LAYOUT_PLAIN,
                                        .amp = BRIM_AMP_FOLLOW,
                                        .amp_in = 3,
                                        BRIM_CASES(bwd_cases)};
