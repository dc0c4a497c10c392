/* What a backend adds to an operator: implementations. Several may support a node; the choice is
 * made when a program is built (order of the list, or measured by the tuner). */
#ifndef BRIM_BACKEND_IMPL_H
#define BRIM_BACKEND_IMPL_H

#include "ops/ops.h"

/* One step of a program: a node, its implementation, and the addresses. */
typedef struct brim_step {
    const brim_node *node;
    const struct brim_impl *impl;
    brim_tensor *in;  /* n_in; data NULL when the optional input is absent. Bound after planning. */
    brim_tensor *out; /* n_out; data NULL when nobody reads that output: it must not be written */
    bool *out_used;   /* n_out; known already in prepare */
    void *workspace;  /* 64-byte aligned, contents undefined, bound after planning */
    size_t workspace_bytes; /* set by prepare */
    void *state;            /* the implementation's own, made by prepare, ended by release */
    size_t state_bytes;     /* memory held by state outside the arena (packed weights, ...), for the
                               plan */
} brim_step;

typedef struct brim_impl {
    const char *name; /* "onednn.conv2d" */
    const brim_op *op;
    /* May this node run here? On false, *why names the reason (static text). Shapes, types and
     * layouts of node->in and node->out are final. */
    bool (*supports)(const brim_node *n, const char **why);
    /* Makes state, sets workspace_bytes. in/out hold shapes, types and strides; data is NULL.
     * Optional. */
    brim_status (*prepare)(brim_step *s, brim_error *err);
    /* Computes. Must not allocate, must not fail; same bits for the same input and thread count. */
    void (*run)(const brim_step *s);
    void (*release)(brim_step *s); /* optional */
    bool no_inplace; /* output 0 must not share storage with an input although op->inplace allows it
                      */
} brim_impl;

#endif
