/* Chains of pointwise nodes become one `fused` node each, whose body is computed in registers: a
 * node joins the only reader of its result when both have the same shape and layout. */
#include "pass/pass.h"

#include <string.h>

typedef struct group {
    brim_body body;
    brim_value *in[BRIM_BODY_MAX_IN];
    int n_in;
    bool failed;
} group;

static bool pointwise(const brim_node *n)
{
    return n->op->scalar != NULL;
}

/* May producer p be computed inside its reader n? */
static bool joins(const brim_node *p, const brim_node *n, const int *uses)
{
    return p && pointwise(p) && uses[p->out[0]->id] == 1 &&
           p->out[0]->layout == n->out[0]->layout &&
           brim_shape_equal(&p->out[0]->shape, &n->out[0]->shape);
}

static int load(group *gr, brim_value *v)
{
    int k = 0;
    while (k < gr->n_in && gr->in[k] != v) k++;
    if (k == BRIM_BODY_MAX_IN) {
        gr->failed = true;
        return 0;
    }
    if (k == gr->n_in) gr->in[gr->n_in++] = v;
    return brim_body_load(&gr->body, k);
}

/* Emits the formula of n, and of what joins it, into the group; returns the result's register. */
static int emit_formula(group *gr, const brim_node *n, const int *uses, int depth)
{
    int in[BRIM_BODY_MAX_IN];
    for (int k = 0; k < n->n_in; k++) {
        const brim_node *p = n->in[k]->producer;
        bool inside = joins(p, n, uses) && depth < 32;
        in[k] = inside ? emit_formula(gr, p, uses, depth + 1) : load(gr, n->in[k]);
    }
    return n->op->scalar(&gr->body, n, in);
}

static void mark_absorbed(const brim_node *n, const int *uses, int depth, bool *absorbed)
{
    for (int k = 0; k < n->n_in; k++) {
        const brim_node *p = n->in[k]->producer;
        if (!joins(p, n, uses) || depth >= 32) continue;
        absorbed[p->id] = true;
        mark_absorbed(p, uses, depth + 1, absorbed);
    }
}

/* Turns n into a fused node in place when at least one producer joins it. */
static brim_status fuse(brim_graph *g, brim_node *n, const int *uses, bool *absorbed,
                        brim_error *err)
{
    bool any = false;
    for (int k = 0; k < n->n_in; k++) any |= joins(n->in[k]->producer, n, uses);
    if (!any) return BRIM_OK;
    group gr = {0};
    int result = emit_formula(&gr, n, uses, 0);
    if (gr.failed || gr.body.full)
        return BRIM_OK; /* too large: n stays, its producers fuse by themselves */
    mark_absorbed(n, uses, 0, absorbed);
    gr.body.n_in = gr.n_in;
    gr.body.n_out = 1;
    gr.body.out[0] = (uint8_t)result;
    brim_body *body = BRIM_ARENA_NEW(&g->arena, brim_body);
    brim_value **in = BRIM_ARENA_ARRAY(&g->arena, brim_value *, gr.n_in);
    if (!body || !in) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    *body = gr.body;
    memcpy(in, gr.in, sizeof *in * (size_t)gr.n_in);
    n->op = &brim_op_fused;
    n->body = body;
    n->in = in;
    n->n_in = gr.n_in;
    n->n_attr = 0;
    if (!brim_attr_put(g, n, BRIM_INT("out_types", n->out[0]->dtype)))
        return brim_fail(err, BRIM_ENOMEM, "out of memory");
    return BRIM_OK;
}

brim_status brim_pass_fuse_pointwise(brim_graph *g, const brim_compile_opts *o, brim_error *err)
{
    (void)o;
    int *uses = brim_use_counts(g);
    bool *absorbed = brim_calloc((size_t)g->next_node_id, sizeof *absorbed);
    brim_status s = uses && absorbed ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "out of memory");
    /* From the last node up, so that a chain is taken whole by its end. */
    for (size_t i = g->nodes.n; i-- > 0 && s == BRIM_OK;) {
        brim_node *n = g->nodes.at[i];
        if (pointwise(n) && !absorbed[n->id]) s = fuse(g, n, uses, absorbed, err);
    }
    size_t kept = 0;
    for (size_t i = 0; i < g->nodes.n && s == BRIM_OK; i++)
        if (!absorbed[g->nodes.at[i]->id]) g->nodes.at[kept++] = g->nodes.at[i];
    if (s == BRIM_OK) g->nodes.n = kept;
    free(uses);
    free(absorbed);
    return s;
}
