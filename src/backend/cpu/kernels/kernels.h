/* The inner loops of the CPU backend: serial, over a range that the caller picked, compiled once
 * per instruction set. brim_kernels_get() gives the table for this processor. `t` is f32, bf16 or
 * f16 unless said otherwise; sums are in float or double. Nothing allocates; nothing is kept. */
#ifndef BRIM_CPU_KERNELS_H
#define BRIM_CPU_KERNELS_H

#include "ir/body.h"
#include "ir/tensor.h"

/* ---- fusion groups ---- */

enum { BRIM_INTERP_CHUNK = 512 };

/* How an input lies along the inner run of a group. */
typedef enum brim_operand {
    BRIM_OPERAND_FLAT,   /* contiguous */
    BRIM_OPERAND_PERIOD, /* `period` contiguous elements again and again: per channel */
    BRIM_OPERAND_SCALAR, /* one element */
    BRIM_OPERAND_STRIDED /* any stride */
} brim_operand;

/* A body with its registers placed, and the loop nest over its tensors. */
typedef struct brim_interp {
    brim_body body;
    int tensors;                 /* inputs, then outputs */
    uint8_t slot[BRIM_BODY_MAX]; /* buffer of each register */
    bool is_out[BRIM_BODY_MAX];  /* registers that leave the body */
    int outer_rank;              /* loops around the inner run */
    int64_t outer_dim[BRIM_MAX_RANK];
    int64_t outer_stride[BRIM_MAX_RANK][BRIM_BODY_MAX_IN + BRIM_BODY_MAX_OUT];
    int64_t run, chunk, chunks, items; /* length; step; steps a run; outer loops x steps */
    int64_t period;
    brim_operand mode[BRIM_BODY_MAX_IN + BRIM_BODY_MAX_OUT];
    int64_t stride[BRIM_BODY_MAX_IN + BRIM_BODY_MAX_OUT]; /* along the run */
    brim_dtype dtype[BRIM_BODY_MAX_IN + BRIM_BODY_MAX_OUT];
} brim_interp;

/* ---- optimizer ---- */

typedef struct brim_update {
    float lr, decay, coef; /* decay 0: none; coef: gradient's factor (1 / scale, clipping) */
    float momentum, beta1, beta2, one_beta1, one_beta2, eps; /* one_beta: 1 - beta */
    float fix1, fix2;                                        /* 1 / (1 - beta^t) */
    float ema;
    bool nesterov;
} brim_update;

/* Pointers to the elements of one stretch; NULL: absent. */
typedef struct brim_stretch {
    float *p, *m, *v, *ema;
    const void *g;
    void *shadow;
    brim_dtype g_type, shadow_type;
} brim_stretch;

