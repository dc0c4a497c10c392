/* Running a session: steps, evaluation, and what they report. */
#include "train/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_scalar(brim_update_result *to, const char *name, double value)
{
    int k = 0;
    while (k < to->n && strcmp(to->at[k].name, name)) k++;
    if (k == BRIM_MAX_OUTPUTS) return;
    if (k == to->n) {
        to->at[k].name = name;
        to->at[k].value = 0;
        to->n++;
    }
    to->at[k].value += value;
}

/* What a run is: one of an update's, its last one, or an evaluation. */
enum { PART, LAST, EVALUATION };

/* Takes the oldest run; *any is false when there was none. */
static brim_status take(brim_session *s, bool *any, brim_error *err)
{
    brim_result r;
    BRIM_TRY(brim_runner_take(&s->runner, &r, err));
    *any = r.p != NULL;
    if (!r.p) return BRIM_OK;
    for (int k = 0; k < r.n; k++) add_scalar(&s->building, r.scalar[k].name, r.scalar[k].value);
    if (r.tag == PART) return BRIM_OK;
    memcpy(s->building.scaler, r.scaler, sizeof r.scaler);
    s->now = s->building;
    s->building.n = 0;
    if (r.tag == EVALUATION) return BRIM_OK;
    s->finished++;
    s->scaler_known = s->runner.scaler != NULL;
    if (s->n_ready == BRIM_READY_UPDATES)
        memmove(s->ready, s->ready + 1, sizeof *s->ready * (size_t)--s->n_ready);
    s->ready[s->n_ready++] = s->now;
    return BRIM_OK;
}

bool brim_session_next(brim_session *s)
{
    if (!s->n_ready) return false;
    s->now = s->ready[0];
    memmove(s->ready, s->ready + 1, sizeof *s->ready * (size_t)--s->n_ready);
    return true;
}

static brim_status start(brim_session *s, brim_program *p, int64_t tag, brim_error *err)
{
    bool any;
    while (brim_runner_full(&s->runner)) BRIM_TRY(take(s, &any, err));
    brim_runner_start(&s->runner, p, tag);
    /* On the host it is done. */
    return s->backend->device ? BRIM_OK : take(s, &any, err);
}

brim_status brim_session_sync(brim_session *s, brim_error *err)
{
    for (bool any = true; any;) BRIM_TRY(take(s, &any, err));
    return BRIM_OK;
}

int64_t brim_session_finished(const brim_session *s)
{
    return s->finished;
}

static brim_status feed(brim_program *p, const brim_micro *m, brim_error *err)
{
    for (size_t i = 0; i < p->graph->values.n; i++) {
        const brim_value *v = p->graph->values.at[i];
        if (v->kind != BRIM_VALUE_INPUT || !strcmp(v->name, "step") || !strcmp(v->name, "rng"))
            continue;
        const void *data = NULL;
        for (int k = 0; k < m->n_feed; k++)
            if (!strcmp(m->feed[k].name, v->name)) data = m->feed[k].data;
        if (!data)
            return brim_fail(err, BRIM_EINVAL, "step: no data is given for the input \"%s\"",
                             v->name);
        brim_program_feed(p, v->name, data);
    }
    return BRIM_OK;
}

brim_status brim_session_step(brim_session *s, const brim_micro *micro, int n_micro,
                              double window_weight, double lr, double ema_decay, brim_error *err)
{
    if (!s->train) return brim_fail(err, BRIM_EINVAL, "step: this session was made for inference");
    if (n_micro < 1 || n_micro > s->plan.accumulation)
        return brim_fail(err, BRIM_EINVAL, "step: %d micro-batches given, 1 to %lld are possible",
                         n_micro, (long long)s->plan.accumulation);
    s->step_input[BRIM_STEP_LR] = (float)lr;
    s->step_input[BRIM_STEP_INV_WINDOW] = window_weight > 0 ? (float)(1 / window_weight) : 0;
    s->step_input[BRIM_STEP_EMA] = (float)ema_decay;
    s->rng_input[BRIM_RNG_SEED_LO] = (int32_t)(uint32_t)s->opts.seed;
    s->rng_input[BRIM_RNG_SEED_HI] = (int32_t)(uint32_t)(s->opts.seed >> 32);
    s->rng_input[BRIM_RNG_STEP] = (int32_t)s->steps;
    for (int m = 0; m < n_micro; m++) {
        bool full = micro[m].rows == s->plan.micro_batch;
        if (!full && (!s->tail || micro[m].rows != s->plan.tail_batch))
            return brim_fail(err, BRIM_ESHAPE, "step: a micro-batch of %lld rows was not planned",
                             (long long)micro[m].rows);
        brim_program *p = full ? s->train : s->tail;
        s->step_input[BRIM_STEP_ACC_BETA] = m ? 1 : 0;
        s->rng_input[BRIM_RNG_MICRO] = m;
        BRIM_TRY(feed(p, &micro[m], err));
        BRIM_TRY(start(s, p, !s->update && m == n_micro - 1 ? LAST : PART, err));
    }
    if (s->update) BRIM_TRY(start(s, s->update, LAST, err));
    s->steps++;
    return BRIM_OK;
}

