#include "backend/memplan.h"

#include <stdint.h>
#include <string.h>

/* One piece of the arena: a value (with those that share its storage) or a workspace. */
typedef struct buffer {
    size_t bytes, offset;
    int first, last; /* steps, inclusive */
    brim_mem_kind kind;
    bool placed;
} buffer;

typedef struct planner {
    const brim_graph *g;
    const brim_step *step;
    buffer *buf;
    int n;
    int *of_value; /* buffer of each value, -1: none */
    int *of_step;  /* buffer of each step's workspace, -1: none */
    int *last_use; /* by value */
    bool reuse;
} planner;

static size_t round_up(size_t n)
{
    return (n + BRIM_PLAN_ALIGN - 1) & ~(size_t)(BRIM_PLAN_ALIGN - 1);
}

static void find_last_uses(planner *p)
{
    int end = (int)p->g->nodes.n;
    for (int i = 0; i < end; i++) {
        const brim_node *n = p->g->nodes.at[i];
        for (int k = 0; k < n->n_out; k++) p->last_use[n->out[k]->id] = i;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k]) p->last_use[n->in[k]->id] = i;
    }
    for (size_t i = 0; i < p->g->outputs.n; i++) p->last_use[p->g->outputs.at[i].value->id] = end;
}

/* Gradients are what backward nodes make; their names end in a prime (autodiff). */
static brim_mem_kind kind_of(const brim_node *n)
{
    size_t len = strlen(n->name);
    return len && n->name[len - 1] == '\'' ? BRIM_MEM_GRADIENT : BRIM_MEM_ACTIVATION;
}

/* The input whose storage output 0 of step i may take over, or -1: it must be a temporary that ends
 * here, of the same size, and read only once by this node. */
static int inplace_input(const planner *p, int i)
{
    const brim_node *n = p->g->nodes.at[i];
    if (!p->reuse || !n->op->inplace || p->step[i].impl->no_inplace || !p->step[i].out_used[0])
        return -1;
    for (int k = 0; k < n->n_in && k < 32; k++) {
        const brim_value *v = n->in[k];
        if (!(n->op->inplace >> k & 1) || !v || v->kind != BRIM_VALUE_TEMP ||
            p->last_use[v->id] != i)
            continue;
        if (p->of_value[v->id] < 0 || v->dtype != n->out[0]->dtype) continue;
        if (brim_value_bytes(v) != brim_value_bytes(n->out[0]) || v->layout != n->out[0]->layout)
            continue;
        int times = 0;
        for (int m = 0; m < n->n_in; m++) times += n->in[m] == v;
        if (times == 1) return k;
    }
    return -1;
}

static void add_buffer(planner *p, size_t bytes, int first, int last, brim_mem_kind kind)
{
    p->buf[p->n++] = (buffer){.bytes = round_up(bytes), .first = first, .last = last, .kind = kind};
}

static int collect(planner *p)
{
    int shared = 0;
    for (int i = 0; i < (int)p->g->nodes.n; i++) {
        const brim_node *n = p->g->nodes.at[i];
        int from = inplace_input(p, i);
        for (int k = 0; k < n->n_out; k++) {
            const brim_value *v = n->out[k];
            p->of_value[v->id] = -1;
            if (!p->step[i].out_used[k]) continue;
            if (k == 0 && from >= 0) {
                int b = p->of_value[v->id] = p->of_value[n->in[from]->id];
                if (p->last_use[v->id] > p->buf[b].last) p->buf[b].last = p->last_use[v->id];
                shared++;
                continue;
            }
            p->of_value[v->id] = p->n;
            add_buffer(p, brim_value_bytes(v), i, p->last_use[v->id], kind_of(n));
        }
        p->of_step[i] = p->step[i].workspace_bytes ? p->n : -1;
        if (p->step[i].workspace_bytes)
            add_buffer(p, p->step[i].workspace_bytes, i, i, BRIM_MEM_WORKSPACE);
    }
    return shared;
}

static const buffer *sort_base; /* qsort has no context; planning is done by one thread at a time */

static int larger_first(const void *x, const void *y)
{
    const buffer *a = sort_base + *(const int *)x, *b = sort_base + *(const int *)y;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return *(const int *)x - *(const int *)y;
}

