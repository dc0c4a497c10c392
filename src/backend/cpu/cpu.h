/* The CPU backend: a list of implementations, best first. Each file of this folder exports an
 * array. */
#ifndef BRIM_BACKEND_CPU_H
#define BRIM_BACKEND_CPU_H

#include "backend/impl.h"

#define BRIM_CPU_IMPLS(X)                                                                          \
    X(brim_onednn_conv)                                                                            \
    X(brim_onednn_matmul)                                                                          \
    X(brim_cpu_batch_norm)                                                                         \
    X(brim_cpu_cross_entropy)                                                                      \
    X(brim_cpu_optimizer)                                                                          \
    X(brim_cpu_layer_norm)                                                                         \
    X(brim_cpu_layout)                                                                             \
    X(brim_cpu_reduce)                                                                             \
    X(brim_cpu_step_ops)                                                                           \
    X(brim_cpu_pointwise)                                                                          \
    X(brim_cpu_pool)                                                                               \
    X(brim_cpu_reference)

#define X(name)                                                                                    \
    extern const brim_impl name[];                                                                 \
    extern const int name##_count;
BRIM_CPU_IMPLS(X)
#undef X

/* What the processor can do, read once. */
typedef struct brim_cpu_features {
    bool avx2, avx512, avx512_bf16, amx_bf16;
    int cores; /* usable by this process */
} brim_cpu_features;
const brim_cpu_features *brim_cpu_features_get(void);

/* Threads used by kernels (OpenMP); 0: all cores. */
void brim_cpu_threads_set(int n);

#endif
