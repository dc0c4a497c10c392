/* Average pooling of x [N,C,H,W] over windows and over the whole image, and the gradients. */
#include "ops/window.h"

static bool ceil_of(const brim_node *n)
{
    return brim_attr_int(n, "ceil", 0);
}

static brim_status avg_pool_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    brim_window win;
    int64_t out[2];
    BRIM_TRY(brim_want_real(n, 0, err));
    BRIM_TRY(brim_want_rank(n, 0, 4, err));
    BRIM_TRY(brim_window_read_pool(n, &win, err));
    const brim_shape *x = &n->in[0]->shape;
    BRIM_TRY(brim_window_out(&win, x->dim + 2, ceil_of(n), out, err));
    brim_shape y = {4, {x->dim[0], x->dim[1], out[0], out[1]}};
    brim_out_set(n, 0, n->in[0]->dtype, &y);
    return BRIM_OK;
}

/* Elements along one axis that output i is divided by: those inside the image or, counting the
 * padding, inside the padded image (a last window of ceil mode may reach beyond even that). */
static int64_t extent(const brim_window *w, int axis, int64_t i, int64_t in_size, bool count_pad)
{
    int64_t least = count_pad ? -w->pad[axis] : 0;
    int64_t most = count_pad ? in_size + w->pad[axis] : in_size;
    int64_t begin = i * w->stride[axis] - w->pad[axis], end = begin + w->kernel[axis];
    if (begin < least) begin = least;
    if (end > most) end = most;
    return end - begin;
}

static double divisor(const brim_node *n, const brim_window *w, int64_t i, int64_t j,
                      const int64_t image[2])
{
    bool count_pad = brim_attr_int(n, "count_pad", 0);
    return (double)extent(w, 0, i, image[0], count_pad) *
           (double)extent(w, 1, j, image[1], count_pad);
}

static double window_sum(const brim_window *win, const brim_tensor *x, const int64_t at[4])
{
    double sum = 0;
    for (int64_t kh = 0; kh < win->kernel[0]; kh++)
        for (int64_t kw = 0; kw < win->kernel[1]; kw++) {
            int64_t h = brim_window_input(win, 0, at[2], kh, x->shape.dim[2]);
            int64_t w = brim_window_input(win, 1, at[3], kw, x->shape.dim[3]);
            if (h >= 0 && w >= 0) sum += brim_get4(x, at[0], at[1], h, w);
        }
    return sum;
}

static void avg_pool_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    brim_window win = brim_window_get(n, NULL);
    const int64_t *y = out->shape.dim, *image = in->shape.dim + 2;
    for (int64_t b = 0; b < y[0]; b++)
        for (int64_t c = 0; c < y[1]; c++)
            for (int64_t i = 0; i < y[2]; i++)
                for (int64_t j = 0; j < y[3]; j++)
                    brim_set4(out, b, c, i, j,
                              window_sum(&win, in, (int64_t[4]){b, c, i, j}) /
                                  divisor(n, &win, i, j, image));
}

static brim_status avg_pool_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                 const bool *need, brim_value **din)
{
    if (!need[0]) return BRIM_OK;
    brim_window w = brim_window_get(n, NULL);
    const int64_t *x = n->in[0]->shape.dim;
    din[0] = BRIM_EMIT(g, &brim_op_avg_pool2d_bwd, NULL, ((brim_value *[]){dout[0]}),
                       BRIM_INT2("kernel", w.kernel[0], w.kernel[1]),
                       BRIM_INT2("stride", w.stride[0], w.stride[1]),
                       BRIM_INT2("pad", w.pad[0], w.pad[1]),
                       BRIM_INT("count_pad", brim_attr_int(n, "count_pad", 0)),
                       BRIM_INT("ceil", ceil_of(n)), BRIM_INT2("in_size", x[2], x[3]));
    return brim_graph_check(g, NULL);
}

static double window_work(const brim_node *n, const brim_shape *y)
{
    brim_window w = brim_window_get(n, NULL);
    return (double)brim_shape_count(y) * (double)(w.kernel[0] * w.kernel[1]);
}

