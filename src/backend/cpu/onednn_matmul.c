/* Fully connected layers, their gradients and matrix products through oneDNN's matmul. Transposes
 * are strides; oneDNN packs what its kernels want packed, in its scratchpad. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn.h"
#include "base/half.h"

/* All dimensions but the last as rows of one matrix. */
static brim_dnn_arg rows(brim_dnn_arg a)
{
    brim_dnn_arg m = a;
    m.rank = 2;
    m.dim[0] = 1;
    for (int k = 0; k + 1 < a.rank; k++) m.dim[0] *= a.dim[k];
    m.dim[1] = m.stride[0] = a.dim[a.rank - 1];
    m.stride[1] = 1;
    return m;
}

static brim_dnn_arg transposed(brim_dnn_arg m)
{
    int64_t dim = m.dim[m.rank - 1], stride = m.stride[m.rank - 1];
    m.dim[m.rank - 1] = m.dim[m.rank - 2];
    m.stride[m.rank - 1] = m.stride[m.rank - 2];
    m.dim[m.rank - 2] = dim;
    m.stride[m.rank - 2] = stride;
    return m;
}

/* A vector as one row, to be added to every row. */
static brim_dnn_arg as_row(brim_dnn_arg v)
{
    v.rank = 2;
    v.dim[1] = v.stride[0] = v.dim[0];
    v.dim[0] = v.stride[1] = 1;
    return v;
}

static brim_status linear_prepare(brim_step *s, brim_error *err)
{
    brim_dnn_problem p = {.kind = BRIM_DNN_MATMUL, .relu = brim_attr_int(s->node, "act", 0)};
    p.src = rows(brim_dnn_in(s, 0));
    p.weights = transposed(brim_dnn_in(s, 1));
    if (s->node->n_in > 2 && s->node->in[2]) p.bias = as_row(brim_dnn_in(s, 2));
    p.dst = rows(brim_dnn_out(s, 0));
    return brim_dnn_prepare(s, &p, err);
}

static brim_status bwd_data_prepare(brim_step *s, brim_error *err)
{
    brim_dnn_problem p = {.kind = BRIM_DNN_MATMUL};
    p.src = rows(brim_dnn_in(s, 0));
    p.weights = brim_dnn_in(s, 1);
    p.dst = rows(brim_dnn_out(s, 0));
    return brim_dnn_prepare(s, &p, err);
}

/* dw = dy^T x; the sums of dy's columns beside it. */
static brim_status bwd_weight_prepare(brim_step *s, brim_error *err)
{
    brim_dnn_problem p = {.kind = BRIM_DNN_MATMUL};
    p.src = transposed(rows(brim_dnn_in(s, 0)));
    p.weights = rows(brim_dnn_in(s, 1));
    p.dst = brim_dnn_out(s, 0);
    return s->out_used[0] ? brim_dnn_prepare(s, &p, err) : BRIM_OK;
}

enum { COLUMNS = 64 };

/* Sums of columns begin..end-1 of dy. */
static void sum_columns(const brim_tensor *dy, int64_t begin, int64_t end, float *db)
{
    const brim_shape *shape = &dy->shape;
    int64_t width = shape->dim[shape->rank - 1], count = brim_shape_count(shape);
    float sum[COLUMNS] = {0};
    for (int64_t row = 0; row < count; row += width)
        for (int64_t k = begin; k < end; k++) {
            if (dy->dtype == BRIM_F32)
                sum[k - begin] += ((const float *)dy->data)[row + k];
            else if (dy->dtype == BRIM_BF16)
                sum[k - begin] += brim_bf16_to_f32(((const uint16_t *)dy->data)[row + k]);
            else
                sum[k - begin] += brim_f16_to_f32(((const uint16_t *)dy->data)[row + k]);
        }
    for (int64_t k = begin; k < end; k++) db[k] = sum[k - begin];
}

static void bwd_weight_run(const brim_step *s)
{
    if (s->out[0].data) brim_dnn_run(s);
    if (!s->out[1].data) return;
    int64_t width = s->out[1].shape.dim[0];
#pragma omp parallel for schedule(static) if (brim_tensor_count(&s->in[0]) > 65536)
    for (int64_t begin = 0; begin < width; begin += COLUMNS)
        sum_columns(&s->in[0], begin, begin + COLUMNS < width ? begin + COLUMNS : width,
                    s->out[1].data);
}

/* Leading dimensions of a product as one. */
static brim_dnn_arg batch(brim_dnn_arg a)
{
    if (a.rank <= 3) return a;
    brim_dnn_arg m = a;
    m.rank = 3;
    m.dim[0] = 1;
    for (int k = 0; k + 2 < a.rank; k++) m.dim[0] *= a.dim[k];
    for (int k = 1; k < 3; k++) {
        m.dim[k] = a.dim[a.rank - 3 + k];
        m.stride[k] = a.stride[a.rank - 3 + k];
    }
    m.stride[0] = m.dim[1] * m.dim[2];
    return m;
}

static brim_status matmul_prepare(brim_step *s, brim_error *err)
{
    brim_dnn_problem p = {.kind = BRIM_DNN_MATMUL};
    p.src = batch(brim_dnn_in(s, 0));
    p.weights = batch(brim_dnn_in(s, 1));
    p.dst = batch(brim_dnn_out(s, 0));
    if (brim_attr_int(s->node, "ta", 0)) p.src = transposed(p.src);
    if (brim_attr_int(s->node, "tb", 0)) p.weights = transposed(p.weights);
    return brim_dnn_prepare(s, &p, err);
}

static bool supports(const brim_node *n, const char **why)
{
    for (int k = 0; k < n->n_in; k++) {
        if (!n->in[k]) continue;
        if (!brim_dnn_takes(n->in[k], why)) return false;
        if (n->in[k]->layout == BRIM_LAYOUT_ROW) continue;
        *why = "an input is not row-major";
        return false;
    }
    if (brim_dnn_takes(n->out[0], why)) return n->out[0]->layout == BRIM_LAYOUT_ROW;
    return false;
}

#define IMPL(name_, prepare_, run_)                                                                \
    {                                                                                              \
        .name = "onednn." #name_, .op = &brim_op_##name_, .supports = supports,                    \
        .prepare = prepare_, .run = run_, .release = brim_dnn_release                              \
    }

const brim_impl brim_onednn_matmul[] = {
    IMPL(linear, linear_prepare, brim_dnn_run),
    IMPL(linear_bwd_data, bwd_data_prepare, brim_dnn_run),
    IMPL(linear_bwd_weight, bwd_weight_prepare, bwd_weight_run),
    IMPL(matmul, matmul_prepare, brim_dnn_run),
};
const int brim_onednn_matmul_count = sizeof brim_onednn_matmul / sizeof *brim_onednn_matmul;
