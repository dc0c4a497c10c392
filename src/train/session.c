/* Making a session: build, compile, plan, choose the micro-batch, take the memory. */
#include "train/session.h"
#include "io/file.h"

#include <errno.h>
#include <string.h>

void brim_session_opts_init(brim_session_opts *o)
{
    *o = (brim_session_opts){
        .device = "cpu",
        .precision = BRIM_F32,
        .batch = 32,
        .optimizer = {.algo = BRIM_SGD,
                      .momentum = 0.9,
                      .beta1 = 0.9,
                      .beta2 = 0.999,
                      .eps = 1e-8,
                      .scale_init = 65536,
                      .scale_min = 1,
                      .scale_max = 16777216,
                      .scale_interval = 2000},
    };
}

bool brim_name_match(const char *pattern, const char *name)
{
    for (; *pattern; pattern++, name++) {
        if (*pattern == '*') {
            for (const char *at = name;; at++) {
                if (brim_name_match(pattern + 1, at)) return true;
                if (!*at) return false;
            }
        }
        if (!*name || (*pattern != '?' && *pattern != *name)) return false;
    }
    return !*name;
}

bool brim_name_match_any(const char *const *pattern, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (brim_name_match(pattern[i], name)) return true;
    return false;
}

static bool fixed_scale(const brim_session_opts *o)
{
    return o->precision != BRIM_F16 && !o->optimizer.dynamic_scale;
}

static void freeze(brim_graph *g, const brim_session_opts *o)
{
    for (size_t i = 0; i < g->values.n; i++) {
        brim_value *v = g->values.at[i];
        if (v->kind == BRIM_VALUE_PARAM && brim_name_match_any(o->freeze, o->n_freeze, v->name))
            v->trainable = false;
    }
}

static brim_status check_freeze(const brim_session_opts *o, const brim_graph *g, brim_error *err)
{
    for (int i = 0; i < o->n_freeze; i++) {
        bool any = false;
        for (size_t k = 0; k < g->values.n; k++)
            any |= g->values.at[k]->kind == BRIM_VALUE_PARAM &&
                   brim_name_match(o->freeze[i], g->values.at[k]->name);
        if (!any)
            return brim_fail(err, BRIM_ENOTFOUND,
                             "freeze: no parameter matches \"%s\" (`brim models NAME` lists them)",
                             o->freeze[i]);
    }
    return BRIM_OK;
}

/* Builds, compiles and prepares one program. */
static brim_status make_program(brim_session *s, int64_t batch, bool training, bool accumulate,
                                FILE *dump, brim_program **out, brim_error *err)
{
    const brim_session_opts *o = &s->opts;
    brim_graph *g = brim_graph_new(training);
    if (!g) return brim_fail(err, BRIM_ENOMEM, "session: out of memory");
    brim_compile_opts c = {.backward = training,
                           .accumulate = accumulate,
                           .compute = o->precision,
                           .optimizer = o->optimizer,
                           .dump = dump};
    c.optimizer.dynamic_scale = !fixed_scale(o);
    brim_status st = s->build(g, batch, s->user, err);
    if (st == BRIM_OK) st = brim_graph_check(g, err);
    freeze(g, o);
    if (st == BRIM_OK && training) st = check_freeze(o, g, err);
    if (st == BRIM_OK) st = brim_compile(g, &c, err);
    if (st != BRIM_OK) {
        brim_graph_free(g);
        return st;
    }
    return brim_program_build(s->backend, g, NULL, out, err);
}

static brim_status make_update(brim_session *s, brim_error *err)
{
    brim_compile_opts c = {
        .backward = true, .compute = s->opts.precision, .optimizer = s->opts.optimizer};
    c.optimizer.dynamic_scale = !fixed_scale(&s->opts);
    brim_graph *g = brim_update_graph(s->train->graph, &c, err);
    if (!g) return err ? err->status : BRIM_ENOMEM;
    return brim_program_build(s->backend, g, NULL, &s->update, err);
}

