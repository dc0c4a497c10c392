#include "backend/reference.h"

#include <string.h>

struct brim_reference {
    const brim_graph *graph;
    size_t n;
    brim_tensor *at;       /* by value id */
    brim_tensor *in, *out; /* of the node that runs */
};

static size_t widest(const brim_graph *g, bool inputs)
{
    size_t most = 1;
    for (size_t i = 0; i < g->nodes.n; i++) {
        size_t n = (size_t)(inputs ? g->nodes.at[i]->n_in : g->nodes.at[i]->n_out);
        if (n > most) most = n;
    }
    return most;
}

static bool allocate(brim_reference *r)
{
    const brim_graph *g = r->graph;
    r->at = brim_calloc(g->values.n + 1, sizeof *r->at);
    r->in = brim_calloc(widest(g, true), sizeof *r->in);
    r->out = brim_calloc(widest(g, false), sizeof *r->out);
    if (!r->at || !r->in || !r->out) return false;
    for (; r->n < g->values.n; r->n++) {
        const brim_value *v = g->values.at[r->n];
        void *data = brim_calloc(1, brim_value_bytes(v));
        if (!data) return false;
        r->at[r->n] = brim_tensor_make(data, v->dtype, &v->shape, v->layout);
        if (v->kind != BRIM_VALUE_CONST) continue;
        brim_tensor packed =
            brim_tensor_make((void *)(uintptr_t)v->data, v->dtype, &v->shape, BRIM_LAYOUT_ROW);
        brim_tensor_copy(&r->at[r->n], &packed);
    }
    return true;
}

brim_status brim_reference_new(const brim_graph *g, brim_reference **out, brim_error *err)
{
    *out = NULL;
    BRIM_TRY(brim_graph_verify(g, err));
    brim_reference *r = brim_calloc(1, sizeof *r);
    if (r) r->graph = g;
    if (!r || !allocate(r)) {
        brim_reference_free(r);
        return brim_fail(err, BRIM_ENOMEM, "reference: out of memory");
    }
    *out = r;
    return BRIM_OK;
}

void brim_reference_free(brim_reference *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->n; i++) free(r->at[i].data);
    free(r->at);
    free(r->in);
    free(r->out);
    free(r);
}

const brim_tensor *brim_reference_tensor(const brim_reference *r, const brim_value *v)
{
    return &r->at[v->id];
}

void brim_reference_run(brim_reference *r)
{
    for (size_t i = 0; i < r->graph->nodes.n; i++) {
        const brim_node *n = r->graph->nodes.at[i];
        for (int k = 0; k < n->n_in; k++)
            r->in[k] = n->in[k] ? r->at[n->in[k]->id] : (brim_tensor){0};
        for (int k = 0; k < n->n_out; k++) r->out[k] = r->at[n->out[k]->id];
        n->op->ref(n, r->in, r->out);
    }
}
