/* Mixed precision: inserts casts so that each operator gets the types its `amp` rule asks for, and
 * infers types again. Weights stay float; a cast of a weight is later replaced by its half copy
 * (shadow pass). */
#include "pass/pass.h"

/* v in type t: v itself, an earlier cast of it, or a new one. */
static brim_value *in_type(brim_graph *g, brim_value *v, brim_dtype t, brim_value **cache,
                           size_t n_cache)
{
    if (v->dtype == t) return v;
    if ((size_t)v->id < n_cache && cache[v->id] && cache[v->id]->dtype == t) return cache[v->id];
    brim_value *c = brim_cast(g, v, t);
    if (c && (size_t)v->id < n_cache) cache[v->id] = c;
    return c;
}

static brim_dtype wanted(const brim_node *n, brim_dtype half)
{
    if (n->op->amp == BRIM_AMP_HALF) return half;
    if (n->op->amp == BRIM_AMP_FOLLOW)
        for (int k = 0; k < n->n_in && k < 32; k++)
            if (n->in[k] && n->op->amp_in >> k & 1 && brim_dtype_half(n->in[k]->dtype)) return half;
    return BRIM_F32;
}

brim_status brim_pass_amp(brim_graph *g, const brim_compile_opts *o, brim_error *err)
{
    size_t n_cache = g->values.n;
    brim_value **cache = brim_calloc(n_cache, sizeof(brim_value *));
    if (!cache) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    brim_status s = BRIM_OK;
    const char *scope = g->scope;
    brim_rewrite r = brim_rewrite_begin(g);
    for (size_t i = 0; i < r.n_old && s == BRIM_OK; i++) {
        brim_node *n = r.old[i];
        brim_dtype t = wanted(n, o->compute);
        g->scope = n->name; /* messages show whose cast it is */
        for (int k = 0; n->op->amp != BRIM_AMP_KEEP && k < n->n_in && k < 32; k++) {
            if (!n->in[k] || !(n->op->amp_in >> k & 1) || !brim_dtype_real(n->in[k]->dtype))
                continue;
            n->in[k] = in_type(g, n->in[k], t, cache, n_cache);
            if (!n->in[k]) break;
        }
        s = brim_graph_check(g, err);
        if (s == BRIM_OK) s = brim_node_infer(g, n, err);
        brim_graph_keep(g, n);
    }
    brim_rewrite_end(g, &r);
    g->scope = scope;
    free(cache);
    return s == BRIM_OK ? brim_graph_check(g, err) : s;
}
