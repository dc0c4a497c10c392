/* Dropout, and what the training step adds: the seed of the gradients and their accumulation. */
#include "backend/cuda/cuda.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>

enum { THREADS = 256, BLOCKS_PER_SM = 16 };

typedef struct step_op {
    step_args a;
    CUfunction f;
} step_op;

static step_op *make(brim_step *s, const char *name, brim_dtype t, brim_error *err)
{
    char defines[32];
    step_op *o = brim_calloc(1, sizeof *o);
    if (!o) {
        brim_fail(err, BRIM_ENOMEM, "out of memory");
        return NULL;
    }
    s->state = o;
    snprintf(defines, sizeof defines, "-DX=%s", brim_cuda_type(t));
    return brim_cuda_kernel("step.cu", defines, name, &o->f, err) == BRIM_OK ? o : NULL;
}

static bool dropout_supports(const brim_node *n, const char **why)
{
    if (n->in[0]->dtype == BRIM_F64) return *why = "f64", false;
    return true;
}

static brim_status dropout_prepare(brim_step *s, brim_error *err)
{
    step_op *o = make(s, "dropout", s->in[0].dtype, err);
    if (!o) return err->status;
    const brim_shape *shape = &s->out[0].shape;
    double p = brim_attr_float(s->node, "p", 0);
    o->a.n = brim_tensor_count(&s->out[0]);
    o->a.key = (unsigned)brim_attr_int(s->node, "key", 0);
    o->a.limit = (unsigned)ceil((double)(float)p * 0x1p24);
    o->a.keep_scale = (float)(1 / (1 - p));
    o->a.rank = shape->rank;
    for (int k = 0; k < shape->rank; k++) {
        o->a.dim[k] = (unsigned)shape->dim[k];
        o->a.sx[k] = s->in[0].stride[k];
        o->a.sy[k] = s->out[0].stride[k];
    }
    return BRIM_OK;
}

static void dropout_run(const brim_step *s)
{
    const step_op *o = s->state;
    step_args a = o->a;
    a.x = s->in[0].data;
    a.rng = s->in[1].data;
    a.y = s->out[0].data;
    brim_cuda_launch(o->f, brim_cuda_blocks((a.n + 3) / 4, THREADS, 0), 1, 1, THREADS, 0, &a);
}

static bool accumulate_supports(const brim_node *n, const char **why)
{
    if (n->in[0]->dtype != BRIM_F32 || n->in[1]->dtype == BRIM_F64 || n->in[2]->dtype != BRIM_F32)
        return *why = "f64 or a half sum", false;
    if (n->in[0]->layout != n->in[1]->layout) return *why = "two layouts", false;
    return true;
}

static brim_status accumulate_prepare(brim_step *s, brim_error *err)
{
    step_op *o = make(s, "accumulate", s->in[1].dtype, err);
    if (o) o->a.n = brim_tensor_count(&s->in[1]);
    return o ? BRIM_OK : err->status;
}

static void accumulate_run(const brim_step *s)
{
    const step_op *o = s->state;
    step_args a = o->a;
    a.y = s->in[0].data;
    a.x = s->in[1].data;
    a.step = s->in[2].data;
    brim_cuda_launch(o->f, brim_cuda_blocks(a.n, THREADS, BLOCKS_PER_SM), 1, 1, THREADS, 0, &a);
}

static bool seed_supports(const brim_node *n, const char **why)
{
    bool floats = n->in[0]->dtype == BRIM_F32 && n->in[1]->dtype == BRIM_F32;
    if (!floats) *why = "not float";
    return floats;
}

static brim_status seed_prepare(brim_step *s, brim_error *err)
{
    return make(s, "loss_seed", BRIM_F32, err) ? BRIM_OK : err->status;
}

static void seed_run(const brim_step *s)
{
    const step_op *o = s->state;
    step_args a = {.step = s->in[0].data, .scaler = s->in[1].data, .seed = s->out[0].data};
    brim_cuda_launch(o->f, 1, 1, 1, 32, 0, &a);
}

#define STEP(op_, name_)                                                                           \
    {                                                                                              \
        .name = "brim." #op_, .op = &brim_op_##op_, .supports = name_##_supports,                  \
        .prepare = name_##_prepare, .run = name_##_run, .release = brim_cuda_state_free            \
    }
const brim_impl brim_cuda_step_ops[] = {
    STEP(dropout, dropout),
    STEP(accumulate, accumulate),
    STEP(loss_seed, seed),
};
const int brim_cuda_step_ops_count = sizeof brim_cuda_step_ops / sizeof *brim_cuda_step_ops;
