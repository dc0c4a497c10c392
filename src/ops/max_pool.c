/* Max pooling of x [N,C,H,W], and its gradient by the remembered position in each window. */
#include "ops/window.h"

#include <math.h>

static brim_status read_window(const brim_node *n, brim_window *w, brim_error *err)
{
    BRIM_TRY(brim_window_read_pool(n, w, err));
    int64_t taps = w->kernel[0] * w->kernel[1]; /* a position in the window is one byte */
    if (taps > 255)
        return brim_fail(err, BRIM_EINVAL, "kernel %lldx%lld has %lld elements (255 at most)",
                         (long long)w->kernel[0], (long long)w->kernel[1], (long long)taps);
    return BRIM_OK;
}

static brim_status max_pool_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    brim_window win;
    int64_t out[2];
    BRIM_TRY(brim_want_real(n, 0, err));
    BRIM_TRY(brim_want_rank(n, 0, 4, err));
    BRIM_TRY(read_window(n, &win, err));
    const brim_shape *x = &n->in[0]->shape;
    BRIM_TRY(brim_window_out(&win, x->dim + 2, brim_attr_int(n, "ceil", 0), out, err));
    brim_shape y = {4, {x->dim[0], x->dim[1], out[0], out[1]}};
    brim_out_set(n, 0, n->in[0]->dtype, &y);
    brim_out_set(n, 1, BRIM_U8, &y);
    return BRIM_OK;
}

/* The first maximum of the window at `at`; a NaN counts as larger than all. */
static double window_max(const brim_window *win, const brim_tensor *x, const int64_t at[4],
                         int64_t *index)
{
    double best = -INFINITY;
    *index = -1;
    for (int64_t kh = 0; kh < win->kernel[0]; kh++)
        for (int64_t kw = 0; kw < win->kernel[1]; kw++) {
            int64_t h = brim_window_input(win, 0, at[2], kh, x->shape.dim[2]);
            int64_t w = brim_window_input(win, 1, at[3], kw, x->shape.dim[3]);
            if (h < 0 || w < 0) continue;
            double v = brim_get4(x, at[0], at[1], h, w);
            if (*index < 0 || v > best || (isnan(v) && !isnan(best))) {
                best = v;
                *index = kh * win->kernel[1] + kw;
            }
        }
    return best;
}

static void max_pool_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    brim_window win = brim_window_get(n, NULL);
    const int64_t *y = n->out[0]->shape.dim;
    for (int64_t b = 0; b < y[0]; b++)
        for (int64_t c = 0; c < y[1]; c++)
            for (int64_t i = 0; i < y[2]; i++)
                for (int64_t j = 0; j < y[3]; j++) {
                    int64_t index;
                    double v = window_max(&win, in, (int64_t[4]){b, c, i, j}, &index);
                    if (out[0].data) brim_set4(&out[0], b, c, i, j, v);
                    if (out[1].data) brim_set4(&out[1], b, c, i, j, (double)index);
                }
}

static brim_status max_pool_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                 const bool *need, brim_value **din)
{
    if (!need[0] || !dout[0]) return BRIM_OK;
    brim_window w = brim_window_get(n, NULL);
    const int64_t *x = n->in[0]->shape.dim;
    din[0] = BRIM_EMIT(
        g, &brim_op_max_pool2d_bwd, NULL, ((brim_value *[]){dout[0], n->out[1]}),
        BRIM_INT2("kernel", w.kernel[0], w.kernel[1]),
        BRIM_INT2("stride", w.stride[0], w.stride[1]), BRIM_INT2("pad", w.pad[0], w.pad[1]),
        BRIM_INT("ceil", brim_attr_int(n, "ceil", 0)), BRIM_INT2("in_size", x[2], x[3]));
    return brim_graph_check(g, NULL);
}

static void max_pool_cost(const brim_node *n, brim_cost *c)
{
    brim_window w = brim_window_get(n, NULL);
    c->flops += (double)brim_shape_count(&n->out[0]->shape) * (double)(w.kernel[0] * w.kernel[1]);
}

