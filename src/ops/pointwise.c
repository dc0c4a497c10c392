/* Pointwise arithmetic with NumPy broadcasting, and the rules that all pointwise operators share:
 * they are given by one scalar formula, from which come shapes, reference, cost and fusion. */
#include "ops/ops.h"

#include <string.h>

static brim_body formula(const brim_node *n)
{
    brim_body b = {.n_in = n->n_in, .n_out = 1};
    int in[BRIM_BODY_MAX_IN];
    for (int k = 0; k < n->n_in; k++) in[k] = brim_body_load(&b, k);
    b.out[0] = (uint8_t)n->op->scalar(&b, n, in);
    return b;
}

brim_status brim_pointwise_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    brim_shape s = n->in[0]->shape;
    brim_dtype t = n->in[0]->dtype;
    for (int k = 0; k < n->n_in; k++) {
        char a[128], b[128];
        BRIM_TRY(brim_want_real(n, k, err));
        t = brim_dtype_promote(t, n->in[k]->dtype);
        if (!brim_shape_broadcast(&s, &n->in[k]->shape, &s))
            return brim_fail(err, BRIM_ESHAPE, "shapes %s and %s do not broadcast",
                             brim_shape_text(a, &s), brim_shape_text(b, &n->in[k]->shape));
    }
    brim_out_set(n, 0, t, &s);
    return BRIM_OK;
}

void brim_pointwise_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    brim_body b = formula(n);
    int64_t count = brim_tensor_count(&out[0]);
    double x[BRIM_BODY_MAX_IN], reg[BRIM_BODY_MAX];
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < n->n_in; k++)
            x[k] = brim_tensor_get(&in[k], brim_tensor_offset_broadcast(&in[k], &out[0].shape, i));
        brim_body_eval(&b, x, reg);
        brim_tensor_set(&out[0], brim_tensor_offset(&out[0], i), reg[b.out[0]]);
    }
}

brim_value *brim_emit_reduce_to(brim_graph *g, brim_value *dy, const brim_value *v)
{
    if (!dy || brim_shape_equal(&dy->shape, &v->shape)) return dy;
    int lead = dy->shape.rank - v->shape.rank;
    unsigned axes = 0;
    for (int k = 0; k < dy->shape.rank; k++)
        if (k < lead || (v->shape.dim[k - lead] == 1 && dy->shape.dim[k] != 1)) axes |= 1u << k;
    return brim_reshape(g, brim_reduce_sum(g, dy, axes, true), v->shape.rank, v->shape.dim);
}

static brim_value *binary(brim_graph *g, const brim_op *op, brim_value *a, brim_value *b)
{
    brim_value *in[] = {a, b};
    return brim_emit1(g, op, NULL, in, 2, NULL, 0);
}

static brim_value *unary(brim_graph *g, const brim_op *op, brim_value *x)
{
    return brim_emit1(g, op, NULL, &x, 1, NULL, 0);
}

#define POINTWISE(n, text)                                                                         \
    .name = #n, .doc = text, .n_out = 1, .infer = brim_pointwise_infer, .ref = brim_pointwise_ref, \
    .scalar = n##_scalar, .layout = BRIM_LAYOUT_SAME, .amp = BRIM_AMP_FOLLOW, .amp_in = 7
#define BINARY(n, text, same)                                                                      \
    const brim_op brim_op_##n = {POINTWISE(n, text), .min_in = 2,      .max_in = 2,                \
                                 .inplace = 3,       .grad = n##_grad, BRIM_CASES(same)}
#define UNARY(n, text, same)                                                                       \
    const brim_op brim_op_##n = {POINTWISE(n, text), .min_in = 1,      .max_in = 1,                \
                                 .inplace = 1,       .grad = n##_grad, BRIM_CASES(same)}

static const brim_case binary_cases[] = {
    {.name = "same shape",
     .inputs = "f32[2,3,4,5] f32[2,3,4,5]",
     .positive_in = 2,
     .lo = 0.5,
     .hi = 2},
    {.name = "per channel", .inputs = "f32[2,3,4,5] f32[1,3,1,1]", .lo = 0.5, .hi = 2},
    {.name = "scalar", .inputs = "f32[7] f32[]", .lo = 0.5, .hi = 2},
    {.name = "both broadcast", .inputs = "f32[4,1] f32[1,5]", .lo = 0.5, .hi = 2},
    {.name = "empty", .inputs = "f32[0,3] f32[0,3]"},
    {.name = "shapes differ", .inputs = "f32[2,3] f32[2,4]", .refused = "do not broadcast"},
    {.name = "integers", .inputs = "i32[2] f32[2]", .refused = "cast it first"},
};

