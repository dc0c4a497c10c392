/* Every implementation of a backend ($BRIM_TEST_DEVICE, or the CPU's) against the operator's
 * reference: each case, in every element type and both layouts, with ordinary and with hostile
 * numbers, in place, with outputs that nobody reads, and twice for the same bits. A failure names
 * operator, case, implementation, type and place. */
#include "backend/backend.h"
#include "ops/case.h"
#include "tests.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_IN = 64, MAX_OUT = BRIM_BODY_MAX_OUT, GUARD = 64, SHOWN = 4 };
typedef enum numbers { ORDINARY, WITH_NAN, HUGE_ONES, NUMBERS } numbers;
static const char *const numbers_name[NUMBERS] = {"ordinary", "with NaN", "huge"};

/* Sizes that reach the blocked and threaded parts of kernels, beside the operators' own cases. */
static const struct {
    const brim_op *op;
    brim_case c;
} larger[] = {
#define LARGER(o, in, ...) {&brim_op_##o, {.name = "larger " in, .inputs = in, __VA_ARGS__}},
    LARGER(add, "f32[2,67,9,11] f32[2,67,9,11]") LARGER(mul, "f32[2,64,8,8] f32[1,64,1,1]") LARGER(
        relu, "f32[70001]") LARGER(gelu, "f32[5003]", .lo = -9, .hi = 9) LARGER(silu, "f32[5003]",
                                                                                .lo = -30, .hi = 30)
        LARGER(exp, "f32[5003]", .lo = -80, .hi = 80) LARGER(
            tanh, "f32[5003]", .lo = -12,
            .hi = 12) LARGER(fused, "f32[2,67,9,11] f32[1,67,1,1] f32[2,67,9,11]",
                             .attrs = "out_types=0,1") LARGER(fused, "u8[2,3,16,16] f32[1,3,1,1]",
                                                              .attrs = "out_types=1",
                                                              .int_below = 256)
            LARGER(reduce_sum, "f32[4,33,9,7]", .attrs = "axes=13") LARGER(
                reduce_sum,
                "f32[300,70]",
                .attrs = "axes=1") LARGER(conv2d, "f32[2,16,9,9] f32[32,16,3,3] f32[32]",
                                          .attrs =
                                              "pad=1,1 act=1")
                LARGER(conv2d, "f32[2,32,8,8] f32[24,32,1,1]", .attrs = "stride=2,2") LARGER(
                    conv2d,
                    "f32[2,32,7,7] f32[32,1,3,3]",
                    .attrs = "groups=32 pad=1,1")
                    LARGER(conv2d_bwd_data, "f32[2,32,9,9] f32[32,16,3,3]",
                           .attrs =
                               "pad=1,1 in_size=9,9") LARGER(conv2d_bwd_weight,
                                                             "f32[2,32,9,9] f32[2,16,9,9]",
                                                             .attrs = "pad=1,1 kernel=3,3")
                        LARGER(linear, "f32[33,70] f32[65,70] f32[65]", .attrs = "act=1") LARGER(
                            linear_bwd_data, "f32[33,65] f32[65,70]")
                            LARGER(linear_bwd_weight, "f32[33,65] f32[33,70]") LARGER(
                                batch_norm,
                                "f32[4,33,7,9] f32[33] f32[33] f32[33] f32[33] f32[4,33,7,9]",
                                .attrs = "act=1",
                                .positive_in = 16) LARGER(batch_norm_bwd,
                                                          "f32[4,33,7,9] f32[4,33,7,9] "
                                                          "f32[4,33,7,9] f32[33] f32[33] f32[33]",
                                                          .attrs = "act=1", .positive_in = 32)
                                LARGER(layer_norm, "f32[37,67] f32[67] f32[67]") LARGER(
                                    layer_norm_bwd, "f32[37,67] f32[37,67] f32[67] f32[37] f32[37]",
                                    .positive_in =
                                        16) LARGER(matmul, "f32[3,33,70] f32[3,70,65]")
                                    LARGER(softmax, "f32[67,101]", .lo = -30, .hi = 30) LARGER(
                                        max_pool2d,
                                        "f32[2,35,11,13]",
                                        .attrs = "kernel=3,3 stride=2,2 pad=1,1")
                                        LARGER(global_avg_pool, "f32[3,67,7,7]") LARGER(
                                            cross_entropy,
                                            "f32[67,101] i32[67] f32[67]", .attrs = "smoothing=0.1",
                                            .positive_in =
                                                4) LARGER(dropout, "f32[3,67,5,7] i32[4]",
                                                          .attrs =
                                                              "p=0.3 key=3",
                                                          .int_below =
                                                              100000)
                                            LARGER(accumulate, "f32[70001] f32[70001] f32[8]")
                                                LARGER(relayout, "f32[3,70,13,9]", .attrs = "to=1")
                                                    LARGER(optimizer,
                                                           "f32[8] f32[8] f32[70001] f32[70001] "
                                                           "f32[70001] - bf16[70001] f32[70001]",
                                                           .attrs = "momentum=0.9 weight_decay=0.1 "
                                                                    "clip=0.5",
                                                           .lo = 0.2, .hi = 2)
                                                        LARGER(
                                                            optimizer,
                                                            "f32[8] f32[8] f32[90,77] f32[90,77] "
                                                            "f32[90,77] f32[90,77] f16[90,77] -",
                                                            .attrs = "algo=1 weight_decay=0.1",
                                                            .lo = 0.2, .hi = 2)};

