/* Runs a graph node by node with each operator's reference, every value in a buffer of its own in
 * host memory, in the value's layout. Slow and plain: what tests compare everything else with. */
#ifndef BRIM_BACKEND_REFERENCE_H
#define BRIM_BACKEND_REFERENCE_H

#include "ir/op.h"

typedef struct brim_reference brim_reference;

/* Buffers for all values that g has now, zeroed, constants copied. Borrows g, which must not change
 * while *out lives. On failure *out is NULL. */
brim_status brim_reference_new(const brim_graph *g, brim_reference **out, brim_error *err);
void brim_reference_free(brim_reference *r); /* accepts NULL */

/* The buffer of v: the caller fills inputs, parameters and states before a run and reads anything
 * after it. Lives as long as r. */
const brim_tensor *brim_reference_tensor(const brim_reference *r, const brim_value *v);

/* Executes all nodes in order. Values changed in place keep the new content, so that a second call
 * goes on from there. */
void brim_reference_run(brim_reference *r);

#endif