brim_status brim_session_eval(brim_session *s, const brim_micro *micro, brim_error *err)
{
    if (micro->rows != s->plan.micro_batch)
        return brim_fail(err, BRIM_ESHAPE, "evaluation: %lld rows given, %lld planned",
                         (long long)micro->rows, (long long)s->plan.micro_batch);
    BRIM_TRY(brim_session_sync(s, err));
    BRIM_TRY(feed(s->eval, micro, err));
    BRIM_TRY(start(s, s->eval, EVALUATION, err));
    return brim_session_sync(s, err);
}

double brim_session_scalar(const brim_session *s, const char *name)
{
    for (int k = 0; k < s->now.n; k++)
        if (!strcmp(s->now.at[k].name, name)) return s->now.at[k].value;
    return NAN;
}

int64_t brim_session_read(const brim_session *s, const char *name, float *out, int64_t max)
{
    brim_tensor t = brim_program_output(s->eval, name);
    if (!t.data) return -1;
    int64_t n = brim_tensor_count(&t);
    size_t bytes = (size_t)n * brim_dtype_bytes(t.dtype);
    void *host = brim_malloc(bytes);
    if (!host) return -1;
    s->backend->download(host, t.data, bytes);
    t.data = host;
    for (int64_t i = 0; i < n && i < max; i++)
        out[i] = (float)brim_tensor_get(&t, brim_tensor_offset(&t, i));
    free(host);
    return n;
}

static bool finite_tensor(const brim_session *s, const brim_tensor *t)
{
    if (!t->data || !brim_dtype_real(t->dtype)) return true;
    size_t bytes = (size_t)brim_tensor_count(t) * brim_dtype_bytes(t->dtype);
    void *raw = brim_malloc(bytes);
    if (!raw) return true;
    s->backend->download(raw, t->data, bytes);
    brim_tensor host = *t;
    host.data = raw;
    bool ok = true;
    for (int64_t i = 0, n = brim_tensor_count(t); ok && i < n; i++)
        ok = isfinite(brim_tensor_get(&host, i));
    free(raw);
    return ok;
}

bool brim_session_find_nonfinite(brim_session *s, const brim_micro *micro, char *name, size_t n)
{
    brim_program *p = micro->rows == s->plan.micro_batch ? s->train : s->tail;
    if (!p || feed(p, micro, NULL) != BRIM_OK || brim_session_sync(s, NULL) != BRIM_OK)
        return false;
    if (s->backend->device) brim_program_feed_now(p);
    for (int i = 0; i < p->n_steps; i++) {
        brim_step *st = &p->step[i];
        if (st->node->op->mutates_all) return false;
        st->impl->run(st);
        for (int k = 0; k < st->node->n_out; k++)
            if (!finite_tensor(s, &st->out[k])) {
                snprintf(name, n, "%s (%s)", st->node->name, st->node->op->name);
                return true;
            }
    }
    return false;
}

