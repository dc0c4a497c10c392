/* Reductions over axes, and broadcasting, which is the gradient of a sum. */
#include "ops/ops.h"

#include <math.h>

/* x: the shape that is reduced. */
static unsigned axes_of(const brim_node *n, const brim_shape *x)
{
    unsigned all = (1u << x->rank) - 1, axes = (unsigned)brim_attr_int(n, "axes", 0);
    return axes ? axes : all;
}

/* x with reduced axes as 1. */
static brim_shape kept_shape(const brim_node *n, const brim_shape *x)
{
    brim_shape s = *x;
    unsigned axes = axes_of(n, x);
    for (int k = 0; k < s.rank; k++)
        if (axes >> k & 1) s.dim[k] = 1;
    return s;
}

static brim_status reduce_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(brim_want_real(n, 0, err));
    const brim_shape *x = &n->in[0]->shape;
    unsigned axes = axes_of(n, x);
    if (axes >> x->rank)
        return brim_fail(err, BRIM_EINVAL, "axes beyond the %d dimensions", x->rank);
    brim_shape s = kept_shape(n, x), dropped = {0};
    if (!brim_attr_int(n, "keep", 0)) {
        for (int k = 0; k < s.rank; k++)
            if (!(axes >> k & 1)) dropped.dim[dropped.rank++] = s.dim[k];
        s = dropped;
    }
    brim_out_set(n, 0, n->in[0]->dtype, &s);
    return BRIM_OK;
}

/* A result's memory seen with the reduced axes as 1. */
static brim_tensor kept_view(const brim_node *n, const brim_shape *x, const brim_tensor *result)
{
    brim_tensor o = *result;
    o.shape = *x;
    unsigned axes = axes_of(n, x);
    for (int k = 0, j = 0; k < o.shape.rank; k++) {
        bool reduced = axes >> k & 1, dropped = reduced && result->shape.rank != o.shape.rank;
        if (reduced) o.shape.dim[k] = 1;
        o.stride[k] = dropped ? 0 : result->stride[j];
        j += !dropped;
    }
    return o;
}

/* Sum, or maximum (NaN wins), of x over the axes, times `scale`. */
static void reduce(const brim_node *n, const brim_tensor *in, const brim_tensor *out, bool max,
                   double scale)
{
    brim_tensor o = kept_view(n, &in->shape, out);
    int64_t count = brim_tensor_count(in), results = brim_tensor_count(&o);
    for (int64_t r = 0; r < results; r++) {
        int64_t at = brim_tensor_offset(&o, r);
        double sum = max ? -INFINITY : 0;
        for (int64_t i = 0; i < count; i++) {
            if (brim_tensor_offset_broadcast(&o, &in->shape, i) != at) continue;
            double x = brim_tensor_at(in, i);
            if (!max)
                sum += x;
            else if (!(x <= sum)) /* once NaN, always: nothing compares to it */
                sum = sum != sum ? sum : x;
        }
        brim_tensor_set(out, at, sum * scale);
    }
}

static void reduce_sum_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    reduce(n, in, out, false, 1);
}

/* dy as it was before the reduction dropped and summed axes: repeated to the input's shape. */
static brim_value *spread(brim_graph *g, const brim_node *n, brim_value *dy)
{
    brim_shape kept = kept_shape(n, &n->in[0]->shape), to = n->in[0]->shape;
    dy = brim_reshape(g, dy, kept.rank, kept.dim);
    brim_attr shape = {.key = "shape", .n = to.rank};
    for (int k = 0; k < to.rank; k++) shape.i[k] = to.dim[k];
    return BRIM_EMIT(g, &brim_op_broadcast_to, NULL, ((brim_value *[]){dy}), shape);
}

static brim_status reduce_sum_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                   const bool *need, brim_value **din)
{
    if (need[0]) din[0] = spread(g, n, dout[0]);
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

/* reduce_mean */
static double share(const brim_node *n)
{
    brim_shape kept = kept_shape(n, &n->in[0]->shape);
    return (double)brim_shape_count(&kept) / (double)brim_shape_count(&n->in[0]->shape);
}

static brim_status reduce_some_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    BRIM_TRY(reduce_infer(g, n, err));
    brim_shape kept = kept_shape(n, &n->in[0]->shape);
    if (brim_shape_count(&n->in[0]->shape) == 0 && brim_shape_count(&kept) != 0)
        return brim_fail(err, BRIM_ESHAPE, "there is nothing to reduce");
    return BRIM_OK;
}

static void reduce_mean_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    reduce(n, in, out, false, share(n));
}

static brim_status reduce_mean_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                    const bool *need, brim_value **din)
{
    if (need[0]) din[0] = spread(g, n, brim_affine(g, dout[0], share(n), 0));
    return brim_graph_check(g, NULL);
}

static const brim_case reduce_some_cases[] = {
    {.name = "all", .inputs = "f32[2,3,4]"},
    {.name = "channel", .inputs = "f32[2,3,4,5]", .attrs = "axes=13"},
    {.name = "channel kept", .inputs = "f32[2,3,4,5]", .attrs = "axes=13 keep=1"},
    {.name = "rows", .inputs = "f32[7,5]", .attrs = "axes=2"},
    {.name = "columns", .inputs = "f32[7,5]", .attrs = "axes=1"},
    {.name = "no rows", .inputs = "f32[0,5]", .attrs = "axes=2"},
    {.name = "nothing", .inputs = "f32[0,5]", .attrs = "axes=1", .refused = "nothing to reduce"},
    {.name = "axis too high", .inputs = "f32[7,5]", .attrs = "axes=4", .refused = "axes beyond"},
};

