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

static brim_status conv_prepare(brim_step *s, brim_error *err)
{
    brim_dnn_problem p = problem(s, BRIM_DNN_CONV, s->in[1].shape.dim + 2);
    p.src = brim_dnn_in(s, 0);
    p.weights = weights(s, brim_dnn_in(s, 1));
    if (s->node->n_in > 2 && s->node->in[2]) p.bias = brim_dnn_in(s, 2);
    p.dst = brim_dnn_out(s, 0);
    return brim_dnn_prepare(s, &p, err);
}

static brim_status bwd_data_prepare(brim_step *s, brim_error *err)
{
    brim_dnn_problem p = problem(s, BRIM_DNN_CONV_BWD_DATA, s->in[1].shape.dim + 2);
    p.src = brim_dnn_out(s, 0);
    p.weights = weights(s, brim_dnn_in(s, 1));
    p.dst = brim_dnn_in(s, 0);
    return brim_dnn_prepare(s, &p, err);
}

static brim_status bwd_weight_prepare(brim_step *s, brim_error *err)
{
    brim_dnn_problem p = problem(s, BRIM_DNN_CONV_BWD_WEIGHT, NULL);
    p.src = brim_dnn_in(s, 1);
    p.weights = weights(s, brim_dnn_out(s, 0));
    if (s->out_used[1]) p.bias = brim_dnn_out(s, 1);
    p.dst = brim_dnn_in(s, 0);
    return brim_dnn_prepare(s, &p, err);
}

static bool supports(const brim_node *n, const char **why)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && !brim_dnn_takes(n->in[k], why)) return false;
    return brim_dnn_takes(n->out[0], why);
}

const brim_impl brim_onednn_conv[] = {
    {.name = "onednn.conv2d",
     .op = &brim_op_conv2d,
     .supports = supports,
     .prepare = conv_prepare,
     .run = brim_dnn_run,
     .release = brim_dnn_release},
    {.name = "onednn.conv2d_bwd_data",
     .op = &brim_op_conv2d_bwd_data,
     .supports = supports,
     .prepare = bwd_data_prepare,
     .run = brim_dnn_run,
     .release = brim_dnn_release},
    {.name = "onednn.conv2d_bwd_weight",
     .op = &brim_op_conv2d_bwd_weight,
     .supports = supports,
     .prepare = bwd_weight_prepare,
     .run = brim_dnn_run,
     .release = brim_dnn_release},
};
const int brim_onednn_conv_count = sizeof brim_onednn_conv / sizeof *brim_onednn_conv;
