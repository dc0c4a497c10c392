/* Building a graph: values are handles owned by the graph and valid until brim_graph_free. A
 * builder that fails returns NULL, and the graph keeps the first error; builders given NULL inputs
 * after a failure do nothing, so a model needs no error checks until the end (brim_graph_check).
 * Not thread-safe.
 *
 * Shapes are static. 4-D values are always named in the order N,C,H,W; memory layout is the
 * compiler's. */
#ifndef BRIM_GRAPH_H
#define BRIM_GRAPH_H

#include "brim/status.h"
#include "brim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct brim_graph brim_graph;
typedef struct brim_value brim_value;

/* training: batch norm uses batch statistics, dropout drops. NULL when out of memory. */
brim_graph *brim_graph_new(bool training);
void brim_graph_free(brim_graph *g); /* accepts NULL */
bool brim_graph_training(const brim_graph *g);
/* BRIM_OK, or the first failure with its text in err. */
brim_status brim_graph_check(const brim_graph *g, brim_error *err);
/* Graph as text, one node a line; heap string, the caller frees; NULL when out of memory. */
char *brim_graph_text(const brim_graph *g);

int brim_value_rank(const brim_value *v);
int64_t brim_value_dim(const brim_value *v,
                       int k); /* negative k counts from the end; 0 when invalid */
brim_dtype brim_value_dtype(const brim_value *v);

/* How a parameter starts. Random numbers come from Philox by (seed, name), so they do not depend on
 * order. */
typedef enum brim_init_kind { BRIM_INIT_CONST, BRIM_INIT_NORMAL, BRIM_INIT_UNIFORM } brim_init_kind;
typedef struct brim_init {
    brim_init_kind kind;
    double a; /* CONST: the value; NORMAL: standard deviation (mean 0); UNIFORM: range -a .. a */
} brim_init;

/* Filled by the host for each run. */
brim_value *brim_input(brim_graph *g, const char *name, brim_dtype t, int rank, const int64_t *dim);
/* A trained weight, f32, saved under `name`. The same name twice is an error. Weight decay applies
 * to rank >= 2. */
brim_value *brim_param(brim_graph *g, const char *name, int rank, const int64_t *dim,
                       brim_init init);
/* A persistent value that is not trained but belongs to the model (running statistics), f32. */
brim_value *brim_buffer(brim_graph *g, const char *name, int rank, const int64_t *dim,
                        brim_init init);
/* Fixed numbers, copied. */
brim_value *brim_const(brim_graph *g, const char *name, int rank, const int64_t *dim,
                       const float *data);
/* Marks v as read by the host after a run. */
void brim_output_mark(brim_graph *g, const char *name, brim_value *v);
/* Name put before those of nodes built from here on (profiles and messages); copied. */
void brim_scope(brim_graph *g, const char *name);

/* ---- operators; each is documented with its formula by `brim models --ops` and in src/ops ---- */

typedef struct brim_conv_opts {
    int stride_h, stride_w;     /* 0 means 1 */
    int pad_h, pad_w;           /* both sides */
    int dilation_h, dilation_w; /* 0 means 1 */
    int groups;                 /* 0 means 1 */
} brim_conv_opts;
/* x [N,C,H,W], w [O,C/groups,kh,kw], bias [O] or NULL -> [N,O,H',W']; cross-correlation. */
brim_value *brim_conv2d(brim_graph *g, brim_value *x, brim_value *w, brim_value *bias,
                        brim_conv_opts o);

/* y = gamma (x - mean) / sqrt(var + eps) + beta, per channel of [N,C,...]. Training: batch
 * statistics (biased variance), running <- (1 - momentum) running + momentum batch (unbiased
 * variance). */
brim_value *brim_batch_norm(brim_graph *g, brim_value *x, brim_value *gamma, brim_value *beta,
                            brim_value *running_mean, brim_value *running_var, double momentum,
                            double eps);
/* Over the last dimension; gamma and beta [C]. */
brim_value *brim_layer_norm(brim_graph *g, brim_value *x, brim_value *gamma, brim_value *beta,
                            double eps);
/* x [...,K], w [O,K], bias [O] or NULL -> [...,O]: y = x w^T + bias. */
brim_value *brim_linear(brim_graph *g, brim_value *x, brim_value *w, brim_value *bias);
/* a [...,M,K], b [...,K,N] -> [...,M,N], leading dimensions equal; transposes read a or b
 * transposed. */
