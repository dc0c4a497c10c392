/* 2-D convolution (cross-correlation) and its two gradients. x [N,C,H,W], w [O,C/g,kh,kw]. */
#include "ops/window.h"

static int64_t groups_of(const brim_node *n)
{
    return brim_attr_int(n, "groups", 1);
}

/* Attributes that the gradients share with the convolution, then `last`. */
static void attrs_with(const brim_node *n, brim_attr last, brim_attr out[5])
{
    brim_window w = brim_window_get(n, (int64_t[2]){1, 1});
    out[0] = BRIM_INT2("stride", w.stride[0], w.stride[1]);
    out[1] = BRIM_INT2("pad", w.pad[0], w.pad[1]);
    out[2] = BRIM_INT2("dilation", w.dilation[0], w.dilation[1]);
    out[3] = BRIM_INT("groups", groups_of(n));
    out[4] = last;
}

static brim_status check_weight(const brim_node *n, int input, brim_window *w, brim_error *err)
{
    const brim_shape *s = &n->in[input]->shape;
    int64_t groups = groups_of(n);
    char text[128];
    BRIM_TRY(brim_want_rank(n, input, 4, err));
    if (s->dim[0] < 1 || s->dim[1] < 1)
        return brim_fail(err, BRIM_ESHAPE, "weight %s has no channels", brim_shape_text(text, s));
    if (groups < 1 || s->dim[0] % groups)
        return brim_fail(err, BRIM_ESHAPE, "groups=%lld does not divide the %lld output channels",
                         (long long)groups, (long long)s->dim[0]);
    return brim_window_read(n, s->dim + 2, w, err);
}

static brim_status check_bias(const brim_node *n, int64_t channels, brim_error *err)
{
    if (n->n_in < 3 || !n->in[2]) return BRIM_OK;
    BRIM_TRY(brim_want_rank(n, 2, 1, err));
    BRIM_TRY(brim_want_dim(n, 2, 0, channels, err));
    brim_dtype t = n->in[0]->dtype; /* half convolutions may keep the bias in float */
    return n->in[2]->dtype == t ? BRIM_OK : brim_want_type(n, 2, brim_dtype_accum(t), err);
}

static brim_status conv2d_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    brim_window win;
    int64_t out[2], groups = groups_of(n);
    char text[128];
    BRIM_TRY(brim_want_real(n, 0, err));
    BRIM_TRY(brim_want_rank(n, 0, 4, err));
    BRIM_TRY(check_weight(n, 1, &win, err));
    BRIM_TRY(brim_want_type(n, 1, n->in[0]->dtype, err));
    const brim_shape *x = &n->in[0]->shape, *w = &n->in[1]->shape;
    if (x->dim[1] % groups)
        return brim_fail(err, BRIM_ESHAPE, "groups=%lld does not divide the %lld input channels",
                         (long long)groups, (long long)x->dim[1]);
    if (x->dim[1] / groups != w->dim[1])
        return brim_fail(err, BRIM_ESHAPE, "weight %s wants %lld channels%s, got %lld",
                         brim_shape_text(text, w), (long long)w->dim[1],
                         groups > 1 ? " in each group" : "", (long long)(x->dim[1] / groups));
    BRIM_TRY(check_bias(n, w->dim[0], err));
    BRIM_TRY(brim_window_out(&win, x->dim + 2, false, out, err));
    brim_shape y = {4, {x->dim[0], w->dim[0], out[0], out[1]}};
    brim_out_set(n, 0, n->in[0]->dtype, &y);
    return BRIM_OK;
}

/* Sum over channels and taps for one output. */
static double dot(const brim_window *win, const brim_tensor *x, const brim_tensor *w, int64_t group,
                  const int64_t at[4])
{
    double sum = 0;
    int64_t channels = w->shape.dim[1];
    for (int64_t kh = 0; kh < win->kernel[0]; kh++)
        for (int64_t kw = 0; kw < win->kernel[1]; kw++) {
            int64_t h = brim_window_input(win, 0, at[2], kh, x->shape.dim[2]);
            int64_t v = brim_window_input(win, 1, at[3], kw, x->shape.dim[3]);
            for (int64_t c = 0; h >= 0 && v >= 0 && c < channels; c++)
                sum += brim_get4(x, at[0], group * channels + c, h, v) *
                       brim_get4(w, at[1], c, kh, kw);
        }
    return sum;
}

