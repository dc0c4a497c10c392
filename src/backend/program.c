#include "backend/program.h"
#include "base/clock.h"

#include <string.h>

static brim_tensor describe(const brim_value *v)
{
    return v ? brim_tensor_make(NULL, v->dtype, &v->shape, v->layout) : (brim_tensor){0};
}

static const brim_impl *choose(const brim_backend *b, const brim_node *n, brim_str *log,
                               brim_error *err)
{
    brim_str why = {0};
    const brim_impl *impl = brim_choose(b, n, &why);
    if (log) brim_str_add(log, brim_str_text(&why));
    if (!impl)
        brim_fail(err, BRIM_EUNSUPPORTED, "%s (%s): does not run on %s (%s)", n->name, n->op->name,
                  b->name, why.n ? why.at : "nothing there computes it");
    brim_str_free(&why);
    return impl;
}

static size_t aligned(size_t bytes)
{
    return (bytes + BRIM_PLAN_ALIGN - 1) / BRIM_PLAN_ALIGN * BRIM_PLAN_ALIGN;
}

/* On a device of its own: where inputs lie in a slot, and constants. */
static brim_status place_copies(brim_program *p, brim_error *err)
{
    if (!p->backend->device) return BRIM_OK;
    p->feed = brim_calloc(p->graph->values.n, sizeof *p->feed);
    if (!p->feed) return brim_fail(err, BRIM_ENOMEM, "program: out of memory");
    for (size_t i = 0; i < p->graph->values.n; i++) {
        const brim_value *v = p->graph->values.at[i];
        size_t *end = v->kind == BRIM_VALUE_INPUT   ? &p->input_bytes
                      : v->kind == BRIM_VALUE_CONST ? &p->const_bytes
                                                    : NULL;
        if (!end) continue;
        p->plan.value_offset[v->id] = *end;
        *end += aligned(brim_value_bytes(v));
    }
    return BRIM_OK;
}

static brim_status make_step(brim_program *p, int i, const int *uses, brim_str *log,
                             brim_error *err)
{
    brim_step *s = &p->step[i];
    brim_node *n = p->graph->nodes.at[i];
    s->node = n;
    s->impl = choose(p->backend, n, log, err);
    if (!s->impl) return BRIM_EUNSUPPORTED;
    s->in = BRIM_ARENA_ARRAY(&p->arena, brim_tensor, n->n_in);
    s->out = BRIM_ARENA_ARRAY(&p->arena, brim_tensor, n->n_out);
    s->out_used = BRIM_ARENA_ARRAY(&p->arena, bool, n->n_out);
    if (!s->in || !s->out || !s->out_used)
        return brim_fail(err, BRIM_ENOMEM, "program: out of memory");
    for (int k = 0; k < n->n_in; k++) s->in[k] = describe(n->in[k]);
    for (int k = 0; k < n->n_out; k++) {
        s->out[k] = describe(n->out[k]);
        s->out_used[k] = uses[n->out[k]->id] > 0;
    }
    brim_status st = s->impl->prepare ? s->impl->prepare(s, err) : BRIM_OK;
    if (st != BRIM_OK) brim_error_context(err, "%s (%s)", n->name, s->impl->name);
    p->state_bytes += s->state_bytes;
    return st;
}

brim_status brim_program_build(const brim_backend *b, brim_graph *g, brim_str *log,
                               brim_program **out, brim_error *err)
{
    *out = NULL;
    brim_program *p = brim_calloc(1, sizeof *p);
    if (!p) {
        brim_graph_free(g);
        return brim_fail(err, BRIM_ENOMEM, "program: out of memory");
    }
    p->backend = b;
    p->graph = g;
    brim_arena_init(&p->arena);
    int *uses = brim_use_counts(g);
    p->step = brim_calloc(g->nodes.n, sizeof *p->step);
    brim_status s =
        uses && p->step ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "program: out of memory");
    for (int i = 0; i < (int)g->nodes.n && s == BRIM_OK; i++) {
        p->n_steps = i + 1;
        s = make_step(p, i, uses, log, err);
    }
    if (s == BRIM_OK) s = brim_memplan_make(g, p->step, true, &p->plan, err);
    free(uses);
    if (s == BRIM_OK) s = place_copies(p, err);
    if (s == BRIM_OK)
        *out = p;
    else
        brim_program_free(p);
    return s;
}

void brim_program_free(brim_program *p)
{
    if (!p) return;
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i].impl && p->step[i].impl->release) p->step[i].impl->release(&p->step[i]);
    brim_program_profile(p, false, NULL);
    for (int k = 0; k < BRIM_SLOTS; k++)
        if (p->recording[k]) p->backend->device->forget(p->recording[k]);
    free(p->step);
    free(p->feed);
    brim_memplan_release(&p->plan);
    brim_arena_release(&p->arena);
    brim_graph_free(p->graph);
    free(p);
}

