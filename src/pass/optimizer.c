/* Appends the update: one multi-tensor node over all parameters, or, when the step is made of
 * several micro-batches, accumulation into states "grad:NAME" with the update in a graph of its
 * own. */
#include "pass/pass.h"

#include <string.h>

enum { PER_TENSOR = 6 }; /* param, grad, m, v, shadow, ema */

brim_status brim_emit_optimizer(brim_graph *g, const brim_param_grad *pair, size_t n,
                                const brim_compile_opts *o, brim_error *err)
{
    const brim_optimizer_opts *p = &o->optimizer;
    brim_value **in = brim_calloc(2 + n * PER_TENSOR, sizeof(brim_value *));
    if (!in) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    in[0] = brim_step_input(g);
    in[1] = brim_scaler_state(g);
    if (in[1]) in[1]->init = (brim_init){BRIM_INIT_CONST, 0};
    for (size_t i = 0; i < n; i++) {
        brim_value **at = &in[2 + i * PER_TENSOR], *w = pair[i].param;
        if (p->decay_all) w->decay = true;
        at[0] = w;
        at[1] = pair[i].grad;
        if (p->algo == BRIM_ADAMW || p->momentum != 0)
            at[2] = brim_state_like(g, "m:", "", w, BRIM_F32);
        if (p->algo == BRIM_ADAMW) at[3] = brim_state_like(g, "v:", "", w, BRIM_F32);
        if (brim_dtype_half(o->compute) && w->shape.rank >= 2)
            at[4] = brim_state_like(g, "", ".half", w, o->compute);
        if (p->ema) at[5] = brim_state_like(g, "ema:", "", w, BRIM_F32);
    }
    const brim_attr attrs[] = {
        BRIM_INT("algo", p->algo),
        BRIM_FLOAT("momentum", p->momentum),
        BRIM_INT("nesterov", p->nesterov),
        BRIM_FLOAT("beta1", p->beta1),
        BRIM_FLOAT("beta2", p->beta2),
        BRIM_FLOAT("eps", p->eps),
        BRIM_FLOAT("weight_decay", p->weight_decay),
        BRIM_FLOAT("clip", p->clip),
        BRIM_INT("dynamic", p->dynamic_scale),
        BRIM_INT("growth_interval", p->scale_interval),
        BRIM_FLOAT("growth", 2),
        BRIM_FLOAT("backoff", 0.5),
        BRIM_FLOAT("min_scale", p->scale_min),
        BRIM_FLOAT("max_scale", p->scale_max),
    };
    brim_emit(g, &brim_op_optimizer, NULL, in, (int)(2 + n * PER_TENSOR), attrs,
              (int)(sizeof attrs / sizeof *attrs));
    free(in);
    return brim_graph_check(g, err);
}

brim_status brim_pass_optimizer(brim_graph *g, const brim_compile_opts *o, brim_error *err)
{
    brim_status s = BRIM_OK;
    g->scope = "";
    if (!o->accumulate) s = brim_emit_optimizer(g, g->grads.at, g->grads.n, o, err);
    for (size_t i = 0; o->accumulate && i < g->grads.n; i++) {
        brim_value *in[] = {brim_state_like(g, "grad:", "", g->grads.at[i].param, BRIM_F32),
                            g->grads.at[i].grad, brim_step_input(g)};
        brim_emit(g, &brim_op_accumulate, NULL, in, 3, NULL, 0);
    }
    g->grads.n = 0;
    return s == BRIM_OK ? brim_graph_check(g, err) : s;
}

/* A parameter of `from` again in g. */
static brim_value *param_again(brim_graph *g, const brim_value *from)
{
    brim_value *w = brim_value_new(g, BRIM_VALUE_PARAM, from->name, from->dtype, &from->shape);
    if (!w) return NULL;
    w->layout = from->layout;
    w->trainable = from->trainable;
    w->decay = from->decay;
    w->init = from->init;
    return w;
}

brim_graph *brim_update_graph(const brim_graph *micro, const brim_compile_opts *o, brim_error *err)
{
    brim_graph *g = brim_graph_new(true);
    BRIM_VEC(brim_param_grad) pairs = {0};
    bool ok = g != NULL;
    for (size_t i = 0; ok && i < micro->nodes.n; i++) {
        const brim_node *n = micro->nodes.at[i];
        if (n->op != &brim_op_accumulate) continue;
        const brim_value *w = brim_value_find(micro, n->in[0]->name + strlen("grad:"));
        brim_param_grad pair = {param_again(g, w), NULL};
        ok = pair.param && (pair.grad = brim_state_like(g, "grad:", "", pair.param, BRIM_F32)) &&
             brim_vec_push(&pairs, pair);
    }
    brim_status s = ok ? brim_emit_optimizer(g, pairs.at, pairs.n, o, err)
                       : brim_fail(err, BRIM_ENOMEM, "update graph: out of memory");
    if (s == BRIM_OK) s = brim_graph_verify(g, err);
    free(pairs.at);
    if (s == BRIM_OK) return g;
    brim_graph_free(g);
    return NULL;
}
