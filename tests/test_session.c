/* The session by its public face: micro-batches, memory cap, loss scaling, averages, frozen
 * weights, weight files, and resuming. */
#include "base/rng.h"
#include "brim/model.h"
#include "data_files.h"
#include "io/safetensors.h"
#include "tests.h"
#include "train/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 9, IMAGE = SIZE * SIZE * 3, MOST = 32 };

typedef struct net {
    int classes;
    double dropout;
    bool norm; /* batch norm at 1x1 */
} net;

static net small = {.classes = 5};

static brim_status build(brim_graph *g, int64_t batch, void *user, brim_error *err)
{
    const net *n = user;
    int64_t image[] = {batch, 3, SIZE, SIZE};
    brim_value *x = brim_input(g, "x", BRIM_F32, 4, image),
               *y = brim_input(g, "y", BRIM_I32, 1, &batch),
               *w = brim_input(g, "w", BRIM_F32, 1, &batch);
    x = brim_relu(g, brim_nn_conv2d(g, x, "conv1", 10, 3, 1, 1, 1, true));
    x = brim_relu(g, brim_nn_conv2d(g, x, "conv2", 7, 3, 2, 1, 1, true));
    x = brim_global_avg_pool(g, x);
    if (n->norm) x = brim_nn_batch_norm(g, x, "norm");
    x = brim_dropout(g, x, n->dropout);
    x = brim_nn_linear(g, x, "fc", n->classes, true);
    brim_output_mark(g, "loss", brim_cross_entropy(g, x, y, w, NULL, NULL, 0.1));
    brim_output_mark(g, "logits", x);
    return brim_graph_check(g, err);
}

static const struct {
    const char *name;
    int64_t n;
} params[] = {{"conv1.weight", 270}, {"conv1.bias", 10}, {"conv2.weight", 630},
              {"conv2.bias", 7},     {"fc.weight", 35},  {"fc.bias", 5}};
enum { PARAMS = sizeof params / sizeof *params, NUMBERS = 270 + 10 + 630 + 7 + 35 + 5 };

static brim_session_opts options(int64_t batch, int64_t micro)
{
    brim_session_opts o;
    brim_session_opts_init(&o);
    o.batch = batch;
    o.micro_batch = micro;
    o.threads = 1;
    o.seed = 3;
    return o;
}

static brim_session *make(net *n, const brim_session_opts *o)
{
    brim_session *s;
    brim_error err = {0};
    if (brim_session_new(build, n, o, &s, &err) != BRIM_OK) fail_msg("%s", err.text);
    return s;
}

/* ---- feeding ---- */

typedef struct samples {
    float x[MOST * IMAGE], w[MOST];
    int32_t y[MOST];
} samples;

/* The rows of update number `step`, with unequal weights; returns their sum over the first n. */
static double rows_make(samples *b, int step, int n)
{
    double sum = 0;
    brim_rng r;
    brim_rng_init(&r, 17, (uint64_t)step);
    for (int i = 0; i < MOST; i++) {
        for (int k = 0; k < IMAGE; k++) b->x[i * IMAGE + k] = (float)brim_rng_normal(&r);
        b->y[i] = (int32_t)brim_rng_below(&r, 5);
        b->w[i] = i % 3 ? 1 : 0.5f;
        if (i < n) sum += (double)b->w[i];
    }
    return sum;
}

/* One update from rows [0, rows) of b in micro-batches of `micro`; the last may be short. */
static brim_status feed(brim_session *s, const samples *b, int rows, int micro, double window,
                        double lr, double decay, brim_error *err)
{
    brim_feed in[MOST][3];
    brim_micro m[MOST];
    int k = 0;
    for (int at = 0; at < rows; at += micro, k++) {
        in[k][0] = (brim_feed){"x", b->x + at * IMAGE};
        in[k][1] = (brim_feed){"y", b->y + at};
        in[k][2] = (brim_feed){"w", b->w + at};
        m[k] = (brim_micro){in[k], 3, rows - at < micro ? rows - at : micro};
    }
    return brim_session_step(s, m, k, window, lr, decay, err);
}