static const brim_case max_pool_cases[] = {
    {.name = "2x2", .inputs = "f32[2,3,6,4]", .attrs = "kernel=2,2 stride=2,2"},
    {.name = "3x3 stride 2", .inputs = "f32[2,3,7,8]", .attrs = "kernel=3,3 stride=2,2 pad=1,1"},
    {.name = "overlapping", .inputs = "f32[1,2,5,6]", .attrs = "kernel=3,2 stride=1,1"},
    {.name = "5x5 same", .inputs = "f32[1,2,7,7]", .attrs = "kernel=5,5 stride=1,1 pad=2,2"},
    {.name = "uneven", .inputs = "f32[2,2,7,9]", .attrs = "kernel=2,3 stride=3,2 pad=1,0"},
    {.name = "gaps", .inputs = "f32[2,2,7,7]", .attrs = "kernel=1,2 stride=3,3"},
    {.name = "ceil", .inputs = "f32[2,2,6,7]", .attrs = "kernel=3,2 stride=2,2 ceil=1"},
    {.name = "ceil with padding",
     .inputs = "f32[2,2,6,5]",
     .attrs = "kernel=3,3 stride=2,3 pad=1,1 ceil=1"},
    {.name = "1x1", .inputs = "f32[2,2,3,4]", .attrs = "kernel=1,1"},
    {.name = "whole image", .inputs = "f32[2,3,5,4]", .attrs = "kernel=5,4 stride=5,4"},
    {.name = "one pixel", .inputs = "f32[2,3,1,1]", .attrs = "kernel=3,3 stride=2,2 pad=1,1"},
    {.name = "empty batch", .inputs = "f32[0,3,6,4]", .attrs = "kernel=2,2 stride=2,2"},
    {.name = "rank", .inputs = "f32[3,6,4]", .attrs = "kernel=2,2", .refused = "wants 4 dim"},
    {.name = "no kernel", .inputs = "f32[2,3,6,4]", .refused = "kernel is 0x0"},
    {.name = "kernel too large",
     .inputs = "f32[2,3,4,4]",
     .attrs = "kernel=7,7 pad=1,1",
     .refused = "kernel spans 7 pixels, the padded image has 6"},
    {.name = "window in the padding",
     .inputs = "f32[2,3,6,4]",
     .attrs = "kernel=2,2 pad=2,0",
     .refused = "as large as the kernel"},
    {.name = "dilation",
     .inputs = "f32[2,3,6,4]",
     .attrs = "kernel=2,2 dilation=2,2",
     .refused = "no dilation"},
    {.name = "position beyond a byte",
     .inputs = "f32[1,1,16,16]",
     .attrs = "kernel=16,16",
     .refused = "255 at most"},
    {.name = "stride 0",
     .inputs = "f32[2,3,6,4]",
     .attrs = "kernel=2,2 stride=0,0",
     .refused = "stride is 0x0"},
    {.name = "empty image",
     .inputs = "f32[2,3,0,4]",
     .attrs = "kernel=2,2 pad=1,1",
     .refused = "image is 0x4"},
    {.name = "integers",
     .inputs = "u8[2,3,6,4]",
     .attrs = "kernel=2,2",
     .refused = "cast it first"},
};

const brim_op brim_op_max_pool2d = {
    .name = "max_pool2d",
    .doc = "y = largest x in each window (NaN is larger), and its position in the window",
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .infer = max_pool_infer,
    .grad = max_pool_grad,
    .cost = max_pool_cost,
    .ref = max_pool_ref,
    .layout = BRIM_LAYOUT_CONV,
    .amp = BRIM_AMP_FOLLOW,
    .amp_in = 1,
    BRIM_CASES(max_pool_cases)};

/* max_pool2d_bwd */
static brim_status bwd_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    brim_window win;
    int64_t in[2];
    BRIM_TRY(brim_want_real(n, 0, err));
    BRIM_TRY(brim_want_rank(n, 0, 4, err));
    BRIM_TRY(brim_want_rank(n, 1, 4, err));
    BRIM_TRY(brim_want_type(n, 1, BRIM_U8, err));
    const brim_shape *dy = &n->in[0]->shape;
    for (int k = 0; k < 4; k++) BRIM_TRY(brim_want_dim(n, 1, k, dy->dim[k], err));
    BRIM_TRY(read_window(n, &win, err));
    BRIM_TRY(brim_window_in_size(n, &win, dy, brim_attr_int(n, "ceil", 0), in, err));
    brim_shape dx = {4, {dy->dim[0], dy->dim[1], in[0], in[1]}};
    brim_out_set(n, 0, n->in[0]->dtype, &dx);
    return BRIM_OK;
}

