/* fused: a chain of pointwise operators as one node, made by the fusion pass, which attaches the
 * body after brim_emit. Elements are independent, so output 0 may take an input's storage. */
#include "ops/ops.h"

static brim_status fused_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    const brim_attr *types = brim_attr_find(n, "out_types");
    if (!types || types->real || types->n < 1 || types->n > BRIM_BODY_MAX_OUT)
        return brim_fail(err, BRIM_EINVAL, "out_types does not list 1 to %d types",
                         BRIM_BODY_MAX_OUT);
    brim_shape s = n->in[0]->shape;
    for (int k = 0; k < n->n_in; k++) {
        char a[128], b[128];
        if (!brim_shape_broadcast(&s, &n->in[k]->shape, &s))
            return brim_fail(err, BRIM_ESHAPE, "shapes %s and %s do not broadcast",
                             brim_shape_text(a, &s), brim_shape_text(b, &n->in[k]->shape));
    }
    for (int k = 0; k < types->n; k++)
        if (types->i[k] < 0 || types->i[k] >= BRIM_DTYPE_COUNT)
            return brim_fail(err, BRIM_EDTYPE, "no such type: %lld", (long long)types->i[k]);
    if (!brim_node_set_outputs(g, n, types->n)) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    for (int k = 0; k < types->n; k++) brim_out_set(n, k, (brim_dtype)types->i[k], &s);
    return BRIM_OK;
}

static void fused_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    const brim_body *b = n->body;
    const brim_shape *shape = &n->out[0]->shape;
    int64_t count = brim_shape_count(shape);
    double x[BRIM_BODY_MAX_IN], reg[BRIM_BODY_MAX];
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < n->n_in; k++)
            x[k] = brim_tensor_get(&in[k], brim_tensor_offset_broadcast(&in[k], shape, i));
        brim_body_eval(b, x, reg);
        for (int k = 0; k < n->n_out; k++)
            if (out[k].data) brim_tensor_put(&out[k], i, reg[b->out[k]]);
    }
}

static void fused_cost(const brim_node *n, brim_cost *c)
{
    int ops = 0;
    for (int k = 0; n->body && k < n->body->n; k++)
        ops += brim_scalar_args((brim_scalar_op)n->body->at[k].op) > 0;
    c->flops += (double)ops * (double)brim_shape_count(&n->out[0]->shape);
}

/* Tests attach a body of their own. */
static const brim_case fused_cases[] = {
    {.name = "one", .inputs = "f32[3,5]", .attrs = "out_types=0"},
    {.name = "per channel",
     .inputs = "f32[2,3,4,5] f32[1,3,1,1] f32[2,3,4,5]",
     .attrs = "out_types=0,1"},
    {.name = "scalar", .inputs = "f32[301] f32[]", .attrs = "out_types=0,0,2"},
    {.name = "both broadcast", .inputs = "f32[40,1] f32[1,33]", .attrs = "out_types=0"},
    {.name = "bytes",
     .inputs = "u8[2,3,4,5] f32[1,3,1,1]",
     .attrs = "out_types=0",
     .int_below = 256},
    {.name = "empty", .inputs = "f32[0,3] f32[3]", .attrs = "out_types=0"},
    {.name = "no types", .inputs = "f32[3]", .refused = "out_types"},
    {.name = "shapes differ",
     .inputs = "f32[3] f32[4]",
     .attrs = "out_types=0",
     .refused = "do not broadcast"},
};
const brim_op brim_op_fused = {.name = "fused",
                               .doc = "outputs = body(inputs), element by element, broadcasting",
                               .min_in = 1,
                               .max_in = BRIM_BODY_MAX_IN,
                               .n_out = -1,
                               .inplace = 0xffff,
                               .layout = BRIM_LAYOUT_SAME,
                               .amp = BRIM_AMP_KEEP,
                               .infer = fused_infer,
                               .cost = fused_cost,
                               .ref = fused_ref,
                               BRIM_CASES(fused_cases)};
