/* Sums, means and maxima over axes; the gradient of upsampling and global pooling are such, too. */
#include "backend/cuda/reduce.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { LANES = 32, THREADS = 256, BLOCKS_WANTED = 4, SLICE_LEAST = 64, MOST_SLICES = 64 };

static bool supports(const brim_node *n, const char **why)
{
    const brim_value *v[] = {n->in[0], n->out[0]};
    for (int k = 0; k < 2; k++)
        if (v[k]->dtype == BRIM_F64 || v[k]->dtype == BRIM_I64)
            return *why = "more than 32 bits", false;
    return true;
}

void brim_cuda_reduce_keep(brim_cuda_reduction *r, int64_t dim, int64_t x, int64_t y)
{
    reduce_args *a = &r->a;
    if (dim == 1) return;
    int d = a->kept++;
    for (; d > 0 && a->kept_x[d - 1] < x; d--) { /* innermost in x last: lanes read neighbours */
        a->kept_dim[d] = a->kept_dim[d - 1];
        a->kept_x[d] = a->kept_x[d - 1];
        a->kept_y[d] = a->kept_y[d - 1];
    }
    a->kept_dim[d] = (unsigned)dim;
    a->kept_x[d] = x;
    a->kept_y[d] = y;
}

void brim_cuda_reduce_over(brim_cuda_reduction *r, int64_t dim, int64_t x)
{
    reduce_args *a = &r->a;
    if (dim == 1) return;
    int d = a->reduced++;
    for (; d > 0 && a->reduced_x[d - 1] < x; d--) {
        a->reduced_dim[d] = a->reduced_dim[d - 1];
        a->reduced_x[d] = a->reduced_x[d - 1];
    }
    a->reduced_dim[d] = (unsigned)dim;
    a->reduced_x[d] = x;
}

/* Joins neighbouring loops that are one in memory. */
static void merge(reduce_args *a)
{
    int r = 0;
    for (int d = 1; d < a->reduced; d++) {
        bool one = a->reduced_x[r] == a->reduced_x[d] * a->reduced_dim[d];
        if (!one) r++;
        a->reduced_dim[r] = one ? a->reduced_dim[r] * a->reduced_dim[d] : a->reduced_dim[d];
        a->reduced_x[r] = a->reduced_x[d];
    }
    if (a->reduced) a->reduced = r + 1;
}

brim_status brim_cuda_reduce_make(brim_cuda_reduction *r, brim_dtype x, brim_dtype y, bool max,
                                  double scale, size_t *workspace_bytes, brim_error *err)
{
    reduce_args *a = &r->a;
    char defines[96];
    merge(a);
    a->scale = (float)scale;
    a->outputs = a->count = 1;
    for (int d = 0; d < a->kept; d++) a->outputs *= a->kept_dim[d];
    for (int d = 0; d < a->reduced; d++) a->count *= a->reduced_dim[d];
    r->along = a->reduced && (!a->kept || a->reduced_x[a->reduced - 1] < a->kept_x[a->kept - 1]);
    int64_t blocks = r->along ? a->outputs : (a->outputs + LANES - 1) / LANES;
    int64_t wanted = (int64_t)BLOCKS_WANTED * brim_cuda_get()->sms;
    int64_t slices = blocks > 0 ? wanted / blocks : 1, most = a->count / SLICE_LEAST;
    if (slices > most) slices = most;
    a->slices = (int)(slices < 1 ? 1 : slices > MOST_SLICES ? MOST_SLICES : slices);
    *workspace_bytes = a->slices > 1 ? (size_t)(a->slices * a->outputs) * sizeof(float) : 0;
    snprintf(defines, sizeof defines, "-DX=%s -DY=%s -DMAX=%d", brim_cuda_type(x),
             brim_cuda_type(y), max);
    BRIM_TRY(brim_cuda_kernel("reduce.cu", defines, r->along ? "reduce_along" : "reduce_across",
                              &r->f, err));
    return brim_cuda_kernel("reduce.cu", defines, "reduce_slices", &r->join, err);
}

void brim_cuda_reduce_run(const brim_cuda_reduction *r, const void *x, void *y, void *workspace)
{
    reduce_args a = r->a;
    a.x = x;
    a.y = y;
    a.part = workspace;
    if (!a.outputs) return;
    unsigned blocks = (unsigned)(r->along ? a.outputs : (a.outputs + LANES - 1) / LANES);
    brim_cuda_launch(r->f, blocks, (unsigned)a.slices, 1, THREADS, 0, &a);
    if (a.slices > 1)
        brim_cuda_launch(r->join, brim_cuda_blocks(a.outputs, THREADS, 0), 1, 1, THREADS, 0, &a);
}

/* ---- operators ---- */

static brim_status finish(brim_step *s, brim_cuda_reduction *r, double scale, brim_error *err)
{
    return brim_cuda_reduce_make(r, s->in[0].dtype, s->out[0].dtype,
                                 s->node->op == &brim_op_reduce_max, scale, &s->workspace_bytes,
                                 err);
}

static brim_cuda_reduction *make(brim_step *s, brim_error *err)
{
    brim_cuda_reduction *r = brim_calloc(1, sizeof *r);
    if (!r) brim_fail(err, BRIM_ENOMEM, "out of memory");
    s->state = r;
    return r;
}

static bool is_reduced(const brim_node *n, int k)
{
    int64_t axes = brim_attr_int(n, "axes", 0);
    return !axes || axes >> k & 1;
}

