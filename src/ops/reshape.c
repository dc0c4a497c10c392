/* reshape: the same elements in row-major order under another shape. */
#include "ops/ops.h"

static brim_status reshape_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    const brim_attr *a = brim_attr_find(n, "shape");
    brim_shape s = {.rank = a ? a->n : 0};
    int64_t known = 1, count = brim_shape_count(&n->in[0]->shape);
    int open = -1;
    if (s.rank > BRIM_MAX_RANK) return brim_fail(err, BRIM_ESHAPE, "too many dimensions");
    for (int k = 0; k < s.rank; k++) {
        s.dim[k] = a->i[k];
        if (s.dim[k] == -1 && open < 0)
            open = k;
        else if (s.dim[k] < 0 || __builtin_mul_overflow(known, s.dim[k], &known))
            return brim_fail(err, BRIM_ESHAPE, "a dimension is negative or too large");
    }
    if (open >= 0) s.dim[open] = known ? count / known : 0;
    if (brim_shape_count(&s) != count) {
        char from[128], to[128];
        return brim_fail(err, BRIM_ESHAPE, "%s cannot become %s (element counts differ)",
                         brim_shape_text(from, &n->in[0]->shape), brim_shape_text(to, &s));
    }
    brim_out_set(n, 0, n->in[0]->dtype, &s);
    return BRIM_OK;
}

static void reshape_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    (void)n;
    int64_t count = brim_tensor_count(out);
    for (int64_t i = 0; i < count; i++)
        brim_tensor_set(out, brim_tensor_offset(out, i),
                        brim_tensor_get(in, brim_tensor_offset(in, i)));
}

static brim_status reshape_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                const bool *need, brim_value **din)
{
    if (need[0]) din[0] = brim_reshape(g, dout[0], n->in[0]->shape.rank, n->in[0]->shape.dim);
    return brim_graph_check(g, NULL);
}

static const brim_case reshape_cases[] = {
    {.name = "flatten", .inputs = "f32[2,3,4]", .attrs = "shape=2,-1"},
    {.name = "split", .inputs = "f32[6,4]", .attrs = "shape=2,3,2,2"},
    {.name = "counts differ",
     .inputs = "f32[6,4]",
     .attrs = "shape=5,5",
     .refused = "element counts differ"},
};

const brim_op brim_op_reshape = {.name = "reshape",
                                 .doc = "y = x in row-major order under `shape`",
                                 .min_in = 1,
                                 .max_in = 1,
                                 .n_out = 1,
                                 .inplace = 1,
                                 .infer = reshape_infer,
                                 .ref = reshape_ref,
                                 .grad = reshape_grad,
                                 .layout = BRIM_LAYOUT_PLAIN,
                                 .amp = BRIM_AMP_KEEP,
                                 BRIM_CASES(reshape_cases)};

brim_value *brim_reshape(brim_graph *g, brim_value *x, int rank, const int64_t *dim)
{
    if (!x || rank > BRIM_MAX_RANK)
        return brim_graph_fail(g, BRIM_ESHAPE, "reshape: too many dimensions");
    brim_shape s = brim_shape_make(rank, dim);
    if (brim_shape_equal(&s, &x->shape)) return x;
    brim_attr shape = {.key = "shape", .n = rank};
    for (int k = 0; k < rank; k++) shape.i[k] = dim[k];
    return BRIM_EMIT(g, &brim_op_reshape, NULL, ((brim_value *[]){x}), shape);
}

brim_value *brim_flatten(brim_graph *g, brim_value *x, int from)
{
    if (!x) return NULL;
    if (from < 0 || from >= x->shape.rank)
        return brim_graph_fail(g, BRIM_ESHAPE, "flatten: there is no dimension %d", from);
    int64_t dim[BRIM_MAX_RANK];
    for (int k = 0; k < from; k++) dim[k] = x->shape.dim[k];
    dim[from] = -1;
    return brim_reshape(g, x, from + 1, dim);
}