static void step(brim_session *s, int number, int rows)
{
    static samples b;
    brim_error err = {0};
    double window = rows_make(&b, number, rows);
    int micro = (int)brim_session_plan(s)->micro_batch;
    if (feed(s, &b, rows, micro, window, 0.1, 0.75, &err) != BRIM_OK) fail_msg("%s", err.text);
}

/* An update whose images hold a NaN in the last row. */
static void step_nan(brim_session *s, int rows)
{
    static samples b;
    double window = rows_make(&b, 0, rows);
    b.x[rows * IMAGE - 1] = NAN;
    int micro = (int)brim_session_plan(s)->micro_batch;
    assert_int_equal(feed(s, &b, rows, micro, window, 0.1, 0.75, NULL), BRIM_OK);
}

/* ---- comparing ---- */

static void weights(const brim_session *s, const char *prefix, float out[NUMBERS])
{
    char name[64];
    for (int i = 0; i < PARAMS; out += params[i++].n) {
        snprintf(name, sizeof name, "%s%s", prefix, params[i].name);
        assert_int_equal(brim_session_get(s, name, out, params[i].n, NULL), BRIM_OK);
    }
}

static void assert_weights_near(const brim_session *a, const brim_session *b, double tolerance)
{
    float x[NUMBERS], y[NUMBERS];
    weights(a, "", x);
    weights(b, "", y);
    for (int i = 0; i < NUMBERS; i++)
        if (!(fabs((double)(x[i] - y[i])) <= tolerance * (1 + fabs((double)y[i]))))
            fail_msg("weight %d: %.9g and %.9g", i, (double)x[i], (double)y[i]);
}

/* Everything that persists, bit by bit, but the sums of gradients. */
static void assert_same_bits(const brim_session *a, const brim_session *b)
{
    assert_int_equal(a->store.entries.n, b->store.entries.n);
    for (size_t i = 0; i < a->store.entries.n; i++) {
        const brim_entry *e = &a->store.entries.at[i], *f = brim_store_find(&b->store, e->name);
        if (!strncmp(e->name, "grad:", 5)) continue;
        if (!f || e->bytes != f->bytes || memcmp(e->data, f->data, e->bytes))
            fail_msg("%s differs", e->name);
    }
    assert_int_equal(brim_session_steps(a), brim_session_steps(b));
}

static void assert_one_line(const brim_error *err, const char *word)
{
    if (!strstr(err->text, word) || strchr(err->text, '\n'))
        fail_msg("\"%s\" does not say \"%s\" in one line", err->text, word);
}

/* ---- micro-batches ---- */

/* Sums in another order differ by rounding: a few times 2^-24 an update, and 4 updates. */
static void micro_batches_add_up_to_the_batch(void **state)
{
    static const int micro[] = {1, 2, 3, 4, 6};
    for (int adamw = 0; adamw < 2; adamw++) {
        brim_session_opts o = options(12, 12);
        o.optimizer.algo = adamw ? BRIM_ADAMW : BRIM_SGD;
        o.optimizer.clip = 0.4;
        o.optimizer.eps = 1e-3; /* AdamW turns rounding of tiny gradients into steps otherwise */
        brim_session *whole = make(&small, &o);
        for (int k = 0; k < 4; k++) step(whole, k, 12);
        for (size_t i = 0; i < sizeof micro / sizeof *micro; i++) {
            o.micro_batch = micro[i];
            brim_session *parts = make(&small, &o);
            assert_int_equal(brim_session_plan(parts)->accumulation, 12 / micro[i]);
            for (int k = 0; k < 4; k++) step(parts, k, 12);
            assert_weights_near(parts, whole, adamw ? 2e-5 : 2e-6);
            double a = brim_session_scalar(parts, "loss"), b = brim_session_scalar(whole, "loss");
            assert_true(fabs(a - b) <= 1e-5 * b);
            a = brim_session_scaler(parts).grad_norm, b = brim_session_scaler(whole).grad_norm;
            assert_true(b > 0 && fabs(a - b) <= 1e-4 * b);
            brim_session_free(parts);
        }
        brim_session_free(whole);
    }
}

