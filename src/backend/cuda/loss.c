/* Softmax cross-entropy and top-k accuracy. */
#include "backend/cuda/cuda.h"
#include "base/mem.h"

#include <stdio.h>

enum { THREADS = 256 };

typedef struct loss {
    loss_args a;
    CUfunction f, sum;
} loss;

static bool supports(const brim_node *n, const char **why)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] && n->in[k]->dtype == BRIM_F64) return *why = "f64", false;
    return true;
}

static const char *type_at(const brim_step *s, int k)
{
    return k < s->node->n_in && s->node->in[k] ? brim_cuda_type(s->in[k].dtype) : "float";
}

/* `logits`: the input that holds them; `weight`, `lam`: inputs that may be absent. */
static brim_status make(brim_step *s, const char *name, int logits, int weight, int lam,
                        brim_error *err)
{
    char defines[96];
    loss *l = brim_calloc(1, sizeof *l);
    if (!l) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    s->state = l;
    l->a.rows = s->in[logits].shape.dim[0];
    l->a.classes = (int)s->in[logits].shape.dim[1];
    l->a.smoothing = (float)brim_attr_float(s->node, "smoothing", 0);
    l->a.top = (int)brim_attr_int(s->node, "k", 1);
    snprintf(defines, sizeof defines, "-DX=%s -DW=%s -DL=%s", brim_cuda_type(s->in[logits].dtype),
             type_at(s, weight), type_at(s, lam));
    BRIM_TRY(brim_cuda_kernel("loss.cu", defines, name, &l->f, err));
    return brim_cuda_kernel("loss.cu", defines, "sum_rows", &l->sum, err);
}

static const void *data_at(const brim_step *s, int k)
{
    return k < s->node->n_in ? s->in[k].data : NULL;
}

static brim_status forward_prepare(brim_step *s, brim_error *err)
{
    s->workspace_bytes = (size_t)s->in[0].shape.dim[0] * sizeof(float) + sizeof(float);
    return make(s, "cross_entropy", 0, 2, 4, err);
}

static void forward_run(const brim_step *s)
{
    const loss *l = s->state;
    loss_args a = l->a;
    a.logits = s->in[0].data;
    a.label = data_at(s, 1);
    a.weight = data_at(s, 2);
    a.label2 = data_at(s, 3);
    a.lam = data_at(s, 4);
    a.row = s->workspace;
    a.sum = s->out[0].data;
    a.lse = s->out[1].data;
    brim_cuda_launch(l->f, (unsigned)a.rows, 1, 1, THREADS, 0, &a);
    if (a.sum) brim_cuda_launch(l->sum, 1, 1, 1, THREADS, 0, &a);
}

static brim_status backward_prepare(brim_step *s, brim_error *err)
{
    return make(s, "cross_entropy_bwd", 1, 4, 6, err);
}

static void backward_run(const brim_step *s)
{
    const loss *l = s->state;
    loss_args a = l->a;
    a.dloss = s->in[0].data;
    a.logits = s->in[1].data;
    a.lse = s->in[2].data;
    a.label = data_at(s, 3);
    a.weight = data_at(s, 4);
    a.label2 = data_at(s, 5);
    a.lam = data_at(s, 6);
    a.dlogits = s->out[0].data;
    brim_cuda_launch(l->f, (unsigned)a.rows, 1, 1, THREADS, 0, &a);
}

static brim_status topk_prepare(brim_step *s, brim_error *err)
{
    s->workspace_bytes = (size_t)s->in[0].shape.dim[0] * sizeof(float) + sizeof(float);
    return make(s, "topk", 0, 2, 9, err);
}

static void topk_run(const brim_step *s)
{
    const loss *l = s->state;
    loss_args a = l->a;
    a.logits = s->in[0].data;
    a.label = data_at(s, 1);
    a.weight = data_at(s, 2);
    a.row = s->workspace;
    a.sum = s->out[0].data;
    brim_cuda_launch(l->f, (unsigned)a.rows, 1, 1, THREADS, 0, &a);
    brim_cuda_launch(l->sum, 1, 1, 1, THREADS, 0, &a);
}

static bool backward_supports(const brim_node *n, const char **why)
{
    if (n->in[0]->dtype != BRIM_F32 || n->in[2]->dtype != BRIM_F32)
        return *why = "gradient of the loss or lse not float", false;
    return supports(n, why);
}

#define LOSS(op_, name_, supports_)                                                                \
    {                                                                                              \
        .name = "brim." #op_, .op = &brim_op_##op_, .supports = supports_,                         \
        .prepare = name_##_prepare, .run = name_##_run, .release = brim_cuda_state_free            \
    }
const brim_impl brim_cuda_loss[] = {
    LOSS(cross_entropy, forward, supports),
    LOSS(cross_entropy_bwd, backward, backward_supports),
    LOSS(topk_correct, topk, supports),
};
const int brim_cuda_loss_count = sizeof brim_cuda_loss / sizeof *brim_cuda_loss;
