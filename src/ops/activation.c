/* Activations: relu, silu, gelu, sigmoid, tanh, and their gradients. */
#include "ops/ops.h"

#define POINTWISE(n, text)                                                                         \
    .name = #n, .doc = text, .n_out = 1, .infer = brim_pointwise_infer, .ref = brim_pointwise_ref, \
    .scalar = n##_scalar, .layout = BRIM_LAYOUT_SAME, .amp = BRIM_AMP_FOLLOW, .amp_in = 3

static const brim_case relu_cases[] = {
    {.name = "both signs", .inputs = "f32[3,5,2]"},
    {.name = "image", .inputs = "f32[2,3,4,5]"},
    {.name = "empty", .inputs = "f32[0,5]"},
    {.name = "integers", .inputs = "i32[2]", .refused = "cast it first"},
};

static int relu_scalar(brim_body *b, const brim_node *n, const int *in)
{
    return brim_body_op(b, BRIM_S_MAX, in[0], brim_body_const(b, 0), 0);
}
static brim_status relu_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                             const bool *need, brim_value **din)
{
    if (need[0])
        din[0] = brim_emit1(g, &brim_op_relu_bwd, NULL, (brim_value *[]){dout[0], n->out[0]}, 2,
                            NULL, 0);
    return brim_graph_check(g, NULL);
}
const brim_op brim_op_relu = {POINTWISE(relu, "y = max(x, 0)"),
                              .min_in = 1,
                              .max_in = 1,
                              .inplace = 1,
                              .grad = relu_grad,
                              BRIM_CASES(relu_cases)};
brim_value *brim_relu(brim_graph *g, brim_value *x)
{
    return brim_emit1(g, &brim_op_relu, NULL, &x, 1, NULL, 0);
}

static int relu_bwd_scalar(brim_body *b, const brim_node *n, const int *in)
{
    int zero = brim_body_const(b, 0), on = brim_body_op(b, BRIM_S_GT, in[1], zero, 0);
    return brim_body_op(b, BRIM_S_SELECT, on, in[0], zero);
}
static const brim_case relu_bwd_cases[] = {
    {.name = "both signs", .inputs = "f32[3,5,2] f32[3,5,2]"},
};
const brim_op brim_op_relu_bwd = {POINTWISE(relu_bwd, "dx = y > 0 ? dy : 0"), .min_in = 2,
                                  .max_in = 2, .inplace = 3, BRIM_CASES(relu_bwd_cases)};
