/* SGD and AdamW on every weight, with loss scaling, clipping, half copies and averages: three
 * passes over all weights together, as many in a launch as its arguments hold. */
#include "backend/cuda/cuda.h"
#include "base/mem.h"

#include <string.h>

enum { STEP, SCALER, FIRST };
enum { PARAM, GRAD, M, V, SHADOW, EMA, PER_TENSOR };
enum { ADAMW = 1, THREADS = 256, STRETCH = 4096 };

typedef struct plan {
    optim_args a; /* what all launches share */
    CUfunction squares, decide, update;
} plan;

static bool supports(const brim_node *n, const char **why)
{
    for (int at = 0; at < n->n_in; at++) {
        const brim_value *v = n->in[at];
        if (!v) continue;
        if (v->dtype == BRIM_F64) return *why = "f64", false;
        if (at < FIRST || v->shape.rank != 4) continue;
        if (v->layout != n->in[at - (at - FIRST) % PER_TENSOR]->layout)
            return *why = "a weight and its gradient or state lie differently in memory", false;
    }
    return true;
}

static int blocks_of(const brim_tensor *t)
{
    return (int)((brim_tensor_count(t) + STRETCH - 1) / STRETCH);
}

static brim_status prepare(brim_step *s, brim_error *err)
{
    const brim_node *n = s->node;
    plan *p = brim_calloc(1, sizeof *p);
    if (!p) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    s->state = p;
    optim_args *a = &p->a;
    for (int at = FIRST; at < n->n_in; at += PER_TENSOR) a->parts += blocks_of(&s->in[at]);
    a->adamw = brim_attr_int(n, "algo", 0) == ADAMW;
    a->beta1 = brim_attr_float(n, "beta1", 0.9);
    a->beta2 = brim_attr_float(n, "beta2", 0.999);
    a->clip = (float)brim_attr_float(n, "clip", 0);
    a->decay = (float)brim_attr_float(n, "weight_decay", 0);
    a->momentum = (float)brim_attr_float(n, "momentum", 0);
    a->eps = (float)brim_attr_float(n, "eps", 1e-8);
    a->nesterov = brim_attr_int(n, "nesterov", 0) != 0;
    a->dynamic = brim_attr_int(n, "dynamic", 0) != 0;
    a->growth_interval = (int)brim_attr_int(n, "growth_interval", 2000);
    a->growth = (float)brim_attr_float(n, "growth", 2);
    a->backoff = (float)brim_attr_float(n, "backoff", 0.5);
    a->min_scale = (float)brim_attr_float(n, "min_scale", 1);
    a->max_scale = (float)brim_attr_float(n, "max_scale", 65536);
    s->workspace_bytes = sizeof(optim_control) + (size_t)a->parts * sizeof(float);
    BRIM_TRY(brim_cuda_kernel("optimizer.cu", NULL, "squares", &p->squares, err));
    BRIM_TRY(brim_cuda_kernel("optimizer.cu", NULL, "decide", &p->decide, err));
    return brim_cuda_kernel("optimizer.cu", NULL, "update", &p->update, err);
}

static int half_type(brim_dtype t)
{
    return t == BRIM_BF16 ? 1 : t == BRIM_F16 ? 2 : 0;
}

static void add_weight(optim_args *a, const brim_step *s, int at, int *blocks)
{
    const brim_tensor *t = &s->in[at];
    a->w[a->weights++] = (optim_weight){.param = t[PARAM].data,
                                        .grad = t[GRAD].data,
                                        .m = t[M].data,
                                        .v = t[V].data,
                                        .shadow = t[SHADOW].data,
                                        .ema = t[EMA].data,
                                        .n = brim_tensor_count(&t[PARAM]),
                                        .first = *blocks,
                                        .decay = s->node->in[at]->decay,
                                        .grad_type = half_type(t[GRAD].dtype),
                                        .shadow_type = half_type(t[SHADOW].dtype)};
    *blocks += blocks_of(t);
}

/* One pass over all weights. */
static void over_weights(const brim_step *s, CUfunction f, optim_args *a)
{
    a->first_part = 0;
    for (int at = FIRST; at < s->node->n_in;) {
        int blocks = 0;
        a->weights = 0;
        for (; at < s->node->n_in && a->weights < BRIM_OPTIM_WEIGHTS; at += PER_TENSOR)
            add_weight(a, s, at, &blocks);
        brim_cuda_launch(f, (unsigned)blocks, 1, 1, THREADS, 0, a);
        a->first_part += blocks;
    }
}

static void run(const brim_step *s)
{
    const plan *p = s->state;
    optim_args a = p->a;
    a.step = s->in[STEP].data;
    a.scaler = s->in[SCALER].data;
    a.control = s->workspace;
    a.squares = (float *)(a.control + 1);
    over_weights(s, p->squares, &a);
    brim_cuda_launch(p->decide, 1, 1, 1, THREADS, 0, &a);
    over_weights(s, p->update, &a);
}

const brim_impl brim_cuda_optimizer[] = {{.name = "brim.optimizer",
                                          .op = &brim_op_optimizer,
                                          .supports = supports,
                                          .prepare = prepare,
                                          .run = run,
                                          .release = brim_cuda_state_free}};
const int brim_cuda_optimizer_count = 1;
