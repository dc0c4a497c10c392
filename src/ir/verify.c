#include "ir/op.h"

#include <string.h>

static bool layout_fits(const brim_value *v)
{
    return v->layout == BRIM_LAYOUT_ROW || v->shape.rank == 4;
}

static brim_status verify_node(const brim_graph *g, const brim_node *n, const bool *made,
                               brim_error *err)
{
    for (int k = 0; k < n->n_in; k++) {
        const brim_value *v = n->in[k];
        if (!v) {
            if (brim_input_in(n->op->optional_in, k)) continue;
            return brim_fail(err, BRIM_EINVAL, "%s: input %d is missing", n->name, k);
        }
        if ((size_t)v->id >= g->values.n || g->values.at[v->id] != v)
            return brim_fail(err, BRIM_EINVAL, "%s: input %d is of another graph", n->name, k);
        if (v->kind == BRIM_VALUE_TEMP && !made[v->id])
            return brim_fail(err, BRIM_EINVAL, "%s: reads %%%d before it is made", n->name, v->id);
        if (brim_input_in(n->op->mutates, k) &&
            (v->kind == BRIM_VALUE_CONST || v->kind == BRIM_VALUE_INPUT))
            return brim_fail(err, BRIM_EINVAL, "%s: changes the fixed value %s", n->name, v->name);
    }
    for (int k = 0; k < n->n_out; k++) {
        const brim_value *v = n->out[k];
        if (v->producer != n || v->out_index != k || v->kind != BRIM_VALUE_TEMP)
            return brim_fail(err, BRIM_EINVAL, "%s: output %d is not its own", n->name, k);
        if (made[v->id])
            return brim_fail(err, BRIM_EINVAL, "%s: %%%d is made twice", n->name, v->id);
    }
    return BRIM_OK;
}

brim_status brim_graph_verify(const brim_graph *g, brim_error *err)
{
    if (g->error.status != BRIM_OK) return brim_graph_check(g, err);
    bool *made = brim_calloc(g->values.n, sizeof *made);
    if (!made) return brim_fail(err, BRIM_ENOMEM, "verify: out of memory");
    brim_status s = BRIM_OK;
    for (size_t i = 0; s == BRIM_OK && i < g->values.n; i++) {
        const brim_value *v = g->values.at[i];
        if (v->id != (int)i || brim_shape_count(&v->shape) < 0 || !layout_fits(v) || !v->name)
            s = brim_fail(err, BRIM_EINVAL, "value %%%zu (%s) is malformed", i, v->name);
    }
    for (size_t i = 0; s == BRIM_OK && i < g->nodes.n; i++) {
        const brim_node *n = g->nodes.at[i];
        s = verify_node(g, n, made, err);
        for (int k = 0; s == BRIM_OK && k < n->n_out; k++) made[n->out[k]->id] = true;
    }
    for (size_t i = 0; s == BRIM_OK && i < g->outputs.n; i++) {
        const brim_value *v = g->outputs.at[i].value;
        if (v->kind == BRIM_VALUE_TEMP && !made[v->id])
            s = brim_fail(err, BRIM_EINVAL, "output %s is never made", g->outputs.at[i].name);
    }
    free(made);
    return s;
}
