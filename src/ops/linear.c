/* Fully connected layer and its two gradients. x [...,K], w [O,K]; rows are the leading dimensions
 * of x taken together. */
#include "ops/ops.h"

static int64_t last(const brim_shape *s)
{
    return s->dim[s->rank - 1];
}

static brim_status want_rows(const brim_node *n, int input, brim_error *err)
{
    BRIM_TRY(brim_want_real(n, input, err));
    if (n->in[input]->shape.rank && last(&n->in[input]->shape)) return BRIM_OK;
    return brim_fail(err, BRIM_ESHAPE, "input %d has no features (a last dimension)", input);
}

static brim_status linear_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(want_rows(n, 0, err));
    BRIM_TRY(brim_want_rank(n, 1, 2, err));
    BRIM_TRY(brim_want_type(n, 1, n->in[0]->dtype, err));
    const brim_shape *w = &n->in[1]->shape;
    brim_shape y = n->in[0]->shape;
    char text[128];
    if (last(w) != last(&y))
        return brim_fail(err, BRIM_ESHAPE, "weight %s wants %lld features, got %lld",
                         brim_shape_text(text, w), (long long)last(w), (long long)last(&y));
    if (!w->dim[0]) return brim_fail(err, BRIM_ESHAPE, "weight has no outputs");
    if (n->n_in > 2 && n->in[2]) {
        BRIM_TRY(brim_want_rank(n, 2, 1, err));
        BRIM_TRY(brim_want_dim(n, 2, 0, w->dim[0], err));
        if (n->in[2]->dtype != n->in[0]->dtype) /* a half layer may keep its bias in float */
            BRIM_TRY(brim_want_type(n, 2, brim_dtype_accum(n->in[0]->dtype), err));
    }
    y.dim[y.rank - 1] = w->dim[0];
    brim_out_set(n, 0, n->in[0]->dtype, &y);
    return BRIM_OK;
}

static double at2(const brim_tensor *t, int64_t row, int64_t column)
{
    return brim_tensor_get(t, row * t->stride[0] + column * t->stride[1]);
}

static double at_row(const brim_tensor *t, int64_t row, int64_t column)
{
    return brim_tensor_get(t, brim_tensor_offset(t, row * last(&t->shape) + column));
}

static void set_row(const brim_tensor *t, int64_t row, int64_t column, double x)
{
    brim_tensor_set(t, brim_tensor_offset(t, row * last(&t->shape) + column), x);
}

static int64_t rows_of(const brim_shape *s)
{
    int64_t rows = 1;
    for (int k = 0; k + 1 < s->rank; k++) rows *= s->dim[k];
    return rows;
}

static void linear_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    const brim_tensor *x = &in[0], *w = &in[1];
    bool bias = n->n_in > 2 && in[2].data, relu = brim_attr_int(n, "act", 0);
    for (int64_t r = 0; r < rows_of(&x->shape); r++)
        for (int64_t o = 0; o < w->shape.dim[0]; o++) {
            double sum = bias ? brim_tensor_get(&in[2], o * in[2].stride[0]) : 0;
            for (int64_t k = 0; k < last(&x->shape); k++) sum += at_row(x, r, k) * at2(w, o, k);
            set_row(out, r, o, relu && sum < 0 ? 0 : sum);
        }
}

static brim_status linear_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                               const bool *need, brim_value **din)
{
    brim_value *dy = dout[0];
    if (brim_attr_int(n, "act", 0))
        dy = brim_emit1(g, &brim_op_relu_bwd, NULL, (brim_value *[]){dy, n->out[0]}, 2, NULL, 0);
    if (need[0])
        din[0] = brim_emit1(g, &brim_op_linear_bwd_data, NULL, (brim_value *[]){dy, n->in[1]}, 2,
                            NULL, 0);
    bool bias = n->n_in > 2 && n->in[2] && need[2];
    if (need[1] || bias) {
        brim_node *d = brim_emit(g, &brim_op_linear_bwd_weight, NULL,
                                 (brim_value *[]){dy, n->in[0]}, 2, NULL, 0);
        if (d && need[1]) din[1] = d->out[0];
        if (d && bias) din[2] = d->out[1];
    }
    return brim_graph_check(g, NULL);
}