static void avg_pool_cost(const brim_node *n, brim_cost *c)
{
    c->flops += window_work(n, &n->out[0]->shape);
}

static const brim_case avg_pool_cases[] = {
    {.name = "2x2", .inputs = "f32[2,3,6,4]", .attrs = "kernel=2,2 stride=2,2"},
    {.name = "padding counts",
     .inputs = "f32[2,3,7,8]",
     .attrs = "kernel=3,3 stride=2,2 pad=1,1 count_pad=1"},
    {.name = "padding does not count",
     .inputs = "f32[2,3,7,8]",
     .attrs = "kernel=3,3 stride=2,2 pad=1,1 count_pad=0"},
    {.name = "overlapping", .inputs = "f32[1,2,5,6]", .attrs = "kernel=3,2"},
    {.name = "uneven", .inputs = "f32[2,2,7,9]", .attrs = "kernel=2,3 stride=3,2 pad=1,0"},
    {.name = "ceil", .inputs = "f32[2,2,6,7]", .attrs = "kernel=3,2 stride=2,2 ceil=1"},
    {.name = "ceil, padding counts",
     .inputs = "f32[2,2,6,5]",
     .attrs = "kernel=3,3 stride=2,3 pad=1,1 ceil=1 count_pad=1"},
    {.name = "whole image", .inputs = "f32[2,3,5,4]", .attrs = "kernel=5,4 stride=5,4"},
    {.name = "empty batch", .inputs = "f32[0,3,6,4]", .attrs = "kernel=2,2 stride=2,2"},
    {.name = "rank", .inputs = "f32[3,6,4]", .attrs = "kernel=2,2", .refused = "wants 4 dim"},
    {.name = "no kernel", .inputs = "f32[2,3,6,4]", .refused = "kernel is 0x0"},
    {.name = "kernel too large",
     .inputs = "f32[2,3,4,4]",
     .attrs = "kernel=7,7 pad=1,1",
     .refused = "kernel spans 7 pixels"},
    {.name = "window in the padding",
     .inputs = "f32[2,3,6,4]",
     .attrs = "kernel=2,2 pad=0,2",
     .refused = "as large as the kernel"},
    {.name = "stride below 0",
     .inputs = "f32[2,3,6,4]",
     .attrs = "kernel=2,2 stride=2,-1",
     .refused = "stride is 2x-1"},
    {.name = "integers",
     .inputs = "u8[2,3,6,4]",
     .attrs = "kernel=2,2",
     .refused = "cast it first"},
};

const brim_op brim_op_avg_pool2d = {.name = "avg_pool2d",
                                    .doc = "y = mean of x in each window",
                                    .min_in = 1,
                                    .max_in = 1,
                                    .n_out = 1,
                                    .infer = avg_pool_infer,
                                    .grad = avg_pool_grad,
                                    .cost = avg_pool_cost,
                                    .ref = avg_pool_ref,
                                    .layout = BRIM_LAYOUT_CONV,
                                    .amp = BRIM_AMP_FOLLOW,
                                    .amp_in = 1,
                                    BRIM_CASES(avg_pool_cases)};

/* avg_pool2d_bwd */
static brim_status bwd_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    brim_window win;
    int64_t in[2];
    BRIM_TRY(brim_want_real(n, 0, err));
    BRIM_TRY(brim_want_rank(n, 0, 4, err));
    BRIM_TRY(brim_window_read_pool(n, &win, err));
    const brim_shape *dy = &n->in[0]->shape;
    BRIM_TRY(brim_window_in_size(n, &win, dy, ceil_of(n), in, err));
    brim_shape dx = {4, {dy->dim[0], dy->dim[1], in[0], in[1]}};
    brim_out_set(n, 0, n->in[0]->dtype, &dx);
    return BRIM_OK;
}

