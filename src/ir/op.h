/* The contract of an operator: everything the compiler, the tests, the cost model and the
 * documentation know about it. src/ops/ops.def lists them; each is defined in one file of src/ops.
 */
#ifndef BRIM_IR_OP_H
#define BRIM_IR_OP_H

#include "ir/body.h"
#include "ir/graph.h"

typedef struct brim_cost {
    double flops;      /* a multiply-add counts as two */
    double bytes_read; /* each input once */
    double bytes_written;
} brim_cost;

/* What mixed precision does with the inputs in `amp_in`. */
typedef enum brim_amp {
    BRIM_AMP_FLOAT,  /* compute and store in float */
    BRIM_AMP_HALF,   /* run in half: convolutions, matmuls */
    BRIM_AMP_FOLLOW, /* half when any of them is half */
    BRIM_AMP_KEEP    /* leave as they are */
} brim_amp;

/* Which physical layout 4-D inputs and outputs take. */
typedef enum brim_layout_rule {
    BRIM_LAYOUT_SAME, /* any, all 4-D inputs and outputs alike (pointwise) */
    BRIM_LAYOUT_CONV, /* channels-last wanted (convolution, pooling, batch norm) */
    BRIM_LAYOUT_PLAIN /* row-major only (reshape and others that see memory order) */
} brim_layout_rule;

/* A test case, as text: inputs "f32[2,3,8,8] f32[4,3,3,3] -" ('-' absent; i32 inputs are filled
 * with 0..int_below-1), attributes "stride=2,2 groups=1". */
typedef struct brim_case {
    const char *name;
    const char *inputs;
    const char *attrs;
    const char *refused;  /* not NULL: infer must fail with this text in its message */
    double lo, hi;        /* range of random inputs; both 0: -1..1 */
    int64_t int_below;    /* range of integer inputs; 0: dimension 1 of input 0 */
    bool no_grad;         /* gradient check does not apply (not differentiable there) */
    uint32_t positive_in; /* inputs that must be > 0 (variances, sample weights, ...) */
} brim_case;

/* In the bit masks over inputs below, bit 31 stands for input 31 and all after it. */
struct brim_op {
    const char *name;
    const char *doc;    /* the formula, one line */
    int min_in, max_in; /* max_in -1: any number */
    int n_out; /* -1: as many as infer says via brim_node_set_outputs (op `fused`, optimizer) */
    uint32_t optional_in; /* inputs that may be NULL */
    uint32_t mutates;     /* inputs changed in place */
    bool mutates_all;     /* every input may be changed (optimizer) */
    uint32_t inplace; /* output 0 may take the storage of these inputs when type and shape agree */
    uint32_t no_grad_in; /* inputs never differentiated (labels, masks, running statistics) */
    brim_layout_rule layout;
    brim_amp amp;
    uint32_t amp_in; /* inputs that amp speaks of */

    /* Checks n->in and n->attr; sets shape and dtype of each n->out. */
    brim_status (*infer)(brim_graph *g, brim_node *n, brim_error *err);

    /* Emits nodes for the gradients. dout[k] is NULL when no gradient reaches output k; for inputs
     * with need[k] sets din[k] (NULL: zero). NULL function: not differentiable. A gradient has its
     * value's shape; weight gradients may be f32 where the weight is half. */
    brim_status (*grad)(brim_graph *g, const brim_node *n, brim_value *const *dout,
                        const bool *need, brim_value **din);

    /* Adds to *c (flops at least; bytes are filled in from shapes by the caller beforehand). */
    void (*cost)(const brim_node *n, brim_cost *c);

    /* The reference: naive, in double, any strides and dtypes. in[k].data NULL when absent. */
    void (*ref)(const brim_node *n, const brim_tensor *in, const brim_tensor *out);

    /* Pointwise operators only: emits the scalar formula into b from input registers, returns the
     * result's register. Such operators take ref, cost and layout from here. */
    int (*scalar)(brim_body *b, const brim_node *n, const int *in);

    const brim_case *cases;
    int n_cases;
};

static inline bool brim_input_in(uint32_t mask, int k)
{
    return mask >> (k < 31 ? k : 31) & 1;
}

/* For infer. */
void brim_out_set(brim_node *n, int k, brim_dtype t, const brim_shape *shape);
/* For ops with n_out = -1: allocates `count` outputs. */
bool brim_node_set_outputs(brim_graph *g, brim_node *n, int count);

/* FLOPs and bytes of a node. */
brim_cost brim_node_cost(const brim_node *n);

#endif