static const brim_backend *backend;

/* A tensor with bytes of a known pattern around it. */
typedef struct buffer {
    unsigned char *base;
    size_t bytes;
    brim_tensor t;
} buffer;

static void buffer_make(buffer *b, const brim_value *v)
{
    b->bytes = brim_value_bytes(v);
    b->base = aligned_alloc(64, (b->bytes + 2 * GUARD + 63) / 64 * 64);
    assert_non_null(b->base);
    memset(b->base, 0xFF, b->bytes + 2 * GUARD);
    b->t = brim_tensor_make(b->base + GUARD, v->dtype, &v->shape, v->layout);
}

static bool buffer_guarded(const buffer *b)
{
    for (size_t i = 0; i < GUARD; i++)
        if (b->base[i] != 0xFF || b->base[GUARD + b->bytes + i] != 0xFF) return false;
    return true;
}

/* What one run reads and writes. */
typedef struct io {
    buffer in[MAX_IN], out[MAX_OUT];
} io;

static void io_free(io *x)
{
    for (int k = 0; k < MAX_IN; k++) free(x->in[k].base);
    for (int k = 0; k < MAX_OUT; k++) free(x->out[k].base);
    memset(x, 0, sizeof *x);
}

/* Fresh buffers; inputs copied from `from` when it is given. */
static void io_make(io *x, const brim_node *n, const io *from)
{
    memset(x, 0, sizeof *x);
    assert_true(n->n_in <= MAX_IN && n->n_out <= MAX_OUT);
    for (int k = 0; k < n->n_in; k++) {
        if (!n->in[k]) continue;
        buffer_make(&x->in[k], n->in[k]);
        if (from) memcpy(x->in[k].t.data, from->in[k].t.data, x->in[k].bytes);
    }
    for (int k = 0; k < n->n_out; k++) buffer_make(&x->out[k], n->out[k]);
}

/* Where the test stands. */
typedef struct place {
    const brim_op *op;
    const brim_case *c;
    const brim_node *n;
    const brim_impl *impl;
    brim_case_opts opts;
    numbers numbers;
    const char *run;
    int failures; /* of this operator */
} place;

static void complain(place *p, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    if (p->failures++ >= SHOWN) return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    print_error("%s | %s | %s | %s %s | %s numbers, %s: %s\n", p->op->name, p->c->name,
                p->impl->name, brim_dtype_name(p->opts.real),
                p->opts.channels_last ? "channels-last" : "row-major", numbers_name[p->numbers],
                p->run, text);
}

/* ---- running ---- */

