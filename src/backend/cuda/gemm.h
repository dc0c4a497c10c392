/* Our own matrix products: for what the vendor's libraries do not serve, and for machines without
 * them. */
#ifndef BRIM_CUDA_GEMM_H
#define BRIM_CUDA_GEMM_H

#include "backend/cuda/reduce.h"

typedef enum brim_gemm_side {
    BRIM_GEMM_PLAIN,
    BRIM_GEMM_WINDOW,
    BRIM_GEMM_TAPS,
    BRIM_GEMM_GATHER,
    BRIM_GEMM_WEIGHTS
} brim_gemm_side;

/* A product, and the sum over rows that is a bias's gradient. */
typedef struct brim_cuda_gemm {
    gemm_args a;
    CUfunction f, join;
    size_t part_bytes; /* of the workspace, which is the reduction's behind them */
    bool sums;
    brim_cuda_reduction bias;
} brim_cuda_gemm;

/* How a factor is read: neighbours in memory, `pack` of them at once (all starts are multiples of
 * it), along the sum or across it. */
typedef struct brim_gemm_read {
    brim_gemm_side side;
    int pack;
    bool along;
} brim_gemm_read;

/* Chooses kernel and slices for g->a, which is filled but for its addresses. */
brim_status brim_cuda_gemm_make(brim_cuda_gemm *g, brim_gemm_read a, brim_gemm_read b, bool last,
                                brim_dtype in, brim_dtype out, brim_dtype bias, brim_error *err);
void brim_cuda_gemm_run(const brim_cuda_gemm *g, const void *a, const void *b, const void *bias,
                        void *c, void *workspace);

/* The widest pack of `n` neighbours, given that all other strides are multiples of it. */
int brim_gemm_pack(brim_dtype t, int64_t n, const int64_t *strides, int n_strides);

#endif
