/* Sums, means and maxima over axes. In memory order the input is K0 x R0 x K1 x R1, where K are
 * kept, R reduced and any may be 1: "all" is R1, rows K0 x R1, columns R0 x K1, per channel
 * R0 x K1 x R1. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/parallel.h"

#include <math.h>

enum { MOST_PARTS = 64, BLOCK = 64 };

typedef struct extents {
    int64_t k0, r0, k1, r1;
} extents;

static bool reduced(const brim_node *n, int k)
{
    int64_t axes = brim_attr_int(n, "axes", 0);
    return !axes || axes >> k & 1;
}

/* Dimensions of in 0 with more than one element, outermost first; returns how many. */
static int memory_order(const brim_tensor *x, int order[BRIM_MAX_RANK])
{
    int rank = 0;
    for (int k = 0; k < x->shape.rank; k++) {
        if (x->shape.dim[k] == 1) continue;
        int j = rank++;
        for (; j > 0 && x->stride[order[j - 1]] < x->stride[k]; j--) order[j] = order[j - 1];
        order[j] = k;
    }
    return rank;
}

/* Stride in the output of the input's dimension k, which is kept. */
static int64_t out_stride(const brim_node *n, const brim_tensor *y, int k)
{
    int j = k;
    for (int i = 0; i < k && !brim_attr_int(n, "keep", 0); i++) j -= reduced(n, i);
    return y->stride[j];
}

/* False when the input is not of that form or the output's order is another one. */
static bool extents_of(const brim_node *n, extents *e)
{
    const brim_value *in = n->in[0], *out = n->out[0];
    brim_tensor x = brim_tensor_make(NULL, in->dtype, &in->shape, in->layout);
    brim_tensor y = brim_tensor_make(NULL, out->dtype, &out->shape, out->layout);
    int order[BRIM_MAX_RANK], rank = memory_order(&x, order), at = 4;
    int64_t size[4] = {1, 1, 1, 1}, packed = 1;
    for (int d = rank - 1; d >= 0; d--) {
        int k = order[d];
        if (!reduced(n, k)) {
            if (out_stride(n, &y, k) != packed) return false;
            packed *= x.shape.dim[k];
        }
        /* Places 3 and 1 are reduced, 2 and 0 kept; a dimension joins the last place or goes on. */
        if (at == 4 || reduced(n, k) != (at % 2 == 1)) at--;
        if (reduced(n, k) != (at % 2 == 1)) at--;
        if (at < 0) return false;
        size[at] *= x.shape.dim[k];
    }
    *e = (extents){size[0], size[1], size[2], size[3]};
    return true;
}

static bool supports(const brim_node *n, const char **why)
{
    extents e;
    if (n->in[0]->dtype == BRIM_F64) return *why = "f64", false;
    if (!brim_shape_count(&n->in[0]->shape)) return *why = "no elements", false;
    if (!extents_of(n, &e)) return *why = "kept and reduced axes alternate too often", false;
    return true;
}

static const void *offset(const brim_tensor *x, int64_t i)
{
    return (const char *)x->data + i * (int64_t)brim_dtype_bytes(x->dtype);
}

/* How the work is cut: over results when there are enough of them, else inside each. */
static bool few_results(extents e)
{
    return e.k0 * (e.r1 > 1 ? e.k1 : 1) < 16;
}

static int inner_parts(extents e)
{
    if (!few_results(e)) return 1;
    return e.r1 > 1 ? brim_sum_parts(e.r1, 1, MOST_PARTS) : brim_sum_parts(e.r0, e.k1, MOST_PARTS);
}

static brim_status prepare(brim_step *s, brim_error *err)
{
    (void)err;
    extents e;
    extents_of(s->node, &e);
    size_t jobs = few_results(e) ? (size_t)inner_parts(e) : (size_t)e.k0;
    if (e.r1 > 1)
        s->workspace_bytes = (size_t)inner_parts(e) * sizeof(double);
    else
        s->workspace_bytes = jobs * (size_t)e.k1 * (sizeof(double) + sizeof(float));
    return BRIM_OK;
}

typedef struct reduction {
    const brim_kernels *k;
    const brim_tensor *x, *y;
    extents e;
    bool max;
    double scale;
} reduction;

static void put(const reduction *r, int64_t i, double v)
{
    brim_tensor_set(r->y, i, v * r->scale);
}

static double join(const reduction *r, double a, double b)
{
    if (!r->max) return a + b;
    return a != a || a > b ? a : b;
}

