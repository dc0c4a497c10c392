/* The CPU backend's own kernels, every instruction set that this processor has, against the
 * operators' references: their cases and larger shapes, all types, both layouts, in place where
 * that is allowed. And the elementary functions' errors in units in the last place. */
#include "backend/backend.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/reference.h"
#include "base/half.h"
#include "ops/case.h"
#include "tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const isas[] = {"generic", "avx2", "avx512"};

typedef struct trial {
    const brim_op *op;
    const brim_case *c;
    brim_case_opts o;
    const char *isa;
    bool hostile;
} trial;

/* Shapes beyond the operators' own cases: tails, several chunks, several parts. */
static const struct {
    const brim_op *op;
    brim_case c;
} large[] = {
    {&brim_op_batch_norm,
     {"many rows", "f32[9,37,21,13] f32[37] f32[37] f32[37] f32[37]", "act=1", .positive_in = 16,
      .lo = 3, .hi = 4}},
    {&brim_op_batch_norm,
     {"wide", "f32[5,130,9,7] f32[130] f32[130] f32[130] f32[130] f32[5,130,9,7]", "act=1",
      .positive_in = 16}},
    {&brim_op_batch_norm,
     {"rows", "f32[3000,33] f32[33] f32[33] f32[33] f32[33]", "", .positive_in = 16, .lo = 100,
      .hi = 101}},
    {&brim_op_batch_norm_bwd,
     {"many rows", "f32[9,37,21,13] f32[9,37,21,13] f32[9,37,21,13] f32[37] f32[37] f32[37]",
      "act=1", .positive_in = 32}},
    {&brim_op_batch_norm_bwd,
     {"rows", "f32[3000,33] f32[3000,33] - f32[33] f32[33] f32[33]", "", .positive_in = 32}},
    {&brim_op_batch_norm_infer,
     {"wide", "f32[5,130,9,7] f32[130] f32[130] f32[130] f32[130] f32[5,130,9,7]", "act=1",
      .positive_in = 16}},
    {&brim_op_add, {"flat", "f32[3,3001] f32[3,3001]", ""}},
    {&brim_op_mul, {"per channel", "f32[5,37,9,7] f32[1,37,1,1]", ""}},
    {&brim_op_add, {"many channels", "f32[2,700,3,3] f32[700,1,1]", ""}},
    {&brim_op_mul, {"per image and channel", "f32[3,20,9,7] f32[3,20,1,1]", ""}},
    {&brim_op_sub, {"columns", "f32[130,77] f32[130,1]", ""}},
    {&brim_op_div, {"rows", "f32[130,77] f32[77]", "", .lo = 0.5, .hi = 2}},
    {&brim_op_relu_bwd, {"flat", "f32[20011] f32[20011]", ""}},
    {&brim_op_cast, {"bytes", "u8[7,3,33,31]", "to=0", .int_below = 256}},
    {&brim_op_cast, {"to bytes", "f32[1,3,33,31]", "to=6", .lo = -20, .hi = 300}},
    {&brim_op_cast, {"to i32", "f32[1,3,33,31]", "to=4", .lo = -20, .hi = 300}},
    {&brim_op_fused,
     {"large", "f32[3,37,21,13] f32[37,1,1] f32[] f32[3,37,21,13]", "out_types=0,1,2"}},
    {&brim_op_fused, {"both broadcast", "f32[37,1,33] f32[1,41,33]", "out_types=0"}},
    {&brim_op_cross_entropy,
     {"many", "f32[67,1000] i32[67] f32[67] i32[67] f32[67]", "smoothing=0.1",
      .positive_in = 4 | 16, .lo = -9, .hi = 9}},
    {&brim_op_cross_entropy_bwd,
     {"many", "f32[] f32[67,100] f32[67] i32[67] f32[67] i32[67] f32[67]", "smoothing=0.1",
      .positive_in = 16 | 64 | 4, .int_below = 100}},
    {&brim_op_topk_correct, {"many", "f32[67,1000] i32[67]", "k=300"}},
    {&brim_op_optimizer,
     {"sgd",
      "f32[8] f32[8] f32[300,301] f32[300,301] f32[300,301] - bf16[300,301] f32[300,301] "
      "f32[33] bf16[33] f32[33] - - -",
      "momentum=0.9 nesterov=1 weight_decay=0.01 clip=0.5", .lo = 0.2, .hi = 2}},
    {&brim_op_optimizer,
     {"adamw",
      "f32[8] f32[8] f32[300,301] f32[300,301] f32[300,301] f32[300,301] f16[300,301] "
      "f32[300,301]",
      "algo=1 weight_decay=0.01 clip=0.5", .lo = 0.2, .hi = 2}},
    {&brim_op_layer_norm, {"rows", "f32[130,333] f32[333] f32[333]", "", .lo = 9, .hi = 10}},
    {&brim_op_layer_norm_bwd,
     {"rows", "f32[130,333] f32[130,333] f32[333] f32[130] f32[130]", "", .positive_in = 16}},
    {&brim_op_softmax, {"rows", "f32[130,333]", "", .lo = -30, .hi = 30}},
    {&brim_op_softmax_bwd, {"rows", "f32[130,333] f32[130,333]", ""}},
    {&brim_op_dropout, {"long", "f32[3,20011] i32[4]", "p=0.3 key=7", .int_below = 100000}},
    {&brim_op_accumulate, {"long", "f32[40011] bf16[40011] f32[8]", ""}},
    {&brim_op_reduce_sum, {"all", "f32[3,67,21,13]", ""}},
    {&brim_op_reduce_sum, {"per channel", "f32[9,5,41,31]", "axes=13"}},
    {&brim_op_reduce_mean, {"columns", "f32[9000,7]", "axes=1"}},
    {&brim_op_reduce_max, {"columns", "f32[9000,7]", "axes=1"}},
    {&brim_op_reduce_mean, {"rows", "f32[7,9000]", "axes=2 keep=1"}},
    {&brim_op_reduce_sum, {"pixels", "f32[3,5,9,7]", "axes=12 keep=1"}},
    {&brim_op_reduce_sum, {"middle", "f32[19,7,9]", "axes=2"}},
    {&brim_op_broadcast_to, {"channel", "f32[1,37,1,1]", "shape=5,37,9,7"}},
    {&brim_op_relayout, {"to last", "f32[3,67,21,13]", "to=1"}},
    {&brim_op_relayout, {"64 channels", "u8[3,64,8,16]", "to=1", .int_below = 256}},
    {&brim_op_transpose, {"matrix", "f32[128,77]", "perm=1,0"}},
    {&brim_op_transpose, {"heads", "f32[3,17,12,64]", "perm=0,2,1,3"}},
    {&brim_op_concat, {"channels", "f32[3,37,9,7] f32[3,64,9,7]", "axis=1"}},
    {&brim_op_slice, {"steps", "f32[3,37,9,7]", "axis=1 begin=2 count=17 step=2"}},
    {&brim_op_slice_bwd, {"steps", "f32[3,17,9,7]", "axis=1 begin=2 step=2 size=37"}},
    {&brim_op_pad, {"channels", "f32[3,37,9,7]", "axis=1 before=2 after=5"}},
    {&brim_op_upsample_nearest, {"2x", "f32[3,37,9,7]", "scale=2,3"}},
    {&brim_op_reshape, {"long", "f32[64,1024]", "shape=-1,64"}},
};

