/* The table of operators and what their files share. */
#ifndef BRIM_OPS_OPS_H
#define BRIM_OPS_OPS_H

#include "ir/op.h"
#include "ir/step.h"

#define BRIM_OP(name) extern const brim_op brim_op_##name;
#include "ops/ops.def"
#undef BRIM_OP

extern const brim_op *const brim_ops[];
extern const int brim_ops_count;
const brim_op *brim_op_find(const char *name); /* NULL when unknown */

/* Errors of infer with the operator's context added by brim_emit. */
brim_status brim_want_rank(const brim_node *n, int input, int rank, brim_error *err);
brim_status brim_want_dim(const brim_node *n, int input, int axis, int64_t want, brim_error *err);
brim_status brim_want_type(const brim_node *n, int input, brim_dtype want, brim_error *err);
/* f32, bf16, f16 or f64. */
brim_status brim_want_real(const brim_node *n, int input, brim_error *err);
bool brim_dtype_real(brim_dtype t);
bool brim_dtype_half(brim_dtype t);
/* Type of a gradient or statistic kept in float beside values of type t: f64 for f64, else f32. */
brim_dtype brim_dtype_accum(brim_dtype t);
/* Common type of the real inputs of a pointwise node: the widest; bf16 with f16 is f32. */
brim_dtype brim_dtype_promote(brim_dtype a, brim_dtype b);

/* infer and ref of every pointwise operator (those with `scalar`). */
brim_status brim_pointwise_infer(brim_graph *g, brim_node *n, brim_error *err);
void brim_pointwise_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out);

/* Sums `dy` down to the shape of v (undoing broadcasting), in dy's type. Used by gradients. */
brim_value *brim_emit_reduce_to(brim_graph *g, brim_value *dy, const brim_value *v);

/* The graph's inputs `step` and `rng` and its state `scaler`, made on first use. */
brim_value *brim_step_input(brim_graph *g);
brim_value *brim_rng_input(brim_graph *g);
brim_value *brim_scaler_state(brim_graph *g);

/* In a gradient's `in` arrays. */
#define BRIM_CASES(array) .cases = (array), .n_cases = (int)(sizeof(array) / sizeof *(array))

#endif
