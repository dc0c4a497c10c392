/* Reverse-mode differentiation: walks the forward nodes backwards and lets each operator emit its
 * gradient nodes. The value marked as output "loss" is the sum over samples; its gradient starts
 * from loss_seed = loss scale / samples in the window. */
#include "pass/pass.h"

typedef struct grads {
    brim_value **of; /* by id of the forward value; NULL: no gradient yet */
    bool *need;      /* by id: does a trained parameter lie behind this value? */
    size_t n;
} grads;

static void find_needs(const brim_graph *g, grads *d)
{
    for (size_t i = 0; i < g->values.n; i++) {
        const brim_value *v = g->values.at[i];
        d->need[i] = v->kind == BRIM_VALUE_PARAM && v->trainable;
    }
    for (size_t i = 0; i < g->nodes.n; i++) {
        const brim_node *n = g->nodes.at[i];
        bool any = false;
        for (int k = 0; k < n->n_in; k++)
            any |= n->in[k] && !(k < 32 && n->op->no_grad_in >> k & 1) && d->need[n->in[k]->id];
        if (any && n->op->grad)
            for (int k = 0; k < n->n_out; k++) d->need[n->out[k]->id] = true;
    }
}

static void add_grad(brim_graph *g, grads *d, const brim_value *v, brim_value *more)
{
    brim_value **at = &d->of[v->id];
    if (!*at)
        *at = more;
    else {
        brim_dtype t = brim_dtype_promote((*at)->dtype, more->dtype);
        *at = brim_add(g, brim_cast(g, *at, t), brim_cast(g, more, t));
    }
}

static brim_status differentiate(brim_graph *g, grads *d, const brim_node *n, brim_error *err)
{
    enum { MAX = 64 };
    brim_value *dout[MAX] = {0}, *din[MAX] = {0};
    bool need[MAX] = {0}, any_out = false, any_in = false;
    if (n->n_in > MAX || n->n_out > MAX)
        return brim_fail(err, BRIM_EUNSUPPORTED, "%s: too many inputs to differentiate", n->name);
    for (int k = 0; k < n->n_out; k++) any_out |= (dout[k] = d->of[n->out[k]->id]) != NULL;
    for (int k = 0; k < n->n_in; k++)
        any_in |= need[k] =
            n->in[k] && !(k < 32 && n->op->no_grad_in >> k & 1) && d->need[n->in[k]->id];
    if (!any_out || !any_in || !n->op->grad) return BRIM_OK;
    size_t first = g->nodes.n;
    brim_status s = n->op->grad(g, n, dout, need, din);
    if (s == BRIM_OK) s = brim_graph_check(g, NULL);
    if (s != BRIM_OK)
        return brim_graph_check(g, err) != BRIM_OK
                   ? s
                   : brim_fail(err, s, "%s: gradient failed", n->name);
    for (size_t i = first; i < g->nodes.n; i++) {
        char *name =
            brim_arena_printf(&g->arena, "%s'", n->name); /* profiles show whose gradient it is */
        if (name) g->nodes.at[i]->name = name;
    }
    for (int k = 0; k < n->n_in; k++)
        if (need[k] && din[k]) add_grad(g, d, n->in[k], din[k]);
    return brim_graph_check(g, err);
}

brim_status brim_pass_autodiff(brim_graph *g, const brim_compile_opts *o, brim_error *err)
{
    (void)o;
    brim_value *loss = brim_output_find(g, "loss");
    if (!loss) return brim_fail(err, BRIM_EINVAL, "the model marks no output \"loss\" to train on");
    if (loss->shape.rank != 0)
        return brim_fail(err, BRIM_ESHAPE,
                         "the output \"loss\" must be a scalar (reduce it first)");

    size_t forward = g->nodes.n;
    grads d = {.n = g->values.n};
    d.of = brim_calloc(d.n, sizeof(brim_value *));
    d.need = brim_calloc(d.n, sizeof(bool));
    brim_status s = d.of && d.need ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "out of memory");
    if (s == BRIM_OK) {
        find_needs(g, &d);
        const char *scope = g->scope;
        g->scope = "";
        brim_value *in[] = {brim_step_input(g), brim_scaler_state(g)};
        brim_value *seed = brim_emit1(g, &brim_op_loss_seed, NULL, in, 2, NULL, 0);
        d.of[loss->id] = brim_cast(g, seed, loss->dtype);
        for (size_t i = forward; i-- > 0 && s == BRIM_OK;)
            s = differentiate(g, &d, g->nodes.at[i], err);
        g->scope = scope;
    }
    for (size_t i = 0; i < d.n && s == BRIM_OK; i++) {
        brim_value *v = g->values.at[i];
        if (v->kind != BRIM_VALUE_PARAM || !v->trainable || !d.of[i]) continue;
        brim_param_grad pair = {v, brim_cast(g, d.of[i], BRIM_F32)};
        if (!pair.grad || !brim_vec_push(&g->grads, pair))
            s = brim_fail(err, BRIM_ENOMEM, "out of memory");
    }
    if (s == BRIM_OK && !g->grads.n)
        s = brim_fail(err, BRIM_EINVAL, "no parameter is left to train (loosen --freeze)");
    free(d.of);
    free(d.need);
    return s;
}
