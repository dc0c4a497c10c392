/* The compiler: a list of passes, each graph -> graph, in src/pass/pass.c. */
#ifndef BRIM_PASS_PASS_H
#define BRIM_PASS_PASS_H

#include "brim/session.h"
#include "ops/ops.h"

#include <stdio.h>

typedef struct brim_compile_opts {
    bool backward;      /* autodiff and optimizer; else inference */
    bool accumulate;    /* gradients go to states "grad:NAME"; the update is another graph */
    brim_dtype compute; /* BRIM_F32, BRIM_BF16 or BRIM_F16 */
    brim_optimizer_opts optimizer;
    bool no_fuse, no_layout; /* leave those passes out (tests, ablation) */
    FILE *dump;              /* graph text before the first and after each pass; NULL: none */
} brim_compile_opts;

/* Runs every pass that applies, verifying the graph after each. On error g is unusable, to be
 * freed. */
brim_status brim_compile(brim_graph *g, const brim_compile_opts *o, brim_error *err);

/* The graph that applies accumulated gradients: reads "grad:NAME" states of every parameter that
 * `micro` (compiled with accumulate) trains. NULL with err set on failure. */
brim_graph *brim_update_graph(const brim_graph *micro, const brim_compile_opts *o, brim_error *err);

/* ---- the passes ---- */
brim_status brim_pass_fuse_forward(brim_graph *g, const brim_compile_opts *o, brim_error *err);
brim_status brim_pass_amp(brim_graph *g, const brim_compile_opts *o, brim_error *err);
brim_status brim_pass_autodiff(brim_graph *g, const brim_compile_opts *o, brim_error *err);
brim_status brim_pass_optimizer(brim_graph *g, const brim_compile_opts *o, brim_error *err);
brim_status brim_pass_shadow(brim_graph *g, const brim_compile_opts *o, brim_error *err);
brim_status brim_pass_dce(brim_graph *g, const brim_compile_opts *o, brim_error *err);
brim_status brim_pass_layout(brim_graph *g, const brim_compile_opts *o, brim_error *err);
brim_status brim_pass_fuse_pointwise(brim_graph *g, const brim_compile_opts *o, brim_error *err);

/* Emits the optimizer node for these pairs; states "m:NAME", "v:NAME", "NAME.half", "ema:NAME" are
 * made. */
brim_status brim_emit_optimizer(brim_graph *g, const brim_param_grad *pair, size_t n,
                                const brim_compile_opts *o, brim_error *err);

/* PARAM and STATE named `name`, made with `like`'s shape and layout if missing. NULL when out of
 * memory. */
brim_value *brim_state_like(brim_graph *g, const char *prefix, const char *suffix, brim_value *like,
                            brim_dtype t);

#endif
