/* Gives 4-D values their physical layout. Values that meet in convolutions, pooling and norms,
 * directly or through pointwise nodes, become channels-last together; operators that see memory
 * order (reshape, ...) keep row-major, and a relayout node stands at each border. */
#include "pass/pass.h"

#include <string.h>

static int find(int *parent, int i)
{
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
}

static bool four(const brim_value *v)
{
    return v && v->shape.rank == 4;
}

/* Both layouts are the same bytes. */
static bool indifferent(const brim_value *v)
{
    return v->shape.dim[1] == 1 || (v->shape.dim[2] == 1 && v->shape.dim[3] == 1);
}

static void join(int *parent, const brim_value *a, const brim_value *b)
{
    parent[find(parent, a->id)] = find(parent, b->id);
}

static void unite(const brim_graph *g, int *parent, bool *conv)
{
    for (size_t i = 0; i < g->values.n; i++)
        if (g->values.at[i]->like) join(parent, g->values.at[i], g->values.at[i]->like);
    for (size_t i = 0; i < g->nodes.n; i++) {
        const brim_node *n = g->nodes.at[i];
        const brim_value *first = NULL;
        for (int k = 0; k < n->n_in + n->n_out; k++) {
            const brim_value *v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
            if (!four(v)) continue;
            if (n->op->layout == BRIM_LAYOUT_CONV) conv[v->id] = true;
            if (n->op->layout == BRIM_LAYOUT_PLAIN) continue;
            /* The optimizer's inputs: each gradient is laid out as the weight before it. */
            if (!first || (n->op->mutates_all && v->kind == BRIM_VALUE_PARAM)) first = v;
            join(parent, v, first);
        }
    }
}

static brim_status permute_const(brim_graph *g, brim_value *v, brim_error *err)
{
    void *data = brim_arena_alloc(&g->arena, brim_value_bytes(v));
    if (!data) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    brim_tensor from = brim_tensor_make((void *)v->data, v->dtype, &v->shape, BRIM_LAYOUT_ROW);
    brim_tensor to = brim_tensor_make(data, v->dtype, &v->shape, BRIM_LAYOUT_CHANNELS_LAST);
    brim_tensor_copy(&to, &from);
    v->data = data;
    return BRIM_OK;
}

static brim_value *relayout(brim_graph *g, brim_value *v, brim_layout to)
{
    brim_value *y =
        BRIM_EMIT(g, &brim_op_relayout, NULL, ((brim_value *[]){v}), BRIM_INT("to", to));
    if (y) y->layout = to;
    return y;
}

/* Borders of row-major operators: relayout before and after. */
static brim_status borders(brim_graph *g, brim_error *err)
{
    brim_rewrite r = brim_rewrite_begin(g);
    for (size_t i = 0; i < r.n_old; i++) {
        brim_node *n = r.old[i];
        if (n->op->layout != BRIM_LAYOUT_PLAIN) {
            brim_graph_keep(g, n);
            continue;
        }
        for (int k = 0; k < n->n_in; k++)
            if (four(n->in[k]) && n->in[k]->layout == BRIM_LAYOUT_CHANNELS_LAST &&
                !indifferent(n->in[k]))
                n->in[k] = relayout(g, n->in[k], BRIM_LAYOUT_ROW);
        brim_graph_keep(g, n);
        for (int k = 0; k < n->n_out; k++) {
            brim_value *v = n->out[k];
            if (!four(v) || v->layout != BRIM_LAYOUT_CHANNELS_LAST || indifferent(v)) continue;
            v->layout = BRIM_LAYOUT_ROW;
            brim_value *y = relayout(g, v, BRIM_LAYOUT_CHANNELS_LAST);
            if (!y) break;
            for (size_t j = i + 1; j < r.n_old; j++)
                for (int m = 0; m < r.old[j]->n_in; m++)
                    if (r.old[j]->in[m] == v) r.old[j]->in[m] = y;
        }
    }
    brim_rewrite_end(g, &r);
    return brim_graph_check(g, err);
}

brim_status brim_pass_layout(brim_graph *g, const brim_compile_opts *o, brim_error *err)
{
    (void)o;
    size_t n = g->values.n;
    int *parent = brim_malloc(n * sizeof *parent);
    bool *conv = brim_calloc(n, sizeof *conv), *root = brim_calloc(n, sizeof *root);
    brim_status s = parent && conv && root ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "out of memory");
    if (s == BRIM_OK) {
        for (size_t i = 0; i < n; i++) parent[i] = (int)i;
        unite(g, parent, conv);
        for (size_t i = 0; i < n; i++) root[find(parent, (int)i)] |= conv[i];
    }
    for (size_t i = 0; i < n && s == BRIM_OK; i++) {
        brim_value *v = g->values.at[i];
        if (!four(v) || !root[find(parent, (int)i)] || v->layout == BRIM_LAYOUT_CHANNELS_LAST)
            continue;
        v->layout = BRIM_LAYOUT_CHANNELS_LAST;
        if (v->kind == BRIM_VALUE_CONST) s = permute_const(g, v, err);
    }
    free(parent);
    free(conv);
    free(root);
    return s == BRIM_OK ? borders(g, err) : s;
}