static void linear_cost(const brim_node *n, brim_cost *c)
{
    double y = (double)brim_shape_count(&n->out[0]->shape);
    c->flops += 2 * y * (double)last(&n->in[1]->shape) + (n->n_in > 2 && n->in[2] ? y : 0);
}

static const brim_case linear_cases[] = {
    {.name = "bias", .inputs = "f32[3,5] f32[4,5] f32[4]"},
    {.name = "no bias", .inputs = "f32[3,5] f32[4,5] -"},
    {.name = "two inputs", .inputs = "f32[3,5] f32[4,5]"},
    {.name = "one row", .inputs = "f32[5] f32[4,5] f32[4]"},
    {.name = "tokens", .inputs = "f32[2,3,5] f32[4,5] f32[4]"},
    {.name = "image rows", .inputs = "f32[2,3,2,5] f32[4,5] f32[4]"},
    {.name = "odd sizes", .inputs = "f32[17,33] f32[19,33] f32[19]"},
    {.name = "relu", .inputs = "f32[3,5] f32[4,5] f32[4]", .attrs = "act=1"},
    {.name = "relu without bias", .inputs = "f32[3,5] f32[4,5]", .attrs = "act=1"},
    {.name = "empty batch", .inputs = "f32[0,5] f32[4,5] f32[4]"},
    {.name = "features",
     .inputs = "f32[3,256] f32[10,512]",
     .refused = "weight [10,512] wants 512 features, got 256"},
    {.name = "no features", .inputs = "f32[3,0] f32[10,0]", .refused = "has no features"},
    {.name = "scalar", .inputs = "f32[] f32[10,1]", .refused = "has no features"},
    {.name = "no outputs", .inputs = "f32[3,5] f32[0,5]", .refused = "has no outputs"},
    {.name = "weight rank", .inputs = "f32[3,5] f32[5]", .refused = "wants 2 dimensions"},
    {.name = "bias size", .inputs = "f32[3,5] f32[4,5] f32[5]", .refused = "wants 4 in"},
    {.name = "types differ", .inputs = "f32[3,5] f16[4,5]", .refused = "wants f32"},
    {.name = "bias type", .inputs = "f32[3,5] f32[4,5] f16[4]", .refused = "input 2 is f16"},
    {.name = "integers", .inputs = "i32[3,5] f32[4,5]", .refused = "cast it first"},
};

const brim_op brim_op_linear = {.name = "linear",
                                .doc = "y = act(x w^T + bias)",
                                .min_in = 2,
                                .max_in = 3,
                                .n_out = 1,
                                .optional_in = 4,
                                .infer = linear_infer,
                                .grad = linear_grad,
                                .cost = linear_cost,
                                .ref = linear_ref,
                                .layout = BRIM_LAYOUT_PLAIN,
                                .amp = BRIM_AMP_HALF,
                                .amp_in = 3,
                                BRIM_CASES(linear_cases)};

brim_value *brim_linear(brim_graph *g, brim_value *x, brim_value *w, brim_value *bias)
{
    return brim_emit1(g, &brim_op_linear, NULL, (brim_value *[]){x, w, bias}, 3, NULL, 0);
}

/* linear_bwd_data */
static brim_status bwd_data_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(want_rows(n, 0, err));
    BRIM_TRY(want_rows(n, 1, err));
    BRIM_TRY(brim_want_rank(n, 1, 2, err));
    BRIM_TRY(brim_want_type(n, 1, n->in[0]->dtype, err));
    brim_shape dx = n->in[0]->shape;
    BRIM_TRY(brim_want_dim(n, 1, 0, last(&dx), err));
    dx.dim[dx.rank - 1] = last(&n->in[1]->shape);
    brim_out_set(n, 0, n->in[0]->dtype, &dx);
    return BRIM_OK;
}

static void bwd_data_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    (void)n;
    const brim_tensor *dy = &in[0], *w = &in[1];
    for (int64_t r = 0; r < rows_of(&dy->shape); r++)
        for (int64_t k = 0; k < w->shape.dim[1]; k++) {
            double sum = 0;
            for (int64_t o = 0; o < w->shape.dim[0]; o++) sum += at_row(dy, r, o) * at2(w, o, k);
            set_row(out, r, k, sum);
        }
}

static void bwd_data_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 2 * (double)brim_shape_count(&n->in[0]->shape) * (double)last(&n->in[1]->shape);
}

