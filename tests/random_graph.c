#include "random_graph.h"
#include "base/rng.h"
#include "brim/model.h"
#include "tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POOL = 16, MOST_CHANNELS = 40, MOST_PIXELS = 121 };

typedef struct maker {
    brim_graph *g;
    brim_rng r;
    brim_value *pool[POOL]; /* values to join again later */
    int n_pool, n_names;
    char name[32];
} maker;

static int pick(maker *m, int n)
{
    return (int)brim_rng_below(&m->r, (uint64_t)n);
}

static bool one_in(maker *m, int n)
{
    return pick(m, n) == 0;
}

static const char *fresh(maker *m)
{
    snprintf(m->name, sizeof m->name, "p%d", m->n_names++);
    return m->name;
}

static int64_t dim(const brim_value *x, int k)
{
    return brim_value_dim(x, k);
}

static void remember(maker *m, brim_value *x)
{
    m->pool[m->n_pool < POOL ? m->n_pool++ : pick(m, POOL)] = x;
}

/* A value met before that fits x in every dimension but `axis` (-1: in all), or NULL. */
static brim_value *partner(maker *m, const brim_value *x, int axis)
{
    int from = m->n_pool ? pick(m, m->n_pool) : 0;
    for (int i = 0; i < m->n_pool; i++) {
        brim_value *y = m->pool[(from + i) % m->n_pool];
        bool fits = y != x && brim_value_rank(y) == brim_value_rank(x);
        for (int k = 0; fits && k < brim_value_rank(x); k++)
            fits = k == axis || dim(x, k) == dim(y, k);
        if (fits) return y;
    }
    return NULL;
}

/* ---- on any value ---- */

static brim_value *act(maker *m, brim_value *x)
{
    brim_graph *g = m->g;
    switch (pick(m, 9)) {
    case 0: return brim_silu(g, x);
    case 1: return brim_gelu(g, x, one_in(m, 2));
    case 2: return brim_sigmoid(g, x);
    case 3: return brim_tanh(g, x);
    case 4: return brim_log(g, brim_affine(g, brim_sigmoid(g, x), 1, 0.5));
    case 5: return brim_sqrt(g, brim_affine(g, brim_exp(g, brim_tanh(g, x)), 0.5, 0.25));
    case 6: return brim_div(g, x, brim_affine(g, brim_mul(g, x, x), 1, 1));
    default: return brim_relu(g, x);
    }
}

static brim_value *residual(maker *m, brim_value *x)
{
    brim_value *y = partner(m, x, -1);
    remember(m, x);
    if (!y) return x;
    switch (pick(m, 5)) {
    case 0: return brim_sub(m->g, y, x);
    case 1: return brim_mul(m->g, x, brim_tanh(m->g, y));
    case 2: return brim_relu(m->g, brim_add(m->g, y, x));
    case 3: return brim_relu(m->g, brim_add(m->g, x, y));
    default: return brim_add(m->g, x, y);
    }
}

static brim_value *join(maker *m, brim_value *x)
{
    brim_value *y = partner(m, x, 1);
    remember(m, x);
    if (!y || dim(x, 1) + dim(y, 1) > MOST_CHANNELS) return x;
    return one_in(m, 4) ? brim_concat(m->g, (brim_value *[]){x, y, x}, 3, 1)
                        : brim_concat(m->g, (brim_value *[]){y, x}, 2, 1);
}

static brim_value *cut(maker *m, brim_value *x)
{
    int axis = 1 + pick(m, brim_value_rank(x) - 1);
    int64_t n = dim(x, axis), step = one_in(m, 3) ? 2 : 1, begin = pick(m, (int)(n + 1) / 2);
    return n < 3 ? x : brim_slice(m->g, x, axis, begin, (n - begin + step - 1) / step, step);
}

static brim_value *drop(maker *m, brim_value *x)
{
    return brim_dropout(m->g, x, 0.2);
}

/* ---- on images ---- */

static brim_value *conv(maker *m, brim_value *x)
{
    int64_t c = dim(x, 1);
    bool depthwise = one_in(m, 3);
    int64_t out = depthwise ? c * (1 + one_in(m, 4)) : 1 + pick(m, 20);
    int kernel = one_in(m, 2) ? 3 : 1;
    return brim_nn_conv2d(m->g, x, fresh(m), out, kernel, 1 + one_in(m, 4), kernel / 2,
                          depthwise ? (int)c : 1, one_in(m, 2));
}

