/* relayout: the same logical value in another physical layout; emitted by the layout pass. */
#include "ops/ops.h"

static brim_status relayout_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    int64_t to = brim_attr_int(n, "to", BRIM_LAYOUT_ROW);
    if (to != BRIM_LAYOUT_ROW && to != BRIM_LAYOUT_CHANNELS_LAST)
        return brim_fail(err, BRIM_EINVAL, "there is no layout %lld", (long long)to);
    if (to == BRIM_LAYOUT_CHANNELS_LAST) BRIM_TRY(brim_want_rank(n, 0, 4, err));
    brim_out_set(n, 0, n->in[0]->dtype, &n->in[0]->shape);
    n->out[0]->layout = (brim_layout)to;
    return BRIM_OK;
}

static void relayout_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    (void)n;
    brim_tensor_copy(&out[0], &in[0]);
}

static brim_status relayout_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                 const bool *need, brim_value **din)
{
    (void)n;
    if (need[0]) din[0] = dout[0];
    return brim_graph_check(g, NULL);
}

/* Moves bytes only. */
static void relayout_cost(const brim_node *n, brim_cost *c)
{
    (void)n, (void)c;
}

static const brim_case relayout_cases[] = {
    {.name = "to channels last", .inputs = "f32[2,3,4,5]", .attrs = "to=1"},
    {.name = "to rows", .inputs = "f32[2,3,4,5]", .attrs = "to=0"},
    {.name = "wide", .inputs = "f32[2,67,5,9]", .attrs = "to=1", .no_grad = true},
    {.name = "bytes", .inputs = "u8[2,3,8,8]", .attrs = "to=1", .int_below = 256, .no_grad = true},
    {.name = "empty", .inputs = "f32[0,3,4,5]", .attrs = "to=1"},
    {.name = "rank", .inputs = "f32[2,3]", .attrs = "to=1", .refused = "wants 4 dimensions"},
    {.name = "no layout", .inputs = "f32[2,3,4,5]", .attrs = "to=2", .refused = "no layout 2"},
};
const brim_op brim_op_relayout = {.name = "relayout",
                                  .doc = "y = x in memory order `to` (0 rows, 1 channels last)",
                                  .min_in = 1,
                                  .max_in = 1,
                                  .n_out = 1,
                                  .layout = BRIM_LAYOUT_SAME,
                                  .amp = BRIM_AMP_KEEP,
                                  .infer = relayout_infer,
                                  .grad = relayout_grad,
                                  .cost = relayout_cost,
                                  .ref = relayout_ref,
                                  BRIM_CASES(relayout_cases)};
