#include "backend/runner.h"
#include "base/mem.h"

#include <string.h>

enum { CELL_BYTES = 8, RUNS_BEFORE_TIMING = 2 };

static size_t input_bytes(brim_program *const *p, int n)
{
    size_t most = 0;
    for (int k = 0; k < n; k++)
        if (p[k] && p[k]->input_bytes > most) most = p[k]->input_bytes;
    return most;
}

size_t brim_runner_bytes(brim_program *const *p, int n)
{
    size_t sum = BRIM_SLOTS * input_bytes(p, n);
    for (int k = 0; k < n; k++)
        if (p[k]) sum += p[k]->const_bytes;
    return sum;
}

static size_t fetched_bytes(void)
{
    return BRIM_PROGRAM_SCALARS * CELL_BYTES + BRIM_SCALER_COUNT * sizeof(float);
}

brim_status brim_runner_open(brim_runner *r, const brim_backend *b, brim_program *const *p, int n,
                             void *memory, brim_error *err)
{
    *r = (brim_runner){.backend = b};
    if (!b->device) return BRIM_OK;
    size_t bytes = input_bytes(p, n);
    char *slot[BRIM_SLOTS], *at = memory;
    for (int k = 0; k < BRIM_SLOTS; k++, at += bytes) {
        slot[k] = at;
        r->pinned[k] = b->device->host_alloc(bytes ? bytes : 1);
        r->fetched[k] = b->device->host_alloc(fetched_bytes());
        if (!r->pinned[k] || !r->fetched[k])
            return brim_fail(err, BRIM_ENOMEM,
                             "memory: the machine has no %zu bytes of pinned memory left (close "
                             "other programs, or raise `ulimit -l`)",
                             bytes);
    }
    for (int k = 0; k < n; k++) {
        if (!p[k]) continue;
        brim_program_place(p[k], slot, at);
        at += p[k]->const_bytes;
    }
    return BRIM_OK;
}

void brim_runner_close(brim_runner *r)
{
    for (int k = 0; r->backend && r->backend->device && k < BRIM_SLOTS; k++) {
        if (r->slot[k].p) r->backend->device->wait(k);
        if (r->pinned[k]) r->backend->device->host_free(r->pinned[k]);
        if (r->fetched[k]) r->backend->device->host_free(r->fetched[k]);
    }
    *r = (brim_runner){0};
}

bool brim_runner_full(const brim_runner *r)
{
    return r->slot[r->next].p != NULL;
}

/* ---- on a device ---- */

static void feed(brim_runner *r, const brim_program *p, int slot)
{
    const brim_device_ops *d = r->backend->device;
    for (size_t i = 0; i < p->graph->values.n; i++) {
        const brim_value *v = p->graph->values.at[i];
        if (v->kind == BRIM_VALUE_INPUT && p->feed[v->id])
            memcpy(r->pinned[slot] + p->plan.value_offset[v->id], p->feed[v->id],
                   brim_value_bytes(v));
    }
    d->feed_begin(slot);
    if (p->input_bytes) d->feed(p->slot[slot], r->pinned[slot], p->input_bytes);
    d->feed_end(slot);
}

static bool is_scalar(const brim_output *o)
{
    return o->value->shape.rank == 0;
}

/* Queues the copies of scalar outputs and of the scaler. */
static void fetch(const brim_runner *r, const brim_program *p, int slot)
{
    const brim_device_ops *d = r->backend->device;
    int n = 0;
    for (size_t i = 0; i < p->graph->outputs.n && n < BRIM_PROGRAM_SCALARS; i++) {
        const brim_output *o = &p->graph->outputs.at[i];
        brim_tensor t = is_scalar(o) ? brim_program_output(p, o->name) : (brim_tensor){0};
        if (t.data)
            d->fetch(r->fetched[slot] + CELL_BYTES * n++, t.data, brim_dtype_bytes(t.dtype));
    }
    if (r->scaler)
        d->fetch(r->fetched[slot] + BRIM_PROGRAM_SCALARS * CELL_BYTES, r->scaler->data,
                 BRIM_SCALER_COUNT * sizeof(float));
}

