/* What the training step adds around a model's graph: the gradient of the loss, and the
 * accumulation of gradients over micro-batches. */
#include "ops/ops.h"

static brim_status want_vector(const brim_node *n, int input, int64_t count, brim_error *err)
{
    BRIM_TRY(brim_want_real(n, input, err));
    BRIM_TRY(brim_want_rank(n, input, 1, err));
    return brim_want_dim(n, input, 0, count, err);
}

static brim_status loss_seed_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(want_vector(n, 0, BRIM_STEP_COUNT, err));
    BRIM_TRY(want_vector(n, 1, BRIM_SCALER_COUNT, err));
    brim_shape scalar = {0};
    brim_out_set(n, 0, brim_dtype_accum(n->in[1]->dtype), &scalar);
    return BRIM_OK;
}

static void loss_seed_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    (void)n;
    brim_tensor_set(&out[0], 0,
                    brim_tensor_at(&in[1], BRIM_SCALER_SCALE) *
                        brim_tensor_at(&in[0], BRIM_STEP_INV_WINDOW));
}

static const brim_case loss_seed_cases[] = {
    {.name = "usual", .inputs = "f32[8] f32[8]"},
    {.name = "short", .inputs = "f32[8] f32[7]", .refused = "wants 8 in dimension 0"},
};
const brim_op brim_op_loss_seed = {
    .name = "loss_seed",
    .doc = "y = scaler[SCALE] step[INV_WINDOW]: the gradient of the loss",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .no_grad_in = 3,
    .layout = BRIM_LAYOUT_SAME,
    .amp = BRIM_AMP_KEEP,
    .infer = loss_seed_infer,
    .ref = loss_seed_ref,
    BRIM_CASES(loss_seed_cases)};

/* accumulate(acc, g, step) */
static brim_status accumulate_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    char a[128], b[128];
    BRIM_TRY(brim_want_real(n, 0, err));
    BRIM_TRY(brim_want_real(n, 1, err));
    BRIM_TRY(want_vector(n, 2, BRIM_STEP_COUNT, err));
    if (!brim_shape_equal(&n->in[0]->shape, &n->in[1]->shape))
        return brim_fail(err, BRIM_ESHAPE, "a sum of shape %s cannot take a gradient of shape %s",
                         brim_shape_text(a, &n->in[0]->shape),
                         brim_shape_text(b, &n->in[1]->shape));
    return BRIM_OK;
}

static void accumulate_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    (void)n, (void)out;
    bool first = brim_tensor_at(&in[2], BRIM_STEP_ACC_BETA) == 0;
    int64_t count = brim_tensor_count(&in[0]);
    for (int64_t i = 0; i < count; i++) {
        double g = brim_tensor_at(&in[1], i);
        brim_tensor_put(&in[0], i, first ? g : brim_tensor_at(&in[0], i) + g);
    }
}

static void accumulate_cost(const brim_node *n, brim_cost *c)
{
    c->flops += (double)brim_shape_count(&n->in[0]->shape);
}

static const brim_case accumulate_cases[] = {
    {.name = "matrix", .inputs = "f32[5,7] f32[5,7] f32[8]"},
    {.name = "weight", .inputs = "f32[4,3,3,3] f32[4,3,3,3] f32[8]"},
    {.name = "half gradient", .inputs = "f32[33] bf16[33] f32[8]"},
    {.name = "empty", .inputs = "f32[0] f32[0] f32[8]"},
    {.name = "shapes differ", .inputs = "f32[5] f32[6] f32[8]", .refused = "cannot take"},
};
const brim_op brim_op_accumulate = {.name = "accumulate",
                                    .doc = "acc = step[ACC_BETA] == 0 ? g : acc + g, in place",
                                    .min_in = 3,
                                    .max_in = 3,
                                    .n_out = 0,
                                    .mutates = 1,
                                    .no_grad_in = 7,
                                    .layout = BRIM_LAYOUT_SAME,
                                    .amp = BRIM_AMP_KEEP,
                                    .infer = accumulate_infer,
                                    .cost = accumulate_cost,
                                    .ref = accumulate_ref,
                                    BRIM_CASES(accumulate_cases)};
