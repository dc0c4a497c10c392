/* A cast of a weight to half becomes a read of its half copy "NAME.half", a state that the
 * optimizer writes as it updates the weight: no cast runs in a step. Small weights (rank < 2) are
 * cast in place. */
#include "pass/pass.h"

brim_status brim_pass_shadow(brim_graph *g, const brim_compile_opts *o, brim_error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->nodes.n; i++) {
        brim_node *n = g->nodes.at[i];
        brim_value *w = n->op == &brim_op_cast ? n->in[0] : NULL;
        if (!w || w->kind != BRIM_VALUE_PARAM || w->shape.rank < 2 ||
            n->out[0]->dtype != o->compute) {
            g->nodes.at[kept++] = n;
            continue;
        }
        brim_value *half = brim_state_like(g, "", ".half", w, o->compute);
        if (!half) return brim_graph_check(g, err);
        /* Later nodes still stand beyond i, earlier ones cannot read it. */
        for (size_t j = i + 1; j < g->nodes.n; j++)
            for (int k = 0; k < g->nodes.at[j]->n_in; k++)
                if (g->nodes.at[j]->in[k] == n->out[0]) g->nodes.at[j]->in[k] = half;
        for (size_t j = 0; j < g->outputs.n; j++)
            if (g->outputs.at[j].value == n->out[0]) g->outputs.at[j].value = half;
    }
    g->nodes.n = kept;
    return BRIM_OK;
}