static void drop_programs(brim_session *s)
{
    brim_program_free(s->train);
    brim_program_free(s->tail);
    brim_program_free(s->update);
    brim_program_free(s->eval);
    s->train = s->tail = s->update = s->eval = NULL;
    brim_store_release(&s->store);
    brim_store_init(&s->store);
}

static size_t largest(size_t a, const brim_program *p)
{
    return p && p->plan.bytes > a ? p->plan.bytes : a;
}

static size_t held(const brim_program *p)
{
    return p ? p->state_bytes : 0;
}

static double program_flops(const brim_program *p)
{
    double sum = 0;
    for (int i = 0; p && i < p->n_steps; i++) sum += brim_node_cost(p->step[i].node).flops;
    return sum;
}

static bool has_prefix(const char *s, const char *prefix)
{
    return !strncmp(s, prefix, strlen(prefix));
}

static void sum_persistent(const brim_store *store, brim_plan *p)
{
    for (size_t i = 0; i < store->entries.n; i++) {
        const brim_entry *e = &store->entries.at[i];
        size_t len = strlen(e->name);
        if (e->kind == BRIM_VALUE_PARAM) {
            p->weights_bytes += e->bytes;
            p->parameters += brim_shape_count(&e->shape);
        } else if (has_prefix(e->name, "grad:"))
            p->gradient_bytes += e->bytes;
        else if (len > 5 && !strcmp(e->name + len - 5, ".half"))
            p->half_bytes += e->bytes;
        else
            p->state_bytes += e->bytes;
    }
}

static void fill_plan(brim_session *s, int64_t micro, int64_t k, int64_t tail, int64_t left_out)
{
    brim_plan *p = &s->plan;
    const brim_program *main = s->train ? s->train : s->eval;
    *p = (brim_plan){.batch = s->opts.batch,
                     .micro_batch = micro,
                     .accumulation = k,
                     .tail_batch = tail,
                     .left_out = left_out};
    sum_persistent(&s->store, p);
    p->step_bytes = largest(largest(largest(largest(0, s->train), s->tail), s->update), s->eval);
    p->activation_bytes = main->plan.at_peak[BRIM_MEM_ACTIVATION];
    p->gradient_bytes += main->plan.at_peak[BRIM_MEM_GRADIENT];
    p->workspace_bytes = main->plan.at_peak[BRIM_MEM_WORKSPACE];
    brim_program *const all[] = {s->train, s->tail, s->update, s->eval};
    p->arena_bytes = s->store.bytes + p->step_bytes + brim_runner_bytes(all, 4);
    p->library_bytes = s->backend->overhead_bytes + held(s->train) + held(s->tail) +
                       held(s->update) + held(s->eval);
    p->extra_bytes = s->opts.extra_bytes;
    p->input_bytes = s->opts.input_bytes * (size_t)(micro * (k + s->opts.input_ring));
    p->total_bytes = p->arena_bytes + p->library_bytes + p->input_bytes + p->extra_bytes;
    p->n_inplace = main->plan.n_inplace;
    double step = program_flops(main) * (double)k + program_flops(s->update);
    p->flops_per_sample = step / (double)(s->train ? s->opts.batch : micro);
}

/* The program of the short last micro-batch. A model that takes the full one but not so few rows
 * does without them: *tail = 0 and they are counted in *left_out. */
static brim_status make_tail(brim_session *s, int64_t *tail, bool accumulate, int64_t *left_out,
                             brim_error *err)
{
    brim_error why = {0};
    brim_status st =
        *tail ? make_program(s, *tail, true, accumulate, NULL, &s->tail, &why) : BRIM_OK;
    if (st == BRIM_ESHAPE) {
        *left_out = *tail;
        *tail = 0;
        return BRIM_OK;
    }
    return st == BRIM_OK ? st : brim_fail(err, st, "%s", why.text);
}