static int by_offset(const void *x, const void *y)
{
    const buffer *a = *(const buffer *const *)x, *b = *(const buffer *const *)y;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* Lowest gap that holds b among placed buffers alive with it; `near` has room for all of them. */
static size_t lowest_gap(const planner *p, const buffer *b, const buffer **near)
{
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        const buffer *o = &p->buf[i];
        if (o->placed && (!p->reuse || (o->first <= b->last && b->first <= o->last))) near[n++] = o;
    }
    qsort(near, (size_t)n, sizeof *near, by_offset);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        if (near[i]->offset >= at + b->bytes) break;
        if (near[i]->offset + near[i]->bytes > at) at = near[i]->offset + near[i]->bytes;
    }
    return at;
}

static brim_status place(planner *p, brim_memplan *out, brim_error *err)
{
    int *order = brim_malloc(sizeof *order * (size_t)p->n);
    const buffer **near = brim_malloc(sizeof *near * (size_t)p->n);
    brim_status s =
        order && near ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "memory plan: out of memory");
    if (s == BRIM_OK) {
        for (int i = 0; i < p->n; i++) order[i] = i;
        sort_base = p->buf;
        qsort(order, (size_t)p->n, sizeof *order, larger_first);
        for (int i = 0; i < p->n; i++) {
            buffer *b = &p->buf[order[i]];
            b->offset = lowest_gap(p, b, near);
            b->placed = true;
            if (b->offset + b->bytes > out->bytes) out->bytes = b->offset + b->bytes;
        }
    }
    free(order);
    free(near);
    return s;
}

static void find_peak(const planner *p, brim_memplan *out)
{
    for (int t = 0; t < (int)p->g->nodes.n; t++) {
        size_t sum = 0, kind[BRIM_MEM_KINDS] = {0};
        for (int i = 0; i < p->n; i++)
            if (p->buf[i].first <= t && t <= p->buf[i].last) {
                sum += p->buf[i].bytes;
                kind[p->buf[i].kind] += p->buf[i].bytes;
            }
        if (sum <= out->live_bytes) continue;
        out->live_bytes = sum;
        out->peak_step = t;
        memcpy(out->at_peak, kind, sizeof kind);
    }
}

brim_status brim_memplan_make(const brim_graph *g, const brim_step *step, bool reuse,
                              brim_memplan *out, brim_error *err)
{
    size_t values = g->values.n, steps = g->nodes.n, buffers = values + steps;
    planner p = {.g = g, .step = step, .reuse = reuse};
    *out = (brim_memplan){0};
    p.buf = brim_calloc(buffers, sizeof *p.buf);
    p.of_value = brim_malloc(sizeof *p.of_value * values);
    p.of_step = brim_malloc(sizeof *p.of_step * steps);
    p.last_use = brim_malloc(sizeof *p.last_use * values);
    out->value_offset = brim_malloc(sizeof(size_t) * values);
    out->workspace_offset = brim_malloc(sizeof(size_t) * steps);
    bool ok = p.buf && p.of_value && p.of_step && p.last_use && out->value_offset &&
              out->workspace_offset;
    brim_status s = ok ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "memory plan: out of memory");
    if (ok) {
        for (size_t i = 0; i < values; i++) p.of_value[i] = p.last_use[i] = -1;
        find_last_uses(&p);
        out->n_inplace = collect(&p);
        s = place(&p, out, err);
    }
    for (size_t i = 0; i < values && s == BRIM_OK; i++)
        out->value_offset[i] = p.of_value[i] < 0 ? SIZE_MAX : p.buf[p.of_value[i]].offset;
    for (size_t i = 0; i < steps && s == BRIM_OK; i++)
        out->workspace_offset[i] = p.of_step[i] < 0 ? SIZE_MAX : p.buf[p.of_step[i]].offset;
    if (s == BRIM_OK)
        find_peak(&p, out);
    else
        brim_memplan_release(out);
    free(p.buf);
    free(p.of_value);
    free(p.of_step);
    free(p.last_use);
    return s;
}

void brim_memplan_release(brim_memplan *p)
{
    free(p->value_offset);
    free(p->workspace_offset);
    *p = (brim_memplan){0};
}
