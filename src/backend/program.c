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

/* On a device of its own, inputs and constants lie behind the step's temporaries. */
static void place_copies(brim_program *p)
{
    for (size_t i = 0; p->backend->separate && i < p->graph->values.n; i++) {
        const brim_value *v = p->graph->values.at[i];
        if (v->kind != BRIM_VALUE_INPUT && v->kind != BRIM_VALUE_CONST) continue;
        p->plan.value_offset[v->id] = p->plan.bytes;
        p->plan.bytes +=
            (brim_value_bytes(v) + BRIM_PLAN_ALIGN - 1) / BRIM_PLAN_ALIGN * BRIM_PLAN_ALIGN;
    }
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
    if (s == BRIM_OK) place_copies(p);
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
    free(p->step);
    free(p->step_ns);
    brim_memplan_release(&p->plan);
    brim_arena_release(&p->arena);
    brim_graph_free(p->graph);
    free(p);
}

/* Address of a value; NULL for an INPUT, which is fed later. */
static void *address(const brim_program *p, const brim_value *v, const brim_store *store,
                     char *arena)
{
    switch (v->kind) {
    case BRIM_VALUE_TEMP:
        return p->plan.value_offset[v->id] == SIZE_MAX ? NULL : arena + p->plan.value_offset[v->id];
    case BRIM_VALUE_PARAM:
    case BRIM_VALUE_STATE: {
        const brim_entry *e = brim_store_find(store, v->name);
        return e ? e->data : NULL;
    }
    case BRIM_VALUE_CONST:
        if (!p->backend->separate) return (void *)v->data;
        break;
    case BRIM_VALUE_INPUT: break;
    }
    return p->backend->separate ? arena + p->plan.value_offset[v->id] : NULL;
}

/* A place for what each input is fed with. */
static brim_status make_feeds(brim_program *p, brim_error *err)
{
    p->n_feeds = 0;
    p->feed = BRIM_ARENA_ARRAY(&p->arena, brim_feed_slot, p->graph->values.n);
    if (!p->feed) return brim_fail(err, BRIM_ENOMEM, "program: out of memory");
    for (size_t i = 0; i < p->graph->values.n; i++) {
        const brim_value *v = p->graph->values.at[i];
        if (v->kind == BRIM_VALUE_INPUT) p->feed[p->n_feeds++] = (brim_feed_slot){v, NULL};
    }
    return BRIM_OK;
}

/* Programs share the memory behind the persistent values, so that copies are made anew each time.
 */
static void copy_in(const brim_program *p)
{
    for (size_t i = 0; i < p->graph->values.n; i++) {
        const brim_value *v = p->graph->values.at[i];
        if (v->kind == BRIM_VALUE_CONST)
            p->backend->upload(p->base + p->plan.value_offset[v->id], v->data, brim_value_bytes(v));
    }
    for (int k = 0; k < p->n_feeds; k++)
        if (p->feed[k].host)
            p->backend->upload(p->base + p->plan.value_offset[p->feed[k].value->id],
                               p->feed[k].host, brim_value_bytes(p->feed[k].value));
}

brim_status brim_program_bind(brim_program *p, const brim_store *store, void *arena,
                              brim_error *err)
{
    for (int i = 0; i < p->n_steps; i++) {
        brim_step *s = &p->step[i];
        for (int k = 0; k < s->node->n_in; k++) {
            const brim_value *v = s->node->in[k];
            if (!v || (v->kind == BRIM_VALUE_INPUT && !p->backend->separate)) continue;
            s->in[k].data = address(p, v, store, arena);
            if (!s->in[k].data)
                return brim_fail(err, BRIM_EINVAL, "%s: %s has no memory", s->node->name, v->name);
        }
        for (int k = 0; k < s->node->n_out; k++)
            s->out[k].data = s->out_used[k] ? address(p, s->node->out[k], store, arena) : NULL;
        if (s->workspace_bytes) s->workspace = (char *)arena + p->plan.workspace_offset[i];
    }
    p->base = arena;
    return p->backend->separate ? make_feeds(p, err) : BRIM_OK;
}

bool brim_program_feed(brim_program *p, const char *name, const void *data)
{
    const brim_value *v = brim_value_find(p->graph, name);
    if (!v || v->kind != BRIM_VALUE_INPUT) return false;
    for (int k = 0; k < p->n_feeds; k++)
        if (p->feed[k].value == v) p->feed[k].host = data;
    if (p->backend->separate) return true;
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->step[i].node->n_in; k++)
            if (p->step[i].node->in[k] == v) p->step[i].in[k].data = (void *)data;
    return true;
}

void brim_program_run(brim_program *p)
{
    if (p->backend->separate) copy_in(p);
    if (!p->step_ns) {
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

brim_status brim_program_profile(brim_program *p, bool on, brim_error *err)
{
    free(p->step_ns);
    p->step_ns = on ? brim_calloc((size_t)p->n_steps, sizeof *p->step_ns) : NULL;
    p->profiled_runs = 0;
    return !on || p->step_ns ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "profile: out of memory");
}