brim_value *brim_matmul(brim_graph *g, brim_value *a, brim_value *b, bool transpose_a,
                        bool transpose_b);

brim_value *brim_relu(brim_graph *g, brim_value *x);
brim_value *brim_silu(brim_graph *g, brim_value *x);
brim_value *brim_gelu(brim_graph *g, brim_value *x, bool tanh_form);
brim_value *brim_sigmoid(brim_graph *g, brim_value *x);
brim_value *brim_tanh(brim_graph *g, brim_value *x);
brim_value *brim_exp(brim_graph *g, brim_value *x);
brim_value *brim_log(brim_graph *g, brim_value *x);
brim_value *brim_sqrt(brim_graph *g, brim_value *x);
/* With NumPy broadcasting. */
brim_value *brim_add(brim_graph *g, brim_value *a, brim_value *b);
brim_value *brim_sub(brim_graph *g, brim_value *a, brim_value *b);
brim_value *brim_mul(brim_graph *g, brim_value *a, brim_value *b);
brim_value *brim_div(brim_graph *g, brim_value *a, brim_value *b);
/* a x + b with constants. */
brim_value *brim_affine(brim_graph *g, brim_value *x, double a, double b);
brim_value *brim_cast(brim_graph *g, brim_value *x, brim_dtype t);

typedef struct brim_pool_opts {
    int kernel_h, kernel_w;
    int stride_h, stride_w; /* 0 means the kernel's */
    int pad_h, pad_w;       /* both sides; smaller than the kernel */
    bool count_pad;         /* average: padding counts in the divisor (torch's default) */
    bool ceil_mode;         /* output size rounds up */
} brim_pool_opts;
brim_value *brim_max_pool2d(brim_graph *g, brim_value *x, brim_pool_opts o);
brim_value *brim_avg_pool2d(brim_graph *g, brim_value *x, brim_pool_opts o);
brim_value *brim_global_avg_pool(brim_graph *g, brim_value *x); /* [N,C,H,W] -> [N,C] */

/* Drops with probability p and scales by 1/(1-p); identity outside training. */
brim_value *brim_dropout(brim_graph *g, brim_value *x, double p);
brim_value *brim_softmax(brim_graph *g, brim_value *x); /* last dimension */
/* Sum over the batch of weight[n] * (lam[n] CE(label[n]) + (1 - lam[n]) CE(label2[n])), in float,
 * where CE has label smoothing s: (1 - s) (-log p[label]) + s/K sum(-log p). logits [N,K]; label,
 * label2 i32 [N]; weight, lam f32 [N]; label2, lam, weight may be NULL. -> scalar f32. */
brim_value *brim_cross_entropy(brim_graph *g, brim_value *logits, brim_value *label,
                               brim_value *weight, brim_value *label2, brim_value *lam,
                               double smoothing);
/* Weighted count of rows whose label is among the k largest logits (ties: lower index wins) ->
 * scalar. */
brim_value *brim_topk_correct(brim_graph *g, brim_value *logits, brim_value *label,
                              brim_value *weight, int k);

brim_value *brim_concat(brim_graph *g, brim_value *const *x, int n, int axis);
brim_value *brim_upsample_nearest(brim_graph *g, brim_value *x, int scale_h, int scale_w);
brim_value *brim_reshape(brim_graph *g, brim_value *x, int rank,
                         const int64_t *dim);                     /* one -1 allowed */
brim_value *brim_flatten(brim_graph *g, brim_value *x, int from); /* dimensions from.. become one */
brim_value *brim_transpose(brim_graph *g, brim_value *x, int rank, const int *perm);
/* x[..., begin:begin+count:step, ...] along axis. */
brim_value *brim_slice(brim_graph *g, brim_value *x, int axis, int64_t begin, int64_t count,
                       int64_t step);
/* Zero padding of one axis. */
brim_value *brim_pad(brim_graph *g, brim_value *x, int axis, int64_t before, int64_t after);
/* Over the axes in the bit mask (0: all); reduced axes are dropped unless keep. */
brim_value *brim_reduce_sum(brim_graph *g, brim_value *x, unsigned axes, bool keep);
brim_value *brim_reduce_mean(brim_graph *g, brim_value *x, unsigned axes, bool keep);
brim_value *brim_reduce_max(brim_graph *g, brim_value *x, unsigned axes, bool keep);

#ifdef __cplusplus
}
#endif
#endif
