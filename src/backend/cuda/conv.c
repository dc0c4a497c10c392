/* Convolution and its gradients as matrix products whose factors are read from images, by our own
 * kernel. Any layout, stride, dilation and number of groups. */
#include "backend/cuda/gemm.h"
#include "base/mem.h"
#include "ops/window.h"

#include <limits.h>

static bool supports(const brim_node *n, const char **why)
{
    for (int k = 0; k < n->n_in + n->n_out; k++) {
        const brim_value *v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
        if (v && v->dtype == BRIM_F64) return *why = "f64", false;
        if (v && brim_shape_count(&v->shape) > INT_MAX)
            return *why = "more than 2^31 elements", false;
    }
    return true;
}

/* The geometry that all three share: of `image`, `pixels` (the convolution's output) and the
 * kernel's size. */
static brim_cuda_gemm *make(brim_step *s, const brim_tensor *image, const brim_tensor *pixels,
                            const int64_t *kernel, brim_error *err)
{
    brim_cuda_gemm *g = brim_calloc(1, sizeof *g);
    if (!g) brim_fail(err, BRIM_ENOMEM, "out of memory");
    s->state = g;
    if (!g) return NULL;
    brim_window w = brim_window_get(s->node, kernel);
    for (int k = 0; k < 2; k++) {
        g->a.image[k] = (int)image->shape.dim[2 + k];
        g->a.pixels[k] = (int)pixels->shape.dim[2 + k];
        g->a.kernel[k] = (int)w.kernel[k];
        g->a.stride[k] = (int)w.stride[k];
        g->a.pad[k] = (int)w.pad[k];
        g->a.dilation[k] = (int)w.dilation[k];
    }
    g->a.batch = 1;
    g->a.groups = (int)brim_attr_int(s->node, "groups", 1);
    return g;
}

static void side_of(gemm_side *s, const brim_tensor *t, int64_t channels)
{
    for (int k = 0; k < 4; k++) s->stride[k] = t->stride[k];
    s->group_stride = channels * t->stride[1];
    s->inner = 1;
}

/* An image's channels are read in packs when they are neighbours. */
static int image_pack(const brim_tensor *t, int64_t channels)
{
    int64_t strides[] = {t->stride[0], t->stride[2], t->stride[3]};
    return t->stride[1] == 1 ? brim_gemm_pack(t->dtype, channels, strides, 3) : 1;
}

/* C's rows are the pixels of y, its columns the channels of a group. */
static void image_out(gemm_args *a, const brim_tensor *y)
{
    a->c_rows = (int)(y->shape.dim[2] * y->shape.dim[3]);
    a->c_outer = y->stride[0];
    a->c_inner = y->stride[3];
    a->c_column = y->stride[1];
    a->c_group = a->n * y->stride[1];
}

static bool channels_last(const brim_tensor *t)
{
    return t->layout == BRIM_LAYOUT_CHANNELS_LAST;
}

static int64_t pixels_of(const brim_tensor *t)
{
    return t->shape.dim[0] * t->shape.dim[2] * t->shape.dim[3];
}

static brim_status conv_prepare(brim_step *s, brim_error *err)
{
    const brim_tensor *x = &s->in[0], *w = &s->in[1], *y = &s->out[0];
    brim_cuda_gemm *g = make(s, x, y, w->shape.dim + 2, err);
    if (!g) return BRIM_ENOMEM;
    gemm_args *a = &g->a;
    bool last = channels_last(w), bias = s->node->n_in > 2 && s->node->in[2];
    int64_t channels = w->shape.dim[1], k = channels * w->shape.dim[2] * w->shape.dim[3];
    a->m = (int)pixels_of(y);
    a->n = (int)w->shape.dim[0] / a->groups;
    a->k = (int)k;
    a->channels = (int)channels;
    a->relu = brim_attr_int(s->node, "act", 0) != 0;
    side_of(&a->a, x, channels);
    a->b =
        (gemm_side){.row_stride = k, .inner_stride = 1, .inner = INT_MAX, .group_stride = a->n * k};
    image_out(a, y);
    brim_gemm_read ra = {BRIM_GEMM_WINDOW, last ? image_pack(x, channels) : 1, true};
    brim_gemm_read rb = {BRIM_GEMM_PLAIN, brim_gemm_pack(w->dtype, k, NULL, 0), true};
    BRIM_TRY(brim_cuda_gemm_make(g, ra, rb, last, x->dtype, y->dtype,
                                 bias ? s->in[2].dtype : x->dtype, err));
    s->workspace_bytes = g->part_bytes;
    return BRIM_OK;
}

static void conv_run(const brim_step *s)
{
    brim_cuda_gemm_run(s->state, s->in[0].data, s->in[1].data,
                       s->node->n_in > 2 ? s->in[2].data : NULL, s->out[0].data, s->workspace);
}