typedef struct runner {
    brim_step s;
    brim_tensor in[MAX_IN], out[MAX_OUT];
    bool used[MAX_OUT];
    unsigned char *workspace;
    void *copy[MAX_IN + MAX_OUT + 1]; /* on a device with memory of its own */
} runner;

static bool runner_open(runner *r, place *p, int unused)
{
    const brim_node *n = p->n;
    brim_error err = {0};
    *r = (runner){.s = {.node = n, .impl = p->impl}};
    r->s.in = r->in;
    r->s.out = r->out;
    r->s.out_used = r->used;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k])
            r->in[k] = brim_tensor_make(NULL, n->in[k]->dtype, &n->in[k]->shape, n->in[k]->layout);
    for (int k = 0; k < n->n_out; k++) {
        r->used[k] = k != unused;
        r->out[k] = brim_tensor_make(NULL, n->out[k]->dtype, &n->out[k]->shape, n->out[k]->layout);
    }
    if (p->impl->prepare && p->impl->prepare(&r->s, &err) != BRIM_OK) {
        complain(p, "prepare failed: %s", err.text);
        return false;
    }
    r->workspace = aligned_alloc(64, (r->s.workspace_bytes + GUARD + 63) / 64 * 64);
    assert_non_null(r->workspace);
    return true;
}

static void runner_close(runner *r)
{
    if (r->s.impl->release) r->s.impl->release(&r->s);
    for (int k = 0; k < MAX_IN + MAX_OUT + 1; k++)
        if (r->copy[k]) backend->free(r->copy[k], 0);
    free(r->workspace);
}

/* The buffer on the device, guards and all; where its numbers begin. */
static void *lend(runner *r, int slot, const void *base, size_t bytes)
{
    if (!backend->device) return (void *)base;
    if (!r->copy[slot]) r->copy[slot] = backend->alloc(bytes, NULL);
    assert_non_null(r->copy[slot]);
    backend->upload(r->copy[slot], base, bytes);
    return r->copy[slot];
}

static void *lend_buffer(runner *r, int slot, const buffer *b)
{
    return (unsigned char *)lend(r, slot, b->base, b->bytes + 2 * GUARD) + GUARD;
}

static void take_back(const runner *r, int slot, void *base, size_t bytes)
{
    if (backend->device && r->copy[slot]) backend->download(base, r->copy[slot], bytes);
}

/* Runs on x's buffers; output 0 takes the storage of input `alias` unless that is -1. */
static void runner_run(runner *r, place *p, io *x, int alias)
{
    const brim_node *n = p->n;
    size_t workspace_bytes = r->s.workspace_bytes + GUARD;
    brim_error err = {0};
    memset(r->workspace, 0xFF, workspace_bytes);
    for (int k = 0; k < n->n_in; k++)
        r->in[k].data = n->in[k] ? lend_buffer(r, k, &x->in[k]) : NULL;
    for (int k = 0; k < n->n_out; k++)
        r->out[k].data = r->used[k] ? lend_buffer(r, MAX_IN + k, &x->out[k]) : NULL;
    if (alias >= 0) r->out[0].data = r->in[alias].data;
    r->s.workspace = lend(r, MAX_IN + MAX_OUT, r->workspace, workspace_bytes);
    p->impl->run(&r->s);
    if (backend->check && backend->check(&err) != BRIM_OK) fail_msg("%s", err.text);
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]) take_back(r, k, x->in[k].base, x->in[k].bytes + 2 * GUARD);
    for (int k = 0; k < n->n_out; k++)
        if (r->used[k] && !(k == 0 && alias >= 0))
            take_back(r, MAX_IN + k, x->out[k].base, x->out[k].bytes + 2 * GUARD);
    take_back(r, MAX_IN + MAX_OUT, r->workspace, workspace_bytes);
    for (int k = 0; k < GUARD; k++)
        if (r->workspace[r->s.workspace_bytes + (size_t)k] != 0xFF) {
            complain(p, "writes behind its workspace");
            break;
        }
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && !buffer_guarded(&x->in[k])) complain(p, "writes around input %d", k);
    for (int k = 0; k < n->n_out; k++)
        if (!buffer_guarded(&x->out[k])) complain(p, "writes around output %d", k);
}

