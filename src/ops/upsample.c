/* Nearest-neighbour upsampling by whole factors, and its gradient. */
#include "ops/window.h"

static brim_status read_scale(const brim_node *n, int64_t scale[2], brim_error *err)
{
    for (int k = 0; k < 2; k++) {
        scale[k] = brim_attr_int_at(n, "scale", k, 0);
        if (scale[k] < 1 || scale[k] > INT32_MAX)
            return brim_fail(err, BRIM_EINVAL, "scale is %lld (wants 1 or more, below 2^31)",
                             (long long)scale[k]);
    }
    BRIM_TRY(brim_want_real(n, 0, err));
    return brim_want_rank(n, 0, 4, err);
}

static brim_status upsample_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    int64_t scale[2] = {0};
    BRIM_TRY(read_scale(n, scale, err));
    brim_shape y = n->in[0]->shape;
    for (int k = 0; k < 2; k++)
        if (__builtin_mul_overflow(y.dim[2 + k], scale[k], &y.dim[2 + k]))
            return brim_fail(err, BRIM_ESHAPE, "output is too large");
    brim_out_set(n, 0, n->in[0]->dtype, &y);
    return BRIM_OK;
}

static void upsample_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    int64_t sh = brim_attr_int_at(n, "scale", 0, 1), sw = brim_attr_int_at(n, "scale", 1, 1);
    const int64_t *y = out->shape.dim;
    for (int64_t b = 0; b < y[0]; b++)
        for (int64_t c = 0; c < y[1]; c++)
            for (int64_t i = 0; i < y[2]; i++)
                for (int64_t j = 0; j < y[3]; j++)
                    brim_set4(out, b, c, i, j, brim_get4(in, b, c, i / sh, j / sw));
}

static brim_attr scale_attr(const brim_node *n)
{
    return BRIM_INT2("scale", brim_attr_int_at(n, "scale", 0, 1),
                     brim_attr_int_at(n, "scale", 1, 1));
}

static brim_status upsample_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                 const bool *need, brim_value **din)
{
    if (need[0])
        din[0] = BRIM_EMIT(g, &brim_op_upsample_nearest_bwd, NULL, ((brim_value *[]){dout[0]}),
                           scale_attr(n));
    return brim_graph_check(g, NULL);
}

static const brim_case upsample_cases[] = {
    {.name = "2x", .inputs = "f32[2,3,4,5]", .attrs = "scale=2,2"},
    {.name = "uneven", .inputs = "f32[1,2,3,4]", .attrs = "scale=3,1"},
    {.name = "same", .inputs = "f32[1,2,3,4]", .attrs = "scale=1,1"},
    {.name = "one pixel", .inputs = "f32[2,3,1,1]", .attrs = "scale=4,5"},
    {.name = "empty batch", .inputs = "f32[0,3,4,5]", .attrs = "scale=2,2"},
    {.name = "no scale", .inputs = "f32[2,3,4,5]", .refused = "scale is 0"},
    {.name = "negative", .inputs = "f32[2,3,4,5]", .attrs = "scale=2,-2", .refused = "scale is -2"},
    {.name = "rank", .inputs = "f32[3,4,5]", .attrs = "scale=2,2", .refused = "wants 4 dimensions"},
    {.name = "integers", .inputs = "u8[2,3,4,5]", .attrs = "scale=2,2", .refused = "cast it first"},
    {.name = "too large",
     .inputs = "f32[2,3,4,5]",
     .attrs = "scale=2000000000,2000000000",
     .refused = "too large"},
};

const brim_op brim_op_upsample_nearest = {.name = "upsample_nearest",
                                          .doc = "y[n,c,i,j] = x[n,c,i/scale,j/scale]",
                                          .min_in = 1,
                                          .max_in = 1,
                                          .n_out = 1,
                                          .infer = upsample_infer,
                                          .grad = upsample_grad,
                                          .ref = upsample_ref,
                                          .layout = BRIM_LAYOUT_CONV,
                                          .amp = BRIM_AMP_FOLLOW,
                                          .amp_in = 1,
                                          BRIM_CASES(upsample_cases)};

brim_value *brim_upsample_nearest(brim_graph *g, brim_value *x, int scale_h, int scale_w)
{
    return BRIM_EMIT(g, &brim_op_upsample_nearest, NULL, ((brim_value *[]){x}),
                     BRIM_INT2("scale", scale_h, scale_w));
}

/* upsample_nearest_bwd */
static brim_status bwd_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    int64_t scale[2] = {0};
    char text[128];
    BRIM_TRY(read_scale(n, scale, err));
    brim_shape dx = n->in[0]->shape;
    for (int k = 0; k < 2; k++) {
        if (dx.dim[2 + k] % scale[k])
            return brim_fail(err, BRIM_ESHAPE, "gradient %s is no multiple of the scale %lld",
                             brim_shape_text(text, &n->in[0]->shape), (long long)scale[k]);
        dx.dim[2 + k] /= scale[k];
    }
    brim_out_set(n, 0, n->in[0]->dtype, &dx);
    return BRIM_OK;
}

static void bwd_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    int64_t sh = brim_attr_int_at(n, "scale", 0, 1), sw = brim_attr_int_at(n, "scale", 1, 1);
    const int64_t *x = out->shape.dim;
    for (int64_t b = 0; b < x[0]; b++)
        for (int64_t c = 0; c < x[1]; c++)
            for (int64_t h = 0; h < x[2]; h++)
                for (int64_t w = 0; w < x[3]; w++) {
                    double sum = 0;
                    for (int64_t k = 0; k < sh * sw; k++)
                        sum += brim_get4(in, b, c, h * sh + k / sw, w * sw + k % sw);
                    brim_set4(out, b, c, h, w, sum);
                }
}

static void bwd_cost(const brim_node *n, brim_cost *c)
{
    c->flops += (double)brim_shape_count(&n->in[0]->shape);
}

static const brim_case bwd_cases[] = {
    {.name = "2x", .inputs = "f32[2,3,8,10]", .attrs = "scale=2,2"},
    {.name = "uneven", .inputs = "f32[1,2,9,4]", .attrs = "scale=3,1"},
    {.name = "empty batch", .inputs = "f32[0,3,8,10]", .attrs = "scale=2,2"},
    {.name = "no multiple",
     .inputs = "f32[2,3,8,9]",
     .attrs = "scale=2,2",
     .refused = "no multiple of the scale 2"},
};

const brim_op brim_op_upsample_nearest_bwd = {.name = "upsample_nearest_bwd",
                                              .doc = "dx = sum of dy over each block of scale",
                                              .min_in = 1,
                                              .max_in = 1,
                                              .n_out = 1,
                                              .infer = bwd_infer,
                                              .cost = bwd_cost,
                                              .ref = bwd_ref,
                                              .layout = BRIM_LAYOUT_CONV,
                                              .amp = BRIM_AMP_FOLLOW,
                                              .amp_in = 1,
                                              BRIM_CASES(bwd_cases)};