/* The loops of a reduction of x to y over the node's axes. */
static void add_axes(brim_cuda_reduction *r, const brim_node *n, const brim_tensor *x,
                     const brim_tensor *y)
{
    bool kept_rank = y->shape.rank == x->shape.rank;
    for (int k = 0, j = 0; k < x->shape.rank; k++) {
        bool gone = is_reduced(n, k);
        if (gone)
            brim_cuda_reduce_over(r, x->shape.dim[k], x->stride[k]);
        else
            brim_cuda_reduce_keep(r, x->shape.dim[k], x->stride[k], y->stride[kept_rank ? k : j]);
        j += !gone;
    }
}

static brim_status axes_prepare(brim_step *s, brim_error *err)
{
    bool mean = s->node->op == &brim_op_reduce_mean;
    int64_t n = brim_tensor_count(&s->in[0]), m = brim_tensor_count(&s->out[0]);
    brim_cuda_reduction *r = make(s, err);
    if (!r) return BRIM_ENOMEM;
    add_axes(r, s->node, &s->in[0], &s->out[0]);
    return finish(s, r, mean && n ? (double)m / (double)n : 1, err);
}

/* global_avg_pool: N and C kept. */
static brim_status global_prepare(brim_step *s, brim_error *err)
{
    const brim_tensor *x = &s->in[0], *y = &s->out[0];
    brim_cuda_reduction *r = make(s, err);
    if (!r) return BRIM_ENOMEM;
    for (int k = 0; k < 4; k++)
        if (k < 2)
            brim_cuda_reduce_keep(r, x->shape.dim[k], x->stride[k], y->stride[k]);
        else
            brim_cuda_reduce_over(r, x->shape.dim[k], x->stride[k]);
    return finish(s, r, 1 / ((double)x->shape.dim[2] * (double)x->shape.dim[3]), err);
}

/* upsample_nearest_bwd: each output takes a block of scale. */
static brim_status upsample_prepare(brim_step *s, brim_error *err)
{
    const brim_tensor *dy = &s->in[0], *dx = &s->out[0];
    brim_cuda_reduction *r = make(s, err);
    if (!r) return BRIM_ENOMEM;
    for (int k = 0; k < 4; k++) {
        int64_t scale = k < 2 ? 1 : brim_attr_int_at(s->node, "scale", k - 2, 1);
        brim_cuda_reduce_keep(r, dx->shape.dim[k], dy->stride[k] * scale, dx->stride[k]);
        brim_cuda_reduce_over(r, scale, dy->stride[k]);
    }
    return finish(s, r, 1, err);
}

static void run(const brim_step *s)
{
    brim_cuda_reduce_run(s->state, s->in[0].data, s->out[0].data, s->workspace);
}

static brim_status max_bwd_prepare(brim_step *s, brim_error *err)
{
    char defines[96];
    brim_cuda_reduction *r = make(s, err);
    if (!r) return BRIM_ENOMEM;
    add_axes(r, s->node, &s->in[1], &s->in[0]);
    r->a.outputs = brim_tensor_count(&s->in[0]);
    r->a.count = 1;
    for (int d = 0; d < r->a.reduced; d++) r->a.count *= r->a.reduced_dim[d];
    snprintf(defines, sizeof defines, "-DX=%s -DY=%s -DMAX=1", brim_cuda_type(s->in[1].dtype),
             brim_cuda_type(s->in[0].dtype));
    return brim_cuda_kernel("reduce.cu", defines, "reduce_max_bwd", &r->f, err);
}

static bool max_bwd_supports(const brim_node *n, const char **why)
{
    bool alike = n->in[0]->dtype == n->in[2]->dtype && n->in[0]->layout == n->in[2]->layout &&
                 n->out[0]->layout == n->in[1]->layout && n->out[0]->dtype == n->in[1]->dtype;
    if (!alike) return *why = "dy and the maximum differ in type or layout", false;
    return supports(n, why);
}

static void max_bwd_run(const brim_step *s)
{
    const brim_cuda_reduction *r = s->state;
    reduce_args a = r->a;
    a.dy = s->in[0].data;
    a.x = s->in[1].data;
    a.m = s->in[2].data;
    a.y = s->out[0].data;
    brim_cuda_launch(r->f, brim_cuda_blocks(a.outputs, THREADS, 0), 1, 1, THREADS, 0, &a);
}

#define REDUCE(op_, prepare_)                                                                      \
    {                                                                                              \
        .name = "brim." #op_, .op = &brim_op_##op_, .supports = supports, .prepare = prepare_,     \
        .run = run, .release = brim_cuda_state_free                                                \
    }
const brim_impl brim_cuda_reduce[] = {
    REDUCE(reduce_sum, axes_prepare),
    REDUCE(reduce_mean, axes_prepare),
    REDUCE(reduce_max, axes_prepare),
    REDUCE(global_avg_pool, global_prepare),
    REDUCE(upsample_nearest_bwd, upsample_prepare),
    {.name = "brim.reduce_max_bwd",
     .op = &brim_op_reduce_max_bwd,
     .supports = max_bwd_supports,
     .prepare = max_bwd_prepare,
     .run = max_bwd_run,
     .release = brim_cuda_state_free},
};
const int brim_cuda_reduce_count = sizeof brim_cuda_reduce / sizeof *brim_cuda_reduce;
