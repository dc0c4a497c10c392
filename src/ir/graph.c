#include "ir/graph.h"
#include "ir/op.h"

#include <stdio.h>
#include <stdarg.h>
#include <string.h>

brim_graph *brim_graph_new(bool training)
{
    brim_graph *g = brim_calloc(1, sizeof *g);
    if (!g) return NULL;
    brim_arena_init(&g->arena);
    g->training = training;
    g->scope = "";
    return g;
}

void brim_graph_free(brim_graph *g)
{
    if (!g) return;
    free(g->nodes.at);
    free(g->values.at);
    free(g->outputs.at);
    free(g->grads.at);
    brim_arena_release(&g->arena);
    free(g);
}

bool brim_graph_training(const brim_graph *g)
{
    return g->training;
}

brim_status brim_graph_check(const brim_graph *g, brim_error *err)
{
    if (g->error.status != BRIM_OK && err) *err = g->error;
    return g->error.status;
}

brim_value *brim_graph_fail(brim_graph *g, brim_status status, const char *fmt, ...)
{
    if (g->error.status != BRIM_OK) return NULL;
    char text[sizeof g->error.text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    brim_fail(&g->error, status, "%s", text);
    return NULL;
}

static brim_value *out_of_memory(brim_graph *g)
{
    return brim_graph_fail(g, BRIM_ENOMEM, "graph: out of memory");
}

brim_value *brim_value_new(brim_graph *g, brim_value_kind kind, const char *name, brim_dtype t,
                           const brim_shape *shape)
{
    brim_value *v = BRIM_ARENA_NEW(&g->arena, brim_value);
    if (!v || !(v->name = brim_arena_strdup(&g->arena, name)) || !brim_vec_push(&g->values, v))
        return out_of_memory(g);
    v->id = (int)g->values.n - 1;
    v->kind = kind;
    v->dtype = t;
    v->shape = *shape;
    return v;
}

size_t brim_value_bytes(const brim_value *v)
{
    int64_t n = brim_shape_count(&v->shape);
    return n < 0 ? 0 : (size_t)n * brim_dtype_bytes(v->dtype);
}

int brim_value_rank(const brim_value *v)
{
    return v ? v->shape.rank : 0;
}

int64_t brim_value_dim(const brim_value *v, int k)
{
    if (!v) return 0;
    if (k < 0) k += v->shape.rank;
    return k >= 0 && k < v->shape.rank ? v->shape.dim[k] : 0;
}

brim_dtype brim_value_dtype(const brim_value *v)
{
    return v ? v->dtype : BRIM_F32;
}

brim_value *brim_value_find(const brim_graph *g, const char *name)
{
    for (size_t i = 0; i < g->values.n; i++) {
        brim_value *v = g->values.at[i];
        if (v->kind != BRIM_VALUE_TEMP && v->kind != BRIM_VALUE_CONST && !strcmp(v->name, name))
            return v;
    }
    return NULL;
}

static brim_value *named(brim_graph *g, brim_value_kind kind, const char *name, brim_dtype t,
                         int rank, const int64_t *dim)
{
    if (g->error.status != BRIM_OK) return NULL;
    if (rank < 0 || rank > BRIM_MAX_RANK)
        return brim_graph_fail(g, BRIM_ESHAPE, "%s: rank %d (0 to %d are possible)", name, rank,
                               BRIM_MAX_RANK);
    brim_shape s = brim_shape_make(rank, dim);
    char text[128];
    if (brim_shape_count(&s) < 0 || brim_shape_count(&s) > INT64_MAX / 16)
        return brim_graph_fail(g, BRIM_ESHAPE, "%s: shape %s is negative or too large", name,
                               brim_shape_text(text, &s));
    if (kind != BRIM_VALUE_CONST && brim_value_find(g, name))
        return brim_graph_fail(g, BRIM_EINVAL, "%s: this name is taken (names must be unique)",
                               name);
    return brim_value_new(g, kind, name, t, &s);
}

brim_value *brim_input(brim_graph *g, const char *name, brim_dtype t, int rank, const int64_t *dim)
{
    return named(g, BRIM_VALUE_INPUT, name, t, rank, dim);
}

brim_value *brim_param(brim_graph *g, const char *name, int rank, const int64_t *dim,
                       brim_init init)
{
    brim_value *v = named(g, BRIM_VALUE_PARAM, name, BRIM_F32, rank, dim);
    if (!v) return NULL;
    v->init = init;
    v->trainable = true;
    v->decay = rank >= 2;
    return v;
}

brim_value *brim_buffer(brim_graph *g, const char *name, int rank, const int64_t *dim,
                        brim_init init)
{
    brim_value *v = named(g, BRIM_VALUE_STATE, name, BRIM_F32, rank, dim);
    if (!v) return NULL;
    v->init = init;
    v->saved = true;
    return v;
}

brim_value *brim_const(brim_graph *g, const char *name, int rank, const int64_t *dim,
                       const float *data)
{
    brim_value *v = named(g, BRIM_VALUE_CONST, name, BRIM_F32, rank, dim);
    if (!v) return NULL;
    size_t bytes = brim_value_bytes(v);
    void *copy = brim_arena_alloc(&g->arena, bytes);
    if (!copy) return out_of_memory(g);
    memcpy(copy, data, bytes);
    v->data = copy;
    return v;
}

void brim_output_mark(brim_graph *g, const char *name, brim_value *v)
{
    if (!v || g->error.status != BRIM_OK) return;
    brim_output o = {brim_arena_strdup(&g->arena, name), v};
    if (!o.name || !brim_vec_push(&g->outputs, o)) out_of_memory(g);
}

void brim_scope(brim_graph *g, const char *name)
{
    const char *copy = brim_arena_strdup(&g->arena, name);
    if (copy)
        g->scope = copy;
    else
        out_of_memory(g);
}

bool brim_node_set_outputs(brim_graph *g, brim_node *n, int count)
{
    n->out = BRIM_ARENA_ARRAY(&g->arena, brim_value *, count);
    n->n_out = count;
    brim_shape scalar = {0};
    for (int k = 0; n->out && k < count; k++) {
        n->out[k] = brim_value_new(g, BRIM_VALUE_TEMP, n->name, BRIM_F32, &scalar);
        if (!n->out[k]) return false;
        n->out[k]->producer = n;
        n->out[k]->out_index = k;
    }
    return n->out || !count;
}

void brim_out_set(brim_node *n, int k, brim_dtype t, const brim_shape *shape)
{
    n->out[k]->dtype = t;
    n->out[k]->shape = *shape;
}

static brim_status check_arity(const brim_op *op, brim_value *const *in, int n_in, brim_error *err)
{
    if (n_in < op->min_in || (op->max_in >= 0 && n_in > op->max_in))
        return brim_fail(err, BRIM_EINVAL, "%d inputs given", n_in);
    for (int k = 0; k < n_in; k++)
        if (!in[k] && !brim_input_in(op->optional_in, k))
            return brim_fail(err, BRIM_EINVAL, "input %d is missing", k);
    return BRIM_OK;
}

/* Every size that infer computed must be one that bytes of it can be counted. */
static brim_status check_sizes(const brim_node *n, brim_error *err)
{
    for (int k = 0; k < n->n_out; k++) {
        int64_t count = brim_shape_count(&n->out[k]->shape);
        char text[128];
        if (count < 0 || count > INT64_MAX / 16)
            return brim_fail(err, BRIM_ESHAPE, "output %s is too large",
                             brim_shape_text(text, &n->out[k]->shape));
    }
    return BRIM_OK;
}

brim_node *brim_emit(brim_graph *g, const brim_op *op, const char *name, brim_value *const *in,
                     int n_in, const brim_attr *attr, int n_attr)
{
    if (g->error.status != BRIM_OK) return NULL;
    brim_node *n = BRIM_ARENA_NEW(&g->arena, brim_node);
    if (!n) return out_of_memory(g), NULL;
    const char *own = name ? name : op->name;
    n->name = *g->scope ? brim_arena_printf(&g->arena, "%s.%s", g->scope, own)
                        : brim_arena_strdup(&g->arena, own);
    n->op = op;
    n->id = g->next_node_id++;
    n->n_in = n_in;
    n->in = BRIM_ARENA_ARRAY(&g->arena, brim_value *, n_in);
    n->n_attr = n_attr;
    n->attr = BRIM_ARENA_ARRAY(&g->arena, brim_attr, n_attr);
    if (!n->name || !n->in || !n->attr) return out_of_memory(g), NULL;
    if (n_in) memcpy(n->in, in, sizeof *in * (size_t)n_in);
    if (n_attr) memcpy(n->attr, attr, sizeof *attr * (size_t)n_attr);

    brim_error err = {0};
    brim_status s = check_arity(op, in, n_in, &err);
    if (s == BRIM_OK && op->n_out >= 0 && !brim_node_set_outputs(g, n, op->n_out)) return NULL;
    if (s == BRIM_OK) s = op->infer(g, n, &err);
    if (s == BRIM_OK) s = check_sizes(n, &err);
    if (s != BRIM_OK) return brim_graph_fail(g, s, "%s: %s: %s", n->name, op->name, err.text), NULL;
    if (g->error.status != BRIM_OK) return NULL;
    if (!brim_vec_push(&g->nodes, n)) return out_of_memory(g), NULL;
    return n;
}

brim_value *brim_emit1(brim_graph *g, const brim_op *op, const char *name, brim_value *const *in,
                       int n_in, const brim_attr *attr, int n_attr)
{
    brim_node *n = brim_emit(g, op, name, in, n_in, attr, n_attr);
    return n && n->n_out ? n->out[0] : NULL;
}

brim_rewrite brim_rewrite_begin(brim_graph *g)
{
    brim_rewrite r = {g->nodes.at, g->nodes.n};
    g->nodes.at = NULL;
    g->nodes.n = g->nodes.cap = 0;
    return r;
}

void brim_graph_keep(brim_graph *g, brim_node *n)
{
    if (!brim_vec_push(&g->nodes, n)) out_of_memory(g);
}

void brim_rewrite_end(brim_graph *g, brim_rewrite *r)
{
    (void)g;
    free(r->old);
    *r = (brim_rewrite){0};
}

void brim_replace_uses(brim_graph *g, brim_value *from, brim_value *to)
{
    for (size_t i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->n_in; k++)
            if (g->nodes.at[i]->in[k] == from) g->nodes.at[i]->in[k] = to;
    for (size_t i = 0; i < g->outputs.n; i++)
        if (g->outputs.at[i].value == from) g->outputs.at[i].value = to;
    for (size_t i = 0; i < g->grads.n; i++)
        if (g->grads.at[i].grad == from) g->grads.at[i].grad = to;
}

int *brim_use_counts(const brim_graph *g)
{
    int *uses = brim_calloc(g->values.n, sizeof *uses);
    if (!uses) return NULL;
    for (size_t i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->n_in; k++)
            if (g->nodes.at[i]->in[k]) uses[g->nodes.at[i]->in[k]->id]++;
    for (size_t i = 0; i < g->outputs.n; i++) uses[g->outputs.at[i].value->id]++;
    for (size_t i = 0; i < g->grads.n; i++) uses[g->grads.at[i].grad->id]++;
    return uses;
}

brim_status brim_node_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    brim_status s = n->op->infer(g, n, err);
    if (s != BRIM_OK) brim_error_context(err, "%s: %s", n->name, n->op->name);
    return s;
}

brim_value *brim_output_find(const brim_graph *g, const char *name)
{
    for (size_t i = 0; i < g->outputs.n; i++)
        if (!strcmp(g->outputs.at[i].name, name)) return g->outputs.at[i].value;
    return NULL;
}