/* kernel name, result, parameters */
#define BRIM_KERNELS(X)                                                                            \
    /* dst[0..n) = src as float; src f32, bf16, f16, u8 or i32 */                                  \
    X(widen, void, (float *dst, const void *src, brim_dtype t, int64_t n))                         \
    X(narrow, void, (void *dst, const float *src, brim_dtype t, int64_t n))                        \
    /* items begin..end-1 of the group; data[k] of its tensors, NULL for unused outputs */         \
    X(interp, void, (const brim_interp *p, void *const *data, int64_t begin, int64_t end))         \
    /* Rows of n elements of `bytes` (1, 2, 4, 8): dst[j * dst_ld + i] = src[i * src_ld + j] for   \
     * i < rows, j < n */                                                                          \
    X(transpose, void,                                                                             \
      (void *dst, int64_t dst_ld, const void *src, int64_t src_ld, int64_t rows, int64_t n,        \
       int bytes))                                                                                 \
    /* Mean and sum of squared deviations of each column of x [rows,c]. tmp: 3 c floats. */        \
    X(column_moments, void,                                                                        \
      (const void *x, brim_dtype t, int64_t rows, int64_t c, double *mean, double *m2,             \
       float *tmp))                                                                                \
    /* y = (x - mean) scale + beta (+ res), relu if act; columns have their own numbers */         \
    X(bn_apply, void,                                                                              \
      (void *y, const void *x, const void *res, brim_dtype t, int64_t rows, int64_t c,             \
       const float *mean, const float *scale, const float *beta, bool act))                        \
    /* g = act ? (y > 0 ? dy : 0) : dy; column sums of g and g (x - mean) are put in sums [2,c];   \
     * g also goes to dres when not NULL. tmp: 2 c floats. */                                      \
    X(bn_reduce, void,                                                                             \
      (const void *dy, const void *x, const void *y, void *dres, brim_dtype t, int64_t rows,       \
       int64_t c, const float *mean, double *sums, float *tmp))                                    \
    /* dx = a g - b - (x - mean) k per column; y as above */                                       \
    X(bn_apply_bwd, void,                                                                          \
      (void *dx, const void *dy, const void *x, const void *y, brim_dtype t, int64_t rows,         \
       int64_t c, const float *mean, const float *a, const float *b, const float *k))              \
    X(layer_norm, void,                                                                            \
      (void *y, float *mean, float *rstd, const void *x, brim_dtype t, int64_t rows, int64_t c,    \
       const float *gamma, const float *beta, double eps))                                         \
    /* dgamma, dbeta: added to, c floats each, or NULL; dx may be NULL */                          \
    X(layer_norm_bwd, void,                                                                        \
      (void *dx, float *dgamma, float *dbeta, const void *dy, const void *x, brim_dtype t,         \
       int64_t rows, int64_t c, const float *gamma, const float *mean, const float *rstd))         \
    /* The largest of n elements (NaN wins), the sum of e^(x - max), the sum of x - max */         \
    X(row_exp_sum, void,                                                                           \
      (const void *x, brim_dtype t, int64_t n, float *max, float *exps, float *sum))               \
    /* y = e^(x - shift) scale + add */                                                            \
    X(row_exp, void,                                                                               \
      (void *y, const void *x, brim_dtype t, int64_t n, float shift, float scale, float add))      \
    /* dx = y (dy - sum(y dy)) */                                                                  \
    X(softmax_bwd_row, void, (void *dx, const void *dy, const void *y, brim_dtype t, int64_t n))   \
    X(sum, double, (const void *x, brim_dtype t, int64_t n))                                       \
    X(max, float, (const void *x, brim_dtype t, int64_t n)) /* NaN wins */                         \
    /* acc[j] += (or max=) rows of x [rows,n], ld apart */                                         \
    X(column_sum, void,                                                                            \
      (float *acc, const void *x, brim_dtype t, int64_t rows, int64_t n, int64_t ld))              \
    X(column_max, void,                                                                            \
      (float *acc, const void *x, brim_dtype t, int64_t rows, int64_t n, int64_t ld))              \
    /* Sum of squares of g; *finite is cleared when an element is not finite */                    \
    X(square_sum, double, (const void *g, brim_dtype t, int64_t n, bool *finite))                  \
    X(sgd, void, (const brim_stretch *s, int64_t n, const brim_update *u))                         \
    X(adamw, void, (const brim_stretch *s, int64_t n, const brim_update *u))                       \
    /* y[i] = kept ? x[i] scale : 0 for i in [begin,begin+n): kept when the random number of       \
     * element i is at or above `limit` of 2^24; begin is a multiple of 4 */                       \
    X(dropout, void,                                                                               \
      (void *y, const void *x, brim_dtype t, int64_t begin, int64_t n, uint64_t key,               \
       uint64_t counter_hi, uint32_t limit, float scale))                                          \
    X(accumulate, void, (float *acc, const void *g, brim_dtype t, int64_t n, bool first))          \
    /* Pooling of c channels: taps are the pixels of a window, place their positions in it. The    \
     * largest (the first of equals, NaN above all) and its position; y or index may be NULL. */   \
    X(window_max, void,                                                                            \
      (void *y, uint8_t *index, const void *const *tap, const uint8_t *place, int taps,            \
       brim_dtype t, int64_t c))                                                                   \
    /* dx = sum of dy of the windows whose index is this pixel's place in them */                  \
    X(window_pick, void,                                                                           \
      (void *dx, const void *const *dy, const uint8_t *const *index, const uint8_t *place,         \
       int taps, brim_dtype t, int64_t c))                                                         \
    /* y = sum of scale x tap */                                                                   \
    X(window_sum, void,                                                                            \
      (void *y, const void *const *tap, const float *scale, int taps, brim_dtype t, int64_t c))

typedef struct brim_kernels {
    const char *isa;
#define X(name, type, args) type(*name) args;
    BRIM_KERNELS(X)
#undef X
} brim_kernels;

/* The best table for this processor; never NULL. */
const brim_kernels *brim_kernels_get(void);
/* By name: "generic", "avx2", "avx512"; NULL when not built or not supported by the processor. */
const brim_kernels *brim_kernels_find(const char *isa);
/* Tests and benchmarks: what brim_kernels_get returns from now on; NULL: the best again. */
void brim_kernels_use(const brim_kernels *k);

#ifdef BRIM_ISA
#define BRIM_K_JOIN(name, isa)  brim_k_##name##_##isa
#define BRIM_K_JOIN2(name, isa) BRIM_K_JOIN(name, isa)
#define K(name)                 BRIM_K_JOIN2(name, BRIM_ISA)
#define X(name, type, args)     type K(name) args;
BRIM_KERNELS(X)
#undef X
#endif

#endif
