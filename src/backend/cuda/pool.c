/* Max and average pooling and their gradients. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/strided.h"
#include "base/mem.h"
#include "ops/window.h"

#include <stdio.h>

enum { THREADS = 256 };

typedef struct pool {
    pool_args a;
    CUfunction f;
} pool;

static bool supports(const brim_node *n, const char **why)
{
    if (n->in[0]->dtype == BRIM_F64) return *why = "f64", false;
    if (brim_shape_count(&n->in[0]->shape) > INT32_MAX ||
        brim_shape_count(&n->out[0]->shape) > INT32_MAX)
        return *why = "more than 2^31 elements", false;
    return true;
}

static bool max_supports(const brim_node *n, const char **why)
{
    const brim_value *index = n->n_in > 1 ? n->in[1] : n->out[1];
    const brim_value *beside = n->n_in > 1 ? n->in[0] : n->out[0];
    if (index->layout != beside->layout) return *why = "positions lie in another layout", false;
    return supports(n, why);
}

/* `image` and `pooled`: the tensors of the larger and the smaller side. Threads run over `over`. */
static brim_status make(brim_step *s, const char *name, const brim_tensor *image,
                        const brim_tensor *pooled, const brim_tensor *over, brim_error *err)
{
    char defines[64];
    pool *p = brim_calloc(1, sizeof *p);
    if (!p) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    s->state = p;
    brim_window w = brim_window_get(s->node, NULL);
    for (int k = 0; k < 2; k++) {
        p->a.in[k] = (int)image->shape.dim[2 + k];
        p->a.out[k] = (int)pooled->shape.dim[2 + k];
        p->a.kernel[k] = (int)w.kernel[k];
        p->a.stride[k] = (int)w.stride[k];
        p->a.pad[k] = (int)w.pad[k];
    }
    p->a.count_pad = (int)brim_attr_int(s->node, "count_pad", 0);
    p->a.n = brim_tensor_count(over);
    for (int k = 0; k < 4; k++) {
        p->a.dim[k] = (int)over->shape.dim[k];
        p->a.sx[k] = s->in[0].stride[k];
        p->a.sy[k] = s->out[0].stride[k];
    }
    snprintf(defines, sizeof defines, "-DX=%s -DLAST=%d", brim_cuda_type(s->in[0].dtype),
             over->layout == BRIM_LAYOUT_CHANNELS_LAST);
    return brim_cuda_kernel("pool.cu", defines, name, &p->f, err);
}

static brim_status max_prepare(brim_step *s, brim_error *err)
{
    return make(s, "max_pool", &s->in[0], &s->out[0], &s->out[0], err);
}
static brim_status max_bwd_prepare(brim_step *s, brim_error *err)
{
    return make(s, "max_pool_bwd", &s->out[0], &s->in[0], &s->out[0], err);
}
static brim_status avg_prepare(brim_step *s, brim_error *err)
{
    return make(s, "avg_pool", &s->in[0], &s->out[0], &s->out[0], err);
}
static brim_status avg_bwd_prepare(brim_step *s, brim_error *err)
{
    return make(s, "avg_pool_bwd", &s->out[0], &s->in[0], &s->out[0], err);
}

static void run(const brim_step *s)
{
    const pool *p = s->state;
    pool_args a = p->a;
    a.x = s->in[0].data;
    a.y = s->out[0].data;
    if (s->node->op == &brim_op_max_pool2d) a.index = s->out[1].data;
    if (s->node->op == &brim_op_max_pool2d_bwd) a.index = s->in[1].data;
    brim_cuda_launch(p->f, brim_cuda_blocks(a.n, THREADS, 0), 1, 1, THREADS, 0, &a);
}

/* global_avg_pool_bwd: dy over the number of pixels, at each of them. */
static brim_status global_bwd_prepare(brim_step *s, brim_error *err)
{
    brim_cuda_strided *k = brim_calloc(1, sizeof *k);
    if (!k) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    s->state = k;
    const brim_tensor *dy = &s->in[0], *dx = &s->out[0];
    brim_loops l = {.tensors = 2, .lead = 1};
    brim_body b = {.n_in = 1, .n_out = 1};
    double pixels = (double)dx->shape.dim[2] * (double)dx->shape.dim[3];
    b.out[0] = (uint8_t)brim_body_op(&b, BRIM_S_MUL, brim_body_load(&b, 0),
                                     brim_body_const(&b, 1 / pixels), 0);
    for (int d = 0; d < 4; d++)
        brim_loops_add(&l, dx->shape.dim[d], (int64_t[]){d < 2 ? dy->stride[d] : 0, dx->stride[d]});
    brim_loops_merge(&l);
    return brim_cuda_strided_make(k, &l, (brim_dtype[]){dy->dtype, dx->dtype}, 1, &b, NULL, err);
}
static void global_bwd_run(const brim_step *s)
{
    brim_cuda_strided_run(s->state, (void *[]){s->in[0].data, s->out[0].data});
}

#define POOL(op_, supports_, prepare_, run_)                                                       \
    {                                                                                              \
        .name = "brim." #op_, .op = &brim_op_##op_, .supports = supports_, .prepare = prepare_,    \
        .run = run_, .release = brim_cuda_state_free                                               \
    }
const brim_impl brim_cuda_pool[] = {
    POOL(max_pool2d, max_supports, max_prepare, run),
    POOL(max_pool2d_bwd, max_supports, max_bwd_prepare, run),
    POOL(avg_pool2d, supports, avg_prepare, run),
    POOL(avg_pool2d_bwd, supports, avg_bwd_prepare, run),
    POOL(global_avg_pool_bwd, supports, global_bwd_prepare, global_bwd_run),
};
const int brim_cuda_pool_count = sizeof brim_cuda_pool / sizeof *brim_cuda_pool;