static brim_value *conv_oblong(maker *m, brim_value *x)
{
    int64_t w[] = {1 + pick(m, 9), dim(x, 1), 1, 3};
    brim_init init = {BRIM_INIT_UNIFORM, 1 / sqrt((double)dim(x, 1))};
    brim_conv_opts o = {.pad_w = 2, .dilation_w = 2, .stride_w = 1 + one_in(m, 3)};
    return brim_conv2d(m->g, x, brim_param(m->g, fresh(m), 4, w, init), NULL, o);
}

static brim_value *norm(maker *m, brim_value *x)
{
    if (dim(x, 0) * dim(x, 2) * dim(x, 3) < 8) return x; /* variances of noise */
    x = brim_nn_batch_norm(m->g, x, fresh(m));
    return one_in(m, 2) ? brim_relu(m->g, x) : x;
}

static brim_value *pool(maker *m, brim_value *x)
{
    brim_pool_opts o = {.kernel_h = 1 + pick(m, 3), .kernel_w = 1 + pick(m, 3)};
    o.stride_h = o.stride_w = one_in(m, 2) ? 1 : 2;
    o.pad_h = o.kernel_h / 2;
    o.pad_w = o.kernel_w / 2;
    o.count_pad = one_in(m, 2);
    o.ceil_mode = one_in(m, 4);
    return one_in(m, 2) ? brim_max_pool2d(m->g, x, o) : brim_avg_pool2d(m->g, x, o);
}

static brim_value *channel_scale(maker *m, brim_value *x)
{
    int64_t c[] = {dim(x, 1), 1, 1};
    float table[4 * MOST_CHANNELS];
    if (one_in(m, 2)) return brim_mul(m->g, x, brim_param(m->g, fresh(m), 3, c, (brim_init){0, 1}));
    for (int i = 0; i < c[0]; i++) table[i] = (float)brim_rng_uniform(&m->r, -1, 1);
    int64_t shape[] = {1, c[0], 1, 1};
    return brim_add(m->g, x, brim_const(m->g, "table", 4, shape, table));
}

static brim_value *squeeze(maker *m, brim_value *x)
{
    brim_value *s = one_in(m, 2) ? brim_reduce_mean(m->g, x, 12, true)
                                 : brim_reduce_max(m->g, x, 1u << (2 + pick(m, 2)), true);
    return brim_mul(m->g, x, brim_sigmoid(m->g, s));
}

static brim_value *turn(maker *m, brim_value *x)
{
    static const int perm[][4] = {{0, 1, 3, 2}, {0, 2, 3, 1}, {0, 3, 1, 2}};
    return brim_transpose(m->g, x, 4, perm[pick(m, 3)]);
}

static brim_value *fold(maker *m, brim_value *x)
{
    int64_t n = dim(x, 0), c = dim(x, 1), h = dim(x, 2), w = dim(x, 3);
    int64_t to[][4] = {{n, c, w, h}, {n, c, h * w, 1}, {n, h, c, w}, {n, c, 1, h * w}};
    return brim_reshape(m->g, x, 4, to[pick(m, 4)]);
}

static brim_value *grow(maker *m, brim_value *x)
{
    if (one_in(m, 2)) return brim_pad(m->g, x, 1 + pick(m, 3), pick(m, 2), 1);
    return dim(x, 2) * dim(x, 3) > 20 ? x : brim_upsample_nearest(m->g, x, 1 + pick(m, 2), 2);
}

typedef brim_value *(*move)(maker *m, brim_value *x);
static const move on_images[] = {conv, conv, conv,          conv_oblong, norm,     norm,     pool,
                                 act,  act,  channel_scale, squeeze,     residual, residual, join,
                                 cut,  drop, turn,          fold,        grow};

/* ---- on rows ---- */

static brim_value *dense(maker *m, brim_value *x)
{
    return brim_nn_linear(m->g, x, fresh(m), 1 + pick(m, 24), one_in(m, 2));
}

