/* Arguments of the kernels: read by the host's C and put before every kernel. 64-bit both sides. */
#ifndef BRIM_CUDA_ARGS_H
#define BRIM_CUDA_ARGS_H

enum { BRIM_ARGS_RANK = 6, BRIM_ARGS_TENSORS = 24 };

/* Loops over up to six dimensions, outermost first; strides in elements. */
typedef struct pointwise_args {
    void *at[BRIM_ARGS_TENSORS]; /* inputs, then outputs */
    long long n;                 /* packs in all */
    unsigned dim[BRIM_ARGS_RANK];
    long long stride[BRIM_ARGS_RANK][BRIM_ARGS_TENSORS];
} pointwise_args;

/* A reduction: outputs run over the kept loops, each takes all of the reduced ones. */
typedef struct reduce_args {
    const void *x;
    void *y;
    float *part; /* [slices][outputs] */
    const void *dy, *m;
    long long outputs, count;
    int kept, reduced, slices;
    float scale;
    unsigned kept_dim[BRIM_ARGS_RANK], reduced_dim[BRIM_ARGS_RANK];
    long long kept_x[BRIM_ARGS_RANK], kept_y[BRIM_ARGS_RANK], reduced_x[BRIM_ARGS_RANK];
} reduce_args;

/* Rows of n elements side by side. */
typedef struct rows_args {
    const void *x, *dy;
    void *y;
    float *mean, *rstd; /* layer norm: one a row */
    const float *gamma, *beta;
    float *part; /* layer norm's gradient: [slices][2][n] */
    float *dgamma, *dbeta;
    long long rows;
    int n, slices;
    float eps;
} rows_args;

/* Rows of logits with their targets; the optional ones may be null. */
typedef struct loss_args {
    const void *logits, *dloss;
    void *dlogits;
    const int *label, *label2;
    const void *weight, *lam;
    float *row, *lse, *sum; /* row: what each row adds to the sum */
    long long rows;
    int classes, top;
    float smoothing;
} loss_args;

/* Windows over images; strides in elements, in the order N, C, H, W. */
typedef struct pool_args {
    const void *x;
    void *y;
    unsigned char *index;
    long long n; /* outputs */
    int dim[4];  /* of the tensor that the threads run over */
    int in[2], out[2];
    int kernel[2], stride[2], pad[2];
    int count_pad;
    long long sx[4], sy[4];
} pool_args;

typedef struct step_args {
    const float *step;
    float *scaler, *seed;
    const void *x;
    void *y;
    const int *rng;
    long long n;
    unsigned key, limit;
    float keep_scale;
    int rank;
    unsigned dim[BRIM_ARGS_RANK]; /* dropout: logical order */
    long long sx[BRIM_ARGS_RANK], sy[BRIM_ARGS_RANK];
} step_args;

/* Batch norm over `count` rows of `channels`; inner: of a row-major image, else 1. */
typedef struct norm_args {
    const void *x, *residual, *dy, *act; /* act: y, where relu's mask is read */
    void *y, *dx, *dresidual;
    const float *gamma, *beta;
    float *running_mean, *running_var, *mean, *rstd, *dgamma, *dbeta;
    float *part; /* [slices][2][channels] */
    float *sums; /* [2][channels] */
    long long count;
    int channels, inner, slices, relu;
    float eps, momentum;
} norm_args;

/* One factor of a matrix product: an element by its row (of A; a column of B) and its place k along
 * the sum. PLAIN: row * row_stride + k / inner * outer_stride + k % inner * inner_stride. The
 * others read images, see gemm.cu. */
typedef struct gemm_side {
    const void *at;
    long long batch_stride, group_stride, row_stride, outer_stride, inner_stride;
    int inner;
    long long stride[4]; /* of an image N,C,H,W, or of weights O,C,kh,kw */
} gemm_side;

/* C[m,n] = act(sum over k of A[m,k] B[k,n] + bias[n]), in `groups` groups of `batch` products. */
typedef struct gemm_args {
    gemm_side a, b;
    void *c;
    float *part; /* [slices][batch * groups][m][n] when slices > 1 */
    const void *bias;
    long long c_batch, c_group, c_outer, c_inner, c_column;
    int c_rows; /* rows in an outer one: row * ... = row / c_rows * c_outer + row % c_rows * c_inner
                 */
    int m, n, k, slices, groups, batch, relu;
    int image[2], pixels[2], kernel[2], stride[2], pad[2], dilation[2], channels;
} gemm_args;

/* Some of an optimizer's weights; a launch takes as many as fit its arguments. */
enum { BRIM_OPTIM_WEIGHTS = 40 };
typedef struct optim_weight {
    float *param;
    const void *grad;
    float *m, *v;
    void *shadow;
    float *ema;
    long long n;
    int first;     /* block of the launch where it begins */
    int decay;     /* weight decay applies */
    int grad_type; /* 0 float, 1 bf16, 2 f16 */
    int shadow_type;
} optim_weight;

/* What the step decided for all weights. */
typedef struct optim_control {
    float factor, fix1, fix2;
    int skip;
} optim_control;

typedef struct optim_args {
    optim_weight w[BRIM_OPTIM_WEIGHTS];
    int weights, first_part, parts; /* parts: blocks of all launches together */
    const float *step;
    float *scaler;
    float *squares; /* one a part; NaN when a gradient is not finite */
    optim_control *control;
    double beta1, beta2;
    float clip, decay, momentum, eps, growth, backoff, min_scale, max_scale;
    int adamw, nesterov, dynamic, growth_interval;
} optim_args;

#endif
