/* slice and its gradient along one axis, and pad, which is the gradient of a dense slice. */
#include "ops/ops.h"

static brim_status want_axis(const brim_node *n, int64_t *axis, brim_error *err)
{
    *axis = brim_attr_int(n, "axis", 0);
    if (*axis >= 0 && *axis < n->in[0]->shape.rank) return BRIM_OK;
    return brim_fail(err, BRIM_ESHAPE, "there is no axis %lld", (long long)*axis);
}

/* Whether begin, begin + step, ... (count of them) lie inside [0, size). */
static brim_status want_range(const brim_node *n, int64_t count, int64_t size, brim_error *err)
{
    int64_t begin = brim_attr_int(n, "begin", 0), step = brim_attr_int(n, "step", 1), last;
    if (begin < 0 || count < 0 || step < 1 ||
        __builtin_mul_overflow(count > 0 ? count - 1 : 0, step, &last) ||
        __builtin_add_overflow(last, begin, &last) || (count > 0 ? last >= size : begin > size))
        return brim_fail(err, BRIM_ESHAPE,
                         "%lld elements from %lld by %lld leave a dimension of %lld",
                         (long long)count, (long long)begin, (long long)step, (long long)size);
    return BRIM_OK;
}

/* The part of `whole` that a slice speaks of, sharing its memory; *begin is its element offset. */
static brim_tensor part_of(const brim_node *n, const brim_tensor *whole, const brim_shape *shape,
                           int64_t *begin)
{
    int axis = (int)brim_attr_int(n, "axis", 0);
    brim_tensor part = *whole;
    part.shape = *shape;
    *begin = brim_attr_int(n, "begin", 0) * part.stride[axis];
    part.stride[axis] *= brim_attr_int(n, "step", 1);
    return part;
}

/* Moves bytes only. */
static void move_cost(const brim_node *n, brim_cost *c)
{
    (void)n, (void)c;
}

static void fill_zero(const brim_tensor *t)
{
    int64_t count = brim_tensor_count(t);
    for (int64_t i = 0; i < count; i++) brim_tensor_put(t, i, 0);
}

static brim_status slice_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    int64_t axis, count = brim_attr_int(n, "count", 0);
    brim_shape s = n->in[0]->shape;
    BRIM_TRY(want_axis(n, &axis, err));
    BRIM_TRY(want_range(n, count, s.dim[axis], err));
    s.dim[axis] = count;
    brim_out_set(n, 0, n->in[0]->dtype, &s);
    return BRIM_OK;
}

static void slice_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    int64_t begin, count = brim_tensor_count(&out[0]);
    brim_tensor part = part_of(n, &in[0], &out[0].shape, &begin);
    for (int64_t i = 0; i < count; i++)
        brim_tensor_put(&out[0], i, brim_tensor_get(&part, brim_tensor_offset(&part, i) + begin));
}

static brim_status slice_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                              const bool *need, brim_value **din)
{
    int64_t axis = brim_attr_int(n, "axis", 0);
    if (need[0])
        din[0] = BRIM_EMIT(g, &brim_op_slice_bwd, NULL, ((brim_value *[]){dout[0]}),
                           BRIM_INT("axis", axis), BRIM_INT("begin", brim_attr_int(n, "begin", 0)),
                           BRIM_INT("step", brim_attr_int(n, "step", 1)),
                           BRIM_INT("size", n->in[0]->shape.dim[axis]));
    return brim_graph_check(g, NULL);
}

static const brim_case slice_cases[] = {
    {.name = "channels", .inputs = "f32[2,6,4,5]", .attrs = "axis=1 begin=1 count=3"},
    {.name = "every second", .inputs = "f32[2,3,7]", .attrs = "axis=2 begin=1 count=3 step=2"},
    {.name = "rows", .inputs = "f32[5,3]", .attrs = "axis=0 begin=2 count=3"},
    {.name = "nothing", .inputs = "f32[5,3]", .attrs = "axis=0 begin=5 count=0"},
    {.name = "bytes", .inputs = "u8[5,3]", .attrs = "axis=1 begin=1 count=1", .no_grad = true},
    {.name = "no axis", .inputs = "f32[5]", .attrs = "axis=1 count=1", .refused = "no axis 1"},
    {.name = "too far", .inputs = "f32[5]", .attrs = "begin=3 count=3", .refused = "leave"},
    {.name = "step", .inputs = "f32[5]", .attrs = "count=2 step=0", .refused = "leave"},
};
const brim_op brim_op_slice = {.name = "slice",
                               .doc = "y = x[begin : : step], `count` elements, along `axis`",
                               .min_in = 1,
                               .max_in = 1,
                               .n_out = 1,
                               .layout = BRIM_LAYOUT_SAME,
                               .amp = BRIM_AMP_KEEP,
                               .infer = slice_infer,
                               .grad = slice_grad,
                               .cost = move_cost,
                               .ref = slice_ref,
                               BRIM_CASES(slice_cases)};

brim_value *brim_slice(brim_graph *g, brim_value *x, int axis, int64_t begin, int64_t count,
                       int64_t step)
{
    return BRIM_EMIT(g, &brim_op_slice, NULL, ((brim_value *[]){x}), BRIM_INT("axis", axis),
                     BRIM_INT("begin", begin), BRIM_INT("count", count), BRIM_INT("step", step));
}

