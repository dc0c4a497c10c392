/* dropout. The mask is never stored: it is a function of (seed, step, micro-batch, node, element),
 * so the backward pass runs the same operator on dy. The element index is the logical row-major
 * one, whatever the layout. */
#include "ops/ops.h"

#include "base/rng.h"

static brim_status dropout_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    double p = brim_attr_float(n, "p", 0);
    int64_t key = brim_attr_int(n, "key", 0);
    BRIM_TRY(brim_want_real(n, 0, err));
    BRIM_TRY(brim_want_type(n, 1, BRIM_I32, err));
    BRIM_TRY(brim_want_rank(n, 1, 1, err));
    BRIM_TRY(brim_want_dim(n, 1, 0, BRIM_RNG_COUNT, err));
    if (!(p >= 0 && p < 1)) return brim_fail(err, BRIM_EINVAL, "p = %g is outside [0, 1)", p);
    if (key < 0 || key > 0xffff)
        return brim_fail(err, BRIM_EINVAL, "key %lld does not fit in 16 bits (too many dropouts)",
                         (long long)key);
    brim_out_set(n, 0, n->in[0]->dtype, &n->in[0]->shape);
    return BRIM_OK;
}

static uint32_t word(const brim_tensor *rng, int k)
{
    return (uint32_t)(int32_t)brim_tensor_at(rng, k);
}

static void dropout_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    double p = brim_attr_float(n, "p", 0), scale = 1 / (1 - p);
    uint64_t seed = (uint64_t)word(&in[1], BRIM_RNG_SEED_HI) << 32 | word(&in[1], BRIM_RNG_SEED_LO);
    uint64_t hi = (uint64_t)word(&in[1], BRIM_RNG_STEP) << 32 |
                  (uint64_t)(word(&in[1], BRIM_RNG_MICRO) & 0xffff) << 16 |
                  (uint64_t)brim_attr_int(n, "key", 0);
    int64_t count = brim_tensor_count(&out[0]);
    for (int64_t i = 0; i < count; i++) {
        brim_philox r = brim_philox4x32(seed, hi, (uint64_t)i / 4);
        bool keep = brim_u32_to_unit(r.v[i % 4]) >= (float)p;
        brim_tensor_put(&out[0], i, keep ? brim_tensor_at(&in[0], i) * scale : 0);
    }
}

static brim_status dropout_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                const bool *need, brim_value **din)
{
    brim_value *in[] = {dout[0], n->in[1]};
    if (need[0]) din[0] = brim_emit1(g, n->op, "dropout_bwd", in, 2, n->attr, n->n_attr);
    return brim_graph_check(g, NULL);
}

/* Ten rounds of Philox make four numbers: about ten operations an element. */
static void dropout_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 10 * (double)brim_shape_count(&n->in[0]->shape);
}

static const brim_case dropout_cases[] = {
    {.name = "rows", .inputs = "f32[7,13] i32[4]", .attrs = "p=0.3 key=5", .int_below = 1000},
    {.name = "image", .inputs = "f32[2,3,5,7] i32[4]", .attrs = "p=0.5", .int_below = 1000},
    {.name = "none", .inputs = "f32[9] i32[4]", .attrs = "p=0.0", .int_below = 1000},
    {.name = "empty", .inputs = "f32[0,5] i32[4]", .attrs = "p=0.5", .int_below = 1000},
    {.name = "all",
     .inputs = "f32[9] i32[4]",
     .attrs = "p=1.0",
     .int_below = 1000,
     .refused = "outside [0, 1)"},
    {.name = "short rng",
     .inputs = "f32[9] i32[3]",
     .attrs = "p=0.5",
     .int_below = 1000,
     .refused = "wants 4 in dimension 0"},
};
const brim_op brim_op_dropout = {
    .name = "dropout",
    .doc = "y = u >= p ? x / (1 - p) : 0, u uniform in [0, 1) from Philox",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .inplace = 1,
    .no_grad_in = 2,
    .layout = BRIM_LAYOUT_SAME,
    .amp = BRIM_AMP_FOLLOW,
    .amp_in = 1,
    .infer = dropout_infer,
    .grad = dropout_grad,
    .cost = dropout_cost,
    .ref = dropout_ref,
    BRIM_CASES(dropout_cases)};

brim_value *brim_dropout(brim_graph *g, brim_value *x, double p)
{
    if (!brim_graph_training(g) || p == 0) return x;
    int64_t key = 0;
    for (size_t i = 0; i < g->nodes.n; i++) {
        const brim_node *n = g->nodes.at[i];
        if (n->op != &brim_op_dropout) continue;
        int64_t taken = brim_attr_int(n, "key", 0);
        if (taken >= key) key = taken + 1;
    }
    return BRIM_EMIT(g, &brim_op_dropout, NULL, ((brim_value *[]){x, brim_rng_input(g)}),
                     BRIM_FLOAT("p", p), BRIM_INT("key", key));
}