/* 22 samples: batches of 8, 8 and 6, which is 4 + 2. */
static void the_last_batch_may_be_short(void **state)
{
    brim_session_opts o = options(8, 4);
    o.train_samples = 22;
    brim_session *parts = make(&small, &o);
    o.micro_batch = 8;
    brim_session *whole = make(&small, &o);
    assert_int_equal(brim_session_plan(parts)->tail_batch, 2);
    assert_int_equal(brim_session_plan(whole)->tail_batch, 6);
    for (int k = 0; k < 6; k++) {
        step(parts, k, k % 3 == 2 ? 6 : 8);
        step(whole, k, k % 3 == 2 ? 6 : 8);
    }
    assert_weights_near(parts, whole, 2e-6);
    static samples b;
    brim_error err = {0};
    rows_make(&b, 0, 3);
    assert_int_equal(feed(parts, &b, 3, 4, 3, 0.1, 0, &err), BRIM_ESHAPE);
    assert_one_line(&err, "micro-batch of 3 rows was not planned");
    assert_int_equal(feed(parts, &b, 12, 4, 3, 0.1, 0, &err), BRIM_EINVAL);
    assert_one_line(&err, "3 micro-batches given, 1 to 2");
    assert_int_equal(brim_session_steps(parts), 6);
    brim_session_free(parts);
    brim_session_free(whole);
}

/* One row of 1x1 has no variance for batch norm: the last sample of 9 is left out. */
static void a_row_too_few_is_left_out(void **state)
{
    static net normed = {.classes = 5, .norm = true};
    brim_session_opts o = options(4, 0);
    for (int k = 9; k <= 10; k++) {
        o.train_samples = k;
        brim_session *s = make(&normed, &o);
        assert_int_equal(brim_session_plan(s)->tail_batch, k == 9 ? 0 : 2);
        assert_int_equal(brim_session_plan(s)->left_out, k == 9 ? 1 : 0);
        step(s, 0, 4);
        brim_session_free(s);
    }
    brim_error err = {0};
    brim_session *s;
    o.batch = 1;
    assert_int_equal(brim_session_new(build, &normed, &o, &s, &err), BRIM_ESHAPE);
}

/* ---- memory ---- */

static void the_cap_is_honoured(void **state)
{
    brim_session_opts o = options(32, 0);
    brim_plan free_plan, p, least;
    brim_error err = {0};
    o.extra_bytes = 1000;
    o.input_bytes = IMAGE * sizeof(float);
    o.input_ring = 2;
    assert_int_equal(brim_session_plan_only(build, &small, &o, &free_plan, NULL), BRIM_OK);
    assert_int_equal(free_plan.micro_batch, 32);
    assert_int_equal(free_plan.input_bytes, IMAGE * sizeof(float) * 32 * 3);
    assert_int_equal(free_plan.total_bytes, free_plan.arena_bytes + free_plan.library_bytes +
                                                free_plan.input_bytes + free_plan.extra_bytes);
    o.memory_cap_bytes = free_plan.total_bytes;
    assert_int_equal(brim_session_plan_only(build, &small, &o, &p, NULL), BRIM_OK);
    assert_int_equal(p.micro_batch, 32);
    o.memory_cap_bytes = free_plan.total_bytes - 1;
    brim_session *s = make(&small, &o);
    p = *brim_session_plan(s);
    assert_true(p.total_bytes <= o.memory_cap_bytes && p.micro_batch == 16 && p.accumulation == 2);
    step(s, 0, 32);
    brim_session_free(s);
    o.memory_cap_bytes = 4096;
    assert_int_equal(brim_session_new(build, &small, &o, &s, &err), BRIM_EMEMCAP);
    assert_null(s);
    assert_one_line(&err, "is needed with micro-batches of 1, the cap is 4");
    assert_one_line(&err, "raise --memory");
    o.memory_cap_bytes = 0;
    o.micro_batch = 1;
    assert_int_equal(brim_session_plan_only(build, &small, &o, &least, NULL), BRIM_OK);
    o.micro_batch = 0;
    o.memory_cap_bytes = least.total_bytes;
    s = make(&small, &o);
    assert_int_equal(brim_session_plan(s)->total_bytes, least.total_bytes);
    brim_session_free(s);
    o.memory_cap_bytes--;
    assert_int_equal(brim_session_new(build, &small, &o, &s, &err), BRIM_EMEMCAP);
}