static brim_value *layer_norm(maker *m, brim_value *x)
{
    return dim(x, 1) < 6 ? x : brim_nn_layer_norm(m->g, x, fresh(m), 1e-5);
}

static brim_value *soft(maker *m, brim_value *x)
{
    return one_in(m, 2) ? brim_softmax(m->g, x)
                        : brim_sub(m->g, x, brim_reduce_max(m->g, x, 2, true));
}

static brim_value *product(maker *m, brim_value *x)
{
    int64_t k = dim(x, 1), w[] = {k, 1 + pick(m, 12)};
    brim_init init = {BRIM_INIT_UNIFORM, 1 / sqrt((double)k)};
    if (k > 20 || one_in(m, 2))
        return brim_matmul(m->g, x, brim_param(m->g, fresh(m), 2, w, init), false, false);
    /* Attention over the elements of each row. */
    brim_value *q = brim_reshape(m->g, brim_tanh(m->g, x), 3, (int64_t[]){dim(x, 0), k, 1});
    brim_value *a = brim_softmax(m->g, brim_matmul(m->g, q, q, false, true));
    return brim_reshape(m->g, brim_matmul(m->g, a, q, true, false), 2, (int64_t[]){-1, k});
}

static const move on_rows[] = {dense, dense,    layer_norm, soft, product,
                               act,   residual, join,       cut,  drop};

static brim_value *to_rows(maker *m, brim_value *x)
{
    if (dim(x, 1) * dim(x, 2) * dim(x, 3) <= 200 && one_in(m, 2)) return brim_flatten(m->g, x, 1);
    switch (pick(m, 3)) {
    case 0: return brim_reduce_max(m->g, x, 12, false);
    case 1: return brim_reduce_mean(m->g, x, 12, false);
    default: return brim_global_avg_pool(m->g, x);
    }
}

static brim_value *loss(maker *m, brim_value *x, int64_t batch)
{
    brim_graph *g = m->g;
    brim_value *y = brim_input(g, "y", BRIM_I32, 1, &batch), *more = NULL, *lam = NULL;
    brim_value *weight = one_in(m, 2) ? brim_input(g, "w", BRIM_F32, 1, &batch) : NULL;
    if (one_in(m, 2)) {
        more = brim_input(g, "y2", BRIM_I32, 1, &batch);
        lam = brim_input(g, "lam", BRIM_F32, 1, &batch);
    }
    brim_value *sum = brim_cross_entropy(g, x, y, weight, more, lam, one_in(m, 2) ? 0.1 : 0);
    if (one_in(m, 3))
        sum = brim_add(g, sum,
                       brim_affine(g, brim_reduce_sum(g, brim_mul(g, x, x), 0, false), .1, 0));
    return sum;
}