brim_scaler_info brim_session_scaler(const brim_session *s)
{
    float x[BRIM_SCALER_COUNT] = {[BRIM_SCALER_SCALE] = 1};
    const brim_entry *e = brim_store_find(&s->store, "scaler");
    if (s->scaler_known)
        memcpy(x, s->now.scaler, sizeof x);
    else if (e)
        s->backend->download(x, e->data, sizeof x);
    return (brim_scaler_info){.scale = x[BRIM_SCALER_SCALE],
                              .grad_norm = x[BRIM_SCALER_GRAD_NORM],
                              .skipped = (int64_t)x[BRIM_SCALER_SKIPPED],
                              .updates = (int64_t)x[BRIM_SCALER_UPDATES],
                              .overflow = x[BRIM_SCALER_OVERFLOW] != 0};
}

int64_t brim_session_steps(const brim_session *s)
{
    return s->steps;
}

static brim_status exchange(brim_session *s, const brim_entry *a, const brim_entry *b,
                            brim_error *err)
{
    float *x = brim_malloc(a->bytes), *y = brim_malloc(b->bytes);
    brim_status st =
        x && y ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "averaged weights: out of memory");
    if (st == BRIM_OK) {
        s->backend->download(x, a->data, a->bytes);
        s->backend->download(y, b->data, b->bytes);
        s->backend->upload(a->data, y, b->bytes);
        s->backend->upload(b->data, x, a->bytes);
    }
    free(x);
    free(y);
    return st;
}

brim_status brim_session_swap_ema(brim_session *s, brim_error *err)
{
    bool any = false;
    for (size_t i = 0; i < s->store.entries.n; i++) {
        const brim_entry *e = &s->store.entries.at[i];
        if (strncmp(e->name, "ema:", 4)) continue;
        BRIM_TRY(exchange(s, e, brim_store_find(&s->store, e->name + 4), err));
        any = true;
    }
    return any ? brim_store_refresh_halves(&s->store, s->backend, err) : BRIM_OK;
}

static const brim_entry *entry_of(const brim_session *s, const char *name, int64_t count,
                                  brim_error *err)
{
    const brim_entry *e = brim_store_find(&s->store, name);
    if (!e)
        brim_fail(err, BRIM_ENOTFOUND, "%s: the model has no such tensor", name);
    else if (brim_shape_count(&e->shape) != count) {
        brim_fail(err, BRIM_ESHAPE, "%s: has %lld numbers, %lld given", name,
                  (long long)brim_shape_count(&e->shape), (long long)count);
        return NULL;
    }
    return e;
}

brim_status brim_session_get(const brim_session *s, const char *name, float *out, int64_t count,
                             brim_error *err)
{
    const brim_entry *e = entry_of(s, name, count, err);
    return e ? brim_store_read(&s->store, s->backend, e, out, err) : BRIM_EINVAL;
}

brim_status brim_session_set(brim_session *s, const char *name, const float *in, int64_t count,
                             brim_error *err)
{
    const brim_entry *e = entry_of(s, name, count, err);
    if (!e) return BRIM_EINVAL;
    BRIM_TRY(brim_store_write(&s->store, s->backend, e, in, err));
    return brim_store_refresh_halves(&s->store, s->backend, err);
}

brim_status brim_session_profile(brim_session *s, bool on, brim_error *err)
{
    brim_program *all[] = {s->train, s->tail, s->update};
    for (size_t i = 0; i < 3; i++)
        if (all[i]) BRIM_TRY(brim_program_profile(all[i], on, err));
    return BRIM_OK;
}

int brim_session_times(const brim_session *s, brim_node_time *out, int max)
{
    const brim_program *all[] = {s->train, s->update};
    int n = 0;
    for (size_t i = 0; i < 2; i++) {
        const brim_program *p = all[i];
        if (!p || !p->step_ns || !p->profiled_runs) continue;
        double repeats = 1; /* micro-batches in a step; of a device one run is timed */
        if (i == 0 && s->update)
            repeats = s->backend->device
                          ? (double)s->plan.accumulation
                          : (double)p->profiled_runs / (double)s->update->profiled_runs;
        for (int k = 0; k < p->n_steps; k++, n++) {
            if (n >= max) continue;
            const brim_step *st = &p->step[k];
            brim_cost c = brim_node_cost(st->node);
            out[n] = (brim_node_time){
                st->node->name,    st->node->op->name,
                st->impl->name,    (double)p->step_ns[k] / 1e6 / (double)p->profiled_runs * repeats,
                c.flops * repeats, (c.bytes_read + c.bytes_written) * repeats};
        }
    }
    return n;
}
