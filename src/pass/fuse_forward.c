/* Before gradients are taken: an activation (and a residual add) joins the operator whose result it
 * reads, so that forward and backward each make one pass over memory less.
 *
 *   batch_norm -> relu     batch_norm -> add -> relu     conv2d -> relu     linear -> relu
 *
 * The joined node takes the place of the last one, where everything it reads exists. */
#include "pass/pass.h"

static bool is_norm(const brim_node *n)
{
    return n && (n->op == &brim_op_batch_norm || n->op == &brim_op_batch_norm_infer);
}

/* v's producer when only one node reads v. */
static brim_node *sole_producer(const brim_value *v, const int *uses)
{
    return v && v->producer && uses[v->id] == 1 ? v->producer : NULL;
}

static bool plain(const brim_node *n)
{
    return brim_attr_int(n, "act", 0) == 0 && n->out[0];
}

/* Emits `base` again with act = 1 and maybe a residual; its old node is then dead. */
static brim_node *emit_joined(brim_graph *g, const brim_node *base, brim_value *residual)
{
    brim_value *in[8] = {0};
    int n_in = base->n_in;
    for (int k = 0; k < n_in; k++) in[k] = base->in[k];
    if (residual) in[n_in++] = residual;
    brim_node *n = brim_emit(g, base->op, NULL, in, n_in, base->attr, base->n_attr);
    if (!n || !brim_attr_put(g, n, BRIM_INT("act", 1))) return NULL;
    n->name = base->name;
    return n;
}

/* The node that replaces `relu`, or NULL when nothing joins. dead[] gets the ids of absorbed nodes.
 */
static brim_node *join(brim_graph *g, const brim_node *relu, const int *uses, bool *dead)
{
    brim_node *p = sole_producer(relu->in[0], uses);
    if (!p) return NULL;
    bool direct = is_norm(p) || p->op == &brim_op_conv2d || p->op == &brim_op_linear;
    if (direct && plain(p)) {
        dead[p->id] = true;
        return emit_joined(g, p, NULL);
    }
    if (p->op != &brim_op_add) return NULL;
    for (int k = 0; k < 2; k++) {
        brim_node *norm = sole_producer(p->in[k], uses);
        brim_value *other = p->in[1 - k];
        if (!is_norm(norm) || !plain(norm) || norm->n_in != 5) continue;
        if (!brim_shape_equal(&other->shape, &norm->out[0]->shape) ||
            other->dtype != norm->out[0]->dtype)
            continue;
        dead[p->id] = dead[norm->id] = true;
        return emit_joined(g, norm, other);
    }
    return NULL;
}

brim_status brim_pass_fuse_forward(brim_graph *g, const brim_compile_opts *o, brim_error *err)
{
    (void)o;
    int *uses = brim_use_counts(g);
    bool *dead = brim_calloc((size_t)g->next_node_id, sizeof *dead);
    if (!uses || !dead) {
        free(uses);
        free(dead);
        return brim_fail(err, BRIM_ENOMEM, "out of memory");
    }
    size_t values = g->values.n;
    int known = g->next_node_id;
    brim_rewrite r = brim_rewrite_begin(g);
    for (size_t i = 0; i < r.n_old; i++) {
        brim_node *n = r.old[i], *joined = NULL;
        if (n->op == &brim_op_relu && (size_t)n->in[0]->id < values)
            joined = join(g, n, uses, dead);
        if (!joined) {
            brim_graph_keep(g, n);
            continue;
        }
        for (size_t j = i + 1; j < r.n_old; j++)
            for (int k = 0; k < r.old[j]->n_in; k++)
                if (r.old[j]->in[k] == n->out[0]) r.old[j]->in[k] = joined->out[0];
        brim_replace_uses(g, n->out[0], joined->out[0]);
    }
    /* Absorbed nodes were kept when they were met, before their relu: take them out. */
    size_t kept = 0;
    for (size_t i = 0; i < g->nodes.n; i++) {
        brim_node *n = g->nodes.at[i];
        if (n->id >= known || !dead[n->id]) g->nodes.at[kept++] = n;
    }
    g->nodes.n = kept;
    brim_rewrite_end(g, &r);
    free(uses);
    free(dead);
    return brim_graph_check(g, err);
}
