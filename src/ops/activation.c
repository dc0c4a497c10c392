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
    {.name = "image", .inputs = "f32[2,3,4,5] f32[2,3,4,5]"},
    {.name = "integers", .inputs = "f32[2] i32[2]", .refused = "cast it first"},
};
const brim_op brim_op_relu_bwd = {POINTWISE(relu_bwd, "dx = y > 0 ? dy : 0"), .min_in = 2,
                                  .max_in = 2, .inplace = 3, BRIM_CASES(relu_bwd_cases)};

/* The others differ only in their formulas: gradients take dy and either x or y. */
#define ACTIVATION(n, text, other)                                                                 \
    static brim_status n##_grad(brim_graph *g, const brim_node *node, brim_value *const *dout,     \
                                const bool *need, brim_value **din)                                \
    {                                                                                              \
        brim_value *in[] = {dout[0], other};                                                       \
        if (need[0])                                                                               \
            din[0] = brim_emit1(g, &brim_op_##n##_bwd, NULL, in, 2, node->attr, node->n_attr);     \
        return brim_graph_check(g, NULL);                                                          \
    }                                                                                              \
    const brim_op brim_op_##n = {POINTWISE(n, text), .min_in = 1,      .max_in = 1,                \
                                 .inplace = 1,       .grad = n##_grad, BRIM_CASES(n##_cases)}
#define ACTIVATION_BWD(n, text)                                                                    \
    const brim_op brim_op_##n##_bwd = {POINTWISE(n##_bwd, text), .min_in = 2, .max_in = 2,         \
                                       .inplace = 3, BRIM_CASES(n##_bwd_cases)}

/* silu */
static int silu_scalar(brim_body *b, const brim_node *n, const int *in)
{
    return brim_body_op(b, BRIM_S_MUL, in[0], brim_body_op(b, BRIM_S_SIGMOID, in[0], 0, 0), 0);
}
static int silu_bwd_scalar(brim_body *b, const brim_node *n, const int *in)
{
    int one = brim_body_const(b, 1), s = brim_body_op(b, BRIM_S_SIGMOID, in[1], 0, 0);
    int off = brim_body_op(b, BRIM_S_SUB, one, s, 0);
    int slope = brim_body_op(b, BRIM_S_MUL, s, brim_body_op(b, BRIM_S_FMA, in[1], off, one), 0);
    return brim_body_op(b, BRIM_S_MUL, in[0], slope, 0);
}
static const brim_case silu_cases[] = {
    {.name = "both signs", .inputs = "f32[3,5,2]", .lo = -6, .hi = 6},
    {.name = "image", .inputs = "f32[2,3,4,5]"},
    {.name = "empty", .inputs = "f32[0,5]"},
    {.name = "integers", .inputs = "i32[2]", .refused = "cast it first"},
};
static const brim_case silu_bwd_cases[] = {
    {.name = "both signs", .inputs = "f32[3,5,2] f32[3,5,2]", .lo = -6, .hi = 6},
    {.name = "image", .inputs = "f32[2,3,4,5] f32[2,3,4,5]"},
    {.name = "integers", .inputs = "f32[2] i32[2]", .refused = "cast it first"},
};
ACTIVATION(silu, "y = x sigmoid(x)", node->in[0]);
ACTIVATION_BWD(silu, "dx = dy s (1 + x (1 - s)), s = sigmoid(x)");
brim_value *brim_silu(brim_graph *g, brim_value *x)
{
    return brim_emit1(g, &brim_op_silu, NULL, &x, 1, NULL, 0);
}

/* gelu: x Phi(x), or with Phi(x) ~ (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 (Hendrycks and
 * Gimpel, 2016). */
static const double gelu_cubic = 0.044715, sqrt_2_over_pi = 0.7978845608028654;

/* x between -bound and bound, where the slope has reached its limit: keeps powers of a huge x from
 * overflowing in float. */
static int clamp(brim_body *b, int x, double bound)
{
    int low = brim_body_op(b, BRIM_S_MAX, x, brim_body_const(b, -bound), 0);
    return brim_body_op(b, BRIM_S_MIN, low, brim_body_const(b, bound), 0);
}

/* Phi(x), either form. */
static int gelu_phi(brim_body *b, bool tanh_form, int x)
{
    int half = brim_body_const(b, 0.5), t;
    if (tanh_form) {
        int sq = brim_body_op(b, BRIM_S_MUL, x, x, 0);
        int poly = brim_body_op(b, BRIM_S_FMA, sq, brim_body_const(b, sqrt_2_over_pi * gelu_cubic),
                                brim_body_const(b, sqrt_2_over_pi));
        t = brim_body_op(b, BRIM_S_TANH, brim_body_op(b, BRIM_S_MUL, x, poly, 0), 0, 0);
    } else {
        int scaled = brim_body_op(b, BRIM_S_MUL, x, brim_body_const(b, 0.7071067811865476), 0);
        t = brim_body_op(b, BRIM_S_ERF, scaled, 0, 0);
    }
    return brim_body_op(b, BRIM_S_FMA, t, half, half);
}

static int gelu_scalar(brim_body *b, const brim_node *n, const int *in)
{
    bool tanh_form = brim_attr_int(n, "tanh", 0);
    return brim_body_op(b, BRIM_S_MUL, in[0], gelu_phi(b, tanh_form, in[0]), 0);
}

/* dx = dy (Phi(x) + x Phi'(x)); with t = 2 Phi - 1 the tanh form's Phi' is 2 Phi (1 - Phi) u'. */
static int gelu_bwd_scalar(brim_body *b, const brim_node *n, const int *in)
{
    bool tanh_form = brim_attr_int(n, "tanh", 0);
    int x = clamp(b, in[1], 16), phi = gelu_phi(b, tanh_form, x), density;
    int sq = brim_body_op(b, BRIM_S_MUL, x, x, 0);
    if (tanh_form) {
        int off = brim_body_op(b, BRIM_S_SUB, brim_body_const(b, 1), phi, 0);
        int slope =
            brim_body_op(b, BRIM_S_FMA, sq, brim_body_const(b, 6 * sqrt_2_over_pi * gelu_cubic),
                         brim_body_const(b, 2 * sqrt_2_over_pi));
        density = brim_body_op(b, BRIM_S_MUL, brim_body_op(b, BRIM_S_MUL, phi, off, 0), slope, 0);
    } else {
        int power = brim_body_op(b, BRIM_S_MUL, sq, brim_body_const(b, -0.5), 0);
        density = brim_body_op(b, BRIM_S_MUL, brim_body_op(b, BRIM_S_EXP, power, 0, 0),
                               brim_body_const(b, 0.3989422804014327), 0);
    }
    return brim_body_op(b, BRIM_S_MUL, in[0], brim_body_op(b, BRIM_S_FMA, x, density, phi), 0);
}
static const brim_case gelu_cases[] = {
    {.name = "exact", .inputs = "f32[3,5,2]", .lo = -6, .hi = 6},
    {.name = "tanh", .inputs = "f32[3,5,2]", .attrs = "tanh=1", .lo = -6, .hi = 6},
    {.name = "image", .inputs = "f32[2,3,4,5]"},
    {.name = "empty", .inputs = "f32[0,5]"},
    {.name = "integers", .inputs = "i32[2]", .refused = "cast it first"},
};
static const brim_case gelu_bwd_cases[] = {
    {.name = "exact", .inputs = "f32[3,5,2] f32[3,5,2]", .lo = -6, .hi = 6},
    {.name = "tanh", .inputs = "f32[3,5,2] f32[3,5,2]", .attrs = "tanh=1", .lo = -6, .hi = 6},
    {.name = "image", .inputs = "f32[2,3,4,5] f32[2,3,4,5]"},
    {.name = "integers", .inputs = "f32[2] i32[2]", .refused = "cast it first"},
};
ACTIVATION(gelu, "y = x Phi(x); tanh=1: the tanh approximation", node->in[0]);
ACTIVATION_BWD(gelu, "dx = dy (Phi(x) + x Phi'(x))");
brim_value *brim_gelu(brim_graph *g, brim_value *x, bool tanh_form)
{
    return BRIM_EMIT(g, &brim_op_gelu, NULL, ((brim_value *[]){x}), BRIM_INT("tanh", tanh_form));
}

/* sigmoid */
static int sigmoid_scalar(brim_body *b, const brim_node *n, const int *in)
{
    return brim_body_op(b, BRIM_S_SIGMOID, in[0], 0, 0);
}
static int sigmoid_bwd_scalar(brim_body *b, const brim_node *n, const int *in)
{
    int off = brim_body_op(b, BRIM_S_SUB, brim_body_const(b, 1), in[1], 0);
    return brim_body_op(b, BRIM_S_MUL, in[0], brim_body_op(b, BRIM_S_MUL, in[1], off, 0), 0);
}
#define sigmoid_cases     silu_cases
#define sigmoid_bwd_cases silu_bwd_cases
ACTIVATION(sigmoid, "y = 1 / (1 + e^-x)", node->out[0]);
ACTIVATION_BWD(sigmoid, "dx = dy y (1 - y)");
brim_value *brim_sigmoid(brim_graph *g, brim_value *x)
{
    return brim_emit1(g, &brim_op_sigmoid, NULL, &x, 1, NULL, 0);
}

/* tanh */
static int tanh_scalar(brim_body *b, const brim_node *n, const int *in)
{
    return brim_body_op(b, BRIM_S_TANH, in[0], 0, 0);
}
static int tanh_bwd_scalar(brim_body *b, const brim_node *n, const int *in)
{
    int neg = brim_body_op(b, BRIM_S_NEG, in[1], 0, 0);
    int slope = brim_body_op(b, BRIM_S_FMA, neg, in[1], brim_body_const(b, 1));
    return brim_body_op(b, BRIM_S_MUL, in[0], slope, 0);
}
#define tanh_cases     silu_cases
#define tanh_bwd_cases silu_bwd_cases
ACTIVATION(tanh, "y = tanh(x)", node->out[0]);
ACTIVATION_BWD(tanh, "dx = dy (1 - y^2)");
brim_value *brim_tanh(brim_graph *g, brim_value *x)
{
    return brim_emit1(g, &brim_op_tanh, NULL, &x, 1, NULL, 0);
}