static brim_status close_dump(FILE *f, const char *path, brim_status st, brim_error *err)
{
    bool failed = ferror(f);
    if ((fclose(f) || failed) && st == BRIM_OK) return brim_fail_write(err, errno, path);
    return st;
}

/* All programs of a session that computes `micro` rows at once, k times an update. */
static brim_status try_micro(brim_session *s, int64_t micro, int64_t k, brim_error *err)
{
    const brim_session_opts *o = &s->opts;
    int64_t tail = o->train_samples > 0 ? o->train_samples % o->batch % micro : 0, left_out = 0;
    FILE *dump = NULL;
    drop_programs(s);
    if (o->dump_passes && !(dump = fopen(o->dump_passes, "we")))
        return brim_fail_write(err, errno, o->dump_passes);
    brim_status st = BRIM_OK;
    if (!o->inference) {
        st = make_program(s, micro, true, k > 1, dump, &s->train, err);
        if (st == BRIM_OK) st = make_tail(s, &tail, k > 1, &left_out, err);
        if (st == BRIM_OK && k > 1) st = make_update(s, err);
    }
    if (st == BRIM_OK)
        st = make_program(s, micro, false, false, o->inference ? dump : NULL, &s->eval, err);
    if (dump) st = close_dump(dump, o->dump_passes, st, err);
    const brim_program *all[] = {s->train, s->tail, s->update, s->eval};
    for (size_t i = 0; i < 4 && st == BRIM_OK; i++)
        if (all[i]) st = brim_store_declare(&s->store, all[i]->graph, err);
    if (st == BRIM_OK) fill_plan(s, micro, k, tail, left_out);
    return st;
}

static bool fits(const brim_session *s)
{
    return !s->opts.memory_cap_bytes || s->plan.total_bytes <= s->opts.memory_cap_bytes;
}

/* Splits the batch into ever more micro-batches (their number must divide it) until the plan fits.
 * Some models have a smallest micro-batch, as batch norm wants two values a channel: s->plan is
 * then of that one. */
static brim_status fewest_that_fit(brim_session *s, brim_error *err)
{
    const int64_t batch = s->opts.batch;
    for (int64_t k = 1; k <= batch; k++) {
        brim_error why = {0};
        brim_plan smallest = s->plan;
        if (batch % k) continue;
        brim_status st = try_micro(s, batch / k, k, &why);
        if (st == BRIM_ESHAPE && k > 1) {
            s->plan = smallest;
            return BRIM_OK;
        }
        if (st != BRIM_OK) return brim_fail(err, st, "%s", why.text);
        if (fits(s)) return BRIM_OK;
    }
    return BRIM_OK;
}

static brim_status choose_micro(brim_session *s, brim_error *err)
{
    const brim_session_opts *o = &s->opts;
    if (o->inference)
        BRIM_TRY(try_micro(s, o->batch, 1, err));
    else if (o->micro_batch > 0)
        BRIM_TRY(try_micro(s, o->micro_batch, o->batch / o->micro_batch, err));
    else
        BRIM_TRY(fewest_that_fit(s, err));
    if (fits(s)) return BRIM_OK;
    char need[32], cap[32];
    return brim_fail(
        err, BRIM_EMEMCAP,
        "memory: %s is needed with micro-batches of %lld, the cap is %s (raise --memory%s)",
        brim_bytes_text(need, (double)s->plan.total_bytes), (long long)s->plan.micro_batch,
        brim_bytes_text(cap, (double)o->memory_cap_bytes),
        o->micro_batch > 0 ? ", lower --micro-batch or leave it out"
                           : " or choose a smaller model or image");
}

