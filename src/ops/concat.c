/* concat: values side by side along one axis. */
#include "ops/ops.h"

static brim_status concat_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    brim_shape s = n->in[0]->shape;
    int64_t axis = brim_attr_int(n, "axis", 0), sum = 0;
    char a[128], b[128];
    if (axis < 0 || axis >= s.rank)
        return brim_fail(err, BRIM_ESHAPE, "there is no axis %lld", (long long)axis);
    for (int k = 0; k < n->n_in; k++) {
        brim_shape other = n->in[k]->shape;
        if (n->in[k]->dtype != n->in[0]->dtype)
            return brim_fail(err, BRIM_EDTYPE, "input %d is %s, input 0 %s (cast one)", k,
                             brim_dtype_name(n->in[k]->dtype), brim_dtype_name(n->in[0]->dtype));
        if (other.rank == s.rank) sum += other.dim[axis];
        if (other.rank == s.rank) other.dim[axis] = s.dim[axis];
        if (!brim_shape_equal(&other, &s))
            return brim_fail(err, BRIM_ESHAPE, "shapes %s and %s differ beyond axis %lld",
                             brim_shape_text(a, &s), brim_shape_text(b, &n->in[k]->shape),
                             (long long)axis);
    }
    s.dim[axis] = sum;
    brim_out_set(n, 0, n->in[0]->dtype, &s);
    return BRIM_OK;
}

static void concat_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    int axis = (int)brim_attr_int(n, "axis", 0);
    int64_t begin = 0;
    for (int k = 0; k < n->n_in; k++) {
        brim_tensor part = out[0];
        part.shape = in[k].shape;
        int64_t count = brim_tensor_count(&part);
        for (int64_t i = 0; i < count; i++)
            brim_tensor_set(&part, brim_tensor_offset(&part, i) + begin * part.stride[axis],
                            brim_tensor_at(&in[k], i));
        begin += part.shape.dim[axis];
    }
}

static brim_status concat_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                               const bool *need, brim_value **din)
{
    int axis = (int)brim_attr_int(n, "axis", 0);
    int64_t begin = 0;
    for (int k = 0; k < n->n_in; k++) {
        int64_t count = n->in[k]->shape.dim[axis];
        if (need[k]) din[k] = brim_slice(g, dout[0], axis, begin, count, 1);
        begin += count;
    }
    return brim_graph_check(g, NULL);
}

/* Moves bytes only. */
static void concat_cost(const brim_node *n, brim_cost *c)
{
    (void)n, (void)c;
}

static const brim_case concat_cases[] = {
    {.name = "channels", .inputs = "f32[2,3,4,5] f32[2,1,4,5] f32[2,2,4,5]", .attrs = "axis=1"},
    {.name = "width", .inputs = "f32[2,3,4,5] f32[2,3,4,2]", .attrs = "axis=3"},
    {.name = "rows", .inputs = "f32[2,3] f32[4,3]", .attrs = "axis=0"},
    {.name = "one", .inputs = "f32[2,3]", .attrs = "axis=1"},
    {.name = "empty part", .inputs = "f32[2,3] f32[2,0]", .attrs = "axis=1"},
    {.name = "no axis", .inputs = "f32[2,3]", .attrs = "axis=2", .refused = "no axis 2"},
    {.name = "ranks", .inputs = "f32[2,3] f32[2]", .attrs = "axis=1", .refused = "differ beyond"},
    {.name = "shapes",
     .inputs = "f32[2,3] f32[3,3]",
     .attrs = "axis=1",
     .refused = "differ beyond axis 1"},
    {.name = "types", .inputs = "f32[2] i32[2]", .attrs = "axis=0", .refused = "cast one"},
};
const brim_op brim_op_concat = {.name = "concat",
                                .doc = "y = inputs side by side along `axis`",
                                .min_in = 1,
                                .max_in = -1,
                                .n_out = 1,
                                .layout = BRIM_LAYOUT_SAME,
                                .amp = BRIM_AMP_FOLLOW,
                                .amp_in = ~0u,
                                .infer = concat_infer,
                                .grad = concat_grad,
                                .cost = concat_cost,
                                .ref = concat_ref,
                                BRIM_CASES(concat_cases)};

brim_value *brim_concat(brim_graph *g, brim_value *const *x, int n, int axis)
{
    brim_attr a = BRIM_INT("axis", axis);
    return brim_emit1(g, &brim_op_concat, NULL, x, n, &a, 1);
}
