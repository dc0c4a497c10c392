/* Operators that only move elements: each is one or more copies between strided views. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/strided.h"

typedef struct moves {
    int n;
    bool zero; /* the output is cleared first: the copies do not cover it */
    brim_cuda_strided at[];
} moves;

static moves *make(brim_step *s, int n, brim_error *err)
{
    moves *m = brim_calloc(1, sizeof *m + (size_t)n * sizeof m->at[0]);
    if (!m) brim_fail(err, BRIM_ENOMEM, "out of memory");
    s->state = m;
    if (m) m->n = n;
    return m;
}

static brim_status add(brim_cuda_strided *k, brim_loops *l, brim_dtype t, int64_t from, int64_t to,
                       brim_error *err)
{
    const brim_dtype type[2] = {t, t};
    const int64_t offset[2] = {from, to};
    brim_loops_merge(l);
    return brim_cuda_strided_make(k, l, type, 1, NULL, offset, err);
}

/* Elements of `shape` from one view to another. */
static brim_status add_copy(brim_cuda_strided *k, const brim_shape *shape, const brim_tensor *src,
                            int64_t from, const brim_tensor *dst, int64_t to, brim_error *err)
{
    brim_loops l = {.tensors = 2, .lead = 1};
    for (int d = 0; d < shape->rank; d++)
        brim_loops_add(&l, shape->dim[d], (int64_t[]){src->stride[d], dst->stride[d]});
    return add(k, &l, src->dtype, from, to, err);
}

static brim_status one_copy(brim_step *s, const brim_shape *shape, const brim_tensor *src,
                            int64_t from, const brim_tensor *dst, int64_t to, brim_error *err)
{
    moves *m = make(s, 1, err);
    return m ? add_copy(&m->at[0], shape, src, from, dst, to, err) : BRIM_ENOMEM;
}

static brim_status relayout_prepare(brim_step *s, brim_error *err)
{
    return one_copy(s, &s->in[0].shape, &s->in[0], 0, &s->out[0], 0, err);
}

/* Row-major order stays: with the input's strides on one side, and those of a row-major tensor of
 * the input's shape on the other. */
static bool reshape_supports(const brim_node *n, const char **why)
{
    const int64_t *d = n->out[0]->shape.dim;
    if (n->out[0]->layout == BRIM_LAYOUT_CHANNELS_LAST && d[1] != 1 && (d[2] != 1 || d[3] != 1))
        return *why = "channels are last in memory", false;
    return true;
}
static brim_status reshape_prepare(brim_step *s, brim_error *err)
{
    brim_tensor y = brim_tensor_make(NULL, s->out[0].dtype, &s->in[0].shape, BRIM_LAYOUT_ROW);
    return one_copy(s, &s->in[0].shape, &s->in[0], 0, &y, 0, err);
}

static brim_status transpose_prepare(brim_step *s, brim_error *err)
{
    const brim_attr *perm = brim_attr_find(s->node, "perm");
    brim_tensor x = s->in[0];
    for (int k = 0; k < x.shape.rank; k++) x.stride[k] = s->in[0].stride[perm->i[k]];
    return one_copy(s, &s->out[0].shape, &x, 0, &s->out[0], 0, err);
}

static brim_status slice_prepare(brim_step *s, brim_error *err)
{
    int axis = (int)brim_attr_int(s->node, "axis", 0);
    brim_tensor x = s->in[0];
    int64_t begin = brim_attr_int(s->node, "begin", 0) * x.stride[axis];
    x.stride[axis] *= brim_attr_int(s->node, "step", 1);
    return one_copy(s, &s->out[0].shape, &x, begin, &s->out[0], 0, err);
}

static brim_status slice_bwd_prepare(brim_step *s, brim_error *err)
{
    int axis = (int)brim_attr_int(s->node, "axis", 0);
    brim_tensor y = s->out[0];
    int64_t begin = brim_attr_int(s->node, "begin", 0) * y.stride[axis];
    y.stride[axis] *= brim_attr_int(s->node, "step", 1);
    BRIM_TRY(one_copy(s, &s->in[0].shape, &s->in[0], 0, &y, begin, err));
    ((moves *)s->state)->zero = true;
    return BRIM_OK;
}

static brim_status pad_prepare(brim_step *s, brim_error *err)
{
    int axis = (int)brim_attr_int(s->node, "axis", 0);
    int64_t before = brim_attr_int(s->node, "before", 0) * s->out[0].stride[axis];
    BRIM_TRY(one_copy(s, &s->in[0].shape, &s->in[0], 0, &s->out[0], before, err));
    ((moves *)s->state)->zero = true;
    return BRIM_OK;
}

static brim_status concat_prepare(brim_step *s, brim_error *err)
{
    int axis = (int)brim_attr_int(s->node, "axis", 0);
    int64_t at = 0;
    moves *m = make(s, s->node->n_in, err);
    for (int k = 0; m && k < m->n; k++) {
        BRIM_TRY(add_copy(&m->at[k], &s->in[k].shape, &s->in[k], 0, &s->out[0],
                          at * s->out[0].stride[axis], err));
        at += s->in[k].shape.dim[axis];
    }
    return m ? BRIM_OK : BRIM_ENOMEM;
}

static brim_status upsample_prepare(brim_step *s, brim_error *err)
{
    const brim_tensor *x = &s->in[0], *y = &s->out[0];
    moves *m = make(s, 1, err);
    brim_loops l = {.tensors = 2, .lead = 1};
    for (int k = 0; k < 4; k++) {
        int64_t scale = k < 2 ? 1 : brim_attr_int_at(s->node, "scale", k - 2, 1);
        brim_loops_add(&l, x->shape.dim[k], (int64_t[]){x->stride[k], y->stride[k] * scale});
        brim_loops_add(&l, scale, (int64_t[]){0, y->stride[k]});
    }
    return m ? add(&m->at[0], &l, x->dtype, 0, 0, err) : BRIM_ENOMEM;
}

static void run(const brim_step *s)
{
    const moves *m = s->state;
    const brim_tensor *y = &s->out[0];
    if (m->zero) brim_cuda_zero(y->data, (size_t)brim_tensor_count(y) * brim_dtype_bytes(y->dtype));
    for (int k = 0; k < m->n; k++)
        brim_cuda_strided_run(&m->at[k], (void *[]){s->in[m->n > 1 ? k : 0].data, y->data});
}

static bool same_type(const brim_node *n, const char **why)
{
    bool same = n->in[0]->dtype == n->out[0]->dtype;
    if (!same) *why = "changes the type";
    return same;
}

#define MOVE(op_, supports_)                                                                       \
    {                                                                                              \
        .name = "brim." #op_, .op = &brim_op_##op_, .supports = supports_,                         \
        .prepare = op_##_prepare, .run = run, .release = brim_cuda_state_free                      \
    }
#define upsample_nearest_prepare upsample_prepare
const brim_impl brim_cuda_layout[] = {
    MOVE(relayout, same_type), MOVE(transpose, same_type),        MOVE(reshape, reshape_supports),
    MOVE(slice, same_type),    MOVE(slice_bwd, same_type),        MOVE(pad, same_type),
    MOVE(concat, same_type),   MOVE(upsample_nearest, same_type),
};
const int brim_cuda_layout_count = sizeof brim_cuda_layout / sizeof *brim_cuda_layout;