static const brim_case bwd_data_cases[] = {
    {.name = "batch", .inputs = "f32[3,4] f32[4,5]"},
    {.name = "one row", .inputs = "f32[4] f32[4,5]"},
    {.name = "tokens", .inputs = "f32[2,3,4] f32[4,5]"},
    {.name = "odd sizes", .inputs = "f32[17,19] f32[19,33]"},
    {.name = "empty batch", .inputs = "f32[0,4] f32[4,5]"},
    {.name = "outputs", .inputs = "f32[3,5] f32[4,5]", .refused = "wants 5 in dimension 0"},
};

const brim_op brim_op_linear_bwd_data = {.name = "linear_bwd_data",
                                         .doc = "dx = dy w",
                                         .min_in = 2,
                                         .max_in = 2,
                                         .n_out = 1,
                                         .infer = bwd_data_infer,
                                         .cost = bwd_data_cost,
                                         .ref = bwd_data_ref,
                                         .layout = BRIM_LAYOUT_PLAIN,
                                         .amp = BRIM_AMP_HALF,
                                         .amp_in = 3,
                                         BRIM_CASES(bwd_data_cases)};

/* linear_bwd_weight */
static brim_status bwd_weight_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(want_rows(n, 0, err));
    BRIM_TRY(want_rows(n, 1, err));
    BRIM_TRY(brim_want_type(n, 1, n->in[0]->dtype, err));
    const brim_shape *dy = &n->in[0]->shape, *x = &n->in[1]->shape;
    BRIM_TRY(brim_want_rank(n, 1, dy->rank, err));
    for (int k = 0; k + 1 < dy->rank; k++) BRIM_TRY(brim_want_dim(n, 1, k, dy->dim[k], err));
    brim_shape dw = {2, {last(dy), last(x)}}, db = {1, {last(dy)}};
    brim_dtype t = brim_dtype_accum(n->in[0]->dtype);
    brim_out_set(n, 0, t, &dw);
    brim_out_set(n, 1, t, &db);
    return BRIM_OK;
}

static void bwd_weight_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    (void)n;
    const brim_tensor *dy = &in[0], *x = &in[1], *dw = &out[0], *db = &out[1];
    int64_t rows = rows_of(&dy->shape), outputs = last(&dy->shape), features = last(&x->shape);
    for (int64_t o = 0; o < outputs; o++) {
        for (int64_t k = 0; dw->data && k < features; k++) {
            double sum = 0;
            for (int64_t r = 0; r < rows; r++) sum += at_row(dy, r, o) * at_row(x, r, k);
            brim_tensor_set(dw, o * dw->stride[0] + k * dw->stride[1], sum);
        }
        if (!db->data) continue;
        double sum = 0;
        for (int64_t r = 0; r < rows; r++) sum += at_row(dy, r, o);
        brim_tensor_set(db, o * db->stride[0], sum);
    }
}

static void bwd_weight_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 2 * (double)brim_shape_count(&n->in[0]->shape) * (double)last(&n->in[1]->shape);
}

static const brim_case bwd_weight_cases[] = {
    {.name = "batch", .inputs = "f32[3,4] f32[3,5]"},
    {.name = "one row", .inputs = "f32[4] f32[5]"},
    {.name = "tokens", .inputs = "f32[2,3,4] f32[2,3,5]"},
    {.name = "odd sizes", .inputs = "f32[17,19] f32[17,33]"},
    {.name = "empty batch", .inputs = "f32[0,4] f32[0,5]"},
    {.name = "batches", .inputs = "f32[3,4] f32[2,5]", .refused = "wants 3 in dimension 0"},
};

const brim_op brim_op_linear_bwd_weight = {.name = "linear_bwd_weight",
                                           .doc = "dw = dy^T x and dbias = sum of dy, in float",
                                           .min_in = 2,
                                           .max_in = 2,
                                           .n_out = 2,
                                           .infer = bwd_weight_infer,
                                           .cost = bwd_weight_cost,
                                           .ref = bwd_weight_ref,
                                           .layout = BRIM_LAYOUT_PLAIN,
                                           .amp = BRIM_AMP_HALF,
                                           .amp_in = 3,
                                           BRIM_CASES(bwd_weight_cases)};
