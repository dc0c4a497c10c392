/* Random graphs through the whole compiler and the CPU's kernels, against the same graphs with
 * nothing but gradients and the update added, run by reference. A failure prints its seed;
 * BRIM_SEED=n runs that one alone and prints both graphs. */
#include "backend/reference.h"
#include "pass/pass.h"
#include "random_graph.h"
#include "tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static uint64_t current;

_Noreturn static void give_up(const char *fmt, ...) BRIM_PRINTF(1, 2);
static void give_up(const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    print_error("seed %llu: %s\n", (unsigned long long)current, text);
    fail();
    abort();
}

typedef struct kind {
    const char *name;
    brim_dtype compute;
    bool training, accumulate;
    double tolerance; /* of the norm of a difference, to the norms around it */
} kind;

/* Kernels sum in float where the reference sums in double; in half types fusion also leaves out
 * roundings, each of 2^-9 (bf16) or 2^-12 (fp16), which grow through norms and the like. */
static const kind kinds[] = {
    {"inference", BRIM_F32, false, false, 1e-4},
    {"gradients", BRIM_F32, true, true, 3e-4},
    {"update", BRIM_F32, true, false, 3e-4},
    {"bf16 inference", BRIM_BF16, false, false, 0.05},
    {"bf16 gradients", BRIM_BF16, true, true, 0.2},
    {"fp16 gradients", BRIM_F16, true, true, 0.05},
    {"fp16 update", BRIM_F16, true, false, 0.05},
};

static brim_compile_opts compile_opts(const kind *k)
{
    return (brim_compile_opts){.backward = k->training,
                               .accumulate = k->accumulate,
                               .compute = k->compute,
                               .optimizer = {.momentum = 0.9,
                                             .nesterov = current % 2,
                                             .weight_decay = 0.01,
                                             .ema = current % 3 == 0,
                                             .clip = current % 4 ? 0 : 1,
                                             .scale_min = 1,
                                             .scale_max = 1024,
                                             .scale_interval = 1}};
}

/* ---- the reference ---- */

static brim_graph *plain_graph(const kind *k)
{
    brim_compile_opts o = compile_opts(k);
    brim_graph *g = random_graph(current, k->training);
    brim_error err = {0};
    brim_status s = BRIM_OK;
    if (k->compute != BRIM_F32) s = brim_pass_amp(g, &o, &err);
    if (s == BRIM_OK && k->training) s = brim_pass_autodiff(g, &o, &err);
    if (s == BRIM_OK && k->training) s = brim_pass_optimizer(g, &o, &err);
    if (s == BRIM_OK) s = brim_graph_verify(g, &err);
    if (s != BRIM_OK) give_up("%s", err.text);
    return g;
}

static brim_reference *plain_run(const brim_graph *g, const kind *k)
{
    brim_reference *r;
    brim_error err = {0};
    if (brim_reference_new(g, &r, &err) != BRIM_OK) give_up("%s", err.text);
    for (size_t i = 0; i < g->values.n; i++) {
        const brim_value *v = g->values.at[i];
        if (v->kind == BRIM_VALUE_INPUT || v->kind == BRIM_VALUE_PARAM ||
            v->kind == BRIM_VALUE_STATE)
            random_content(v, k->compute == BRIM_F16, brim_reference_tensor(r, v));
    }
    brim_reference_run(r);
    return r;
}

/* ---- comparing ---- */

typedef struct pair {
    double want, error; /* squared norms */
} pair;

static pair distance(const brim_tensor *want, const brim_tensor *got, const char *name)
{
    pair d = {0};
    int64_t n = brim_tensor_count(want);
    for (int64_t i = 0; i < n; i++) {
        double w = brim_tensor_at(want, i), g = brim_tensor_at(got, i);
        if (!isfinite(w)) give_up("%s: the reference has %g at %lld", name, w, (long long)i);
        if (!isfinite(g)) give_up("%s: %g at %lld, want %g", name, g, (long long)i, w);
        d.want += w * w;
        d.error += (w - g) * (w - g);
    }
    return d;
}

static brim_tensor entry_tensor(const brim_entry *e)
{
    return brim_tensor_make(e->data, e->dtype, &e->shape, e->layout);
}

/* Gradients and momentum are held to the norm of all of them, so that one which is zero but for
 * rounding does not count. */
static bool small_ones(const char *name)
{
    return !strncmp(name, "grad:", 5) || !strncmp(name, "m:", 2);
}