/* ---- comparing ---- */

/* Distance of neighbouring numbers of a type around 1. */
static double ulp(brim_dtype t)
{
    return t == BRIM_BF16 ? 0x1p-7 : t == BRIM_F16 ? 0x1p-10 : t == BRIM_F64 ? 0x1p-52 : 0x1p-23;
}

static bool single_operation(const brim_op *op)
{
    static const char *const names[] = {"add",  "sub", "mul", "div",  "affine",  "relu",
                                        "cast", "exp", "log", "sqrt", "sigmoid", "tanh"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], op->name)) return true;
    return false;
}

/* Is `got` right where the reference has `want`? scale: the largest finite result beside it. */
static bool close_enough(const place *p, brim_dtype t, double want, double got, double scale,
                         double terms)
{
    if (!brim_dtype_real(t)) return want == got;
    if (p->numbers == HUGE_ONES && !single_operation(p->op)) /* float overflows where double not */
        return isfinite(want) || !isfinite(got);
    if (isnan(want) || isnan(got)) {
        /* Padding times a NaN weight may count or not. */
        if (isnan(got) && !isnan(want)) return p->op->amp == BRIM_AMP_HALF;
        return isnan(want) && isnan(got);
    }
    if (isinf(want) || isinf(got)) return want == got;
    if (p->op->scalar) scale = 1; /* elements are on their own */
    double computed = p->opts.real == BRIM_F64 && t == BRIM_F64 ? 0x1p-52 : 0x1p-23;
    return fabs(want - got) <=
           1.01 * ulp(t) * fabs(want) + computed * (32 + 4 * sqrt(terms)) * fmax(scale, fabs(want));
}

static void compare(place *p, const char *what, int k, const brim_tensor *want,
                    const brim_tensor *got)
{
    int64_t count = brim_tensor_count(want);
    brim_cost cost = brim_node_cost(p->n);
    double scale = 0.05, terms = cost.flops / (double)(count > 0 ? count : 1);
    for (int64_t i = 0; i < count; i++) {
        double w = fabs(brim_tensor_at(want, i));
        if (isfinite(w) && w > scale) scale = w;
    }
    for (int64_t i = 0; i < count; i++) {
        double w = brim_tensor_at(want, i), g = brim_tensor_at(got, i);
        if (close_enough(p, want->dtype, w, g, scale, terms)) continue;
        complain(p, "%s %d at %lld of %lld: want %.9g, got %.9g (scale %.3g)", what, k,
                 (long long)i, (long long)count, w, g, scale);
        return;
    }
}

/* Outputs, and inputs: those that the node changes by value, the others by bits. */
static void compare_all(place *p, const io *pristine, const io *want, const io *got, int unused,
                        int alias)
{
    const brim_node *n = p->n;
    for (int k = 0; k < n->n_out; k++) {
        if (k != unused)
            compare(p, "output", k, &want->out[k].t,
                    k == 0 && alias >= 0 ? &got->in[alias].t : &got->out[k].t);
        for (size_t i = 0; k == unused && i < got->out[k].bytes; i++)
            if (got->out[k].base[GUARD + i] != 0xFF) {
                complain(p, "writes output %d, which is unused", k);
                break;
            }
    }
    for (int k = 0; k < n->n_in; k++) {
        if (!n->in[k] || k == alias) continue;
        if (n->op->mutates_all || brim_input_in(n->op->mutates, k))
            compare(p, "changed input", k, &want->in[k].t, &got->in[k].t);
        else if (memcmp(pristine->in[k].t.data, got->in[k].t.data, got->in[k].bytes))
            complain(p, "changes input %d", k);
    }
}

/* The first difference in bits between two runs. */
static void compare_bits(place *p, const io *a, const io *b, int alias)
{
    for (int k = 0; k < p->n->n_out; k++) {
        const void *other = k == 0 && alias >= 0 ? b->in[alias].t.data : b->out[k].t.data;
        if (memcmp(a->out[k].t.data, other, a->out[k].bytes))
            complain(p, "output %d has other bits", k);
    }
    for (int k = 0; k < p->n->n_in; k++)
        if (p->n->in[k] && k != alias && memcmp(a->in[k].t.data, b->in[k].t.data, a->in[k].bytes))
            complain(p, "input %d ends with other bits", k);
}