/* Over R0 and elements [from,to) of R1 of kept element i. */
static double along_rows(const reduction *r, int64_t i, int64_t from, int64_t to)
{
    extents e = r->e;
    double v = r->max ? -INFINITY : 0;
    for (int64_t j = 0; j < e.r0; j++) {
        const void *p = offset(r->x, ((i / e.k1 * e.r0 + j) * e.k1 + i % e.k1) * e.r1 + from);
        v = join(r, v,
                 r->max ? r->k->max(p, r->x->dtype, to - from)
                        : r->k->sum(p, r->x->dtype, to - from));
    }
    return v;
}

static void run_rows(const brim_step *s, const reduction *r)
{
    extents e = r->e;
    double *part = s->workspace;
    int64_t results = e.k0 * e.k1;
    int parts = inner_parts(e), cuts = parts > 1 ? 1 : brim_thread_parts(results, e.r0 * e.r1);
    for (int64_t i = 0; i < results && parts > 1; i++) {
        BRIM_PARALLEL_FOR(parts)
        for (int p = 0; p < parts; p++)
            part[p] = along_rows(r, i, brim_part_begin(e.r1, p, parts),
                                 brim_part_begin(e.r1, p + 1, parts));
        for (int p = 1; p < parts; p++) part[0] = join(r, part[0], part[p]);
        put(r, i, part[0]);
    }
    BRIM_PARALLEL_FOR(cuts)
    for (int p = 0; p < (parts > 1 ? 0 : cuts); p++)
        for (int64_t i = brim_part_begin(results, p, cuts);
             i < brim_part_begin(results, p + 1, cuts); i++)
            put(r, i, along_rows(r, i, 0, e.r1));
}

/* acc[k1] over rows [from,to) of R0 in K0's element i; tmp: k1 floats. */
static void along_columns(const reduction *r, int64_t i, int64_t from, int64_t to, double *acc,
                          float *tmp)
{
    int64_t n = r->e.k1;
    for (int64_t j = 0; j < n; j++) acc[j] = r->max ? -INFINITY : 0;
    for (int64_t row = from; row < to; row += BLOCK) {
        const void *p = offset(r->x, (i * r->e.r0 + row) * n);
        int64_t rows = to - row < BLOCK ? to - row : BLOCK;
        for (int64_t j = 0; j < n; j++) tmp[j] = r->max ? -INFINITY : 0;
        (r->max ? r->k->column_max : r->k->column_sum)(tmp, p, r->x->dtype, rows, n, n);
        for (int64_t j = 0; j < n; j++) acc[j] = join(r, acc[j], tmp[j]);
    }
}

static void run_columns(const brim_step *s, const reduction *r)
{
    extents e = r->e;
    bool few = few_results(e);
    int parts = inner_parts(e), jobs = few ? parts : (int)e.k0;
    double *acc = s->workspace;
    float *tmp = (float *)(acc + jobs * e.k1);
    for (int64_t i = 0; i < e.k0 && few; i++) {
        BRIM_PARALLEL_FOR(parts)
        for (int p = 0; p < parts; p++)
            along_columns(r, i, brim_part_begin(e.r0, p, parts),
                          brim_part_begin(e.r0, p + 1, parts), acc + p * e.k1, tmp + p * e.k1);
        for (int p = 1; p < parts; p++)
            for (int64_t j = 0; j < e.k1; j++) acc[j] = join(r, acc[j], acc[p * e.k1 + j]);
        for (int64_t j = 0; j < e.k1; j++) put(r, i * e.k1 + j, acc[j]);
    }
    if (few) return;
    int cuts = brim_thread_parts(e.k0, e.r0 * e.k1);
    BRIM_PARALLEL_FOR(cuts)
    for (int p = 0; p < cuts; p++)
        for (int64_t i = brim_part_begin(e.k0, p, cuts); i < brim_part_begin(e.k0, p + 1, cuts);
             i++) {
            along_columns(r, i, 0, e.r0, acc + i * e.k1, tmp + i * e.k1);
            for (int64_t j = 0; j < e.k1; j++) put(r, i * e.k1 + j, acc[i * e.k1 + j]);
        }
}

static void run(const brim_step *s)
{
    reduction r = {.k = brim_kernels_get(),
                   .x = &s->in[0],
                   .y = &s->out[0],
                   .max = s->node->op == &brim_op_reduce_max,
                   .scale = 1};
    extents_of(s->node, &r.e);
    if (s->node->op == &brim_op_reduce_mean) r.scale = 1 / (double)(r.e.r0 * r.e.r1);
    if (r.e.r1 > 1)
        run_rows(s, &r);
    else
        run_columns(s, &r);
}

#define REDUCE(op_)                                                                                \
    {                                                                                              \
        .name = "brim." #op_, .op = &brim_op_##op_, .supports = supports, .prepare = prepare,      \
        .run = run                                                                                 \
    }
const brim_impl brim_cpu_reduce[] = {REDUCE(reduce_sum), REDUCE(reduce_mean), REDUCE(reduce_max)};
const int brim_cpu_reduce_count = 3;