static double tolerance(brim_dtype t)
{
    return t == BRIM_BF16 ? 0x1p-7 : t == BRIM_F16 ? 0x1p-10 : 2e-5;
}

static bool close_enough(double got, double want, brim_dtype t)
{
    if (!isfinite(want) || !isfinite(got)) return !isfinite(want) && !isfinite(got);
    return fabs(got - want) <= tolerance(t) * fmax(1, fabs(want));
}

static void compare(const trial *t, const char *impl, const brim_tensor *got,
                    const brim_tensor *want, const char *what, int k)
{
    int64_t count = brim_tensor_count(want);
    for (int64_t i = 0; i < count; i++) {
        double a = brim_tensor_at(got, i), b = brim_tensor_at(want, i);
        if (!close_enough(a, b, want->dtype))
            fail_msg("%s: %s: %s (%s, %s%s%s): %s %d element %lld is %.9g, wants %.9g", t->op->name,
                     t->c->name, impl, t->isa, brim_dtype_name(t->o.real),
                     t->o.channels_last ? ", channels last" : "", t->hostile ? ", hostile" : "",
                     what, k, (long long)i, a, b);
    }
}

static void spoil(const brim_tensor *t, brim_rng *r)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY, 1e-42, -0.0};
    int64_t count = brim_tensor_count(t);
    for (int k = 0; k < 5 && count; k++)
        brim_tensor_put(t, (int64_t)brim_rng_below(r, (uint64_t)count), bad[k]);
}

static brim_tensor copy_of(const brim_tensor *t)
{
    brim_tensor c = *t;
    size_t bytes = (size_t)brim_tensor_count(t) * brim_dtype_bytes(t->dtype);
    c.data = brim_malloc(bytes + 1);
    memcpy(c.data, t->data, bytes);
    return c;
}

enum { MAX_IN = 64 };

/* Runs the chosen implementation on copies of the inputs; output 0 in the storage of input `alias`
 * unless -1. False when another implementation was chosen. */
