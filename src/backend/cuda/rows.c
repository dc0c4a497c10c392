/* Softmax and layer normalisation. */
#include "backend/cuda/cuda.h"
#include "base/mem.h"

#include <stdio.h>

enum { THREADS = 256, MOST_SLICES = 64 };

typedef struct rows {
    rows_args a;
    CUfunction f, columns, join;
} rows;

static bool supports(const brim_node *n, const char **why)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]->dtype == BRIM_F64) return *why = "f64", false;
    if (n->out[0]->layout != BRIM_LAYOUT_ROW) return *why = "channels are last in memory", false;
    return true;
}

static rows *make(brim_step *s, const brim_tensor *x, const char *name, brim_error *err)
{
    char defines[32];
    rows *r = brim_calloc(1, sizeof *r);
    if (!r) {
        brim_fail(err, BRIM_ENOMEM, "out of memory");
        return NULL;
    }
    s->state = r;
    r->a.n = (int)x->shape.dim[x->shape.rank - 1];
    r->a.rows = 1;
    for (int k = 0; k + 1 < x->shape.rank; k++) r->a.rows *= x->shape.dim[k];
    snprintf(defines, sizeof defines, "-DX=%s", brim_cuda_type(x->dtype));
    return brim_cuda_kernel("rows.cu", defines, name, &r->f, err) == BRIM_OK ? r : NULL;
}

static brim_status softmax_prepare(brim_step *s, brim_error *err)
{
    bool back = s->node->op == &brim_op_softmax_bwd;
    return make(s, &s->in[0], back ? "softmax_bwd" : "softmax", err) ? BRIM_OK : err->status;
}

static void softmax_run(const brim_step *s)
{
    const rows *r = s->state;
    rows_args a = r->a;
    bool back = s->node->op == &brim_op_softmax_bwd;
    a.x = s->in[back].data;
    a.dy = s->in[0].data;
    a.y = s->out[0].data;
    if (a.n) brim_cuda_launch(r->f, (unsigned)a.rows, 1, 1, THREADS, 0, &a);
}

static brim_status norm_prepare(brim_step *s, brim_error *err)
{
    rows *r = make(s, &s->in[0], "layer_norm", err);
    if (!r) return err->status;
    r->a.eps = (float)brim_attr_float(s->node, "eps", 1e-5);
    return BRIM_OK;
}

static void norm_run(const brim_step *s)
{
    const rows *r = s->state;
    rows_args a = r->a;
    a.x = s->in[0].data;
    a.gamma = s->in[1].data;
    a.beta = s->in[2].data;
    a.y = s->out[0].data;
    a.mean = s->out[1].data;
    a.rstd = s->out[2].data;
    brim_cuda_launch(r->f, (unsigned)a.rows, 1, 1, THREADS, 0, &a);
}

static brim_status norm_bwd_prepare(brim_step *s, brim_error *err)
{
    char defines[32];
    rows *r = make(s, &s->in[1], "layer_norm_bwd", err);
    if (!r) return err->status;
    int64_t slices = r->a.rows / 16;
    r->a.slices = (int)(slices < 1 ? 1 : slices > MOST_SLICES ? MOST_SLICES : slices);
    if (s->out_used[1] || s->out_used[2])
        s->workspace_bytes = (size_t)r->a.slices * 2 * (size_t)r->a.n * sizeof(float);
    snprintf(defines, sizeof defines, "-DX=%s", brim_cuda_type(s->in[1].dtype));
    BRIM_TRY(brim_cuda_kernel("rows.cu", defines, "layer_norm_bwd_columns", &r->columns, err));
    return brim_cuda_kernel("rows.cu", defines, "layer_norm_bwd_join", &r->join, err);
}

/* dx may take the storage of dy or x: the columns are summed before. */
static void norm_bwd_run(const brim_step *s)
{
    const rows *r = s->state;
    rows_args a = r->a;
    a.dy = s->in[0].data;
    a.x = s->in[1].data;
    a.gamma = s->in[2].data;
    a.mean = s->in[3].data;
    a.rstd = s->in[4].data;
    a.y = s->out[0].data;
    a.dgamma = s->out[1].data;
    a.dbeta = s->out[2].data;
    a.part = s->workspace;
    if (a.dgamma || a.dbeta) {
        unsigned blocks = brim_cuda_blocks(a.n, THREADS, 0);
        brim_cuda_launch(r->columns, blocks, (unsigned)a.slices, 1, THREADS, 0, &a);
        brim_cuda_launch(r->join, blocks, 1, 1, THREADS, 0, &a);
    }
    if (a.y) brim_cuda_launch(r->f, (unsigned)a.rows, 1, 1, THREADS, 0, &a);
}

#define ROWS(op_, prepare_, run_)                                                                  \
    {                                                                                              \
        .name = "brim." #op_, .op = &brim_op_##op_, .supports = supports, .prepare = prepare_,     \
        .run = run_, .release = brim_cuda_state_free                                               \
    }
const brim_impl brim_cuda_rows[] = {
    ROWS(softmax, softmax_prepare, softmax_run),
    ROWS(softmax_bwd, softmax_prepare, softmax_run),
    ROWS(layer_norm, norm_prepare, norm_run),
    ROWS(layer_norm_bwd, norm_bwd_prepare, norm_bwd_run),
};
const int brim_cuda_rows_count = sizeof brim_cuda_rows / sizeof *brim_cuda_rows;