static void compare_states(const kind *k, const brim_graph *g, const brim_reference *ref,
                           const brim_store *store)
{
    double all = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < store->entries.n; i++) {
            const brim_entry *e = &store->entries.at[i];
            const brim_value *v = brim_value_find(g, e->name);
            if (!v && brim_dtype_half(e->dtype)) continue; /* the plain graph casts weights */
            if (!v) give_up("%s: only the compiled graph has it", e->name);
            brim_tensor got = entry_tensor(e);
            pair d = distance(brim_reference_tensor(ref, v), &got, e->name);
            bool is_small = small_ones(e->name);
            if (!pass && is_small) all += d.want;
            if (!pass) continue;
            double limit = k->tolerance * (sqrt(d.want) + (is_small ? 0.1 * sqrt(all) : 1e-3));
            if (sqrt(d.error) > limit)
                give_up("%s: %s: off by %g of %g (all: %g)", k->name, e->name, sqrt(d.error),
                        sqrt(d.want), sqrt(all));
        }
}

static void compare_outputs(const kind *k, const brim_graph *g, const brim_reference *ref,
                            const brim_program *p)
{
    for (size_t i = 0; i < g->outputs.n; i++) {
        const brim_output *o = &g->outputs.at[i];
        brim_tensor got = brim_program_output(p, o->name);
        if (!got.data) give_up("output %s is not made", o->name);
        pair d = distance(brim_reference_tensor(ref, o->value), &got, o->name);
        if (sqrt(d.error) > k->tolerance * (sqrt(d.want) + 0.1))
            give_up("%s: output %s: off by %g of %g", k->name, o->name, sqrt(d.error),
                    sqrt(d.want));
    }
}

/* ---- one graph ---- */

static brim_graph *compiled_graph(const kind *k)
{
    brim_compile_opts o = compile_opts(k);
    brim_graph *g = random_graph(current, k->training);
    brim_error err = {0};
    if (brim_compile(g, &o, &err) != BRIM_OK) give_up("%s: %s", k->name, err.text);
    return g;
}

/* Runs again from the same start, in an arena that held other bytes, and once more in a program
 * that was built again: not a bit differs. */
static void check_bits(const kind *k, random_run *r)
{
    random_run other;
    size_t bytes = r->store.bytes;
    void *first = malloc(bytes + 1);
    assert_non_null(first);
    memcpy(first, r->persistent, bytes);
    random_run_reset(r, 0x55);
    brim_program_run(r->p);
    if (memcmp(first, r->persistent, bytes)) give_up("%s: other bits in the second run", k->name);
    random_run_open(&other, compiled_graph(k), r->scaled);
    random_run_reset(&other, 0);
    brim_program_run(other.p);
    if (other.store.bytes != bytes || memcmp(first, other.persistent, bytes))
        give_up("%s: other bits when built again", k->name);
    random_run_close(&other);
    free(first);
}

static void print_graph(const char *title, const brim_graph *g)
{
    char *text = brim_graph_text(g);
    print_message("---- %s\n%s", title, text);
    free(text);
}

static void check(const kind *k)
{
    random_run r;
    brim_graph *g = plain_graph(k);
    brim_reference *ref = plain_run(g, k);
    random_run_open(&r, compiled_graph(k), k->compute == BRIM_F16);
    if (getenv("BRIM_SEED")) {
        print_graph("plain", g);
        print_graph(k->name, r.p->graph);
    }
    random_run_reset(&r, 0xff); /* NaN in every type */
    brim_program_run(r.p);
    compare_outputs(k, g, ref, r.p);
    compare_states(k, g, ref, &r.store);
    check_bits(k, &r);
    random_run_close(&r);
    brim_reference_free(ref);
    brim_graph_free(g);
}

static void random_graphs(void **state)
{
    const kind *k = *state;
    const char *only = getenv("BRIM_SEED"), *count = getenv("BRIM_SEEDS");
    uint64_t first = only ? strtoull(only, NULL, 10) : 0;
    uint64_t n = only ? 1 : count ? strtoull(count, NULL, 10) : 60;
    brim_backend_cpu.threads_set(2);
    for (current = first; current < first + n; current++) check(k);
}

int main(void)
{
    struct CMUnitTest tests[sizeof kinds / sizeof *kinds] = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        tests[i] = (struct CMUnitTest){kinds[i].name, random_graphs, NULL, NULL,
                                       (void *)(uintptr_t)&kinds[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