static bool run_impl(const trial *t, const brim_node *n, const brim_tensor *in,
                     const brim_tensor *want, const brim_tensor *want_in, int alias)
{
    const brim_impl *impl = brim_choose(&brim_backend_cpu, n, NULL);
    brim_tensor my_in[MAX_IN] = {0}, out[BRIM_BODY_MAX_OUT] = {0};
    bool used[BRIM_BODY_MAX_OUT];
    bool own_kernel = !strncmp(impl->name, "brim.", 5); /* not a library, not the reference */
    if (!own_kernel || (alias >= 0 && impl->no_inplace)) return false;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]) my_in[k] = copy_of(&in[k]);
    for (int k = 0; k < n->n_out; k++) {
        used[k] = true;
        out[k] = copy_of(&want[k]);
        memset(out[k].data, 0x5a,
               (size_t)brim_tensor_count(&out[k]) * brim_dtype_bytes(out[k].dtype));
    }
    void *own = n->n_out ? out[0].data : NULL;
    if (alias >= 0) out[0].data = my_in[alias].data;
    brim_step s = {.node = n, .impl = impl, .in = my_in, .out = out, .out_used = used};
    brim_error err;
    if (impl->prepare) assert_int_equal(impl->prepare(&s, &err), BRIM_OK);
    s.workspace = s.workspace_bytes ? aligned_alloc(64, (s.workspace_bytes + 63) / 64 * 64) : NULL;
    impl->run(&s);
    for (int k = 0; k < n->n_out; k++) compare(t, impl->name, &out[k], &want[k], "output", k);
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && k != alias) compare(t, impl->name, &my_in[k], &want_in[k], "input", k);
    if (impl->release) impl->release(&s);
    free(s.workspace);
    for (int k = 0; k < n->n_in; k++) free(my_in[k].data);
    for (int k = 1; k < n->n_out; k++) free(out[k].data);
    free(own);
    return true;
}

static bool can_alias(const brim_node *n, int k)
{
    return n->n_out && n->in[k] && brim_input_in(n->op->inplace, k) &&
           n->in[k]->dtype == n->out[0]->dtype && n->in[k]->layout == n->out[0]->layout &&
           brim_shape_equal(&n->in[k]->shape, &n->out[0]->shape);
}

/* False when no kernel of ours takes it. */
static bool run_trial(trial *t)
{
    brim_graph *g = brim_graph_new(true);
    brim_node *n = brim_case_emit(g, t->op, t->c, &t->o);
    brim_reference *r = NULL;
    brim_error err;
    if (!n || brim_reference_new(g, &r, &err) != BRIM_OK) {
        brim_graph_free(g);
        return false;
    }
    brim_tensor in[MAX_IN] = {0}, after[MAX_IN] = {0}, out[BRIM_BODY_MAX_OUT];
    brim_rng rng;
    brim_rng_init(&rng, brim_hash_text(t->op->name), brim_hash_text(t->c->name));
    for (int k = 0; k < n->n_in; k++) {
        if (!n->in[k]) continue;
        const brim_tensor *x = brim_reference_tensor(r, n->in[k]);
        brim_case_fill(t->c, n, k, &rng, x);
        if (t->hostile && brim_dtype_real(x->dtype) && n->in[k]->shape.rank >= 2) spoil(x, &rng);
        in[k] = copy_of(x);
    }
    brim_reference_run(r);
    for (int k = 0; k < n->n_out; k++) out[k] = *brim_reference_tensor(r, n->out[k]);
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]) after[k] = *brim_reference_tensor(r, n->in[k]);
    bool ran = false;
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        if (!brim_kernels_find(isas[i])) continue;
        brim_kernels_use(brim_kernels_find(isas[i]));
        t->isa = isas[i];
        ran = run_impl(t, n, in, out, after, -1);
        for (int k = 0; k < n->n_in && ran; k++)
            if (can_alias(n, k)) run_impl(t, n, in, out, after, k);
    }
    brim_kernels_use(NULL);
    for (int k = 0; k < n->n_in; k++) free(in[k].data);
    brim_reference_free(r);
    brim_graph_free(g);
    return ran;
}

static int run_variants(const brim_op *op, const brim_case *c)
{
    static const brim_dtype types[] = {BRIM_F32, BRIM_BF16, BRIM_F16};
    int ran = 0;
    for (int v = 0; v < 12; v++) {
        trial t = {op, c, {types[v % 3], v / 3 % 2}, "", v >= 6};
        ran += run_trial(&t);
    }
    return ran;
}

static void operators(void **state)
{
    (void)state;
    for (int i = 0; i < brim_ops_count; i++) {
        const brim_op *op = brim_ops[i];
        for (int j = 0; j < op->n_cases; j++)
            if (!op->cases[j].refused) run_variants(op, &op->cases[j]);
    }
}