/* ---- numbers ---- */

static double hostile(numbers kind, brim_dtype t, uint64_t which)
{
    double most = t == BRIM_F16 ? 65504 : t == BRIM_BF16 ? 0x1.fep127 : FLT_MAX;
    const double nans[] = {NAN, -0.0, 0, t == BRIM_F16 ? 0x1p-20 : 0x1p-135};
    const double huge[] = {INFINITY, -INFINITY, most, -most, t == BRIM_F16 ? 0x1p-20 : 0x1p-135};
    return kind == WITH_NAN ? nans[which % 4] : huge[which % 5];
}

static void sprinkle(const place *p, int k, brim_rng *r, const brim_tensor *t)
{
    /* The optimizer's step and scaler are not data. */
    if (!brim_dtype_real(t->dtype) || (p->op == &brim_op_optimizer && k < 2)) return;
    int64_t count = brim_tensor_count(t);
    for (int64_t i = 0; i < count; i++)
        if (brim_rng_below(r, 16) == 0)
            brim_tensor_put(t, i, hostile(p->numbers, t->dtype, brim_rng_below(r, 20)));
}

static void fill(const place *p, io *x)
{
    for (int k = 0; k < p->n->n_in; k++) {
        if (!p->n->in[k]) continue;
        brim_rng r;
        brim_rng_init(&r, brim_hash_text(p->op->name) ^ brim_hash_text(p->c->name), (uint64_t)k);
        brim_case_fill(p->c, p->n, k, &r, &x->in[k].t);
        if (p->numbers != ORDINARY) sprinkle(p, k, &r, &x->in[k].t);
    }
}

/* ---- one implementation ---- */

static void check_plain(place *p, const io *pristine, const io *want, io *first)
{
    runner r;
    io second;
    io_make(first, p->n, pristine);
    io_make(&second, p->n, pristine);
    p->run = "plain";
    if (runner_open(&r, p, -1)) {
        runner_run(&r, p, first, -1);
        compare_all(p, pristine, want, first, -1, -1);
        p->run = "again";
        runner_run(&r, p, &second, -1);
        compare_bits(p, first, &second, -1);
        runner_close(&r);
    }
    io_free(&second);
}

static void check_unused(place *p, const io *pristine, const io *want)
{
    for (int k = 0; p->n->n_out > 1 && k < p->n->n_out; k++) {
        runner r;
        io x;
        io_make(&x, p->n, pristine);
        p->run = "an output unused";
        if (runner_open(&r, p, k)) {
            runner_run(&r, p, &x, -1);
            compare_all(p, pristine, want, &x, k, -1);
            runner_close(&r);
        }
        io_free(&x);
    }
}

static bool may_alias(const place *p, int k)
{
    const brim_value *x = p->n->in[k], *y = p->n->out[0];
    return x && brim_input_in(p->op->inplace, k) && x->dtype == y->dtype &&
           x->layout == y->layout && brim_shape_equal(&x->shape, &y->shape);
}

static void check_in_place(place *p, const io *pristine, const io *want, const io *plain)
{
    for (int k = 0; p->n->n_out && !p->impl->no_inplace && k < p->n->n_in; k++) {
        if (!may_alias(p, k)) continue;
        runner r;
        io x;
        io_make(&x, p->n, pristine);
        p->run = "in place";
        if (runner_open(&r, p, -1)) {
            runner_run(&r, p, &x, k);
            compare_all(p, pristine, want, &x, -1, k);
            compare_bits(p, plain, &x, k);
            runner_close(&r);
        }
        io_free(&x);
    }
}

static void check_impl(place *p, const io *pristine, const io *want)
{
    io plain;
    check_plain(p, pristine, want, &plain);
    if (p->numbers == ORDINARY) {
        check_unused(p, pristine, want);
        check_in_place(p, pristine, want, &plain);
    }
    io_free(&plain);
}

