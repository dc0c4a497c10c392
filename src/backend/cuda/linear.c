/* Fully connected layers, their gradients, and matrix products, by our own kernel. */
#include "backend/cuda/gemm.h"
#include "base/mem.h"

#include <limits.h>

static bool supports(const brim_node *n, const char **why)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && n->in[k]->dtype == BRIM_F64) return *why = "f64", false;
    for (int k = 0; k < n->n_in + n->n_out; k++) {
        const brim_value *v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
        if (v && v->layout != BRIM_LAYOUT_ROW) return *why = "channels are last in memory", false;
        if (v && brim_shape_count(&v->shape) > INT_MAX)
            return *why = "more than 2^31 elements", false;
    }
    return true;
}

static brim_cuda_gemm *make(brim_step *s, brim_error *err)
{
    brim_cuda_gemm *g = brim_calloc(1, sizeof *g);
    if (!g) brim_fail(err, BRIM_ENOMEM, "out of memory");
    s->state = g;
    if (g) g->a.batch = g->a.groups = 1;
    return g;
}

/* A matrix with rows `row` and places along the sum `k` apart; one of the two is 1. */
static brim_gemm_read plain(gemm_side *s, brim_dtype t, int64_t rows, int64_t row, int64_t k_count,
                            int64_t k)
{
    bool along = k == 1;
    int64_t other = along ? row : k;
    s->row_stride = row;
    s->inner_stride = k;
    s->inner = INT_MAX;
    return (brim_gemm_read){BRIM_GEMM_PLAIN, brim_gemm_pack(t, along ? k_count : rows, &other, 1),
                            along};
}

/* C is m x n, packed. */
static void product(gemm_args *a, int64_t m, int64_t n, int64_t k)
{
    a->m = (int)m;
    a->n = (int)n;
    a->k = (int)k;
    a->c_rows = INT_MAX;
    a->c_inner = n;
    a->c_column = 1;
}

static int64_t rows_of(const brim_tensor *x)
{
    int64_t last = x->shape.dim[x->shape.rank - 1];
    return last ? brim_tensor_count(x) / last : 0;
}

static int64_t last_of(const brim_tensor *x)
{
    return x->shape.dim[x->shape.rank - 1];
}

static brim_status linear_prepare(brim_step *s, brim_error *err)
{
    brim_cuda_gemm *g = make(s, err);
    if (!g) return BRIM_ENOMEM;
    int64_t m = rows_of(&s->out[0]), n = last_of(&s->out[0]), k = last_of(&s->in[0]);
    brim_dtype t = s->in[0].dtype;
    product(&g->a, m, n, k);
    g->a.relu = brim_attr_int(s->node, "act", 0) != 0;
    brim_gemm_read a = plain(&g->a.a, t, m, k, k, 1), b = plain(&g->a.b, t, n, k, k, 1);
    bool bias = s->node->n_in > 2 && s->node->in[2];
    BRIM_TRY(brim_cuda_gemm_make(g, a, b, true, t, t, bias ? s->in[2].dtype : t, err));
    s->workspace_bytes = g->part_bytes;
    return BRIM_OK;
}

static void linear_run(const brim_step *s)
{
    brim_cuda_gemm_run(s->state, s->in[0].data, s->in[1].data,
                       s->node->n_in > 2 ? s->in[2].data : NULL, s->out[0].data, s->workspace);
}

static brim_status bwd_data_prepare(brim_step *s, brim_error *err)
{
    brim_cuda_gemm *g = make(s, err);
    if (!g) return BRIM_ENOMEM;
    int64_t m = rows_of(&s->in[0]), k = last_of(&s->in[0]), n = last_of(&s->in[1]);
    brim_dtype t = s->in[0].dtype;
    product(&g->a, m, n, k);
    brim_gemm_read a = plain(&g->a.a, t, m, k, k, 1), b = plain(&g->a.b, t, n, 1, k, n);
    BRIM_TRY(brim_cuda_gemm_make(g, a, b, true, t, s->out[0].dtype, t, err));
    s->workspace_bytes = g->part_bytes;
    return BRIM_OK;
}

static brim_status bwd_weight_prepare(brim_step *s, brim_error *err)
{
    brim_cuda_gemm *g = make(s, err);
    size_t sums = 0;
    if (!g) return BRIM_ENOMEM;
    int64_t k = rows_of(&s->in[0]), m = last_of(&s->in[0]), n = last_of(&s->in[1]);
    brim_dtype t = s->in[0].dtype;
    product(&g->a, m, n, k);
    brim_gemm_read a = plain(&g->a.a, t, m, 1, k, m), b = plain(&g->a.b, t, n, 1, k, n);
    BRIM_TRY(brim_cuda_gemm_make(g, a, b, true, t, s->out[0].dtype, t, err));
    g->sums = s->out_used[1];
    if (g->sums) {
        brim_cuda_reduce_keep(&g->bias, m, 1, 1);
        brim_cuda_reduce_over(&g->bias, k, m);
        BRIM_TRY(brim_cuda_reduce_make(&g->bias, t, s->out[1].dtype, false, 1, &sums, err));
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

static brim_status matmul_prepare(brim_step *s, brim_error *err)
{
    brim_cuda_gemm *g = make(s, err);
    if (!g) return BRIM_ENOMEM;
    const brim_shape *x = &s->in[0].shape, *y = &s->out[0].shape;
    bool ta = brim_attr_int(s->node, "ta", 0), tb = brim_attr_int(s->node, "tb", 0);
    int r = y->rank;
    int64_t m = y->dim[r - 2], n = y->dim[r - 1], k = x->dim[ta ? r - 2 : r - 1], batch = 1;
    brim_dtype t = s->in[0].dtype;
    for (int d = 0; d < r - 2; d++) batch *= y->dim[d];
    product(&g->a, m, n, k);
    brim_gemm_read a = plain(&g->a.a, t, m, ta ? 1 : k, k, ta ? m : 1);
    brim_gemm_read b = plain(&g->a.b, t, n, tb ? k : 1, k, tb ? 1 : n);
    /* Both may be 1 apart in a matrix of one row or column: any reading is right, packs are not. */
    if (k == 1 || m == 1) a.pack = 1;
    if (k == 1 || n == 1) b.pack = 1;
    g->a.batch = (int)batch;
    g->a.a.batch_stride = m * k;
    g->a.b.batch_stride = n * k;
    g->a.c_batch = m * n;
    if (m * k % a.pack) a.pack = 1;
    if (n * k % b.pack) b.pack = 1;
    BRIM_TRY(brim_cuda_gemm_make(g, a, b, true, t, s->out[0].dtype, t, err));
    s->workspace_bytes = g->part_bytes;
    return BRIM_OK;
}

#define GEMM(op_, name_, run_)                                                                     \
    {                                                                                              \
        .name = "brim." #op_, .op = &brim_op_##op_, .supports = supports,                          \
        .prepare = name_##_prepare, .run = run_, .release = brim_cuda_state_free                   \
    }
const brim_impl brim_cuda_linear[] = {
    GEMM(linear, linear, linear_run),
    GEMM(linear_bwd_data, bwd_data, bwd_run),
    GEMM(linear_bwd_weight, bwd_weight, bwd_run),
    GEMM(matmul, matmul, bwd_run),
};
const int brim_cuda_linear_count = sizeof brim_cuda_linear / sizeof *brim_cuda_linear;