/* Gradient of one input: the windows that contain it and chose it. */
static double gather(const brim_window *win, const brim_tensor *dy, const brim_tensor *index,
                     const int64_t at[4])
{
    double sum = 0;
    for (int64_t kh = 0; kh < win->kernel[0]; kh++)
        for (int64_t kw = 0; kw < win->kernel[1]; kw++) {
            int64_t i = brim_window_output(win, 0, at[2], kh, dy->shape.dim[2]);
            int64_t j = brim_window_output(win, 1, at[3], kw, dy->shape.dim[3]);
            if (i < 0 || j < 0) continue;
            if ((int64_t)brim_get4(index, at[0], at[1], i, j) == kh * win->kernel[1] + kw)
                sum += brim_get4(dy, at[0], at[1], i, j);
        }
    return sum;
}

static void bwd_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    brim_window win = brim_window_get(n, NULL);
    const int64_t *x = out->shape.dim;
    for (int64_t b = 0; b < x[0]; b++)
        for (int64_t c = 0; c < x[1]; c++)
            for (int64_t h = 0; h < x[2]; h++)
                for (int64_t w = 0; w < x[3]; w++)
                    brim_set4(out, b, c, h, w,
                              gather(&win, &in[0], &in[1], (int64_t[4]){b, c, h, w}));
}

static void bwd_cost(const brim_node *n, brim_cost *c)
{
    c->flops += (double)brim_shape_count(&n->in[0]->shape);
}

static const brim_case bwd_cases[] = {
    {.name = "2x2",
     .inputs = "f32[2,3,3,2] u8[2,3,3,2]",
     .attrs = "kernel=2,2 stride=2,2 in_size=6,4",
     .int_below = 4},
    {.name = "3x3 stride 2",
     .inputs = "f32[2,3,4,4] u8[2,3,4,4]",
     .attrs = "kernel=3,3 stride=2,2 pad=1,1 in_size=7,8",
     .int_below = 9},
    {.name = "5x5 same",
     .inputs = "f32[1,2,7,7] u8[1,2,7,7]",
     .attrs = "kernel=5,5 stride=1,1 pad=2,2 in_size=7,7",
     .int_below = 25},
    {.name = "ceil",
     .inputs = "f32[2,2,3,4] u8[2,2,3,4]",
     .attrs = "kernel=3,2 stride=2,2 ceil=1 in_size=6,7",
     .int_below = 6},
    {.name = "empty batch",
     .inputs = "f32[0,3,3,2] u8[0,3,3,2]",
     .attrs = "kernel=2,2 stride=2,2 in_size=6,4",
     .int_below = 4},
    {.name = "size",
     .inputs = "f32[2,3,3,2] u8[2,3,3,2]",
     .attrs = "kernel=2,2 stride=2,2 in_size=6,6",
     .refused = "does not belong to an image of 6x6"},
    {.name = "index type",
     .inputs = "f32[2,3,3,2] i32[2,3,3,2]",
     .attrs = "kernel=2,2 stride=2,2 in_size=6,4",
     .refused = "wants u8"},
    {.name = "index shape",
     .inputs = "f32[2,3,3,2] u8[2,3,3,3]",
     .attrs = "kernel=2,2 stride=2,2 in_size=6,4",
     .refused = "wants 2 in dimension 3"},
};

const brim_op brim_op_max_pool2d_bwd = {.name = "max_pool2d_bwd",
                                        .doc = "dx = sum of dy of the windows that chose x",
                                        .min_in = 2,
                                        .max_in = 2,
                                        .n_out = 1,
                                        .infer = bwd_infer,
                                        .cost = bwd_cost,
                                        .ref = bwd_ref,
                                        .layout = BRIM_LAYOUT_CONV,
                                        .amp = BRIM_AMP_FOLLOW,
                                        .amp_in = 1,
                                        BRIM_CASES(bwd_cases)};

brim_value *brim_max_pool2d(brim_graph *g, brim_value *x, brim_pool_opts o)
{
    return BRIM_EMIT(g, &brim_op_max_pool2d, NULL, ((brim_value *[]){x}),
                     BRIM_INT2("kernel", o.kernel_h, o.kernel_w),
                     BRIM_INT2("stride", o.stride_h ? o.stride_h : o.kernel_h,
                               o.stride_w ? o.stride_w : o.kernel_w),
                     BRIM_INT2("pad", o.pad_h, o.pad_w), BRIM_INT("ceil", o.ceil_mode));
}
