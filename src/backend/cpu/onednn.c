#include "backend/cpu/onednn.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/cpu.h"
#include "base/mem.h"

#include <limits.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <string.h>

enum { MAX_SLOTS = 4, ALIGN = 64 };

/* One operand of the primitive. */
typedef struct slot {
    int id; /* DNNL_ARG_... */
    bool output, unread;
    int index;
    dnnl_memory_t user;       /* the step's tensor; NULL when unread */
    dnnl_memory_t inner;      /* the copy that the primitive works on; NULL: works on user */
    dnnl_primitive_t reorder; /* between user and inner */
    size_t offset;            /* of inner in the workspace */
    int64_t wide;             /* numbers of an fp16 tensor, which is `user` as float; 0: not fp16 */
    size_t wide_offset;       /* of that copy in the workspace */
} slot;

typedef struct call {
    dnnl_primitive_t primitive;
    dnnl_memory_t scratchpad; /* NULL when none is needed */
    size_t scratchpad_offset;
    int n;
    slot slots[MAX_SLOTS];
    bool relu;
    const char *kernel; /* owned by the primitive */
} call;

/* ---- the two APIs ---- */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t md_own; /* a handle */
#define REF(md) (md)
static dnnl_status_t md_make(md_own *md, int rank, const int64_t *dim, dnnl_data_type_t t,
                             const int64_t *stride)
{
    return stride ? dnnl_memory_desc_create_with_strides(md, rank, dim, t, stride)
                  : dnnl_memory_desc_create_with_tag(md, rank, dim, t, dnnl_format_tag_any);
}
static void md_end(md_own *md)
{
    if (*md) dnnl_memory_desc_destroy(*md);
    *md = NULL;
}
typedef const_dnnl_memory_desc_t md_view;
#else
typedef dnnl_memory_desc_t md_own; /* a struct */
#define REF(md) (&(md))
static dnnl_status_t md_make(md_own *md, int rank, const int64_t *dim, dnnl_data_type_t t,
                             const int64_t *stride)
{
    return stride ? dnnl_memory_desc_init_by_strides(md, rank, dim, t, stride)
                  : dnnl_memory_desc_init_by_tag(md, rank, dim, t, dnnl_format_tag_any);
}
static void md_end(md_own *md)
{
    (void)md;
}
typedef const dnnl_memory_desc_t *md_view;
#endif

/* The API reads arrays of its full length, whatever the rank. */
static void dims_of(dnnl_dims_t out, const int64_t *in, int n)
{
    memset(out, 0, sizeof(dnnl_dims_t));
    memcpy(out, in, sizeof *in * (size_t)n);
}

/* The window of a convolution in oneDNN's terms. */
typedef struct window {
    dnnl_dims_t stride, gap, pad;
} window;

static dnnl_alg_kind_t algorithm(const brim_dnn_problem *p)
{
    return p->winograd ? dnnl_convolution_winograd : dnnl_convolution_direct;
}

static window window_of(const brim_dnn_problem *p)
{
    window w;
    dims_of(w.stride, p->stride, 2);
    dims_of(w.pad, p->pad, 2);
    dims_of(w.gap, (const int64_t[2]){p->dilation[0] - 1, p->dilation[1] - 1}, 2);
    return w;
}

/* A descriptor with these strides, or with a layout that the primitive chooses (stride NULL). */
static dnnl_status_t desc_make(md_own *md, int rank, const int64_t *dim, dnnl_data_type_t t,
                               const int64_t *stride)
{
    dnnl_dims_t d, st;
    dims_of(d, dim, rank);
    if (stride) dims_of(st, stride, rank);
    return md_make(md, rank, d, t, stride ? st : NULL);
}

/* Descriptors of the four operands as given to a primitive. */
typedef struct descs {
    md_own src, weights, bias, dst;
    bool has_bias;
} descs;

