/* Sums and maxima, for operators that also need one (the gradient of a bias). */
#ifndef BRIM_CUDA_REDUCE_H
#define BRIM_CUDA_REDUCE_H

#include "backend/cuda/cuda.h"

typedef struct brim_cuda_reduction {
    reduce_args a;
    bool along;
    CUfunction f, join;
} brim_cuda_reduction;

/* Loops to keep, with strides in input and output, and loops to reduce; any order. */
void brim_cuda_reduce_keep(brim_cuda_reduction *r, int64_t dim, int64_t x, int64_t y);
void brim_cuda_reduce_over(brim_cuda_reduction *r, int64_t dim, int64_t x);
/* After all loops: chooses the kernel; *workspace_bytes is what run wants. */
brim_status brim_cuda_reduce_make(brim_cuda_reduction *r, brim_dtype x, brim_dtype y, bool max,
                                  double scale, size_t *workspace_bytes, brim_error *err);
void brim_cuda_reduce_run(const brim_cuda_reduction *r, const void *x, void *y, void *workspace);

#endif
