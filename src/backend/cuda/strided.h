/* Kernels that are printed: a formula, or a plain copy, over tensors of any strides. */
#ifndef BRIM_CUDA_STRIDED_H
#define BRIM_CUDA_STRIDED_H

#include "backend/cuda/kernels/args.h"
#include "backend/cuda/module.h"
#include "backend/loops.h"

typedef struct brim_cuda_strided {
    CUfunction f; /* NULL while there is no device (planning) */
    unsigned blocks;
    int tensors;
    int64_t offset_bytes[BRIM_LOOP_TENSORS];
    pointwise_args args;
} brim_cuda_strided;

/* l->tensors tensors of these types, the last n_out of them written. body NULL: the one output is
 * the one input, bit by bit. offset: elements from a tensor's start to its first, NULL for none. */
brim_status brim_cuda_strided_make(brim_cuda_strided *out, const brim_loops *l,
                                   const brim_dtype *type, int n_out, const brim_body *body,
                                   const int64_t *offset, brim_error *err);
void brim_cuda_strided_run(const brim_cuda_strided *k, void *const *data);

#endif