/* The primitive descriptor of p; `forward` is the hint that gradients want. */
#if DNNL_VERSION_MAJOR >= 3
static dnnl_status_t pd_make(dnnl_primitive_desc_t *pd, brim_dnn_kind kind,
                             const brim_dnn_problem *p, const descs *d, dnnl_engine_t engine,
                             dnnl_primitive_attr_t attr, dnnl_primitive_desc_t forward)
{
    window w = window_of(p);
    md_view bias = d->has_bias ? d->bias : NULL;
    switch (kind) {
    case BRIM_DNN_CONV:
        return dnnl_convolution_forward_primitive_desc_create(
            pd, engine, dnnl_forward_training, algorithm(p), d->src, d->weights, bias, d->dst,
            w.stride, w.gap, w.pad, w.pad, attr);
    case BRIM_DNN_CONV_BWD_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(
            pd, engine, algorithm(p), d->src, d->weights, d->dst, w.stride, w.gap, w.pad, w.pad,
            forward, attr);
    case BRIM_DNN_CONV_BWD_WEIGHT:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            pd, engine, algorithm(p), d->src, d->weights, bias, d->dst, w.stride, w.gap, w.pad,
            w.pad, forward, attr);
    case BRIM_DNN_MATMUL:
        return dnnl_matmul_primitive_desc_create(pd, engine, d->src, d->weights, bias, d->dst,
                                                 attr);
    }
    return dnnl_invalid_arguments;
}
#else
static dnnl_status_t pd_make(dnnl_primitive_desc_t *pd, brim_dnn_kind kind,
                             const brim_dnn_problem *p, const descs *d, dnnl_engine_t engine,
                             dnnl_primitive_attr_t attr, dnnl_primitive_desc_t forward)
{
    window w = window_of(p);
    md_view bias = d->has_bias ? &d->bias : NULL;
    dnnl_convolution_desc_t conv;
    dnnl_matmul_desc_t matmul;
    dnnl_status_t r = dnnl_invalid_arguments;
    switch (kind) {
    case BRIM_DNN_CONV:
        r = dnnl_dilated_convolution_forward_desc_init(&conv, dnnl_forward_training, algorithm(p),
                                                       &d->src, &d->weights, bias, &d->dst,
                                                       w.stride, w.gap, w.pad, w.pad);
        break;
    case BRIM_DNN_CONV_BWD_DATA:
        r = dnnl_dilated_convolution_backward_data_desc_init(
            &conv, algorithm(p), &d->src, &d->weights, &d->dst, w.stride, w.gap, w.pad, w.pad);
        break;
    case BRIM_DNN_CONV_BWD_WEIGHT:
        r = dnnl_dilated_convolution_backward_weights_desc_init(&conv, algorithm(p), &d->src,
                                                                &d->weights, bias, &d->dst,
                                                                w.stride, w.gap, w.pad, w.pad);
        break;
    case BRIM_DNN_MATMUL:
        r = dnnl_matmul_desc_init(&matmul, &d->src, &d->weights, bias, &d->dst);
        break;
    }
    if (r != dnnl_success) return r;
    const void *op = kind == BRIM_DNN_MATMUL ? (const void *)&matmul : (const void *)&conv;
    return dnnl_primitive_desc_create(pd, op, attr, engine, forward);
}
#endif

/* ---- engine ---- */

static struct {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr; /* the scratchpad is the caller's */
    dnnl_status_t status;
} dnn;

static void engine_open(void)
{
    dnn.status = dnnl_engine_create(&dnn.engine, dnnl_cpu, 0);
    if (dnn.status == dnnl_success)
        dnn.status = dnnl_stream_create(&dnn.stream, dnn.engine, dnnl_stream_default_flags);
    if (dnn.status == dnnl_success) dnn.status = dnnl_primitive_attr_create(&dnn.attr);
    if (dnn.status == dnnl_success)
        dnn.status = dnnl_primitive_attr_set_scratchpad_mode(dnn.attr, dnnl_scratchpad_mode_user);
}

static brim_status translate(brim_error *err, dnnl_status_t r, const char *what)
{
    switch (r) {
    case dnnl_success: return BRIM_OK;
    case dnnl_out_of_memory: return brim_fail(err, BRIM_ENOMEM, "oneDNN: %s: out of memory", what);
    case dnnl_unimplemented:
        return brim_fail(err, BRIM_EUNSUPPORTED, "oneDNN: %s: not implemented for this problem",
                         what);
    default: return brim_fail(err, BRIM_EDEVICE, "oneDNN: %s: error %d", what, (int)r);
    }
}

/* ---- operands ---- */