/* Gradient of one input: its share of every window that contains it. */
static double gather(const brim_node *n, const brim_window *win, const brim_tensor *dy,
                     const int64_t at[4], const int64_t image[2])
{
    double sum = 0;
    for (int64_t kh = 0; kh < win->kernel[0]; kh++)
        for (int64_t kw = 0; kw < win->kernel[1]; kw++) {
            int64_t i = brim_window_output(win, 0, at[2], kh, dy->shape.dim[2]);
            int64_t j = brim_window_output(win, 1, at[3], kw, dy->shape.dim[3]);
            if (i >= 0 && j >= 0)
                sum += brim_get4(dy, at[0], at[1], i, j) / divisor(n, win, i, j, image);
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
                              gather(n, &win, in, (int64_t[4]){b, c, h, w}, x + 2));
}

static void bwd_cost(const brim_node *n, brim_cost *c)
{
    c->flops += window_work(n, &n->in[0]->shape);
}

static const brim_case bwd_cases[] = {
    {.name = "2x2", .inputs = "f32[2,3,3,2]", .attrs = "kernel=2,2 stride=2,2 in_size=6,4"},
    {.name = "padding counts",
     .inputs = "f32[2,3,4,4]",
     .attrs = "kernel=3,3 stride=2,2 pad=1,1 count_pad=1 in_size=7,8"},
    {.name = "padding does not count",
     .inputs = "f32[2,3,4,4]",
     .attrs = "kernel=3,3 stride=2,2 pad=1,1 in_size=7,8"},
    {.name = "ceil", .inputs = "f32[2,2,3,4]", .attrs = "kernel=3,2 stride=2,2 ceil=1 in_size=6,7"},
    {.name = "empty batch", .inputs = "f32[0,3,3,2]", .attrs = "kernel=2,2 stride=2,2 in_size=6,4"},
    {.name = "size",
     .inputs = "f32[2,3,3,2]",
     .attrs = "kernel=2,2 stride=2,2 in_size=6,6",
     .refused = "does not belong to an image of 6x6"},
};

const brim_op brim_op_avg_pool2d_bwd = {.name = "avg_pool2d_bwd",
                                        .doc = "dx = dy of each window over its divisor, summed",
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

brim_value *brim_avg_pool2d(brim_graph *g, brim_value *x, brim_pool_opts o)
{
    return BRIM_EMIT(g, &brim_op_avg_pool2d, NULL, ((brim_value *[]){x}),
                     BRIM_INT2("kernel", o.kernel_h, o.kernel_w),
                     BRIM_INT2("stride", o.stride_h ? o.stride_h : o.kernel_h,
                               o.stride_w ? o.stride_w : o.kernel_w),
                     BRIM_INT2("pad", o.pad_h, o.pad_w), BRIM_INT("count_pad", o.count_pad),
                     BRIM_INT("ceil", o.ceil_mode));
}

/* global_avg_pool */
static brim_status global_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(brim_want_real(n, 0, err));
    BRIM_TRY(brim_want_rank(n, 0, 4, err));
    const brim_shape *x = &n->in[0]->shape;
    if (!x->dim[2] || !x->dim[3]) return brim_fail(err, BRIM_ESHAPE, "the image is empty");
    brim_shape y = {2, {x->dim[0], x->dim[1]}};
    brim_out_set(n, 0, n->in[0]->dtype, &y);
    return BRIM_OK;
}

static void global_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    (void)n;
    const int64_t *x = in->shape.dim;
    for (int64_t b = 0; b < x[0]; b++)
        for (int64_t c = 0; c < x[1]; c++) {
            double sum = 0;
            for (int64_t h = 0; h < x[2]; h++)
                for (int64_t w = 0; w < x[3]; w++) sum += brim_get4(in, b, c, h, w);
            brim_tensor_set(out, b * out->stride[0] + c * out->stride[1],
                            sum / ((double)x[2] * (double)x[3]));
        }
}

