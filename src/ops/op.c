/* The table of operators, and what their rules share. */
#include "ops/ops.h"

#include <string.h>

const brim_op *const brim_ops[] = {
#define BRIM_OP(name) &brim_op_##name,
#include "ops/ops.def"
#undef BRIM_OP
};
const int brim_ops_count = sizeof brim_ops / sizeof *brim_ops;

const brim_op *brim_op_find(const char *name)
{
    for (int i = 0; i < brim_ops_count; i++)
        if (!strcmp(brim_ops[i]->name, name)) return brim_ops[i];
    return NULL;
}

brim_status brim_want_rank(const brim_node *n, int input, int rank, brim_error *err)
{
    char text[128];
    const brim_shape *s = &n->in[input]->shape;
    if (s->rank == rank) return BRIM_OK;
    return brim_fail(err, BRIM_ESHAPE, "input %d has shape %s, wants %d dimensions", input,
                     brim_shape_text(text, s), rank);
}

brim_status brim_want_dim(const brim_node *n, int input, int axis, int64_t want, brim_error *err)
{
    char text[128];
    const brim_shape *s = &n->in[input]->shape;
    if (axis < s->rank && s->dim[axis] == want) return BRIM_OK;
    return brim_fail(err, BRIM_ESHAPE, "input %d (%s) has shape %s, wants %lld in dimension %d",
                     input, n->in[input]->name, brim_shape_text(text, s), (long long)want, axis);
}

brim_status brim_want_type(const brim_node *n, int input, brim_dtype want, brim_error *err)
{
    if (n->in[input]->dtype == want) return BRIM_OK;
    return brim_fail(err, BRIM_EDTYPE, "input %d is %s, wants %s", input,
                     brim_dtype_name(n->in[input]->dtype), brim_dtype_name(want));
}

brim_status brim_want_real(const brim_node *n, int input, brim_error *err)
{
    if (brim_dtype_real(n->in[input]->dtype)) return BRIM_OK;
    return brim_fail(err, BRIM_EDTYPE,
                     "input %d is %s, wants a floating-point type (cast it first)", input,
                     brim_dtype_name(n->in[input]->dtype));
}

bool brim_dtype_real(brim_dtype t)
{
    return t == BRIM_F32 || t == BRIM_BF16 || t == BRIM_F16 || t == BRIM_F64;
}

bool brim_dtype_half(brim_dtype t)
{
    return t == BRIM_BF16 || t == BRIM_F16;
}

brim_dtype brim_dtype_accum(brim_dtype t)
{
    return t == BRIM_F64 ? BRIM_F64 : BRIM_F32;
}

brim_dtype brim_dtype_promote(brim_dtype a, brim_dtype b)
{
    if (a == b) return a;
    return a == BRIM_F64 || b == BRIM_F64 ? BRIM_F64 : BRIM_F32;
}

brim_cost brim_node_cost(const brim_node *n)
{
    brim_cost c = {0};
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]) c.bytes_read += (double)brim_value_bytes(n->in[k]);
    for (int k = 0; k < n->n_out; k++) c.bytes_written += (double)brim_value_bytes(n->out[k]);
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && brim_input_in(n->op->mutates, k))
            c.bytes_written += (double)brim_value_bytes(n->in[k]);
    if (n->op->cost)
        n->op->cost(n, &c);
    else if (n->n_out)
        c.flops += (double)brim_shape_count(&n->out[0]->shape);
    return c;
}

static brim_value *special(brim_graph *g, brim_value_kind kind, const char *name, brim_dtype t,
                           int64_t n)
{
    brim_value *v = brim_value_find(g, name);
    brim_shape s = {1, {n}};
    return v ? v : brim_value_new(g, kind, name, t, &s);
}

brim_value *brim_step_input(brim_graph *g)
{
    return special(g, BRIM_VALUE_INPUT, "step", BRIM_F32, BRIM_STEP_COUNT);
}

brim_value *brim_rng_input(brim_graph *g)
{
    return special(g, BRIM_VALUE_INPUT, "rng", BRIM_I32, BRIM_RNG_COUNT);
}

brim_value *brim_scaler_state(brim_graph *g)
{
    return special(g, BRIM_VALUE_STATE, "scaler", BRIM_F32, BRIM_SCALER_COUNT);
}