static void conv2d_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    const brim_tensor *x = &in[0], *w = &in[1], *bias = n->n_in > 2 && in[2].data ? &in[2] : NULL;
    const int64_t *y = out->shape.dim;
    brim_window win = brim_window_get(n, w->shape.dim + 2);
    int64_t per_group = y[1] / groups_of(n);
    bool relu = brim_attr_int(n, "act", 0);
    for (int64_t b = 0; b < y[0]; b++)
        for (int64_t o = 0; o < y[1]; o++)
            for (int64_t i = 0; i < y[2]; i++)
                for (int64_t j = 0; j < y[3]; j++) {
                    double v = dot(&win, x, w, o / per_group, (int64_t[4]){b, o, i, j});
                    if (bias) v += brim_tensor_get(bias, o * bias->stride[0]);
                    brim_set4(out, b, o, i, j, relu && v < 0 ? 0 : v);
                }
}

static brim_status conv2d_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                               const bool *need, brim_value **din)
{
    brim_value *x = n->in[0], *w = n->in[1], *dy = dout[0];
    brim_attr attr[5];
    if (brim_attr_int(n, "act", 0))
        dy = brim_emit1(g, &brim_op_relu_bwd, NULL, (brim_value *[]){dy, n->out[0]}, 2, NULL, 0);
    if (need[0]) {
        attrs_with(n, BRIM_INT2("in_size", x->shape.dim[2], x->shape.dim[3]), attr);
        din[0] = brim_emit1(g, &brim_op_conv2d_bwd_data, NULL, (brim_value *[]){dy, w}, 2, attr, 5);
    }
    bool bias = n->n_in > 2 && n->in[2] && need[2];
    if (need[1] || bias) {
        attrs_with(n, BRIM_INT2("kernel", w->shape.dim[2], w->shape.dim[3]), attr);
        brim_node *d =
            brim_emit(g, &brim_op_conv2d_bwd_weight, NULL, (brim_value *[]){dy, x}, 2, attr, 5);
        if (d && need[1]) din[1] = d->out[0];
        if (d && bias) din[2] = d->out[1];
    }
    return brim_graph_check(g, NULL);
}

/* The same products in all three: every output pixel takes C/g kh kw of them in each channel. */
static double products(const brim_shape *y, const brim_shape *w)
{
    return (double)brim_shape_count(y) * (double)w->dim[1] * (double)w->dim[2] * (double)w->dim[3];
}

static void conv2d_cost(const brim_node *n, brim_cost *c)
{
    const brim_shape *y = &n->out[0]->shape;
    bool bias = n->n_in > 2 && n->in[2];
    c->flops += 2 * products(y, &n->in[1]->shape) + (bias ? (double)brim_shape_count(y) : 0);
}