/* add */
static int add_scalar(brim_body *b, const brim_node *n, const int *in)
{
    return brim_body_op(b, BRIM_S_ADD, in[0], in[1], 0);
}
static brim_status add_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                            const bool *need, brim_value **din)
{
    for (int k = 0; k < 2; k++)
        if (need[k]) din[k] = brim_emit_reduce_to(g, dout[0], n->in[k]);
    return brim_graph_check(g, NULL);
}
BINARY(add, "y = a + b", binary_cases);
brim_value *brim_add(brim_graph *g, brim_value *a, brim_value *b)
{
    return binary(g, &brim_op_add, a, b);
}

/* sub */
static int sub_scalar(brim_body *b, const brim_node *n, const int *in)
{
    return brim_body_op(b, BRIM_S_SUB, in[0], in[1], 0);
}
static brim_status sub_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                            const bool *need, brim_value **din)
{
    if (need[0]) din[0] = brim_emit_reduce_to(g, dout[0], n->in[0]);
    if (need[1]) din[1] = brim_emit_reduce_to(g, brim_affine(g, dout[0], -1, 0), n->in[1]);
    return brim_graph_check(g, NULL);
}
BINARY(sub, "y = a - b", binary_cases);
brim_value *brim_sub(brim_graph *g, brim_value *a, brim_value *b)
{
    return binary(g, &brim_op_sub, a, b);
}

/* mul */
static int mul_scalar(brim_body *b, const brim_node *n, const int *in)
{
    return brim_body_op(b, BRIM_S_MUL, in[0], in[1], 0);
}
static brim_status mul_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                            const bool *need, brim_value **din)
{
    for (int k = 0; k < 2; k++)
        if (need[k]) din[k] = brim_emit_reduce_to(g, brim_mul(g, dout[0], n->in[1 - k]), n->in[k]);
    return brim_graph_check(g, NULL);
}
BINARY(mul, "y = a b", binary_cases);
brim_value *brim_mul(brim_graph *g, brim_value *a, brim_value *b)
{
    return binary(g, &brim_op_mul, a, b);
}

/* div: da = dy / b, db = -dy y / b */
static int div_scalar(brim_body *b, const brim_node *n, const int *in)
{
    return brim_body_op(b, BRIM_S_DIV, in[0], in[1], 0);
}
static brim_status div_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                            const bool *need, brim_value **din)
{
    brim_value *da = brim_div(g, dout[0], n->in[1]);
    if (need[0]) din[0] = brim_emit_reduce_to(g, da, n->in[0]);
    if (need[1])
        din[1] =
            brim_emit_reduce_to(g, brim_affine(g, brim_mul(g, da, n->out[0]), -1, 0), n->in[1]);
    return brim_graph_check(g, NULL);
}
BINARY(div, "y = a / b", binary_cases);
brim_value *brim_div(brim_graph *g, brim_value *a, brim_value *b)
{
    return binary(g, &brim_op_div, a, b);
}

/* affine */
static int affine_scalar(brim_body *b, const brim_node *n, const int *in)
{
    int s = brim_body_const(b, brim_attr_float(n, "a", 1)),
        c = brim_body_const(b, brim_attr_float(n, "b", 0));
    return brim_body_op(b, BRIM_S_FMA, in[0], s, c);
}
static brim_status affine_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                               const bool *need, brim_value **din)
{
    if (need[0]) din[0] = brim_affine(g, dout[0], brim_attr_float(n, "a", 1), 0);
    return brim_graph_check(g, NULL);
}
static const brim_case affine_cases[] = {
    {.name = "2x+1", .inputs = "f32[2,3,4]", .attrs = "a=2.0 b=1.0"},
    {.name = "empty", .inputs = "f32[0]", .attrs = "a=2.0"},
    {.name = "integers", .inputs = "u8[2]", .refused = "cast it first"},
};
UNARY(affine, "y = a x + b, constants", affine_cases);
brim_value *brim_affine(brim_graph *g, brim_value *x, double a, double b)
{
    return BRIM_EMIT(g, &brim_op_affine, NULL, ((brim_value *[]){x}), BRIM_FLOAT("a", a),
                     BRIM_FLOAT("b", b));
}

