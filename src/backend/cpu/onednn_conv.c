/* Convolution and its gradients through oneDNN. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn.h"
#include "ops/window.h"

/* Weights [O,C/g,kh,kw] as oneDNN wants groups: [g,O/g,C/g,kh,kw]. */
static void split_groups(brim_dnn_arg *w, int64_t groups)
{
    if (groups == 1) return;
    for (int k = w->rank; k > 0; k--) {
        w->dim[k] = w->dim[k - 1];
        w->stride[k] = w->stride[k - 1];
    }
    w->rank++;
    w->dim[1] /= groups;
    w->stride[0] = w->stride[1] * w->dim[1];
    w->dim[0] = groups;
}

static brim_dnn_problem problem(const brim_step *s, brim_dnn_kind kind, const int64_t *kernel)
{
    brim_dnn_problem p = {.kind = kind, .relu = brim_attr_int(s->node, "act", 0)};
    brim_window w = brim_window_get(s->node, kernel);
    for (int k = 0; k < 2; k++) {
        p.kernel[k] = w.kernel[k];
        p.stride[k] = w.stride[k];
        p.dilation[k] = w.dilation[k];
        p.pad[k] = w.pad[k];
    }
    return p;
}

/* Weights in the primitive's own layout: a reorder of the weights is small beside the convolution,
 * which runs much slower on plain ones. */
static brim_dnn_arg weights(const brim_step *s, brim_dnn_arg w)
{
    split_groups(&w, brim_attr_int(s->node, "groups", 1));
    w.any = true;
    return w;
}

static brim_dnn_problem conv_problem(const brim_step *s)
{
    brim_dnn_problem p = problem(s, BRIM_DNN_CONV, s->in[1].shape.dim + 2);
    p.src = brim_dnn_in(s, 0);
    p.weights = weights(s, brim_dnn_in(s, 1));
    if (s->node->n_in > 2 && s->node->in[2]) p.bias = brim_dnn_in(s, 2);
    p.dst = brim_dnn_out(s, 0);
    return p;
}

static brim_dnn_problem bwd_data_problem(const brim_step *s)
{
    brim_dnn_problem p = problem(s, BRIM_DNN_CONV_BWD_DATA, s->in[1].shape.dim + 2);
    p.src = brim_dnn_out(s, 0);
    p.weights = weights(s, brim_dnn_in(s, 1));
    p.dst = brim_dnn_in(s, 0);
    return p;
}

static brim_dnn_problem bwd_weight_problem(const brim_step *s)
{
    brim_dnn_problem p = problem(s, BRIM_DNN_CONV_BWD_WEIGHT, NULL);
    p.src = brim_dnn_in(s, 1);
    p.weights = weights(s, brim_dnn_out(s, 0));
    if (s->out_used[1]) p.bias = brim_dnn_out(s, 1);
    p.dst = brim_dnn_in(s, 0);
    return p;
}

static brim_dnn_problem any_problem(const brim_step *s)
{
    if (s->node->op == &brim_op_conv2d) return conv_problem(s);
    return s->node->op == &brim_op_conv2d_bwd_data ? bwd_data_problem(s) : bwd_weight_problem(s);
}

/* oneDNN 2.6's bf16 kernel for weight gradients gave wrong sums where the window is larger than the
 * image (6 -> 1 channels, 3x3, stride 2 on 1x1; seen on Zen 5). There is little to compute there.
 */
static bool window_exceeds_image(const brim_dnn_problem *p)
{
    const int64_t *image = p->src.dim + p->src.rank - 2;
    const int64_t *window = p->weights.dim + p->weights.rank - 2;
    return window[0] > image[0] || window[1] > image[1];
}

static brim_status direct_prepare(brim_step *s, brim_error *err)
{
    brim_dnn_problem p = any_problem(s);
    if (p.kind == BRIM_DNN_CONV_BWD_WEIGHT && window_exceeds_image(&p))
        p.src.compute = p.weights.compute = p.bias.compute = p.dst.compute = BRIM_F32;
    return brim_dnn_prepare(s, &p, err);
}