static brim_status bwd_data_prepare(brim_step *s, brim_error *err)
{
    const brim_tensor *dy = &s->in[0], *w = &s->in[1], *dx = &s->out[0];
    brim_cuda_gemm *g = make(s, dx, dy, w->shape.dim + 2, err);
    if (!g) return BRIM_ENOMEM;
    gemm_args *a = &g->a;
    int64_t outs = w->shape.dim[0] / a->groups, channels = w->shape.dim[1];
    a->m = (int)pixels_of(dx);
    a->n = (int)channels;
    a->k = (int)(outs * w->shape.dim[2] * w->shape.dim[3]);
    a->channels = (int)outs;
    side_of(&a->a, dy, outs);
    side_of(&a->b, w, 0);
    a->b.group_stride = outs * w->stride[0];
    image_out(a, dx);
    int64_t strides[] = {w->stride[0], w->stride[2], w->stride[3]};
    brim_gemm_read ra = {BRIM_GEMM_GATHER, image_pack(dy, outs), true};
    brim_gemm_read rb = {BRIM_GEMM_WEIGHTS,
                         w->stride[1] == 1 ? brim_gemm_pack(w->dtype, channels, strides, 3) : 1,
                         false};
    BRIM_TRY(brim_cuda_gemm_make(g, ra, rb, true, dy->dtype, dx->dtype, dy->dtype, err));
    s->workspace_bytes = g->part_bytes;
    return BRIM_OK;
}

static brim_status bwd_weight_prepare(brim_step *s, brim_error *err)
{
    const brim_tensor *dy = &s->in[0], *x = &s->in[1], *dw = &s->out[0];
    brim_cuda_gemm *g = make(s, x, dy, NULL, err);
    size_t sums = 0;
    if (!g) return BRIM_ENOMEM;
    gemm_args *a = &g->a;
    bool last = channels_last(dw);
    int64_t outs = dw->shape.dim[0] / a->groups, channels = dw->shape.dim[1];
    int64_t taps = channels * dw->shape.dim[2] * dw->shape.dim[3];
    a->m = (int)outs;
    a->n = (int)taps;
    a->k = (int)pixels_of(dy);
    a->channels = (int)channels;
    a->a = (gemm_side){.row_stride = dy->stride[1],
                       .inner = (int)(dy->shape.dim[2] * dy->shape.dim[3]),
                       .outer_stride = dy->stride[0],
                       .inner_stride = dy->stride[3],
                       .group_stride = outs * dy->stride[1]};
    side_of(&a->b, x, channels);
    a->c_rows = INT_MAX;
    a->c_inner = taps;
    a->c_column = 1;
    a->c_group = outs * taps;
    brim_gemm_read ra = {BRIM_GEMM_PLAIN, image_pack(dy, outs), false};
    brim_gemm_read rb = {BRIM_GEMM_TAPS, last ? image_pack(x, channels) : 1, false};
    BRIM_TRY(brim_cuda_gemm_make(g, ra, rb, last, dy->dtype, dw->dtype, dy->dtype, err));
    g->sums = s->out_used[1];
    if (g->sums) {
        for (int k = 0; k < 4; k++)
            if (k == 1)
                brim_cuda_reduce_keep(&g->bias, dy->shape.dim[k], dy->stride[k], 1);
            else
                brim_cuda_reduce_over(&g->bias, dy->shape.dim[k], dy->stride[k]);
        BRIM_TRY(brim_cuda_reduce_make(&g->bias, dy->dtype, s->out[1].dtype, false, 1, &sums, err));
    }
    s->workspace_bytes = g->part_bytes + sums;
    return BRIM_OK;
}

static void bwd_run(const brim_step *s)
{
    const brim_cuda_gemm *g = s->state;
    if (s->out[0].data)
        brim_cuda_gemm_run(g, s->in[0].data, s->in[1].data, NULL, s->out[0].data, s->workspace);
    if (g->sums)
        brim_cuda_reduce_run(&g->bias, s->in[0].data, s->out[1].data,
                             (char *)s->workspace + g->part_bytes);
}

#define CONV(op_, name_, run_)                                                                     \
    {                                                                                              \
        .name = "brim." #op_, .op = &brim_op_##op_, .supports = supports,                          \
        .prepare = name_##_prepare, .run = run_, .release = brim_cuda_state_free                   \
    }
const brim_impl brim_cuda_conv[] = {
    CONV(conv2d, conv, conv_run),
    CONV(conv2d_bwd_data, bwd_data, bwd_run),
    CONV(conv2d_bwd_weight, bwd_weight, bwd_run),
};
const int brim_cuda_conv_count = sizeof brim_cuda_conv / sizeof *brim_cuda_conv;