static const brim_case conv2d_cases[] = {
    {.name = "3x3", .inputs = "f32[2,3,6,7] f32[4,3,3,3] f32[4]", .attrs = "pad=1,1"},
    {.name = "no bias", .inputs = "f32[2,3,5,5] f32[4,3,3,3]"},
    {.name = "stride", .inputs = "f32[2,3,9,8] f32[4,3,3,3] -", .attrs = "stride=2,2 pad=1,1"},
    {.name = "uneven",
     .inputs = "f32[1,2,9,7] f32[3,2,2,5] f32[3]",
     .attrs = "stride=3,1 pad=0,2 dilation=2,1"},
    {.name = "7x7 stride 2",
     .inputs = "f32[1,3,11,11] f32[2,3,7,7]",
     .attrs = "stride=2,2 pad=3,3"},
    {.name = "dilation", .inputs = "f32[2,2,9,9] f32[3,2,3,3]", .attrs = "dilation=2,3 pad=2,3"},
    {.name = "1x1", .inputs = "f32[2,5,4,3] f32[7,5,1,1] f32[7]"},
    {.name = "1x1 stride 2", .inputs = "f32[2,5,5,7] f32[7,5,1,1]", .attrs = "stride=2,2"},
    {.name = "groups", .inputs = "f32[2,4,5,5] f32[6,2,3,3] f32[6]", .attrs = "groups=2 pad=1,1"},
    {.name = "depthwise", .inputs = "f32[2,6,5,5] f32[6,1,3,3] -", .attrs = "groups=6 pad=1,1"},
    {.name = "depthwise multiplier", .inputs = "f32[2,3,5,5] f32[6,1,3,3]", .attrs = "groups=3"},
    {.name = "kernel as large as the image", .inputs = "f32[2,3,4,5] f32[2,3,4,5] f32[2]"},
    {.name = "relu", .inputs = "f32[2,3,5,5] f32[4,3,3,3] f32[4]", .attrs = "act=1 pad=1,1"},
    {.name = "relu without bias", .inputs = "f32[2,3,5,5] f32[4,3,3,3]", .attrs = "act=1"},
    {.name = "empty batch", .inputs = "f32[0,3,5,5] f32[4,3,3,3] f32[4]"},
    {.name = "wrong channels",
     .inputs = "f32[2,3,8,8] f32[64,32,3,3]",
     .refused = "weight [64,32,3,3] wants 32 channels, got 3"},
    {.name = "wrong channels in groups",
     .inputs = "f32[2,4,8,8] f32[8,4,3,3]",
     .attrs = "groups=2",
     .refused = "wants 4 channels in each group, got 2"},
    {.name = "groups and inputs",
     .inputs = "f32[2,5,8,8] f32[6,2,3,3]",
     .attrs = "groups=2",
     .refused = "does not divide the 5 input channels"},
    {.name = "groups and outputs",
     .inputs = "f32[2,4,8,8] f32[5,2,3,3]",
     .attrs = "groups=2",
     .refused = "does not divide the 5 output channels"},
    {.name = "no groups",
     .inputs = "f32[2,4,8,8] f32[5,4,3,3]",
     .attrs = "groups=0",
     .refused = "groups=0"},
    {.name = "rank", .inputs = "f32[3,8,8] f32[4,3,3,3]", .refused = "wants 4 dimensions"},
    {.name = "weight rank", .inputs = "f32[2,3,8,8] f32[4,27]", .refused = "wants 4 dimensions"},
    {.name = "bias size", .inputs = "f32[2,3,8,8] f32[4,3,3,3] f32[3]", .refused = "wants 4 in"},
    {.name = "bias rank", .inputs = "f32[2,3,8,8] f32[4,3,3,3] f32[4,1]", .refused = "wants 1 dim"},
    {.name = "kernel too large",
     .inputs = "f32[2,3,4,8] f32[4,3,7,7]",
     .attrs = "pad=1,1",
     .refused = "kernel spans 7 pixels, the padded image has 6"},
    {.name = "dilation too large",
     .inputs = "f32[2,3,4,8] f32[4,3,3,3]",
     .attrs = "dilation=1,4",
     .refused = "kernel spans 9 pixels"},
    {.name = "empty kernel", .inputs = "f32[2,3,4,8] f32[4,3,0,3]", .refused = "kernel is 0x3"},
    {.name = "no channels", .inputs = "f32[2,0,4,8] f32[4,0,3,3]", .refused = "has no channels"},
    {.name = "empty image", .inputs = "f32[2,3,0,8] f32[4,3,1,1]", .refused = "image is 0x8"},
    {.name = "stride 0",
     .inputs = "f32[2,3,8,8] f32[4,3,3,3]",
     .attrs = "stride=0,1",
     .refused = "stride is 0x1"},
    {.name = "negative pad",
     .inputs = "f32[2,3,8,8] f32[4,3,3,3]",
     .attrs = "pad=-1,0",
     .refused = "pad is -1x0"},
    {.name = "dilation 0",
     .inputs = "f32[2,3,8,8] f32[4,3,3,3]",
     .attrs = "dilation=0,1",
     .refused = "dilation is 0x1"},
    {.name = "pad beyond 31 bits",
     .inputs = "f32[2,3,8,8] f32[4,3,3,3]",
     .attrs = "pad=9223372036854775807,0",
     .refused = "below 2^31"},
    {.name = "output too large",
     .inputs = "f32[2,3,8,8] f32[4,3,3,3]",
     .attrs = "pad=1000000000,2000000000",
     .refused = "too large"},
    {.name = "integers", .inputs = "u8[2,3,8,8] f32[4,3,3,3]", .refused = "cast it first"},
    {.name = "types differ", .inputs = "f32[2,3,8,8] bf16[4,3,3,3]", .refused = "wants f32"},
};