/* cast: the only pointwise operator that takes integers. */
static int cast_scalar(brim_body *b, const brim_node *n, const int *in)
{
    return in[0];
}
static brim_status cast_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    int64_t to = brim_attr_int(n, "to", -1);
    if (to < 0 || to >= BRIM_DTYPE_COUNT)
        return brim_fail(err, BRIM_EDTYPE, "no such type: %lld", (long long)to);
    brim_out_set(n, 0, (brim_dtype)to, &n->in[0]->shape);
    return BRIM_OK;
}
static brim_status cast_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                             const bool *need, brim_value **din)
{
    /* A weight's gradient may come in float already, although the weight was cast to half. */
    if (need[0])
        din[0] =
            dout[0]->dtype == n->in[0]->dtype ? dout[0] : brim_cast(g, dout[0], n->in[0]->dtype);
    return brim_graph_check(g, NULL);
}
static const brim_case cast_cases[] = {
    {.name = "f32 to f64", .inputs = "f32[3,4]", .attrs = "to=3"},
    {.name = "f32 to bf16", .inputs = "f32[3,4]", .attrs = "to=1", .no_grad = true},
    {.name = "u8 to f32", .inputs = "u8[3,4]", .attrs = "to=0", .no_grad = true, .int_below = 256},
    {.name = "no type", .inputs = "u8[3,4]", .attrs = "to=99", .refused = "no such type"},
};
const brim_op brim_op_cast = {.name = "cast",
                              .doc = "y = x in another element type",
                              .n_out = 1,
                              .min_in = 1,
                              .max_in = 1,
                              .infer = cast_infer,
                              .ref = brim_pointwise_ref,
                              .scalar = cast_scalar,
                              .grad = cast_grad,
                              .layout = BRIM_LAYOUT_SAME,
                              .amp = BRIM_AMP_KEEP,
                              BRIM_CASES(cast_cases)};
brim_value *brim_cast(brim_graph *g, brim_value *x, brim_dtype t)
{
    if (x && x->dtype == t) return x;
    return BRIM_EMIT(g, &brim_op_cast, NULL, ((brim_value *[]){x}), BRIM_INT("to", t));
}

static const brim_case positive_cases[] = {
    {.name = "positive", .inputs = "f32[3,5]", .lo = 0.3, .hi = 2},
    {.name = "empty", .inputs = "f32[0,5]"},
    {.name = "integers", .inputs = "i32[2]", .refused = "cast it first"},
};

static int exp_scalar(brim_body *b, const brim_node *n, const int *in)
{
    return brim_body_op(b, BRIM_S_EXP, in[0], 0, 0);
}
static brim_status exp_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                            const bool *need, brim_value **din)
{
    if (need[0]) din[0] = brim_mul(g, dout[0], n->out[0]);
    return brim_graph_check(g, NULL);
}
UNARY(exp, "y = e^x", positive_cases);
brim_value *brim_exp(brim_graph *g, brim_value *x)
{
    return unary(g, &brim_op_exp, x);
}

static int log_scalar(brim_body *b, const brim_node *n, const int *in)
{
    return brim_body_op(b, BRIM_S_LOG, in[0], 0, 0);
}
static brim_status log_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                            const bool *need, brim_value **din)
{
    if (need[0]) din[0] = brim_div(g, dout[0], n->in[0]);
    return brim_graph_check(g, NULL);
}
UNARY(log, "y = ln x", positive_cases);
brim_value *brim_log(brim_graph *g, brim_value *x)
{
    return unary(g, &brim_op_log, x);
}

static int sqrt_scalar(brim_body *b, const brim_node *n, const int *in)
{
    return brim_body_op(b, BRIM_S_SQRT, in[0], 0, 0);
}
static brim_status sqrt_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                             const bool *need, brim_value **din)
{
    if (need[0]) din[0] = brim_div(g, brim_affine(g, dout[0], 0.5, 0), n->out[0]);
    return brim_graph_check(g, NULL);
}
UNARY(sqrt, "y = sqrt(x)", positive_cases);
brim_value *brim_sqrt(brim_graph *g, brim_value *x)
{
    return unary(g, &brim_op_sqrt, x);
}