static dnnl_data_type_t type_of(brim_dtype t)
{
    switch (t) {
    case BRIM_F32: return dnnl_f32;
    case BRIM_BF16: return dnnl_bf16;
    case BRIM_F16: return dnnl_f16;
    default: return dnnl_data_type_undef;
    }
}

brim_dtype brim_dnn_compute(brim_dtype t)
{
    return t == BRIM_BF16 && brim_cpu_features_get()->avx512_bf16 ? BRIM_BF16 : BRIM_F32;
}

static brim_dnn_arg arg_of(const brim_tensor *t, int index, bool output)
{
    brim_dnn_arg a = {.rank = t->shape.rank,
                      .dtype = t->dtype,
                      .compute = brim_dnn_compute(t->dtype),
                      .output = output,
                      .index = index};
    memcpy(a.dim, t->shape.dim, sizeof a.dim);
    memcpy(a.stride, t->stride, sizeof a.stride);
    return a;
}

brim_dnn_arg brim_dnn_in(const brim_step *s, int index)
{
    return arg_of(&s->in[index], index, false);
}

brim_dnn_arg brim_dnn_out(const brim_step *s, int index)
{
    brim_dnn_arg a = arg_of(&s->out[index], index, true);
    a.unread = !s->out_used[index];
    return a;
}

bool brim_dnn_takes(const brim_value *v, const char **why)
{
    if (type_of(v->dtype) == dnnl_data_type_undef) {
        *why = "type is not f32, bf16 or f16";
        return false;
    }
    for (int k = 0; k < v->shape.rank; k++)
        if (v->shape.dim[k] < 1 || v->shape.dim[k] > INT_MAX) {
            *why = v->shape.dim[k] < 1 ? "a tensor is empty" : "a dimension is 2^31 or more";
            return false;
        }
    return true;
}

/* ---- building ---- */

static size_t workspace_take(brim_step *s, size_t bytes)
{
    size_t at = (s->workspace_bytes + ALIGN - 1) / ALIGN * ALIGN;
    s->workspace_bytes = at + bytes;
    return at;
}

