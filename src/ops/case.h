/* An operator's cases made into graphs and filled with numbers: for tests and benchmarks. */
#ifndef BRIM_OPS_CASE_H
#define BRIM_OPS_CASE_H

#include "base/rng.h"
#include "ops/ops.h"

typedef struct brim_case_opts {
    /* What f32 inputs become: F32 leaves them, F64 changes them all, a half type those that mixed
     * precision would give in half. */
    brim_dtype real;
    bool channels_last; /* all 4-D values, where the operator's layout rule allows it */
} brim_case_opts;

/* Emits the node of a case into an empty graph. Inputs are named "in0", "in1", ...; those that the
 * operator changes are STATE, the others INPUT; the weights of an optimizer decay when their rank
 * is 2 or more. `fused` gets a body that uses every scalar operation. NULL with g's error set when
 * the case is refused or malformed. */
brim_node *brim_case_emit(brim_graph *g, const brim_op *op, const brim_case *c,
                          const brim_case_opts *o);

/* Random content for input k of that node. */
void brim_case_fill(const brim_case *c, const brim_node *n, int k, brim_rng *r,
                    const brim_tensor *t);

#endif
