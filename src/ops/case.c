#include "ops/case.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_IN = 64, MAX_ATTR = 16 };

/* Reads "f32[2,3]" or "-" and the blanks after it; false when malformed. */
static bool parse_input(const char **text, bool *absent, brim_dtype *t, brim_shape *s)
{
    const char *at = *text;
    *s = (brim_shape){0};
    if ((*absent = *at == '-')) {
        at++;
    } else {
        size_t len = strcspn(at, "[");
        for (*t = 0; *t < BRIM_DTYPE_COUNT; ++*t)
            if (strlen(brim_dtype_name(*t)) == len && !strncmp(brim_dtype_name(*t), at, len)) break;
        if (*t == BRIM_DTYPE_COUNT || at[len] != '[') return false;
        at += len + 1;
        while (*at != ']') {
            char *end;
            if (s->rank == BRIM_MAX_RANK) return false;
            s->dim[s->rank++] = strtoll(at, &end, 10);
            if (end == at || (*end != ',' && *end != ']')) return false;
            at = end + (*end == ',');
        }
        at++;
    }
    while (isspace((unsigned char)*at)) at++;
    *text = at;
    return true;
}

/* Whether mixed precision may hand input k over in half. */
static bool may_be_half(const brim_op *op, int k)
{
    if (op->amp_in) return brim_input_in(op->amp_in, k);
    return op == &brim_op_fused || op->max_in == 1; /* moves and fusions take any type */
}

static brim_layout layout_of(const brim_op *op, const brim_shape *s, const brim_case_opts *o)
{
    bool last = o->channels_last && op->layout != BRIM_LAYOUT_PLAIN && s->rank == 4;
    return last ? BRIM_LAYOUT_CHANNELS_LAST : BRIM_LAYOUT_ROW;
}

static brim_value *make_input(brim_graph *g, const brim_op *op, int k, brim_dtype t,
                              const brim_shape *s, const brim_case_opts *o)
{
    char name[16];
    snprintf(name, sizeof name, "in%d", k);
    if (t == BRIM_F32 && (!brim_dtype_half(o->real) || may_be_half(op, k))) t = o->real;
    bool changes = op->mutates_all || brim_input_in(op->mutates, k);
    brim_value *v = brim_value_new(g, changes ? BRIM_VALUE_STATE : BRIM_VALUE_INPUT, name, t, s);
    if (!v) return NULL;
    v->layout = layout_of(op, s, o);
    v->decay = s->rank >= 2;
    return v;
}

/* Adds op(x, y, z) to the running sum, with arguments moved to where the operation is smooth. */
static int add_term(brim_body *b, brim_scalar_op op, int sum, int x, int y, int z)
{
    if (op == BRIM_S_LOG || op == BRIM_S_SQRT) x = brim_body_op(b, BRIM_S_SIGMOID, x, 0, 0);
    if (op == BRIM_S_EXP) x = brim_body_op(b, BRIM_S_TANH, x, 0, 0);
    if (op == BRIM_S_DIV) y = brim_body_op(b, BRIM_S_EXP, y, 0, 0);
    if (op == BRIM_S_GT) y = brim_body_const(b, 0.25); /* exact in every type */
    if (op == BRIM_S_SELECT) x = brim_body_op(b, BRIM_S_GT, x, brim_body_const(b, -0.25), 0);
    return brim_body_op(b, BRIM_S_ADD, sum, brim_body_op(b, op, x, y, z), 0);
}

static bool attach_body(brim_graph *g, brim_node *n)
{
    brim_body *b = BRIM_ARENA_NEW(&g->arena, brim_body);
    if (!b) return false;
    b->n_in = n->n_in;
    b->n_out = n->n_out;
    int in[BRIM_BODY_MAX_IN];
    for (int k = 0; k < n->n_in; k++) in[k] = brim_body_load(b, k);
    int sum = brim_body_const(b, 0.5);
    for (int op = BRIM_S_ADD; op < BRIM_SCALAR_OP_COUNT; op++)
        sum = add_term(b, (brim_scalar_op)op, sum, in[op % n->n_in], in[(op + 1) % n->n_in],
                       in[(op + 2) % n->n_in]);
    for (int k = 0; k < n->n_out && k < BRIM_BODY_MAX_OUT; k++) {
        b->out[k] = (uint8_t)sum;
        sum = brim_body_op(b, BRIM_S_TANH, sum, 0, 0);
    }
    n->body = b;
    return !b->full;
}

brim_node *brim_case_emit(brim_graph *g, const brim_op *op, const brim_case *c,
                          const brim_case_opts *o)
{
    brim_value *in[MAX_IN];
    brim_attr attr[MAX_ATTR];
    int n_in = 0, n_attr = brim_attr_parse(&g->arena, c->attrs, attr, MAX_ATTR);
    const char *at = c->inputs;
    bool good = n_attr >= 0;
    while (good && *at) {
        bool absent;
        brim_dtype t;
        brim_shape s;
        good = n_in < MAX_IN && parse_input(&at, &absent, &t, &s);
        if (!good) break;
        in[n_in] = absent ? NULL : make_input(g, op, n_in, t, &s, o);
        n_in++;
    }
    if (!good) {
        brim_graph_fail(g, BRIM_EFORMAT, "%s: case %s is malformed", op->name, c->name);
        return NULL;
    }
    brim_node *n = brim_emit(g, op, NULL, in, n_in, attr, n_attr);
    if (!n) return NULL;
    for (int k = 0; k < n->n_out && op != &brim_op_relayout; k++)
        n->out[k]->layout = layout_of(op, &n->out[k]->shape, o);
    if (op == &brim_op_fused && !attach_body(g, n)) {
        brim_graph_fail(g, BRIM_ENOMEM, "%s: case %s has no room for its body", op->name, c->name);
        return NULL;
    }
    return n;
}

static int64_t int_limit(const brim_case *c, const brim_node *n)
{
    if (c->int_below) return c->int_below;
    return n->in[0] && n->in[0]->shape.rank > 1 ? n->in[0]->shape.dim[1] : 2;
}

void brim_case_fill(const brim_case *c, const brim_node *n, int k, brim_rng *r,
                    const brim_tensor *t)
{
    bool given = c->lo != 0 || c->hi != 0;
    double lo = given ? c->lo : -1, hi = given ? c->hi : 1;
    int64_t count = brim_tensor_count(t), below = int_limit(c, n);
    for (int64_t i = 0; i < count; i++) {
        double x = brim_rng_uniform(r, lo, hi);
        if (!brim_dtype_real(t->dtype))
            x = (double)brim_rng_below(r, (uint64_t)(below > 0 ? below : 1));
        else if (brim_input_in(c->positive_in, k))
            x = fabs(x) + 0.1;
        brim_tensor_put(t, i, x);
    }
}
