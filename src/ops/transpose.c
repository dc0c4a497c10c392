/* transpose: dimensions in another order. */
#include "ops/ops.h"

static brim_status transpose_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    const brim_shape *x = &n->in[0]->shape;
    const brim_attr *perm = brim_attr_find(n, "perm");
    brim_shape s = {.rank = x->rank};
    unsigned seen = 0;
    if (!perm || perm->n != x->rank)
        return brim_fail(err, BRIM_ESHAPE, "perm lists %d dimensions of %d", perm ? perm->n : 0,
                         x->rank);
    for (int k = 0; k < s.rank; k++) {
        if (perm->i[k] < 0 || perm->i[k] >= s.rank || seen >> perm->i[k] & 1)
            return brim_fail(err, BRIM_ESHAPE, "perm is not a permutation of 0 to %d", s.rank - 1);
        seen |= 1u << perm->i[k];
        s.dim[k] = x->dim[perm->i[k]];
    }
    brim_out_set(n, 0, n->in[0]->dtype, &s);
    return BRIM_OK;
}

static void transpose_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    const brim_attr *perm = brim_attr_find(n, "perm");
    brim_tensor x = in[0];
    x.shape = out[0].shape;
    for (int k = 0; k < x.shape.rank; k++) x.stride[k] = in[0].stride[perm->i[k]];
    int64_t count = brim_tensor_count(&out[0]);
    for (int64_t i = 0; i < count; i++) brim_tensor_put(&out[0], i, brim_tensor_at(&x, i));
}

static brim_status transpose_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                  const bool *need, brim_value **din)
{
    const brim_attr *perm = brim_attr_find(n, "perm");
    int inverse[BRIM_MAX_RANK] = {0};
    for (int k = 0; k < perm->n; k++) inverse[perm->i[k]] = k;
    if (need[0]) din[0] = brim_transpose(g, dout[0], perm->n, inverse);
    return brim_graph_check(g, NULL);
}

/* Moves bytes only. */
static void transpose_cost(const brim_node *n, brim_cost *c)
{
    (void)n, (void)c;
}

static const brim_case transpose_cases[] = {
    {.name = "matrix", .inputs = "f32[3,5]", .attrs = "perm=1,0"},
    {.name = "heads", .inputs = "f32[2,5,3,4]", .attrs = "perm=0,2,1,3"},
    {.name = "cycle", .inputs = "f32[2,3,4]", .attrs = "perm=2,0,1"},
    {.name = "empty", .inputs = "f32[0,3]", .attrs = "perm=1,0"},
    {.name = "twice", .inputs = "f32[3,5]", .attrs = "perm=1,1", .refused = "not a permutation"},
    {.name = "short",
     .inputs = "f32[3,5]",
     .attrs = "perm=0",
     .refused = "lists 1 dimensions of 2"},
};
const brim_op brim_op_transpose = {.name = "transpose",
                                   .doc = "dimension k of y is dimension perm[k] of x",
                                   .min_in = 1,
                                   .max_in = 1,
                                   .n_out = 1,
                                   .layout = BRIM_LAYOUT_PLAIN,
                                   .amp = BRIM_AMP_KEEP,
                                   .infer = transpose_infer,
                                   .grad = transpose_grad,
                                   .cost = transpose_cost,
                                   .ref = transpose_ref,
                                   BRIM_CASES(transpose_cases)};

brim_value *brim_transpose(brim_graph *g, brim_value *x, int rank, const int *perm)
{
    if (rank < 0 || rank > BRIM_MAX_RANK)
        return brim_graph_fail(g, BRIM_ESHAPE, "transpose: %d dimensions", rank);
    brim_attr a = {.key = "perm", .n = rank};
    for (int k = 0; k < rank; k++) a.i[k] = perm[k];
    return BRIM_EMIT(g, &brim_op_transpose, NULL, ((brim_value *[]){x}), a);
}
