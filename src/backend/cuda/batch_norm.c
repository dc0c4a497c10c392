/* Batch normalisation: statistics by slices of rows, joined in their order; then one pass that
 * applies them with the residual sum and the relu. */
#include "backend/cuda/cuda.h"
#include "base/mem.h"

#include <stdio.h>

enum { THREADS = 256, PACK_BYTES = 16, BLOCKS_PER_SM = 8, ROWS_LEAST = 16 };

typedef struct norm {
    norm_args a;
    int lanes, pack;
    CUfunction first, join, apply; /* the passes over x, the slices and x again */
} norm;

/* Inputs and outputs 0 of the image's size lie alike. */
static bool supports(const brim_node *n, const char **why)
{
    const brim_value *x = n->in[n->op == &brim_op_batch_norm_bwd];
    if (x->dtype == BRIM_F64) return *why = "f64", false;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && n->in[k]->shape.rank == 4 && n->in[k]->layout != x->layout)
            return *why = "inputs lie differently in memory", false;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k]->shape.rank == 4 && n->out[k]->layout != x->layout)
            return *why = "an output lies differently in memory", false;
    return true;
}

static int64_t blocks_across(const norm *b)
{
    int64_t each = (int64_t)b->lanes * b->pack;
    return (b->a.channels + each - 1) / each;
}

static norm *make(brim_step *s, const brim_tensor *x, const char *first, const char *join,
                  const char *apply, brim_error *err)
{
    char defines[96];
    norm *b = brim_calloc(1, sizeof *b);
    if (!b) {
        brim_fail(err, BRIM_ENOMEM, "out of memory");
        return NULL;
    }
    s->state = b;
    b->a.channels = (int)x->shape.dim[1];
    b->a.count = b->a.channels ? brim_tensor_count(x) / b->a.channels : 0;
    b->a.inner = 1;
    for (int k = 2; k < x->shape.rank; k++) b->a.inner *= (int)x->shape.dim[k];
    b->a.eps = (float)brim_attr_float(s->node, "eps", 1e-5);
    b->a.momentum = (float)brim_attr_float(s->node, "momentum", 0.1);
    b->a.relu = brim_attr_int(s->node, "act", 0) != 0;
    bool last = x->layout == BRIM_LAYOUT_CHANNELS_LAST || b->a.inner == 1;
    b->pack = last ? PACK_BYTES / (int)brim_dtype_bytes(x->dtype) : 1;
    while (b->a.channels % b->pack) b->pack /= 2;
    b->lanes = last ? 32 : 1;
    while (b->lanes > 1 && b->lanes / 2 * b->pack >= b->a.channels) b->lanes /= 2;
    int64_t slices = (int64_t)BLOCKS_PER_SM * brim_cuda_get()->sms / blocks_across(b);
    int64_t most = b->a.count / (ROWS_LEAST * (THREADS / b->lanes));
    if (slices > most) slices = most;
    b->a.slices = (int)(slices < 1 ? 1 : slices);
    s->workspace_bytes = (size_t)(b->a.slices + 1) * 2 * (size_t)b->a.channels * sizeof(float);
    snprintf(defines, sizeof defines, "-DX=%s -DV=%d -DLANES=%d -DLAST=%d",
             brim_cuda_type(x->dtype), b->pack, b->lanes, last);
    bool ok =
        !first || brim_cuda_kernel("batch_norm.cu", defines, first, &b->first, err) == BRIM_OK;
    ok = ok && brim_cuda_kernel("batch_norm.cu", defines, join, &b->join, err) == BRIM_OK;
    ok = ok && brim_cuda_kernel("batch_norm.cu", defines, apply, &b->apply, err) == BRIM_OK;
    return ok ? b : NULL;
}

static void bind(const brim_step *s, const norm *b, norm_args *a)
{
    *a = b->a;
    a->sums = s->workspace;
    a->part = a->sums + 2 * a->channels;
}

static void over_rows(const norm *b, CUfunction f, const norm_args *a)
{
    brim_cuda_launch(f, (unsigned)blocks_across(b), (unsigned)a->slices, 1, THREADS, 0, a);
}

static void over_channels(CUfunction f, const norm_args *a)
{
    brim_cuda_launch(f, brim_cuda_blocks(a->channels, THREADS, 0), 1, 1, THREADS, 0, a);
}

static brim_status forward_prepare(brim_step *s, brim_error *err)
{
    return make(s, &s->in[0], "moments", "statistics", "apply", err) ? BRIM_OK : err->status;
}

static brim_status infer_prepare(brim_step *s, brim_error *err)
{
    return make(s, &s->in[0], NULL, "kept_statistics", "apply", err) ? BRIM_OK : err->status;
}

static void forward_run(const brim_step *s)
{
    const norm *b = s->state;
    bool training = s->node->op == &brim_op_batch_norm;
    norm_args a;
    bind(s, b, &a);
    a.x = s->in[0].data;
    a.gamma = s->in[1].data;
    a.beta = s->in[2].data;
    a.running_mean = s->in[3].data;
    a.running_var = s->in[4].data;
    a.residual = s->node->n_in > 5 ? s->in[5].data : NULL;
    a.y = s->out[0].data;
    a.mean = training ? s->out[1].data : NULL;
    a.rstd = training ? s->out[2].data : NULL;
    if (training) over_rows(b, b->first, &a);
    over_channels(b->join, &a);
    if (a.y && a.count) over_rows(b, b->apply, &a);
}

static brim_status backward_prepare(brim_step *s, brim_error *err)
{
    return make(s, &s->in[1], "bwd_sums", "bwd_join", "bwd_apply", err) ? BRIM_OK : err->status;
}

static void backward_run(const brim_step *s)
{
    const norm *b = s->state;
    norm_args a;
    bind(s, b, &a);
    a.dy = s->in[0].data;
    a.x = s->in[1].data;
    a.act = s->in[2].data;
    a.gamma = s->in[3].data;
    a.mean = s->in[4].data;
    a.rstd = s->in[5].data;
    a.dx = s->out[0].data;
    a.dgamma = s->out[1].data;
    a.dbeta = s->out[2].data;
    a.dresidual = s->out[3].data;
    over_rows(b, b->first, &a);
    over_channels(b->join, &a);
    if ((a.dx || a.dresidual) && a.count) over_rows(b, b->apply, &a);
}

#define NORM(op_, name_, run_)                                                                     \
    {                                                                                              \
        .name = "brim." #op_, .op = &brim_op_##op_, .supports = supports,                          \
        .prepare = name_##_prepare, .run = run_, .release = brim_cuda_state_free                   \
    }
const brim_impl brim_cuda_batch_norm[] = {
    NORM(batch_norm, forward, forward_run),
    NORM(batch_norm_infer, infer, forward_run),
    NORM(batch_norm_bwd, backward, backward_run),
};
const int brim_cuda_batch_norm_count = sizeof brim_cuda_batch_norm / sizeof *brim_cuda_batch_norm;