static brim_status global_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                               const bool *need, brim_value **din)
{
    const int64_t *x = n->in[0]->shape.dim;
    if (need[0])
        din[0] = BRIM_EMIT(g, &brim_op_global_avg_pool_bwd, NULL, ((brim_value *[]){dout[0]}),
                           BRIM_INT2("in_size", x[2], x[3]));
    return brim_graph_check(g, NULL);
}

static void global_cost(const brim_node *n, brim_cost *c)
{
    c->flops += (double)brim_shape_count(&n->in[0]->shape);
}

static const brim_case global_cases[] = {
    {.name = "image", .inputs = "f32[2,3,4,5]"},
    {.name = "one pixel", .inputs = "f32[2,3,1,1]"},
    {.name = "odd", .inputs = "f32[3,17,7,7]"},
    {.name = "empty batch", .inputs = "f32[0,3,4,5]"},
    {.name = "empty image", .inputs = "f32[2,3,0,5]", .refused = "image is empty"},
    {.name = "rank", .inputs = "f32[3,4,5]", .refused = "wants 4 dimensions"},
    {.name = "integers", .inputs = "u8[2,3,4,5]", .refused = "cast it first"},
};

const brim_op brim_op_global_avg_pool = {.name = "global_avg_pool",
                                         .doc = "y [N,C] = mean of x [N,C,H,W] over the image",
                                         .min_in = 1,
                                         .max_in = 1,
                                         .n_out = 1,
                                         .infer = global_infer,
                                         .grad = global_grad,
                                         .cost = global_cost,
                                         .ref = global_ref,
                                         .layout = BRIM_LAYOUT_CONV,
                                         .amp = BRIM_AMP_FOLLOW,
                                         .amp_in = 1,
                                         BRIM_CASES(global_cases)};

brim_value *brim_global_avg_pool(brim_graph *g, brim_value *x)
{
    return brim_emit1(g, &brim_op_global_avg_pool, NULL, &x, 1, NULL, 0);
}

/* global_avg_pool_bwd */
static brim_status global_bwd_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(brim_want_real(n, 0, err));
    BRIM_TRY(brim_want_rank(n, 0, 2, err));
    brim_shape dx = {4, {n->in[0]->shape.dim[0], n->in[0]->shape.dim[1]}};
    for (int k = 0; k < 2; k++) {
        dx.dim[2 + k] = brim_attr_int_at(n, "in_size", k, 0);
        if (dx.dim[2 + k] < 1) return brim_fail(err, BRIM_ESHAPE, "the image is empty");
    }
    brim_out_set(n, 0, n->in[0]->dtype, &dx);
    return BRIM_OK;
}

static void global_bwd_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    (void)n;
    const int64_t *x = out->shape.dim;
    for (int64_t b = 0; b < x[0]; b++)
        for (int64_t c = 0; c < x[1]; c++) {
            double share = brim_tensor_get(in, b * in->stride[0] + c * in->stride[1]) /
                           ((double)x[2] * (double)x[3]);
            for (int64_t h = 0; h < x[2]; h++)
                for (int64_t w = 0; w < x[3]; w++) brim_set4(out, b, c, h, w, share);
        }
}

static const brim_case global_bwd_cases[] = {
    {.name = "image", .inputs = "f32[2,3]", .attrs = "in_size=4,5"},
    {.name = "empty batch", .inputs = "f32[0,3]", .attrs = "in_size=4,5"},
    {.name = "no size", .inputs = "f32[2,3]", .refused = "image is empty"},
    {.name = "too large",
     .inputs = "f32[2,3]",
     .attrs = "in_size=4000000000,4000000000",
     .refused = "too large"},
};

const brim_op brim_op_global_avg_pool_bwd = {.name = "global_avg_pool_bwd",
                                             .doc = "dx = dy / (H W)",
                                             .min_in = 1,
                                             .max_in = 1,
                                             .n_out = 1,
                                             .infer = global_bwd_infer,
                                             .ref = global_bwd_ref,
                                             .layout = BRIM_LAYOUT_CONV,
                                             .amp = BRIM_AMP_FOLLOW,
                                             .amp_in = 1,
                                             BRIM_CASES(global_bwd_cases)};
