/* Reductions over axes, and broadcasting, which is the gradient of a sum. */
#include "ops/ops.h"

static unsigned axes_of(const brim_node *n)
{
    unsigned all = (1u << n->in[0]->shape.rank) - 1, axes = (unsigned)brim_attr_int(n, "axes", 0);
    return axes ? axes : all;
}

/* The input's shape with reduced axes as 1. */
static brim_shape kept_shape(const brim_node *n)
{
    brim_shape s = n->in[0]->shape;
    unsigned axes = axes_of(n);
    for (int k = 0; k < s.rank; k++)
        if (axes >> k & 1) s.dim[k] = 1;
    return s;
}

static brim_status reduce_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(brim_want_real(n, 0, err));
    const brim_shape *x = &n->in[0]->shape;
    unsigned axes = axes_of(n);
    if (axes >> x->rank)
        return brim_fail(err, BRIM_EINVAL, "axes beyond the %d dimensions", x->rank);
    brim_shape s = kept_shape(n), dropped = {0};
    if (!brim_attr_int(n, "keep", 0)) {
        for (int k = 0; k < s.rank; k++)
            if (!(axes >> k & 1)) dropped.dim[dropped.rank++] = s.dim[k];
        s = dropped;
    }
    brim_out_set(n, 0, n->in[0]->dtype, &s);
    return BRIM_OK;
}

static void reduce_sum_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    brim_shape kept = kept_shape(n);
    /* The output's memory seen with the reduced axes as 1. */
    brim_tensor o = *out;
    o.shape = kept;
    for (int k = 0, j = 0; k < kept.rank; k++) {
        bool dropped = out->shape.rank != kept.rank && axes_of(n) >> k & 1;
        o.stride[k] = dropped ? 0 : out->stride[j];
        j += !dropped;
    }
    int64_t count = brim_tensor_count(in), results = brim_shape_count(&kept);
    for (int64_t r = 0; r < results; r++) {
        int64_t at = brim_tensor_offset(&o, r);
        double sum = 0;
        for (int64_t i = 0; i < count; i++)
            if (brim_tensor_offset_broadcast(&o, &in->shape, i) == at)
                sum += brim_tensor_get(in, brim_tensor_offset(in, i));
        brim_tensor_set(out, at, sum);
    }
}

static brim_status reduce_sum_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                   const bool *need, brim_value **din)
{
    if (!need[0]) return BRIM_OK;
    brim_shape kept = kept_shape(n), to = n->in[0]->shape;
    brim_value *dy = brim_reshape(g, dout[0], kept.rank, kept.dim);
    brim_attr shape = {.key = "shape", .n = to.rank};
    for (int k = 0; k < to.rank; k++) shape.i[k] = to.dim[k];
    din[0] = BRIM_EMIT(g, &brim_op_broadcast_to, NULL, ((brim_value *[]){dy}), shape);
    return brim_graph_check(g, NULL);
}

static void reduce_cost(const brim_node *n, brim_cost *c)
{
    c->flops += (double)brim_shape_count(&n->in[0]->shape);
}

static const brim_case reduce_cases[] = {
    {.name = "all", .inputs = "f32[2,3,4]"},
    {.name = "channel", .inputs = "f32[2,3,4,5]", .attrs = "axes=13"},
    {.name = "channel kept", .inputs = "f32[2,3,4,5]", .attrs = "axes=13 keep=1"},
    {.name = "rows", .inputs = "f32[7,5]", .attrs = "axes=2"},
    {.name = "columns", .inputs = "f32[7,5]", .attrs = "axes=1"},
    {.name = "axis too high", .inputs = "f32[7,5]", .attrs = "axes=4", .refused = "axes beyond"},
};

const brim_op brim_op_reduce_sum = {.name = "reduce_sum",
                                    .doc = "y = sum of x over axes (bit mask; 0: all)",
                                    .min_in = 1,
                                    .max_in = 1,
                                    .n_out = 1,
                                    .infer = reduce_infer,
                                    .ref = reduce_sum_ref,
                                    .grad = reduce_sum_grad,
                                    .cost = reduce_cost,
                                    .layout = BRIM_LAYOUT_SAME,
                                    .amp = BRIM_AMP_FLOAT,
                                    .amp_in = 1,
                                    BRIM_CASES(reduce_cases)};

brim_value *brim_reduce_sum(brim_graph *g, brim_value *x, unsigned axes, bool keep)
{
    if (axes == 0 && x && x->shape.rank == 0) return x;
    return BRIM_EMIT(g, &brim_op_reduce_sum, NULL, ((brim_value *[]){x}), BRIM_INT("axes", axes),
                     BRIM_INT("keep", keep));
}

/* broadcast_to */
static brim_status broadcast_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    const brim_attr *a = brim_attr_find(n, "shape");
    brim_shape to = {.rank = a ? a->n : 0}, s;
    for (int k = 0; k < to.rank && k < BRIM_MAX_RANK; k++) to.dim[k] = a->i[k];
    if (!brim_shape_broadcast(&n->in[0]->shape, &to, &s) || !brim_shape_equal(&s, &to))
        return brim_fail(err, BRIM_ESHAPE, "the input does not broadcast to the shape asked for");
    brim_out_set(n, 0, n->in[0]->dtype, &to);
    return BRIM_OK;
}

static void broadcast_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    (void)n;
    int64_t count = brim_tensor_count(out);
    for (int64_t i = 0; i < count; i++)
        brim_tensor_set(out, brim_tensor_offset(out, i),
                        brim_tensor_get(in, brim_tensor_offset_broadcast(in, &out->shape, i)));
}

static brim_status broadcast_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                  const bool *need, brim_value **din)
{
    if (need[0]) din[0] = brim_emit_reduce_to(g, dout[0], n->in[0]);
    return brim_graph_check(g, NULL);
}

static const brim_case broadcast_cases[] = {
    {.name = "channel", .inputs = "f32[1,3,1,1]", .attrs = "shape=2,3,4,5"},
    {.name = "rank", .inputs = "f32[3]", .attrs = "shape=2,3"},
    {.name = "no fit", .inputs = "f32[3]", .attrs = "shape=2,4", .refused = "does not broadcast"},
};

const brim_op brim_op_broadcast_to = {.name = "broadcast_to",
                                      .doc = "y = x repeated to `shape`",
                                      .min_in = 1,
                                      .max_in = 1,
                                      .n_out = 1,
                                      .infer = broadcast_infer,
                                      .ref = broadcast_ref,
                                      .grad = broadcast_grad,
                                      .layout = BRIM_LAYOUT_SAME,
                                      .amp = BRIM_AMP_KEEP,
                                      BRIM_CASES(broadcast_cases)};