static void reference(const place *p, const io *pristine, io *want)
{
    brim_tensor in[MAX_IN] = {0}, out[MAX_OUT] = {0};
    io_make(want, p->n, pristine);
    for (int k = 0; k < p->n->n_in; k++)
        if (p->n->in[k]) in[k] = want->in[k].t;
    for (int k = 0; k < p->n->n_out; k++) out[k] = want->out[k].t;
    p->op->ref(p->n, in, out);
}

/* How many of the list support the node. */
static int check_list(place *p, const brim_impl *list, int count, const io *pristine,
                      const io *want)
{
    int ran = 0;
    for (int i = 0; i < count; i++) {
        const char *why = "";
        p->impl = &list[i];
        if (p->impl->op && p->impl->op != p->op) continue;
        if (p->impl->supports && !p->impl->supports(p->n, &why)) continue;
        check_impl(p, pristine, want);
        ran++;
    }
    return ran;
}

/* ---- variants ---- */

/* False when the case has nothing that this type or layout would change. */
static bool differs(const brim_node *n, const brim_case_opts *o)
{
    bool typed = o->real == BRIM_F32, laid_out = !o->channels_last;
    for (int k = 0; k < n->n_in + n->n_out; k++) {
        const brim_value *v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
        if (!v) continue;
        typed |= k < n->n_in && v->dtype == o->real;
        laid_out |= v->layout == BRIM_LAYOUT_CHANNELS_LAST;
    }
    return typed && laid_out;
}

/* Double is for gradient checks: a device need not compute in it. */
static bool wide(const brim_node *n)
{
    for (int k = 0; k < n->n_in + n->n_out; k++) {
        const brim_value *v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
        if (v && v->dtype == BRIM_F64) return true;
    }
    return false;
}

static const brim_impl nothing = {.name = "-"};

static void check_variant(place *p)
{
    brim_graph *g = brim_graph_new(true);
    p->n = brim_case_emit(g, p->op, p->c, &p->opts);
    for (p->numbers = ORDINARY; p->n && differs(p->n, &p->opts) && p->numbers < NUMBERS;
         p->numbers++) {
        io pristine, want;
        io_make(&pristine, p->n, NULL);
        fill(p, &pristine);
        reference(p, &pristine, &want);
        int ran = 0;
        for (int l = 0; l < backend->n_lists; l++)
            ran += check_list(p, backend->lists[l].at, *backend->lists[l].n, &pristine, &want);
        if (!ran && !wide(p->n)) {
            p->impl = &nothing;
            complain(p, "nothing computes this");
        }
        io_free(&pristine);
        io_free(&want);
    }
    brim_graph_free(g);
}

static void check_case(place *p, const brim_case *c)
{
    static const brim_dtype types[] = {BRIM_F32, BRIM_BF16, BRIM_F16, BRIM_F64};
    p->c = c;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int last = 0; last < 2; last++) {
            p->opts = (brim_case_opts){.real = types[t], .channels_last = last};
            check_variant(p);
        }
}

static void implementations(void **state)
{
    place p = {.op = *state};
    for (int i = 0; i < p.op->n_cases; i++)
        if (!p.op->cases[i].refused) check_case(&p, &p.op->cases[i]);
    for (size_t i = 0; i < sizeof larger / sizeof *larger; i++)
        if (larger[i].op == p.op) check_case(&p, &larger[i].c);
    if (p.failures) fail_msg("%s: %d failures", p.op->name, p.failures);
}

#define BRIM_OP(name) {#name, implementations, NULL, NULL, (void *)(uintptr_t)&brim_op_##name},
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#include "ops/ops.def"
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* "reduce*" */
    const char *name = getenv("BRIM_TEST_DEVICE");
    brim_error err = {0};
    backend = brim_backend_find(name ? name : "cpu");
    if (!backend || (backend->open && backend->open(&err) != BRIM_OK)) {
        fprintf(stderr, "%s: %s\n", name, err.text);
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