/* Winograd's transforms work in float on blocked layouts; the reorders that lead there also widen
 * halves. A oneDNN without it gets the direct form. */
static brim_status winograd_prepare(brim_step *s, brim_error *err)
{
    brim_dnn_problem p = any_problem(s);
    p.winograd = p.src.any = p.dst.any = true;
    p.src.compute = p.weights.compute = p.bias.compute = p.dst.compute = BRIM_F32;
    if (brim_dnn_prepare(s, &p, NULL) == BRIM_OK) return BRIM_OK;
    return direct_prepare(s, err);
}

static bool supports(const brim_node *n, const char **why)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && !brim_dnn_takes(n->in[k], why)) return false;
    return brim_dnn_takes(n->out[0], why);
}

static bool window_is_3x3(const brim_node *n)
{
    bool has_weights = n->op != &brim_op_conv2d_bwd_weight;
    brim_window w = brim_window_get(n, has_weights ? n->in[1]->shape.dim + 2 : NULL);
    for (int k = 0; k < 2; k++)
        if (w.kernel[k] != 3 || w.stride[k] != 1 || w.dilation[k] != 1) return false;
    return brim_attr_int(n, "groups", 1) == 1;
}

/* Bounds from bench/conv_shapes on Zen 5: below them the transforms cost more than the saved
 * products. Against bf16 products, which are twice as fast, it wins only where the direct form
 * spends much of its time on padding. */
static bool winograd_pays(const brim_node *n)
{
    bool weight = n->op == &brim_op_conv2d_bwd_weight;
    const brim_value *small = weight || n->op == &brim_op_conv2d_bwd_data ? n->in[0] : n->out[0];
    const int64_t *y = small->shape.dim, *w = weight ? n->out[0]->shape.dim : n->in[1]->shape.dim;
    int64_t tiles = y[0] * ((y[2] + 3) / 4) * ((y[3] + 3) / 4),
            channels = w[0] < w[1] ? w[0] : w[1];
    if (y[2] < 4 || y[3] < 4 || w[0] % 16 || w[1] % 16) return false;
    if (brim_dnn_compute(n->in[0]->dtype) == BRIM_BF16)
        return channels >= 256 && y[2] <= 8 && y[3] <= 8 && tiles >= 128;
    return channels >= (weight ? 128 : 64) && tiles * channels >= 128 * 256;
}

static bool winograd_supports(const brim_node *n, const char **why)
{
    if (!supports(n, why)) return false;
    *why = !brim_cpu_features_get()->avx512 ? "the processor has no AVX-512"
           : !window_is_3x3(n)              ? "not a plain 3x3 window of stride 1"
           : !winograd_pays(n)              ? "the direct form is faster at this size"
                                            : NULL;
    return !*why;
}

#define IMPL(op_, how, name_)                                                                      \
    {                                                                                              \
        .name = "onednn." name_, .op = &brim_op_##op_, .supports = how##supports,                  \
        .prepare = how##prepare, .run = brim_dnn_run, .release = brim_dnn_release                  \
    }
#define direct_supports supports

const brim_impl brim_onednn_conv[] = {
    IMPL(conv2d, winograd_, "winograd"),
    IMPL(conv2d_bwd_data, winograd_, "winograd_bwd_data"),
    IMPL(conv2d_bwd_weight, winograd_, "winograd_bwd_weight"),
    IMPL(conv2d, direct_, "conv2d"),
    IMPL(conv2d_bwd_data, direct_, "conv2d_bwd_data"),
    IMPL(conv2d_bwd_weight, direct_, "conv2d_bwd_weight"),
};
const int brim_onednn_conv_count = sizeof brim_onednn_conv / sizeof *brim_onednn_conv;
