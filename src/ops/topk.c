/* topk_correct: the metric behind top-1 and top-5 accuracy. */
#include "ops/ops.h"

static brim_status topk_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(brim_want_rank(n, 0, 2, err));
    BRIM_TRY(brim_want_real(n, 0, err));
    BRIM_TRY(brim_want_type(n, 1, BRIM_I32, err));
    for (int k = 1; k < n->n_in; k++) {
        if (!n->in[k]) continue;
        BRIM_TRY(brim_want_rank(n, k, 1, err));
        BRIM_TRY(brim_want_dim(n, k, 0, n->in[0]->shape.dim[0], err));
    }
    if (n->n_in > 2 && n->in[2]) BRIM_TRY(brim_want_real(n, 2, err));
    if (brim_attr_int(n, "k", 1) < 1) return brim_fail(err, BRIM_EINVAL, "k is less than 1");
    brim_shape scalar = {0};
    brim_out_set(n, 0, brim_dtype_accum(n->in[0]->dtype), &scalar);
    return BRIM_OK;
}

/* Whether the label's logit is among the k largest; a NaN there never is. */
static bool row_correct(const brim_tensor *x, int64_t row, int64_t classes, int64_t label,
                        int64_t k)
{
    if (label < 0 || label >= classes) return false;
    double own = brim_tensor_at(x, row * classes + label);
    int64_t before = 0;
    for (int64_t j = 0; j < classes; j++) {
        double v = brim_tensor_at(x, row * classes + j);
        before += v > own || (v == own && j < label);
    }
    return own == own && before < k;
}

static void topk_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    int64_t rows = in[0].shape.dim[0], classes = in[0].shape.dim[1], k = brim_attr_int(n, "k", 1);
    bool weighted = n->n_in > 2 && in[2].data;
    double sum = 0;
    for (int64_t i = 0; i < rows; i++)
        if (row_correct(&in[0], i, classes, (int64_t)brim_tensor_at(&in[1], i), k))
            sum += weighted ? brim_tensor_at(&in[2], i) : 1;
    brim_tensor_set(&out[0], 0, sum);
}

static void topk_cost(const brim_node *n, brim_cost *c)
{
    c->flops += (double)brim_shape_count(&n->in[0]->shape);
}

static const brim_case topk_cases[] = {
    {.name = "top 1", .inputs = "f32[9,4] i32[9]"},
    {.name = "top 5", .inputs = "f32[9,13] i32[9]", .attrs = "k=5"},
    {.name = "more than classes", .inputs = "f32[9,3] i32[9]", .attrs = "k=5"},
    {.name = "weighted", .inputs = "f32[9,4] i32[9] f32[9]", .attrs = "k=2", .positive_in = 4},
    {.name = "labels out of range", .inputs = "f32[9,3] i32[9]", .int_below = 6},
    {.name = "no rows", .inputs = "f32[0,3] i32[0]"},
    {.name = "k", .inputs = "f32[9,3] i32[9]", .attrs = "k=0", .refused = "k is less than 1"},
    {.name = "labels short", .inputs = "f32[9,3] i32[8]", .refused = "wants 9 in dimension 0"},
    {.name = "real labels", .inputs = "f32[9,3] f32[9]", .refused = "wants i32"},
};
const brim_op brim_op_topk_correct = {
    .name = "topk_correct",
    .doc = "y = sum of weight over rows whose label is among the k largest logits (ties: lower "
           "index wins; a NaN never)",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .optional_in = 4,
    .no_grad_in = 7,
    .layout = BRIM_LAYOUT_PLAIN,
    .amp = BRIM_AMP_KEEP,
    .amp_in = 1,
    .infer = topk_infer,
    .cost = topk_cost,
    .ref = topk_ref,
    BRIM_CASES(topk_cases)};

brim_value *brim_topk_correct(brim_graph *g, brim_value *logits, brim_value *label,
                              brim_value *weight, int k)
{
    return BRIM_EMIT(g, &brim_op_topk_correct, NULL, ((brim_value *[]){logits, label, weight}),
                     BRIM_INT("k", k));
}
