/* The CUDA backend: a list of implementations, best first. Each file of this folder exports an
 * array. run queues kernels and returns; what fails is told by brim_cuda_check. */
#ifndef BRIM_CUDA_CUDA_H
#define BRIM_CUDA_CUDA_H

#include "backend/backend.h"
#include "backend/cuda/kernels/args.h"
#include "backend/cuda/module.h"

#define BRIM_CUDA_IMPLS(X)                                                                         \
    X(brim_cuda_conv)                                                                              \
    X(brim_cuda_linear)                                                                            \
    X(brim_cuda_batch_norm)                                                                        \
    X(brim_cuda_optimizer)                                                                         \
    X(brim_cuda_rows)                                                                              \
    X(brim_cuda_loss)                                                                              \
    X(brim_cuda_pool)                                                                              \
    X(brim_cuda_step_ops)                                                                          \
    X(brim_cuda_reduce)                                                                            \
    X(brim_cuda_layout)                                                                            \
    X(brim_cuda_pointwise)

#define X(name)                                                                                    \
    extern const brim_impl name[];                                                                 \
    extern const int name##_count;
BRIM_CUDA_IMPLS(X)
#undef X

extern const brim_device_ops brim_cuda_overlap;

/* Frees a step's state that is one block of host memory. */
void brim_cuda_state_free(brim_step *s);

/* The type's name in kernels: "float", "bf16", "f16", "u8", "i32". */
const char *brim_cuda_type(brim_dtype t);

/* Queues the clearing of device memory. */
void brim_cuda_zero(void *p, size_t bytes);

/* Blocks of `threads` threads for n of them, at most `per_sm` a multiprocessor (0: any number). */
unsigned brim_cuda_blocks(int64_t n, unsigned threads, unsigned per_sm);

#endif