/* ---- loss scaling ---- */

static brim_session_opts half_options(int64_t batch, int64_t micro)
{
    brim_session_opts o = options(batch, micro);
    o.precision = BRIM_F16;
    o.optimizer.ema = true;
    o.optimizer.scale_interval = 3;
    return o;
}

static double scale_of(const brim_session *s)
{
    return brim_session_scaler(s).scale;
}

/* 2^24 / 8 times a gradient is more than fp16 holds: skipped and halved until it fits. */
static void an_overflow_skips_the_step_and_halves_the_scale(void **state)
{
    for (int micro = 4; micro <= 8; micro += 4) {
        brim_session_opts o = half_options(8, micro);
        float before[NUMBERS], after[NUMBERS], average[NUMBERS];
        o.optimizer.scale_init = 0x1p24;
        brim_session *s = make(&small, &o);
        weights(s, "", before);
        int n = 0;
        for (step(s, n++, 8); brim_session_scaler(s).overflow; step(s, n++, 8)) {
            assert_true(n < 12);
            assert_true(scale_of(s) == ldexp(1, 24 - n));
            assert_int_equal(brim_session_scaler(s).skipped, n);
            assert_int_equal(brim_session_scaler(s).updates, 0);
            weights(s, "", after);
            weights(s, "ema:", average);
            assert_memory_equal(before, after, sizeof before);
            assert_memory_equal(before, average, sizeof before);
            weights(s, "m:", after);
            for (int i = 0; i < NUMBERS; i++) assert_true(after[i] == 0);
        }
        assert_true(n > 2);
        assert_int_equal(brim_session_scaler(s).updates, 1);
        assert_int_equal(brim_session_steps(s), n);
        weights(s, "", after);
        assert_memory_not_equal(before, after, sizeof before);
        brim_session_free(s);
    }
}

static void the_scale_grows_and_has_a_floor_and_a_ceiling(void **state)
{
    brim_session_opts o = half_options(8, 4);
    o.optimizer.scale_init = 64;
    o.optimizer.scale_min = 16;
    o.optimizer.scale_max = 256;
    static const double want[] = {64, 64, 128, 128, 128, 256, 256, 256, 256};
    brim_session *s = make(&small, &o);
    for (int k = 0; k < 9; k++) {
        step(s, k, 8);
        if (scale_of(s) != want[k]) fail_msg("step %d: scale %g", k, scale_of(s));
    }
    for (int k = 0; k < 6; k++) step_nan(s, 8);
    assert_true(scale_of(s) == 16);
    assert_int_equal(brim_session_scaler(s).skipped, 6);
    static const double again[] = {16, 16, 32};
    for (int k = 0; k < 3; k++) {
        step(s, k, 8);
        assert_true(scale_of(s) == again[k]);
    }
    /* An overflow starts the count of clean steps again. */
    step(s, 3, 8);
    step(s, 4, 8);
    step_nan(s, 8);
    step(s, 5, 8);
    assert_true(scale_of(s) == 16);
    brim_session_free(s);
}