static dnnl_status_t memory_make(dnnl_memory_t *m, md_view md)
{
    return dnnl_memory_create(m, md, dnn.engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t reorder_make(dnnl_primitive_t *out, md_view from, md_view to)
{
    dnnl_primitive_desc_t pd;
    dnnl_status_t r =
        dnnl_reorder_primitive_desc_create(&pd, from, dnn.engine, to, dnn.engine, dnn.attr);
    if (r != dnnl_success) return r;
    r = dnnl_primitive_create(out, pd);
    dnnl_primitive_desc_destroy(pd);
    return r;
}

/* Fills the slot of operand a, whose place in the primitive `want` describes. */
static dnnl_status_t slot_make(brim_step *s, call *c, const brim_dnn_arg *a, int id, md_view want)
{
    slot *at = &c->slots[c->n++];
    *at = (slot){.id = id, .output = a->output, .unread = a->unread, .index = a->index};
    /* oneDNN's conversions from fp16 are scalar code: kernels of our own widen and narrow it. */
    bool half = a->dtype == BRIM_F16 && !a->unread;
    if (half) {
        at->wide = 1;
        for (int k = 0; k < a->rank; k++) at->wide *= a->dim[k];
        at->wide_offset = workspace_take(s, (size_t)at->wide * sizeof(float));
    }
    md_own lies;
    dnnl_status_t r =
        desc_make(&lies, a->rank, a->dim, half ? dnnl_f32 : type_of(a->dtype), a->stride);
    if (r != dnnl_success) return r;
    bool same = dnnl_memory_desc_equal(REF(lies), want);
    if (!same || a->unread) {
        r = memory_make(&at->inner, want);
        at->offset = workspace_take(s, dnnl_memory_desc_get_size(want));
    }
    if (r == dnnl_success && !a->unread) r = memory_make(&at->user, REF(lies));
    if (r == dnnl_success && !same && !a->unread)
        r = a->output ? reorder_make(&at->reorder, want, REF(lies))
                      : reorder_make(&at->reorder, REF(lies), want);
    md_end(&lies);
    return r;
}

static const brim_dnn_arg *operand(const brim_dnn_problem *p, int k)
{
    const brim_dnn_arg *all[] = {&p->src, &p->weights, &p->bias, &p->dst};
    return all[k];
}

static dnnl_status_t descs_make(const brim_dnn_problem *p, descs *d)
{
    md_own *all[] = {&d->src, &d->weights, &d->bias, &d->dst};
    *d = (descs){.has_bias = p->bias.rank > 0};
    for (int k = 0; k < 4; k++) {
        const brim_dnn_arg *a = operand(p, k);
        if (!a->rank) continue;
        dnnl_status_t r =
            desc_make(all[k], a->rank, a->dim, type_of(a->compute), a->any ? NULL : a->stride);
        if (r != dnnl_success) return r;
    }
    return dnnl_success;
}

static void descs_end(descs *d)
{
    md_end(&d->src);
    md_end(&d->weights);
    if (d->has_bias) md_end(&d->bias);
    md_end(&d->dst);
}

/* The forward convolution that a gradient belongs to: all operands in one type, no bias. */
static dnnl_status_t forward_hint(const brim_dnn_problem *p, dnnl_primitive_desc_t *pd)
{
    brim_dnn_problem f = *p;
    descs d;
    f.bias.rank = 0;
    f.src.compute = f.weights.compute = f.dst.compute =
        p->kind == BRIM_DNN_CONV_BWD_DATA ? p->dst.compute : p->src.compute;
    dnnl_status_t r = descs_make(&f, &d);
    if (r == dnnl_success) r = pd_make(pd, BRIM_DNN_CONV, &f, &d, dnn.engine, dnn.attr, NULL);
    descs_end(&d);
    return r;
}

static dnnl_status_t describe(const brim_dnn_problem *p, dnnl_primitive_desc_t *pd)
{
    descs d;
    dnnl_primitive_desc_t forward = NULL;
    dnnl_status_t r = descs_make(p, &d);
    if (r == dnnl_success && p->kind != BRIM_DNN_CONV && p->kind != BRIM_DNN_MATMUL) {
        r = forward_hint(p, &forward);
    }
    if (r == dnnl_success) r = pd_make(pd, p->kind, p, &d, dnn.engine, dnn.attr, forward);
    if (forward) dnnl_primitive_desc_destroy(forward);
    descs_end(&d);
    return r;
}

/* DNNL_ARG numbers of src, weights, bias, dst. */
static void arg_ids(brim_dnn_kind kind, int id[4])
{
    bool data = kind == BRIM_DNN_CONV_BWD_DATA, weight = kind == BRIM_DNN_CONV_BWD_WEIGHT;
    id[0] = data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    id[1] = weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    id[2] = weight ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS;
    id[3] = data || weight ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST;
}

static dnnl_status_t build(brim_step *s, const brim_dnn_problem *p, call *c)
{
    dnnl_primitive_desc_t pd;
    dnnl_status_t r = describe(p, &pd);
    if (r != dnnl_success) return r;
    int id[4];
    arg_ids(p->kind, id);
    for (int k = 0; k < 4 && r == dnnl_success; k++)
        if (operand(p, k)->rank)
            r = slot_make(s, c, operand(p, k), id[k],
                          dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, id[k]));
    md_view scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    if (r == dnnl_success && bytes) {
        r = memory_make(&c->scratchpad, scratch);
        c->scratchpad_offset = workspace_take(s, bytes);
    }
    if (r == dnnl_success) r = dnnl_primitive_create(&c->primitive, pd);
    const_dnnl_primitive_desc_t own;
    if (r == dnnl_success) r = dnnl_primitive_get_primitive_desc(c->primitive, &own);
    if (r == dnnl_success) dnnl_primitive_desc_query(own, dnnl_query_impl_info_str, 0, &c->kernel);
    dnnl_primitive_desc_destroy(pd);
    return r;
}

brim_status brim_dnn_prepare(brim_step *s, const brim_dnn_problem *p, brim_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, engine_open);
    BRIM_TRY(translate(err, dnn.status, "starting"));
    call *c = brim_calloc(1, sizeof *c);
    if (!c) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", s->node->name);
    c->relu = p->relu;
    s->state = c;
    s->workspace_bytes = 0;
    brim_status status = translate(err, build(s, p, c), s->node->name);
    if (status != BRIM_OK)
        brim_dnn_release(s);
    else
        s->state_bytes = sizeof *c;
    return status;
}

