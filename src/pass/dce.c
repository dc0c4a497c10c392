/* Removes nodes whose results nobody reads and that change nothing. */
#include "pass/pass.h"

brim_status brim_pass_dce(brim_graph *g, const brim_compile_opts *o, brim_error *err)
{
    (void)o;
    bool *live = brim_calloc(g->values.n, sizeof *live),
         *keep = brim_calloc(g->nodes.n, sizeof *keep);
    if (!live || !keep) {
        free(live);
        free(keep);
        return brim_fail(err, BRIM_ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < g->outputs.n; i++) live[g->outputs.at[i].value->id] = true;
    for (size_t i = 0; i < g->grads.n; i++) live[g->grads.at[i].grad->id] = true;
    for (size_t i = g->nodes.n; i-- > 0;) {
        const brim_node *n = g->nodes.at[i];
        keep[i] = n->op->mutates_all || n->op->mutates;
        for (int k = 0; k < n->n_out; k++) keep[i] |= live[n->out[k]->id];
        for (int k = 0; keep[i] && k < n->n_in; k++)
            if (n->in[k]) live[n->in[k]->id] = true;
    }
    size_t kept = 0;
    for (size_t i = 0; i < g->nodes.n; i++)
        if (keep[i]) g->nodes.at[kept++] = g->nodes.at[i];
    g->nodes.n = kept;
    free(live);
    free(keep);
    return BRIM_OK;
}