/* fp32 and bf16 do not scale, but a step that is not finite is skipped all the same. */
static void without_scaling_a_bad_step_is_skipped(void **state)
{
    for (int half = 0; half < 2; half++) {
        brim_session_opts o = options(8, 4);
        float before[NUMBERS], after[NUMBERS];
        char name[128];
        o.precision = half ? BRIM_BF16 : BRIM_F32;
        brim_session *s = make(&small, &o);
        step(s, 0, 8);
        weights(s, "", before);
        step_nan(s, 8);
        weights(s, "", after);
        assert_memory_equal(before, after, sizeof before);
        assert_true(scale_of(s) == 1 && brim_session_scaler(s).overflow);
        assert_int_equal(brim_session_scaler(s).skipped, 1);
        static samples b;
        rows_make(&b, 0, 8);
        brim_feed in[] = {{"x", b.x}, {"y", b.y}, {"w", b.w}};
        brim_micro m = {in, 3, 4};
        assert_false(brim_session_find_nonfinite(s, &m, name, sizeof name));
        b.x[5] = NAN;
        assert_true(brim_session_find_nonfinite(s, &m, name, sizeof name));
        assert_string_equal(name, half ? "conv1.conv2d.cast (cast)" : "conv1.conv2d (conv2d)");
        brim_session_free(s);
    }
}

/* ---- averages and frozen weights ---- */

static double evaluate(brim_session *s)
{
    static samples b;
    rows_make(&b, 99, 8);
    brim_feed in[] = {{"x", b.x}, {"y", b.y}, {"w", b.w}};
    brim_micro m = {in, 3, 8};
    assert_int_equal(brim_session_eval(s, &m, NULL), BRIM_OK);
    return brim_session_scalar(s, "loss");
}

static void averages_follow_the_weights(void **state)
{
    static const brim_dtype types[] = {BRIM_F32, BRIM_BF16, BRIM_F16};
    for (int t = 0; t < 3; t++) {
        brim_session_opts o = options(8, 8);
        float w[NUMBERS], got[NUMBERS], want[NUMBERS];
        o.precision = types[t];
        o.optimizer.ema = true;
        brim_session *s = make(&small, &o), *other = make(&small, &o);
        weights(s, "", want); /* they start as the weights */
        for (int k = 0; k < 4; k++) {
            step(s, k, 8);
            weights(s, "", w);
            for (int i = 0; i < NUMBERS; i++) want[i] = 0.75f * want[i] + 0.25f * w[i];
        }
        weights(s, "ema:", got);
        for (int i = 0; i < NUMBERS; i++) assert_true(fabsf(got[i] - want[i]) <= 1e-6f);
        double before = evaluate(s);
        assert_int_equal(brim_session_swap_ema(s, NULL), BRIM_OK);
        weights(s, "", w);
        assert_memory_equal(w, got, sizeof w);
        const float *at = w;
        for (int i = 0; i < PARAMS; at += params[i++].n)
            assert_int_equal(brim_session_set(other, params[i].name, at, params[i].n, NULL), 0);
        assert_true(evaluate(s) == evaluate(other) && evaluate(s) != before);
        assert_int_equal(brim_session_swap_ema(s, NULL), BRIM_OK);
        assert_true(evaluate(s) == before);
        brim_session_free(s);
        brim_session_free(other);
    }
}

static void frozen_weights_stay(void **state)
{
    static const char *const pattern[] = {"conv1.*", "fc.b?as"}, *all[] = {"*"}, *bad[] = {"x*"};
    for (int micro = 4; micro <= 8; micro += 4) {
        brim_session_opts o = options(8, micro);
        float before[NUMBERS], after[NUMBERS];
        o.optimizer.weight_decay = 0.1;
        o.optimizer.decay_all = true;
        o.freeze = pattern;
        o.n_freeze = 2;
        brim_session *s = make(&small, &o);
        weights(s, "", before);
        for (int k = 0; k < 3; k++) step(s, k, 8);
        weights(s, "", after);
        for (int i = 0, at = 0; i < PARAMS; at += (int)params[i++].n) {
            bool same = !memcmp(before + at, after + at, sizeof *before * (size_t)params[i].n);
            bool frozen = brim_name_match_any(pattern, 2, params[i].name);
            if (same != frozen) fail_msg("%s", params[i].name);
        }
        assert_null(brim_store_find(&s->store, "m:conv1.weight"));
        assert_null(brim_store_find(&s->store, "grad:fc.bias"));
        brim_session_free(s);
        brim_error err = {0};
        o.freeze = all;
        o.n_freeze = 1;
        assert_int_equal(brim_session_new(build, &small, &o, &s, &err), BRIM_EINVAL);
        assert_one_line(&err, "no parameter is left to train");
        o.freeze = bad;
        assert_int_equal(brim_session_new(build, &small, &o, &s, &err), BRIM_ENOTFOUND);
        assert_one_line(&err, "no parameter matches \"x*\"");
    }
}

