/* oneDNN behind one door: the engine, and "calls": a primitive with the reorders around it, built
 * once for a step and run many times. Versions 2.x and 3.x of its API differ; only onednn.c knows.
 *
 * A call owns its oneDNN objects and no buffers: copies in the primitive's own layout and its
 * scratchpad lie in the step's workspace, so the memory plan counts every byte. */
#ifndef BRIM_CPU_ONEDNN_H
#define BRIM_CPU_ONEDNN_H

#include "backend/impl.h"

/* One operand of a primitive: which tensor of the step it is and how the primitive sees it. */
typedef struct brim_dnn_arg {
    int rank;                                          /* 0: absent (no bias) */
    int64_t dim[BRIM_MAX_RANK], stride[BRIM_MAX_RANK]; /* of the data as it lies in memory */
    brim_dtype dtype;                                  /* as it lies in memory */
    brim_dtype compute;                                /* as the primitive reads or writes it */
    bool any; /* the primitive may choose its own layout, reached through a reorder */
    bool output;
    int index;   /* of the step's in (or out, for an output) */
    bool unread; /* an output that nobody reads: goes to the workspace */
} brim_dnn_arg;

typedef enum brim_dnn_kind {
    BRIM_DNN_CONV,            /* dst = src * weights + bias */
    BRIM_DNN_CONV_BWD_DATA,   /* src from dst, weights */
    BRIM_DNN_CONV_BWD_WEIGHT, /* weights and bias from dst, src */
    BRIM_DNN_MATMUL           /* dst = src weights + bias */
} brim_dnn_kind;

/* Everything that defines a call. For gradients the operands keep the forward's names. */
typedef struct brim_dnn_problem {
    brim_dnn_kind kind;
    brim_dnn_arg src, weights, bias, dst;
    int64_t kernel[2], stride[2], dilation[2], pad[2]; /* convolutions */
    bool winograd; /* convolutions: by Winograd's F(4x4,3x3), or not at all */
    bool relu;     /* NaN stays NaN */
} brim_dnn_problem;

/* Operand `index` of the step, as it lies in memory; compute type as from brim_dnn_compute. */
brim_dnn_arg brim_dnn_in(const brim_step *s, int index);
brim_dnn_arg brim_dnn_out(const brim_step *s, int index);

/* The type that arithmetic on stored type t is done in: bf16 stays where the processor multiplies
 * it, other halves become float. */
brim_dtype brim_dnn_compute(brim_dtype t);

/* True when t is f32, bf16 or f16, not empty, and within oneDNN's 31-bit dimensions. */
bool brim_dnn_takes(const brim_value *v, const char **why);

/* Builds the call into s->state and sets s->workspace_bytes. On failure nothing is left behind. */
brim_status brim_dnn_prepare(brim_step *s, const brim_dnn_problem *p, brim_error *err);
void brim_dnn_run(const brim_step *s);
void brim_dnn_release(brim_step *s);

/* The name of the kernel that oneDNN chose for a prepared step: for benchmarks. */
const char *brim_dnn_kernel_name(const brim_step *s);

#endif