const brim_op brim_op_conv2d = {.name = "conv2d",
                                .doc = "y = act(x * w + bias), cross-correlation",
                                .min_in = 2,
                                .max_in = 3,
                                .n_out = 1,
                                .optional_in = 4,
                                .infer = conv2d_infer,
                                .grad = conv2d_grad,
                                .cost = conv2d_cost,
                                .ref = conv2d_ref,
                                .layout = BRIM_LAYOUT_CONV,
                                .amp = BRIM_AMP_HALF,
                                .amp_in = 3,
                                BRIM_CASES(conv2d_cases)};

/* conv2d_bwd_data */
static brim_status bwd_data_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    brim_window win;
    int64_t in[2], channels;
    BRIM_TRY(brim_want_real(n, 0, err));
    BRIM_TRY(brim_want_rank(n, 0, 4, err));
    BRIM_TRY(check_weight(n, 1, &win, err));
    BRIM_TRY(brim_want_type(n, 1, n->in[0]->dtype, err));
    const brim_shape *dy = &n->in[0]->shape, *w = &n->in[1]->shape;
    BRIM_TRY(brim_want_dim(n, 0, 1, w->dim[0], err));
    BRIM_TRY(brim_window_in_size(n, &win, dy, false, in, err));
    if (__builtin_mul_overflow(w->dim[1], groups_of(n), &channels))
        return brim_fail(err, BRIM_ESHAPE, "too many channels");
    brim_shape dx = {4, {dy->dim[0], channels, in[0], in[1]}};
    brim_out_set(n, 0, n->in[0]->dtype, &dx);
    return BRIM_OK;
}

/* Gradient of one input: every output that read it, through the tap that did. */
static double gather(const brim_window *win, const brim_tensor *dy, const brim_tensor *w,
                     int64_t groups, const int64_t at[4])
{
    double sum = 0;
    int64_t per_group = dy->shape.dim[1] / groups, channels = w->shape.dim[1];
    int64_t first = at[1] / channels * per_group;
    for (int64_t kh = 0; kh < win->kernel[0]; kh++)
        for (int64_t kw = 0; kw < win->kernel[1]; kw++) {
            int64_t i = brim_window_output(win, 0, at[2], kh, dy->shape.dim[2]);
            int64_t j = brim_window_output(win, 1, at[3], kw, dy->shape.dim[3]);
            for (int64_t o = first; i >= 0 && j >= 0 && o < first + per_group; o++)
                sum += brim_get4(dy, at[0], o, i, j) * brim_get4(w, o, at[1] % channels, kh, kw);
        }
    return sum;
}

static void bwd_data_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    const int64_t *x = out->shape.dim;
    brim_window win = brim_window_get(n, in[1].shape.dim + 2);
    for (int64_t b = 0; b < x[0]; b++)
        for (int64_t c = 0; c < x[1]; c++)
            for (int64_t h = 0; h < x[2]; h++)
                for (int64_t w = 0; w < x[3]; w++)
                    brim_set4(out, b, c, h, w,
                              gather(&win, &in[0], &in[1], groups_of(n), (int64_t[4]){b, c, h, w}));
}

static void bwd_data_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 2 * products(&n->in[0]->shape, &n->in[1]->shape);
}

static const brim_case bwd_data_cases[] = {
    {.name = "3x3", .inputs = "f32[2,4,6,7] f32[4,3,3,3]", .attrs = "pad=1,1 in_size=6,7"},
    {.name = "stride",
     .inputs = "f32[2,4,5,4] f32[4,3,3,3]",
     .attrs = "stride=2,2 pad=1,1 in_size=9,8"},
    {.name = "uneven",
     .inputs = "f32[1,3,3,7] f32[3,2,2,5]",
     .attrs = "stride=3,1 pad=0,2 dilation=2,1 in_size=9,7"},
    {.name = "1x1 stride 2",
     .inputs = "f32[2,7,3,4] f32[7,5,1,1]",
     .attrs = "stride=2,2 in_size=5,7"},
    {.name = "groups",
     .inputs = "f32[2,6,5,5] f32[6,2,3,3]",
     .attrs = "groups=2 pad=1,1 in_size=5,5"},
    {.name = "depthwise",
     .inputs = "f32[2,6,5,5] f32[6,1,3,3]",
     .attrs = "groups=6 pad=1,1 in_size=5,5"},
    {.name = "empty batch", .inputs = "f32[0,4,3,3] f32[4,3,3,3]", .attrs = "in_size=5,5"},
    {.name = "size",
     .inputs = "f32[2,4,6,7] f32[4,3,3,3]",
     .attrs = "in_size=6,7",
     .refused = "does not belong to an image of 6x7"},
    {.name = "no size", .inputs = "f32[2,4,6,7] f32[4,3,3,3]", .refused = "image is 0x0"},
    {.name = "channels",
     .inputs = "f32[2,5,6,7] f32[4,3,3,3]",
     .attrs = "pad=1,1 in_size=6,7",
     .refused = "wants 4 in dimension 1"},
};

