/* Loops over several strided tensors at once, merged until as much as possible is one long run, and
 * the scalar formula of a pointwise node. Shared by the backends. */
#ifndef BRIM_BACKEND_LOOPS_H
#define BRIM_BACKEND_LOOPS_H

#include "backend/impl.h"

enum { BRIM_LOOP_TENSORS = BRIM_BODY_MAX_IN + BRIM_BODY_MAX_OUT };

/* Outermost loop first; strides in elements, 0 where a tensor is broadcast. */
typedef struct brim_loops {
    int rank, tensors;
    int lead; /* the tensor whose strides decide the order: descending */
    int64_t dim[BRIM_MAX_RANK];
    int64_t stride[BRIM_MAX_RANK][BRIM_LOOP_TENSORS];
} brim_loops;

/* Adds a loop at its place; one of a single element changes nothing. */
void brim_loops_add(brim_loops *l, int64_t dim, const int64_t *stride);
/* Merges neighbours that are one stretch in every tensor. A rank of at least 1 is left. */
void brim_loops_merge(brim_loops *l);
/* Over the first output of a step, its inputs broadcast; tensors: inputs, then outputs. Merged. */
brim_loops brim_loops_of(const brim_step *s);

/* The formula of a pointwise node, a fusion group or broadcast_to; false when n is none of them or
 * the formula is too long. */
bool brim_pointwise_body(const brim_node *n, brim_body *b);

#endif