brim_graph *random_graph(uint64_t seed, bool training)
{
    maker m = {.g = brim_graph_new(training)};
    assert_non_null(m.g);
    brim_rng_init(&m.r, seed, 5);
    int64_t size[] = {1 + pick(&m, 3), 1 + pick(&m, 18), 1 + pick(&m, 9), 1 + pick(&m, 9)};
    if (one_in(&m, 5)) size[2] = size[3] = 1;
    brim_value *x = brim_input(m.g, "x", BRIM_F32, 4, size);
    for (int k = 3 + pick(&m, 12); k-- > 0;) {
        brim_value *y = on_images[pick(&m, sizeof on_images / sizeof *on_images)](&m, x);
        if (!y || (dim(y, 1) <= MOST_CHANNELS && dim(y, 2) * dim(y, 3) <= MOST_PIXELS)) x = y;
    }
    m.n_pool = 0;
    x = to_rows(&m, x);
    for (int k = pick(&m, 7); k-- > 0;)
        x = on_rows[pick(&m, sizeof on_rows / sizeof *on_rows)](&m, x);
    x = brim_nn_linear(m.g, x, "head", 3 + pick(&m, 9), true);
    brim_output_mark(m.g, "loss", loss(&m, x, size[0]));
    brim_output_mark(m.g, "logits", x);
    brim_error err = {0};
    if (brim_graph_check(m.g, &err) != BRIM_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    return m.g;
}

/* ---- content ---- */

static bool starts(const char *s, const char *with)
{
    return !strncmp(s, with, strlen(with));
}

static double unit(const char *name, int64_t i)
{
    return (double)brim_u32_to_unit(
        brim_philox4x32(brim_hash_text(name), 7, (uint64_t)i / 4).v[i % 4]);
}

static double weight_at(const brim_value *v, const char *name, int64_t i)
{
    double u = 2 * unit(name, i) - 1;
    if (v->init.kind == BRIM_INIT_CONST) return v->init.a + 0.25 * u;
    return (v->init.kind == BRIM_INIT_NORMAL ? sqrt(3.0) : 1) * v->init.a * u;
}

static double number_at(const brim_value *v, bool scaled, int64_t i)
{
    static const double step[BRIM_STEP_COUNT] = {0.05, 0.5, 1, 0.75};
    const char *name = v->name;
    if (!strcmp(name, "step")) return step[i];
    if (!strcmp(name, "scaler")) return i == BRIM_SCALER_SCALE ? (scaled ? 64 : 1) : 0;
    if (!strcmp(name, "rng")) return (double)i * 77 + 5;
    if (v->dtype == BRIM_I32) return floor(3 * unit(name, i));
    if (v->kind == BRIM_VALUE_INPUT)
        return name[0] == 'x' ? 3 * unit(name, i) - 1.5 : unit(name, i);
    if (v->like && starts(name, "ema:")) return weight_at(v->like, v->like->name, i);
    if (v->like && brim_dtype_half(v->dtype))
        return (double)(float)weight_at(v->like, v->like->name, i);
    return v->like ? 0 : weight_at(v, name, i);
}

void random_content(const brim_value *v, bool scaled, const brim_tensor *out)
{
    for (int64_t i = 0, n = brim_tensor_count(out); i < n; i++)
        brim_tensor_put(out, i, number_at(v, scaled, i));
}

/* ---- running ---- */

static void *take(size_t bytes)
{
    void *p = aligned_alloc(BRIM_PLAN_ALIGN, (bytes / BRIM_PLAN_ALIGN + 1) * BRIM_PLAN_ALIGN);
    assert_non_null(p);
    return p;
}

void random_run_open(random_run *r, brim_graph *g, bool scaled)
{
    brim_error err = {0};
    size_t n = 0;
    *r = (random_run){.scaled = scaled};
    brim_store_init(&r->store);
    if (brim_store_declare(&r->store, g, &err) != BRIM_OK ||
        brim_program_build(&brim_backend_cpu, g, NULL, &r->p, &err) != BRIM_OK)
        fail_msg("%s", err.text);
    r->persistent = take(r->store.bytes);
    r->arena = take(r->p->plan.bytes);
    brim_store_bind(&r->store, r->persistent);
    if (brim_program_bind(r->p, &r->store, r->arena, &err) != BRIM_OK) fail_msg("%s", err.text);
    for (size_t i = 0; i < g->values.n; i++) {
        const brim_value *v = g->values.at[i];
        if (v->kind != BRIM_VALUE_INPUT) continue;
        assert_true(n < sizeof r->input / sizeof *r->input);
        r->input[n] = take(brim_value_bytes(v));
        brim_tensor t = brim_tensor_make(r->input[n], v->dtype, &v->shape, v->layout);
        random_content(v, scaled, &t);
        brim_program_feed(r->p, v->name, r->input[n++]);
    }
}

void random_run_close(random_run *r)
{
    brim_program_free(r->p);
    brim_store_release(&r->store);
    free(r->persistent);
    free(r->arena);
    for (size_t i = 0; i < sizeof r->input / sizeof *r->input; i++) free(r->input[i]);
}

void random_run_reset(random_run *r, int poison)
{
    const brim_graph *g = r->p->graph;
    memset(r->persistent, 0, r->store.bytes);
    memset(r->arena, poison, r->p->plan.bytes);
    for (size_t i = 0; i < g->values.n; i++) {
        const brim_value *v = g->values.at[i];
        if (v->kind != BRIM_VALUE_PARAM && v->kind != BRIM_VALUE_STATE) continue;
        brim_tensor t = brim_tensor_make(brim_store_find(&r->store, v->name)->data, v->dtype,
                                         &v->shape, v->layout);
        random_content(v, r->scaled, &t);
    }
}