static brim_status check_opts(const brim_session_opts *o, brim_error *err)
{
    if (o->batch < 1)
        return brim_fail(err, BRIM_EINVAL, "batch: %lld (must be at least 1)", (long long)o->batch);
    if (o->micro_batch < 0 || (o->micro_batch && o->batch % o->micro_batch))
        return brim_fail(err, BRIM_EINVAL, "micro-batch: %lld does not divide the batch of %lld",
                         (long long)o->micro_batch, (long long)o->batch);
    if (o->precision != BRIM_F32 && !brim_dtype_half(o->precision))
        return brim_fail(err, BRIM_EDTYPE, "precision: %s (fp32, bf16 or fp16)",
                         brim_dtype_name(o->precision));
    return BRIM_OK;
}

static brim_status prepare(brim_build_fn build, void *user, const brim_session_opts *o,
                           brim_session **out, brim_error *err)
{
    *out = NULL;
    BRIM_TRY(check_opts(o, err));
    const brim_backend *backend = brim_backend_find(o->device ? o->device : "cpu");
    if (!backend)
        return brim_fail(err, BRIM_EUNSUPPORTED, "device: there is no \"%s\" (give cpu or cuda)",
                         o->device);
    if (backend->open) BRIM_TRY(backend->open(err));
    brim_session *s = brim_calloc(1, sizeof *s);
    if (!s) return brim_fail(err, BRIM_ENOMEM, "session: out of memory");
    s->opts = *o;
    s->backend = backend;
    s->build = build;
    s->user = user;
    brim_store_init(&s->store);
    backend->threads_set(o->threads);
    brim_status st = choose_micro(s, err);
    if (st == BRIM_OK)
        *out = s;
    else
        brim_session_free(s);
    return st;
}

static brim_status take_memory(brim_session *s, brim_error *err)
{
    s->arena = s->backend->alloc(s->plan.arena_bytes, err);
    if (!s->arena) return BRIM_ENOMEM;
    brim_store_bind(&s->store, s->arena);
    char *temps = (char *)s->arena + s->store.bytes;
    brim_program *all[] = {s->train, s->tail, s->update, s->eval};
    BRIM_TRY(brim_runner_open(&s->runner, s->backend, all, 4, temps + s->plan.step_bytes, err));
    s->runner.scaler = brim_store_find(&s->store, "scaler");
    for (size_t i = 0; i < 4; i++) {
        if (!all[i]) continue;
        BRIM_TRY(brim_program_bind(all[i], &s->store, temps, err));
        brim_program_feed(all[i], "step", s->step_input);
        brim_program_feed(all[i], "rng", s->rng_input);
    }
    BRIM_TRY(brim_store_fill(&s->store, s->backend, s->opts.seed, err));
    const brim_entry *e = brim_store_find(&s->store, "scaler");
    float scaler[BRIM_SCALER_COUNT] = {
        [BRIM_SCALER_SCALE] = fixed_scale(&s->opts) ? 1 : (float)s->opts.optimizer.scale_init};
    if (e) BRIM_TRY(brim_store_write(&s->store, s->backend, e, scaler, err));
    return s->backend->check ? s->backend->check(err) : BRIM_OK;
}

brim_status brim_session_new(brim_build_fn build, void *user, const brim_session_opts *o,
                             brim_session **out, brim_error *err)
{
    BRIM_TRY(prepare(build, user, o, out, err));
    brim_status st = take_memory(*out, err);
    if (st == BRIM_OK) return BRIM_OK;
    brim_session_free(*out);
    *out = NULL;
    return st;
}

brim_status brim_session_plan_only(brim_build_fn build, void *user, const brim_session_opts *o,
                                   brim_plan *plan, brim_error *err)
{
    brim_session *s;
    BRIM_TRY(prepare(build, user, o, &s, err));
    *plan = s->plan;
    brim_session_free(s);
    return BRIM_OK;
}

const brim_plan *brim_session_plan(const brim_session *s)
{
    return &s->plan;
}

void brim_session_free(brim_session *s)
{
    if (!s) return;
    brim_runner_close(&s->runner);
    drop_programs(s);
    brim_store_release(&s->store);
    if (s->arena) s->backend->free(s->arena, s->plan.arena_bytes);
    free(s);
}