static void queue_all(const brim_runner *r, brim_program *p, int slot, bool timed)
{
    const brim_device_ops *d = r->backend->device;
    if (timed) d->mark(p->mark[0]);
    for (int i = 0; i < p->n_steps; i++) {
        p->step[i].impl->run(&p->step[i]);
        if (timed) d->mark(p->mark[i + 1]);
    }
    fetch(r, p, slot);
}

/* The first run of a slot goes step by step: libraries may still load what they need. The second
 * is recorded. */
static void queue_run(brim_runner *r, brim_program *p, int slot)
{
    const brim_device_ops *d = r->backend->device;
    int runs = p->runs[0] + p->runs[1];
    bool timed = p->mark && !p->profiled_runs && runs >= RUNS_BEFORE_TIMING;
    r->slot[slot].timed = timed;
    if (timed) p->profiled_runs = 1;
    if (p->recording[slot] && !timed) {
        d->replay(p->recording[slot]);
    } else {
        bool record = p->runs[slot] > 0 && !timed;
        brim_program_use_slot(p, slot);
        if (record) d->record();
        queue_all(r, p, slot, timed);
        if (record && (p->recording[slot] = d->recorded())) d->replay(p->recording[slot]);
    }
    p->runs[slot]++;
}

static void read_times(brim_program *p)
{
    for (int i = 0; i < p->n_steps; i++)
        p->step_ns[i] = (int64_t)(1e6 * p->backend->device->between_ms(p->mark[i], p->mark[i + 1]));
}

/* ---- both ---- */

void brim_runner_start(brim_runner *r, brim_program *p, int64_t tag)
{
    int slot = r->next;
    r->slot[slot].p = p;
    r->slot[slot].tag = tag;
    r->next = (slot + 1) % BRIM_SLOTS;
    if (!r->backend->device) {
        brim_program_run(p);
        return;
    }
    feed(r, p, slot);
    queue_run(r, p, slot);
    r->backend->device->ended(slot);
}

static int oldest(const brim_runner *r)
{
    for (int k = 0; k < BRIM_SLOTS; k++) {
        int slot = (r->next + k) % BRIM_SLOTS;
        if (r->slot[slot].p) return slot;
    }
    return -1;
}

static void read_results(const brim_runner *r, int slot, brim_result *out)
{
    const brim_program *p = out->p;
    bool host = !r->backend->device;
    for (size_t i = 0; i < p->graph->outputs.n && out->n < BRIM_PROGRAM_SCALARS; i++) {
        const brim_output *o = &p->graph->outputs.at[i];
        brim_tensor t = is_scalar(o) ? brim_program_output(p, o->name) : (brim_tensor){0};
        if (!t.data) continue;
        if (!host) t.data = r->fetched[slot] + CELL_BYTES * out->n;
        out->scalar[out->n].name = o->name;
        out->scalar[out->n++].value = brim_tensor_get(&t, 0);
    }
    if (r->scaler)
        memcpy(out->scaler,
               host ? r->scaler->data : r->fetched[slot] + BRIM_PROGRAM_SCALARS * CELL_BYTES,
               sizeof out->scaler);
}

brim_status brim_runner_take(brim_runner *r, brim_result *out, brim_error *err)
{
    int slot = oldest(r);
    *out = (brim_result){0};
    if (slot < 0) return BRIM_OK;
    out->p = r->slot[slot].p;
    out->tag = r->slot[slot].tag;
    r->slot[slot].p = NULL;
    if (r->backend->device) {
        r->backend->device->wait(slot);
        BRIM_TRY(r->backend->failure(err));
        if (r->slot[slot].timed) read_times((brim_program *)out->p);
        r->slot[slot].timed = false;
    }
    read_results(r, slot, out);
    return BRIM_OK;
}