/* Address of a value; NULL for an INPUT of host memory, which is fed later. */
static void *address(const brim_program *p, const brim_value *v, const brim_store *store,
                     char *arena)
{
    size_t offset = p->plan.value_offset[v->id];
    switch (v->kind) {
    case BRIM_VALUE_TEMP: return offset == SIZE_MAX ? NULL : arena + offset;
    case BRIM_VALUE_PARAM:
    case BRIM_VALUE_STATE: {
        const brim_entry *e = brim_store_find(store, v->name);
        return e ? e->data : NULL;
    }
    case BRIM_VALUE_CONST: return p->backend->device ? p->consts + offset : (void *)v->data;
    case BRIM_VALUE_INPUT: break;
    }
    return p->backend->device ? p->slot[0] + offset : NULL;
}

void brim_program_place(brim_program *p, char *const slot[BRIM_SLOTS], char *consts)
{
    p->consts = consts;
    for (int k = 0; k < BRIM_SLOTS; k++) p->slot[k] = slot[k];
    for (size_t i = 0; i < p->graph->values.n; i++) {
        const brim_value *v = p->graph->values.at[i];
        if (v->kind == BRIM_VALUE_CONST)
            p->backend->upload(consts + p->plan.value_offset[v->id], v->data, brim_value_bytes(v));
    }
}

brim_status brim_program_bind(brim_program *p, const brim_store *store, void *arena,
                              brim_error *err)
{
    for (int i = 0; i < p->n_steps; i++) {
        brim_step *s = &p->step[i];
        for (int k = 0; k < s->node->n_in; k++) {
            const brim_value *v = s->node->in[k];
            if (!v || (v->kind == BRIM_VALUE_INPUT && !p->backend->device)) continue;
            s->in[k].data = address(p, v, store, arena);
            if (!s->in[k].data)
                return brim_fail(err, BRIM_EINVAL, "%s: %s has no memory", s->node->name, v->name);
        }
        for (int k = 0; k < s->node->n_out; k++)
            s->out[k].data = s->out_used[k] ? address(p, s->node->out[k], store, arena) : NULL;
        if (s->workspace_bytes) s->workspace = (char *)arena + p->plan.workspace_offset[i];
    }
    return BRIM_OK;
}

/* All steps read input v from there. */
static void read_from(brim_program *p, const brim_value *v, const void *data)
{
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->step[i].node->n_in; k++)
            if (p->step[i].node->in[k] == v) p->step[i].in[k].data = (void *)data;
}

bool brim_program_feed(brim_program *p, const char *name, const void *data)
{
    const brim_value *v = brim_value_find(p->graph, name);
    if (!v || v->kind != BRIM_VALUE_INPUT) return false;
    if (p->backend->device)
        p->feed[v->id] = data;
    else
        read_from(p, v, data);
    return true;
}

void brim_program_use_slot(brim_program *p, int slot)
{
    for (size_t i = 0; i < p->graph->values.n; i++) {
        const brim_value *v = p->graph->values.at[i];
        if (v->kind == BRIM_VALUE_INPUT)
            read_from(p, v, p->slot[slot] + p->plan.value_offset[v->id]);
    }
}

void brim_program_feed_now(brim_program *p)
{
    brim_program_use_slot(p, 0);
    for (size_t i = 0; i < p->graph->values.n; i++) {
        const brim_value *v = p->graph->values.at[i];
        if (v->kind == BRIM_VALUE_INPUT && p->feed[v->id])
            p->backend->upload(p->slot[0] + p->plan.value_offset[v->id], p->feed[v->id],
                               brim_value_bytes(v));
    }
}

void brim_program_run(brim_program *p)
{
    if (!p->step_ns || p->backend->device) {
        for (int i = 0; i < p->n_steps; i++) p->step[i].impl->run(&p->step[i]);
        return;
    }
    for (int i = 0; i < p->n_steps; i++) {
        int64_t t = brim_now_ns();
        p->step[i].impl->run(&p->step[i]);
        p->step_ns[i] += brim_now_ns() - t;
    }
    p->profiled_runs++;
}

brim_tensor brim_program_output(const brim_program *p, const char *name)
{
    const brim_value *v = brim_output_find(p->graph, name);
    if (!v) return (brim_tensor){0};
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->step[i].node->n_out; k++)
            if (p->step[i].node->out[k] == v) return p->step[i].out[k];
    return (brim_tensor){0};
}

static void drop_marks(brim_program *p)
{
    for (int i = 0; p->mark && i <= p->n_steps; i++)
        if (p->mark[i]) p->backend->device->mark_free(p->mark[i]);
    free(p->mark);
    p->mark = NULL;
}

static bool make_marks(brim_program *p)
{
    p->mark = brim_calloc((size_t)p->n_steps + 1, sizeof *p->mark);
    bool ok = p->mark != NULL;
    for (int i = 0; ok && i <= p->n_steps; i++)
        ok = (p->mark[i] = p->backend->device->mark_new()) != NULL;
    if (!ok) drop_marks(p);
    return ok;
}

brim_status brim_program_profile(brim_program *p, bool on, brim_error *err)
{
    free(p->step_ns);
    p->step_ns = NULL;
    drop_marks(p);
    p->profiled_runs = 0;
    if (!on) return BRIM_OK;
    p->step_ns = brim_calloc((size_t)p->n_steps, sizeof *p->step_ns);
    bool ok = p->step_ns && (!p->backend->device || make_marks(p));
    return ok ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "profile: out of memory");
}