const brim_op brim_op_reduce_mean = {.name = "reduce_mean",
                                     .doc = "y = mean of x over axes (bit mask; 0: all)",
                                     .min_in = 1,
                                     .max_in = 1,
                                     .n_out = 1,
                                     .infer = reduce_some_infer,
                                     .ref = reduce_mean_ref,
                                     .grad = reduce_mean_grad,
                                     .cost = reduce_cost,
                                     .layout = BRIM_LAYOUT_SAME,
                                     .amp = BRIM_AMP_FLOAT,
                                     .amp_in = 1,
                                     BRIM_CASES(reduce_some_cases)};

brim_value *brim_reduce_mean(brim_graph *g, brim_value *x, unsigned axes, bool keep)
{
    if (axes == 0 && x && x->shape.rank == 0) return x;
    return BRIM_EMIT(g, &brim_op_reduce_mean, NULL, ((brim_value *[]){x}), BRIM_INT("axes", axes),
                     BRIM_INT("keep", keep));
}

/* reduce_max */
static void reduce_max_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    reduce(n, in, out, true, 1);
}

static brim_status reduce_max_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                   const bool *need, brim_value **din)
{
    brim_value *in[] = {dout[0], n->in[0], n->out[0]};
    brim_attr axes = BRIM_INT("axes", brim_attr_int(n, "axes", 0));
    if (need[0]) din[0] = brim_emit1(g, &brim_op_reduce_max_bwd, NULL, in, 3, &axes, 1);
    return brim_graph_check(g, NULL);
}

const brim_op brim_op_reduce_max = {.name = "reduce_max",
                                    .doc = "y = maximum of x over axes (bit mask; 0: all)",
                                    .min_in = 1,
                                    .max_in = 1,
                                    .n_out = 1,
                                    .infer = reduce_some_infer,
                                    .ref = reduce_max_ref,
                                    .grad = reduce_max_grad,
                                    .cost = reduce_cost,
                                    .layout = BRIM_LAYOUT_SAME,
                                    .amp = BRIM_AMP_FLOAT,
                                    .amp_in = 1,
                                    BRIM_CASES(reduce_some_cases)};

brim_value *brim_reduce_max(brim_graph *g, brim_value *x, unsigned axes, bool keep)
{
    if (axes == 0 && x && x->shape.rank == 0) return x;
    return BRIM_EMIT(g, &brim_op_reduce_max, NULL, ((brim_value *[]){x}), BRIM_INT("axes", axes),
                     BRIM_INT("keep", keep));
}

/* reduce_max_bwd(dy, x, y): dy and y with the reduced axes dropped or as 1. */
static brim_status reduce_max_bwd_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    const brim_shape *x = &n->in[1]->shape;
    if (axes_of(n, x) >> x->rank)
        return brim_fail(err, BRIM_EINVAL, "axes beyond the %d dimensions", x->rank);
    brim_shape kept = kept_shape(n, x);
    for (int k = 0; k < 3; k++) {
        BRIM_TRY(brim_want_real(n, k, err));
        if (k != 1 && brim_shape_count(&n->in[k]->shape) != brim_shape_count(&kept))
            return brim_fail(err, BRIM_ESHAPE, "input %d is not a maximum of input 1", k);
    }
    brim_out_set(n, 0, n->in[0]->dtype, x);
    return BRIM_OK;
}

static void reduce_max_bwd_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    const brim_shape *s = &in[1].shape;
    brim_tensor dy = kept_view(n, s, &in[0]), y = kept_view(n, s, &in[2]);
    int64_t count = brim_tensor_count(&in[1]), results = brim_tensor_count(&y);
    for (int64_t r = 0; r < results; r++) {
        int64_t at = brim_tensor_offset(&y, r), ties = 0;
        double max = brim_tensor_get(&y, at), d = brim_tensor_at(&dy, r);
        for (int64_t i = 0; i < count; i++)
            ties +=
                brim_tensor_offset_broadcast(&y, s, i) == at && brim_tensor_at(&in[1], i) == max;
        for (int64_t i = 0; i < count; i++)
            if (brim_tensor_offset_broadcast(&y, s, i) == at)
                brim_tensor_put(&out[0], i,
                                brim_tensor_at(&in[1], i) == max ? d / (double)ties : 0);
    }
}

static void reduce_max_bwd_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 2 * (double)brim_shape_count(&n->in[1]->shape);
}

static const brim_case reduce_max_bwd_cases[] = {
    {.name = "rows", .inputs = "f32[7] f32[7,5] f32[7]", .attrs = "axes=2"},
    {.name = "channel", .inputs = "f32[3] f32[2,3,4,5] f32[3]", .attrs = "axes=13"},
    {.name = "kept", .inputs = "f32[7,1] f32[7,5] f32[7,1]", .attrs = "axes=2"},
    {.name = "no maximum",
     .inputs = "f32[7] f32[7,5] f32[5]",
     .attrs = "axes=2",
     .refused = "input 2 is not a maximum"},
};

const brim_op brim_op_reduce_max_bwd = {.name = "reduce_max_bwd",
                                        .doc =
                                            "dx = x == y ? dy / (number of such x) : 0, over axes",
                                        .min_in = 3,
                                        .max_in = 3,
                                        .n_out = 1,
                                        .infer = reduce_max_bwd_infer,
                                        .ref = reduce_max_bwd_ref,
                                        .cost = reduce_max_bwd_cost,
                                        .layout = BRIM_LAYOUT_SAME,
                                        .amp = BRIM_AMP_FLOAT,
                                        .amp_in = 7,
                                        BRIM_CASES(reduce_max_bwd_cases)};

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