static void large_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        if (!run_variants(large[i].op, &large[i].c))
            fail_msg("%s: %s: nothing but the reference", large[i].op->name, large[i].c.name);
}

/* ---- elementary functions ---- */

static double ulps(float got, double want)
{
    float w = (float)want;
    if (w != w || isinf(w)) return w != w ? (got != got ? 0 : 1e9) : got == w ? 0 : 1e9;
    int e;
    frexp(fabs(want) < 0x1p-126 ? 0x1p-126 : want, &e);
    return fabs(got - want) / ldexp(1, e - 24);
}

static double worst(const brim_kernels *k, brim_scalar_op op, double lo, double hi, float *at)
{
    enum { N = 4096 };
    static float x[N], y[N];
    brim_interp p = {.tensors = 2,
                     .run = N,
                     .chunk = BRIM_INTERP_CHUNK,
                     .period = 1,
                     .chunks = N / BRIM_INTERP_CHUNK,
                     .items = N / BRIM_INTERP_CHUNK,
                     .stride = {1, 1},
                     .slot = {0, 1}};
    p.body = (brim_body){.n_in = 1, .n_out = 1};
    p.body.out[0] = (uint8_t)brim_body_op(&p.body, op, brim_body_load(&p.body, 0), 0, 0);
    double most = 0;
    for (int round = 0; round < 16; round++) {
        for (int i = 0; i < N; i++) x[i] = (float)(lo + (hi - lo) * (round * N + i) / (16.0 * N));
        if (!round) x[0] = NAN, x[1] = INFINITY, x[2] = -INFINITY, x[3] = -0.0f, x[4] = 1e-40f;
        k->interp(&p, (void *[]){x, y}, 0, p.items);
        for (int i = 0; i < N; i++) {
            double u = ulps(y[i], brim_body_eval1(&p.body.at[1], x[i], 0, 0));
            if (u > most) most = u, *at = x[i];
        }
    }
    return most;
}

static void functions(void **state)
{
    (void)state;
    static const struct {
        brim_scalar_op op;
        double lo, hi, ulps;
    } f[] = {{BRIM_S_EXP, -87, 89, 2},     {BRIM_S_EXP, -1, 1, 2},     {BRIM_S_LOG, 0, 4, 2},
             {BRIM_S_LOG, -1, 1e30, 2},    {BRIM_S_LOG, 0, 1e-37, 2},  {BRIM_S_TANH, -1, 1, 2},
             {BRIM_S_TANH, -12, 12, 2},    {BRIM_S_ERF, -1.5, 1.5, 2}, {BRIM_S_ERF, -6, 6, 2},
             {BRIM_S_SIGMOID, -20, 40, 4}, {BRIM_S_SQRT, 0, 9, 1}};
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        const brim_kernels *k = brim_kernels_find(isas[i]);
        for (size_t j = 0; k && j < sizeof f / sizeof *f; j++) {
            float at = 0;
            double u = worst(k, f[j].op, f[j].lo, f[j].hi, &at);
            if (getenv("VERBOSE"))
                printf("%s %s %g..%g: %.2f ulp at %g\n", isas[i], brim_scalar_name(f[j].op),
                       f[j].lo, f[j].hi, u, at);
            if (u > f[j].ulps)
                fail_msg("%s: %s is %.1f ulp wrong at %.9g", isas[i], brim_scalar_name(f[j].op), u,
                         at);
        }
    }
}

/* Half types and back, all bit patterns and rounding cases, as base/half.h. */
static void halves(void **state)
{
    (void)state;
    enum { N = 65536 };
    static uint16_t h[N], back[N];
    static float f[N];
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        const brim_kernels *k = brim_kernels_find(isas[i]);
        for (int t = BRIM_BF16; k && t <= BRIM_F16; t++) {
            for (int j = 0; j < N; j++) h[j] = (uint16_t)j;
            k->widen(f, h, (brim_dtype)t, N);
            for (int j = 0; j < N; j++) {
                float w = t == BRIM_BF16 ? brim_bf16_to_f32(h[j]) : brim_f16_to_f32(h[j]);
                assert_true(f[j] != f[j] ? w != w : brim_f32_to_bits(f[j]) == brim_f32_to_bits(w));
                f[j] = brim_bits_to_f32((uint32_t)j << 16 | (uint32_t)(j * 2654435761u >> 16));
            }
            k->narrow(back, f, (brim_dtype)t, N);
            for (int j = 0; j < N; j++) {
                uint16_t w = t == BRIM_BF16 ? brim_f32_to_bf16(f[j]) : brim_f32_to_f16(f[j]);
                assert_int_equal(back[j], w);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves),
        cmocka_unit_test(functions),
        cmocka_unit_test(operators),
        cmocka_unit_test(large_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