/* ---- weight files ---- */

static void another_number_of_classes_gets_a_new_head(void **state)
{
    static const char *const head[] = {"fc.*"};
    net more = {.classes = 7};
    brim_session_opts o = options(4, 4);
    brim_load_report r = {0};
    brim_error err = {0};
    float conv[630], got[630], fc[49], got_fc[49];
    const char *path = files_path("head.safetensors");
    brim_session *a = make(&small, &o);
    o.seed = 4;
    o.optimizer.ema = true;
    brim_session *b = make(&more, &o);
    step(a, 0, 4);
    brim_session_get(a, "conv2.weight", conv, 630, NULL);
    brim_session_get(b, "fc.weight", fc, 49, NULL);
    assert_int_equal(brim_session_save(a, path, NULL, 0, &err), BRIM_OK);
    assert_int_equal(brim_session_load(b, path, NULL, 0, &r, &err), BRIM_ESHAPE);
    assert_one_line(&err, "fc.weight: the model wants [7,7], the file has [5,7]");
    assert_one_line(&err, "head.safetensors");
    brim_session_get(b, "conv2.weight", got, 630, NULL);
    assert_memory_not_equal(got, conv, sizeof got); /* nothing was taken */
    assert_int_equal(brim_session_load(b, path, head, 1, &r, &err), BRIM_OK);
    assert_int_equal(r.loaded, 4);
    assert_int_equal(r.kept, 2);
    assert_string_equal(r.kept_names, "fc.weight, fc.bias");
    brim_session_get(b, "conv2.weight", got, 630, NULL);
    brim_session_get(b, "fc.weight", got_fc, 49, NULL);
    assert_memory_equal(got, conv, sizeof got);
    assert_memory_equal(got_fc, fc, sizeof fc);
    brim_session_get(b, "ema:conv2.weight", got, 630, NULL);
    assert_memory_equal(got, conv, sizeof got);
    brim_session_free(a);
    brim_session_free(b);
}

typedef struct spoil {
    const char *tensor;
    bool drop, transpose, extra;
    float element; /* put last */
} spoil;

/* The weights of s as a file, with one tensor spoilt. */
static const char *spoilt_file(const brim_session *s, const spoil *how)
{
    static float all[NUMBERS];
    const char *path = files_path("spoilt.safetensors");
    brim_st_entry e[PARAMS + 1];
    int n = 0, at = 0;
    weights(s, "", all);
    for (int i = 0; i < PARAMS; at += (int)params[i++].n) {
        const brim_entry *from = brim_store_find(&s->store, params[i].name);
        bool hit = how->tensor && !strcmp(how->tensor, params[i].name);
        if (hit && how->drop) continue;
        e[n] = (brim_st_entry){params[i].name, BRIM_F32, from->shape.rank, {0}, all + at};
        memcpy(e[n].dim, from->shape.dim, sizeof from->shape.dim);
        if (hit && how->transpose) {
            e[n].dim[0] = from->shape.dim[1];
            e[n].dim[1] = from->shape.dim[0];
        }
        if (hit && how->element != 0) all[at + params[i].n - 1] = how->element;
        n++;
    }
    if (how->extra) e[n++] = (brim_st_entry){"head.extra", BRIM_F32, 1, {3}, all};
    assert_int_equal(brim_st_save(path, e, n, NULL, 0, NULL), BRIM_OK);
    return path;
}