const brim_op brim_op_conv2d_bwd_data = {.name = "conv2d_bwd_data",
                                         .doc = "dx of conv2d from dy and w",
                                         .min_in = 2,
                                         .max_in = 2,
                                         .n_out = 1,
                                         .infer = bwd_data_infer,
                                         .cost = bwd_data_cost,
                                         .ref = bwd_data_ref,
                                         .layout = BRIM_LAYOUT_CONV,
                                         .amp = BRIM_AMP_HALF,
                                         .amp_in = 3,
                                         BRIM_CASES(bwd_data_cases)};

/* conv2d_bwd_weight */
static brim_status bwd_weight_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    brim_window win;
    int64_t out[2], groups = groups_of(n);
    for (int k = 0; k < 2; k++) {
        BRIM_TRY(brim_want_real(n, k, err));
        BRIM_TRY(brim_want_rank(n, k, 4, err));
    }
    BRIM_TRY(brim_want_type(n, 1, n->in[0]->dtype, err));
    BRIM_TRY(brim_window_read(n, NULL, &win, err));
    const brim_shape *dy = &n->in[0]->shape, *x = &n->in[1]->shape;
    if (groups < 1 || dy->dim[1] % groups || x->dim[1] % groups || !dy->dim[1] || !x->dim[1])
        return brim_fail(err, BRIM_ESHAPE, "groups=%lld does not divide %lld and %lld channels",
                         (long long)groups, (long long)dy->dim[1], (long long)x->dim[1]);
    BRIM_TRY(brim_want_dim(n, 1, 0, dy->dim[0], err));
    BRIM_TRY(brim_window_out(&win, x->dim + 2, false, out, err));
    BRIM_TRY(brim_want_dim(n, 0, 2, out[0], err));
    BRIM_TRY(brim_want_dim(n, 0, 3, out[1], err));
    brim_shape dw = {4, {dy->dim[1], x->dim[1] / groups, win.kernel[0], win.kernel[1]}};
    brim_shape db = {1, {dy->dim[1]}};
    brim_dtype t = brim_dtype_accum(n->in[0]->dtype);
    brim_out_set(n, 0, t, &dw);
    brim_out_set(n, 1, t, &db);
    return BRIM_OK;
}

/* Gradient of w[o,.,kh,kw]: the products of dy's channel o with input channel c under that tap. */
static double correlate(const brim_window *win, const brim_tensor *dy, const brim_tensor *x,
                        int64_t o, int64_t c, int64_t kh, int64_t kw)
{
    double sum = 0;
    const int64_t *y = dy->shape.dim;
    for (int64_t b = 0; b < y[0]; b++)
        for (int64_t i = 0; i < y[2]; i++)
            for (int64_t j = 0; j < y[3]; j++) {
                int64_t h = brim_window_input(win, 0, i, kh, x->shape.dim[2]);
                int64_t v = brim_window_input(win, 1, j, kw, x->shape.dim[3]);
                if (h >= 0 && v >= 0) sum += brim_get4(dy, b, o, i, j) * brim_get4(x, b, c, h, v);
            }
    return sum;
}

static void bias_grad(const brim_tensor *dy, const brim_tensor *db)
{
    const int64_t *y = dy->shape.dim;
    for (int64_t o = 0; o < y[1]; o++) {
        double sum = 0;
        for (int64_t b = 0; b < y[0]; b++)
            for (int64_t i = 0; i < y[2]; i++)
                for (int64_t j = 0; j < y[3]; j++) sum += brim_get4(dy, b, o, i, j);
        brim_tensor_set(db, o * db->stride[0], sum);
    }
}

