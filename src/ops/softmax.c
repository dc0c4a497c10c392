/* softmax over the last dimension. */
#include "ops/ops.h"

#include <math.h>

static int64_t row_length(const brim_shape *s)
{
    return s->dim[s->rank - 1];
}

static int64_t row_count(const brim_shape *s)
{
    int64_t rows = 1;
    for (int k = 0; k < s->rank - 1; k++) rows *= s->dim[k];
    return rows;
}

static brim_status softmax_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    char a[128], b[128];
    const brim_shape *s = &n->in[0]->shape;
    for (int k = 0; k < n->n_in; k++) BRIM_TRY(brim_want_real(n, k, err));
    if (s->rank < 1) return brim_fail(err, BRIM_ESHAPE, "a scalar has no last dimension");
    if (n->n_in == 2 && !brim_shape_equal(s, &n->in[1]->shape))
        return brim_fail(err, BRIM_ESHAPE, "shapes %s and %s differ", brim_shape_text(a, s),
                         brim_shape_text(b, &n->in[1]->shape));
    brim_out_set(n, 0, n->in[0]->dtype, s);
    return BRIM_OK;
}

static void softmax_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    (void)n;
    int64_t rows = row_count(&in[0].shape), length = row_length(&in[0].shape);
    for (int64_t r = 0; r < rows; r++) {
        double max = -INFINITY, sum = 0;
        for (int64_t j = r * length; j < (r + 1) * length; j++) {
            double v = brim_tensor_at(&in[0], j);
            if (!(v <= max)) max = v; /* NaN sticks: nothing compares to it */
        }
        for (int64_t j = r * length; j < (r + 1) * length; j++)
            sum += exp(brim_tensor_at(&in[0], j) - max);
        for (int64_t j = r * length; j < (r + 1) * length; j++)
            brim_tensor_put(&out[0], j, exp(brim_tensor_at(&in[0], j) - max) / sum);
    }
}

static brim_status softmax_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                const bool *need, brim_value **din)
{
    brim_value *in[] = {dout[0], n->out[0]};
    if (need[0]) din[0] = brim_emit1(g, &brim_op_softmax_bwd, NULL, in, 2, NULL, 0);
    return brim_graph_check(g, NULL);
}

static void softmax_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 4 * (double)brim_shape_count(&n->in[0]->shape);
}

static const brim_case softmax_cases[] = {
    {.name = "rows", .inputs = "f32[5,7]", .lo = -4, .hi = 4},
    {.name = "attention", .inputs = "f32[2,3,5,5]"},
    {.name = "wide", .inputs = "f32[3,1003]", .lo = -20, .hi = 20},
    {.name = "one row", .inputs = "f32[9]"},
    {.name = "one column", .inputs = "f32[4,1]"},
    {.name = "no rows", .inputs = "f32[0,7]"},
    {.name = "no columns", .inputs = "f32[4,0]"},
    {.name = "scalar", .inputs = "f32[]", .refused = "no last dimension"},
    {.name = "integers", .inputs = "i32[2,2]", .refused = "cast it first"},
};
const brim_op brim_op_softmax = {.name = "softmax",
                                 .doc = "y = e^x / sum e^x over the last dimension",
                                 .min_in = 1,
                                 .max_in = 1,
                                 .n_out = 1,
                                 .inplace = 1,
                                 .layout = BRIM_LAYOUT_PLAIN,
                                 .amp = BRIM_AMP_FLOAT,
                                 .amp_in = 1,
                                 .infer = softmax_infer,
                                 .grad = softmax_grad,
                                 .cost = softmax_cost,
                                 .ref = softmax_ref,
                                 BRIM_CASES(softmax_cases)};

brim_value *brim_softmax(brim_graph *g, brim_value *x)
{
    return brim_emit1(g, &brim_op_softmax, NULL, &x, 1, NULL, 0);
}

/* softmax_bwd(dy, y) */
static void softmax_bwd_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    (void)n;
    int64_t rows = row_count(&in[0].shape), length = row_length(&in[0].shape);
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t j = r * length; j < (r + 1) * length; j++)
            sum += brim_tensor_at(&in[0], j) * brim_tensor_at(&in[1], j);
        for (int64_t j = r * length; j < (r + 1) * length; j++)
            brim_tensor_put(&out[0], j,
                            brim_tensor_at(&in[1], j) * (brim_tensor_at(&in[0], j) - sum));
    }
}

static const brim_case softmax_bwd_cases[] = {
    {.name = "rows", .inputs = "f32[5,7] f32[5,7]"},
    {.name = "attention", .inputs = "f32[2,3,5,5] f32[2,3,5,5]"},
    {.name = "no rows", .inputs = "f32[0,7] f32[0,7]"},
    {.name = "shapes differ", .inputs = "f32[5,7] f32[7,5]", .refused = "differ"},
};
const brim_op brim_op_softmax_bwd = {.name = "softmax_bwd",
                                     .doc = "dx = y (dy - sum dy y)",
                                     .min_in = 2,
                                     .max_in = 2,
                                     .n_out = 1,
                                     .inplace = 3,
                                     .layout = BRIM_LAYOUT_PLAIN,
                                     .amp = BRIM_AMP_FLOAT,
                                     .amp_in = 3,
                                     .infer = softmax_infer,
                                     .cost = softmax_cost,
                                     .ref = softmax_bwd_ref,
                                     BRIM_CASES(softmax_bwd_cases)};