static void spoilt_weight_files_are_refused(void **state)
{
    static const struct {
        spoil how;
        brim_status status;
        const char *word;
    } row[] = {
        {{.extra = true}, BRIM_OK, ""},
        {{.tensor = "conv2.weight", .element = NAN}, BRIM_ENUMERIC, "element 629 is nan"},
        {{.tensor = "fc.bias", .element = -INFINITY}, BRIM_ENUMERIC, "element 4 is -inf"},
        {{.tensor = "fc.weight", .transpose = true},
         BRIM_ESHAPE,
         "the model wants [5,7], the file has [7,5]"},
        {{.tensor = "conv1.bias", .drop = true}, BRIM_ENOTFOUND, "conv1.bias is missing"},
    };
    brim_session_opts o = options(4, 4);
    brim_session *s = make(&small, &o);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        brim_error err = {0};
        brim_load_report r = {0};
        const char *path = spoilt_file(s, &row[i].how);
        assert_int_equal(brim_session_load(s, path, NULL, 0, &r, &err), row[i].status);
        if (row[i].status == BRIM_OK) {
            assert_true(r.loaded == PARAMS && r.kept == 0 && r.unused == 1);
            continue;
        }
        assert_one_line(&err, row[i].word);
        assert_one_line(&err, row[i].how.tensor);
        assert_one_line(&err, "spoilt.safetensors");
    }
    brim_session_free(s);
}

/* ---- resuming ---- */

static void resume(net *n, brim_session_opts o)
{
    const char *path = files_path("resume.safetensors");
    brim_error err = {0};
    brim_session *a = make(n, &o);
    for (int k = 0; k < 5; k++) step(a, k, 8);
    if (brim_session_save_state(a, path, NULL, 0, &err) != BRIM_OK) fail_msg("%s", err.text);
    brim_session *b = make(n, &o);
    step(b, 7, 8); /* what it did before does not matter */
    if (brim_session_load_state(b, path, &err) != BRIM_OK) fail_msg("%s", err.text);
    assert_same_bits(a, b);
    for (int k = 5; k < 9; k++) {
        step(a, k, 8);
        step(b, k, 8);
        assert_same_bits(a, b);
        assert_true(brim_session_scalar(a, "loss") == brim_session_scalar(b, "loss"));
    }
    brim_session_free(a);
    brim_session_free(b);
}

/* Dropout draws by step; the loss scale is 2 clean steps into its interval of 3 when saved. */
static void resuming_gives_the_same_bits(void **state)
{
    net n = {.classes = 5, .dropout = 0.3};
    brim_session_opts o = options(8, 8);
    resume(&n, o);
    o.micro_batch = 2;
    o.optimizer.algo = BRIM_ADAMW;
    o.optimizer.ema = true;
    resume(&n, o);
    o.precision = BRIM_BF16;
    resume(&n, o);
    o = half_options(8, 4);
    o.optimizer.scale_init = 64;
    resume(&n, o);
    o.micro_batch = 8;
    o.optimizer.scale_init = 0x1p24;
    resume(&n, o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_add_up_to_the_batch),
        cmocka_unit_test(the_last_batch_may_be_short),
        cmocka_unit_test(a_row_too_few_is_left_out),
        cmocka_unit_test(the_cap_is_honoured),
        cmocka_unit_test(an_overflow_skips_the_step_and_halves_the_scale),
        cmocka_unit_test(the_scale_grows_and_has_a_floor_and_a_ceiling),
        cmocka_unit_test(without_scaling_a_bad_step_is_skipped),
        cmocka_unit_test(averages_follow_the_weights),
        cmocka_unit_test(frozen_weights_stay),
        cmocka_unit_test(another_number_of_classes_gets_a_new_head),
        cmocka_unit_test(spoilt_weight_files_are_refused),
        cmocka_unit_test(resuming_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