void brim_dnn_release(brim_step *s)
{
    call *c = s->state;
    if (!c) return;
    for (int k = 0; k < c->n; k++) {
        if (c->slots[k].user) dnnl_memory_destroy(c->slots[k].user);
        if (c->slots[k].inner) dnnl_memory_destroy(c->slots[k].inner);
        if (c->slots[k].reorder) dnnl_primitive_destroy(c->slots[k].reorder);
    }
    if (c->scratchpad) dnnl_memory_destroy(c->scratchpad);
    if (c->primitive) dnnl_primitive_destroy(c->primitive);
    free(c);
    s->state = NULL;
}

/* ---- running ---- */

static void execute(dnnl_primitive_t p, int n, const dnnl_exec_arg_t *args)
{
    BRIM_CHECK(dnnl_primitive_execute(p, dnn.stream, n, args) == dnnl_success);
}

static void reorder(const slot *at)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, at->output ? at->inner : at->user},
                              {DNNL_ARG_TO, at->output ? at->user : at->inner}};
    execute(at->reorder, 2, args);
}

/* Clears negative numbers of any of the three types and keeps NaN, which oneDNN's own turns to 0.
 */
static void relu_half(uint16_t *y, int64_t n, uint16_t minus_infinity)
{
    for (int64_t i = 0; i < n; i++) y[i] = y[i] >= 0x8000 && y[i] <= minus_infinity ? 0 : y[i];
}

static void relu_float(float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = y[i] < 0 ? 0 : y[i];
}

static void relu(const brim_tensor *y)
{
    enum { PART = 16384 };
    int64_t n = brim_tensor_count(y);
#pragma omp parallel for schedule(static) if (n > PART)
    for (int64_t at = 0; at < n; at += PART) {
        int64_t count = n - at < PART ? n - at : PART;
        if (y->dtype == BRIM_F32)
            relu_float((float *)y->data + at, count);
        else
            relu_half((uint16_t *)y->data + at, count, y->dtype == BRIM_BF16 ? 0xff80 : 0xfc00);
    }
}

/* Between an fp16 tensor and its float copy. */
static void convert(const slot *at, void *half, float *wide)
{
    const brim_kernels *k = brim_kernels_get();
    int parts = brim_thread_parts(at->wide, 1);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++) {
        int64_t begin = brim_part_begin(at->wide, p, parts);
        int64_t n = brim_part_begin(at->wide, p + 1, parts) - begin;
        uint16_t *h = (uint16_t *)half + begin;
        if (at->output)
            k->narrow(h, wide + begin, BRIM_F16, n);
        else
            k->widen(wide + begin, h, BRIM_F16, n);
    }
}

void brim_dnn_run(const brim_step *s)
{
    const call *c = s->state;
    char *workspace = s->workspace;
    dnnl_exec_arg_t args[MAX_SLOTS + 1];
    int n = 0;
    for (int k = 0; k < c->n; k++) {
        const slot *at = &c->slots[k];
        const brim_tensor *t = at->output ? &s->out[at->index] : &s->in[at->index];
        float *wide = at->wide ? (float *)(workspace + at->wide_offset) : NULL;
        if (at->wide && !at->output) convert(at, t->data, wide);
        if (at->user) dnnl_memory_set_data_handle(at->user, at->wide ? (void *)wide : t->data);
        if (at->inner) dnnl_memory_set_data_handle(at->inner, workspace + at->offset);
        if (at->reorder && !at->output) reorder(at);
        args[n++] = (dnnl_exec_arg_t){at->id, at->inner ? at->inner : at->user};
    }
    if (c->scratchpad) {
        dnnl_memory_set_data_handle(c->scratchpad, workspace + c->scratchpad_offset);
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, c->scratchpad};
    }
    execute(c->primitive, n, args);
    for (int k = 0; k < c->n; k++) {
        const slot *at = &c->slots[k];
        if (at->reorder && at->output) reorder(at);
        if (at->wide && at->output)
            convert(at, s->out[at->index].data, (float *)(workspace + at->wide_offset));
    }
    if (c->relu) relu(&s->out[0]);
}

const char *brim_dnn_kernel_name(const brim_step *s)
{
    return s->state ? ((const call *)s->state)->kernel : "";
}