static void bwd_weight_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    const brim_tensor *dy = &in[0], *x = &in[1], *dw = &out[0];
    if (out[1].data) bias_grad(dy, &out[1]);
    if (!dw->data) return;
    brim_window win = brim_window_get(n, NULL);
    const int64_t *d = dw->shape.dim;
    int64_t per_group = d[0] / groups_of(n);
    for (int64_t o = 0; o < d[0]; o++)
        for (int64_t c = 0; c < d[1]; c++)
            for (int64_t kh = 0; kh < d[2]; kh++)
                for (int64_t kw = 0; kw < d[3]; kw++)
                    brim_set4(dw, o, c, kh, kw,
                              correlate(&win, dy, x, o, o / per_group * d[1] + c, kh, kw));
}

static void bwd_weight_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 2 * products(&n->in[0]->shape, &n->out[0]->shape);
}

static const brim_case bwd_weight_cases[] = {
    {.name = "3x3", .inputs = "f32[2,4,6,7] f32[2,3,6,7]", .attrs = "pad=1,1 kernel=3,3"},
    {.name = "stride",
     .inputs = "f32[2,4,5,4] f32[2,3,9,8]",
     .attrs = "stride=2,2 pad=1,1 kernel=3,3"},
    {.name = "uneven",
     .inputs = "f32[1,3,3,7] f32[1,2,9,7]",
     .attrs = "stride=3,1 pad=0,2 dilation=2,1 kernel=2,5"},
    {.name = "1x1", .inputs = "f32[2,7,4,3] f32[2,5,4,3]", .attrs = "kernel=1,1"},
    {.name = "groups",
     .inputs = "f32[2,6,5,5] f32[2,4,5,5]",
     .attrs = "groups=2 pad=1,1 kernel=3,3"},
    {.name = "depthwise",
     .inputs = "f32[2,6,5,5] f32[2,6,5,5]",
     .attrs = "groups=6 pad=1,1 kernel=3,3"},
    {.name = "taps outside the image",
     .inputs = "f32[3,1,1,1] f32[3,6,1,1]",
     .attrs = "stride=2,2 pad=1,1 kernel=3,3"},
    {.name = "taps outside the image, depthwise",
     .inputs = "f32[3,6,1,1] f32[3,6,1,1]",
     .attrs = "groups=6 pad=1,1 kernel=3,3"},
    {.name = "empty batch", .inputs = "f32[0,4,3,3] f32[0,3,5,5]", .attrs = "kernel=3,3"},
    {.name = "size",
     .inputs = "f32[2,4,6,7] f32[2,3,6,7]",
     .attrs = "kernel=3,3",
     .refused = "wants 4 in dimension 2"},
    {.name = "batches",
     .inputs = "f32[2,4,6,7] f32[3,3,6,7]",
     .attrs = "kernel=3,3 pad=1,1",
     .refused = "wants 2 in dimension 0"},
    {.name = "no kernel", .inputs = "f32[2,4,6,7] f32[2,3,6,7]", .refused = "kernel is 0x0"},
    {.name = "groups and channels",
     .inputs = "f32[2,6,5,5] f32[2,5,5,5]",
     .attrs = "groups=2 pad=1,1 kernel=3,3",
     .refused = "groups=2 does not divide"},
};

const brim_op brim_op_conv2d_bwd_weight = {
    .name = "conv2d_bwd_weight",
    .doc = "dw [O,C/g,kh,kw] and dbias [O] of conv2d from dy and x, in float",
    .min_in = 2,
    .max_in = 2,
    .n_out = 2,
    .infer = bwd_weight_infer,
    .cost = bwd_weight_cost,
    .ref = bwd_weight_ref,
    .layout = BRIM_LAYOUT_CONV,
    .amp = BRIM_AMP_HALF,
    .amp_in = 3,
    BRIM_CASES(bwd_weight_cases)};

static int64_t or_one(int x)
{
    return x ? x : 1;
}

brim_value *brim_conv2d(brim_graph *g, brim_value *x, brim_value *w, brim_value *bias,
                        brim_conv_opts o)
{
    brim_attr attr[] = {BRIM_INT2("stride", or_one(o.stride_h), or_one(o.stride_w)),
                        BRIM_INT2("pad", o.pad_h, o.pad_w),
                        BRIM_INT2("dilation", or_one(o.dilation_h), or_one(o.dilation_w)),
                        BRIM_INT("groups", or_one(o.groups))};
    return brim_emit1(g, &brim_op_conv2d, NULL, (brim_value *[]){x, w, bias}, 3, attr, 4);
}