/* slice_bwd(dy) */
static brim_status slice_bwd_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    int64_t axis, size = brim_attr_int(n, "size", 0);
    brim_shape s = n->in[0]->shape;
    BRIM_TRY(want_axis(n, &axis, err));
    BRIM_TRY(want_range(n, s.dim[axis], size, err));
    s.dim[axis] = size;
    brim_out_set(n, 0, n->in[0]->dtype, &s);
    return BRIM_OK;
}

static void slice_bwd_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    int64_t begin, count = brim_tensor_count(&in[0]);
    brim_tensor part = part_of(n, &out[0], &in[0].shape, &begin);
    fill_zero(&out[0]);
    for (int64_t i = 0; i < count; i++)
        brim_tensor_set(&part, brim_tensor_offset(&part, i) + begin, brim_tensor_at(&in[0], i));
}

static brim_status slice_bwd_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                  const bool *need, brim_value **din)
{
    int axis = (int)brim_attr_int(n, "axis", 0);
    if (need[0])
        din[0] = brim_slice(g, dout[0], axis, brim_attr_int(n, "begin", 0),
                            n->in[0]->shape.dim[axis], brim_attr_int(n, "step", 1));
    return brim_graph_check(g, NULL);
}

static const brim_case slice_bwd_cases[] = {
    {.name = "channels", .inputs = "f32[2,3,4,5]", .attrs = "axis=1 begin=1 size=6"},
    {.name = "every second", .inputs = "f32[2,3,3]", .attrs = "axis=2 begin=1 step=2 size=7"},
    {.name = "nothing", .inputs = "f32[0,3]", .attrs = "axis=0 size=4"},
    {.name = "too small", .inputs = "f32[5]", .attrs = "begin=3 size=7", .refused = "leave"},
};
const brim_op brim_op_slice_bwd = {.name = "slice_bwd",
                                   .doc = "dx[begin : : step] = dy along `axis`, zero elsewhere",
                                   .min_in = 1,
                                   .max_in = 1,
                                   .n_out = 1,
                                   .layout = BRIM_LAYOUT_SAME,
                                   .amp = BRIM_AMP_KEEP,
                                   .infer = slice_bwd_infer,
                                   .grad = slice_bwd_grad,
                                   .cost = move_cost,
                                   .ref = slice_bwd_ref,
                                   BRIM_CASES(slice_bwd_cases)};

/* pad */
static brim_status pad_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    int64_t axis, before = brim_attr_int(n, "before", 0), after = brim_attr_int(n, "after", 0);
    brim_shape s = n->in[0]->shape;
    BRIM_TRY(want_axis(n, &axis, err));
    if (before < 0 || after < 0 || __builtin_add_overflow(s.dim[axis], before, &s.dim[axis]) ||
        __builtin_add_overflow(s.dim[axis], after, &s.dim[axis]) || brim_shape_count(&s) < 0)
        return brim_fail(err, BRIM_ESHAPE, "padding is negative or too large");
    brim_out_set(n, 0, n->in[0]->dtype, &s);
    return BRIM_OK;
}

static void pad_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    int axis = (int)brim_attr_int(n, "axis", 0);
    int64_t count = brim_tensor_count(&in[0]);
    brim_tensor part = out[0];
    part.shape = in[0].shape;
    int64_t begin = brim_attr_int(n, "before", 0) * part.stride[axis];
    fill_zero(&out[0]);
    for (int64_t i = 0; i < count; i++)
        brim_tensor_set(&part, brim_tensor_offset(&part, i) + begin, brim_tensor_at(&in[0], i));
}

static brim_status pad_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                            const bool *need, brim_value **din)
{
    int axis = (int)brim_attr_int(n, "axis", 0);
    if (need[0])
        din[0] = brim_slice(g, dout[0], axis, brim_attr_int(n, "before", 0),
                            n->in[0]->shape.dim[axis], 1);
    return brim_graph_check(g, NULL);
}

static const brim_case pad_cases[] = {
    {.name = "width", .inputs = "f32[2,3,4,5]", .attrs = "axis=3 before=1 after=2"},
    {.name = "channels", .inputs = "f32[2,3,4,5]", .attrs = "axis=1 after=5"},
    {.name = "nothing", .inputs = "f32[0,3]", .attrs = "axis=0 before=2"},
    {.name = "negative", .inputs = "f32[5]", .attrs = "before=-1", .refused = "negative"},
    {.name = "no axis", .inputs = "f32[5]", .attrs = "axis=1", .refused = "no axis 1"},
};
const brim_op brim_op_pad = {.name = "pad",
                             .doc = "y = x with `before` and `after` zeros along `axis`",
                             .min_in = 1,
                             .max_in = 1,
                             .n_out = 1,
                             .layout = BRIM_LAYOUT_SAME,
                             .amp = BRIM_AMP_KEEP,
                             .infer = pad_infer,
                             .grad = pad_grad,
                             .cost = move_cost,
                             .ref = pad_ref,
                             BRIM_CASES(pad_cases)};

brim_value *brim_pad(brim_graph *g, brim_value *x, int axis, int64_t before, int64_t after)
{
    return BRIM_EMIT(g, &brim_op_pad, NULL, ((brim_value *[]){x}), BRIM_INT("axis", axis),
                     BRIM_INT("before", before), BRIM_INT("after", after));
}
