/* The inside of a graph. A graph owns all its values, nodes, names and attributes in one arena. The
 * node list is in execution order: a node comes after everything it reads, and a node that changes
 * a value in place (op->mutates) comes after every earlier reader and before every later one. Not
 * thread-safe. */
#ifndef BRIM_IR_GRAPH_H
#define BRIM_IR_GRAPH_H

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "brim/graph.h"
#include "ir/tensor.h"

typedef struct brim_node brim_node;
typedef struct brim_op brim_op;

typedef enum brim_value_kind {
    BRIM_VALUE_TEMP,  /* made by a node, dies inside the step */
    BRIM_VALUE_INPUT, /* filled by the host before each run */
    BRIM_VALUE_PARAM, /* a weight: persistent, trained unless frozen, saved under its name */
    BRIM_VALUE_STATE, /* persistent, not trained: running statistics, momentum, scaler, counters */
    BRIM_VALUE_CONST  /* fixed data, held by the graph */
} brim_value_kind;

struct brim_value {
    int id; /* index in graph->values */
    brim_value_kind kind;
    brim_dtype dtype;
    brim_layout layout;
    brim_shape shape;
    const char *name;    /* never NULL; unique for PARAM, STATE and INPUT */
    brim_node *producer; /* TEMP only */
    int out_index;
    const void *data; /* CONST only: packed, row-major */
    brim_init init;   /* PARAM and STATE: first content */
    bool trainable;   /* PARAM */
    bool decay;       /* PARAM: weight decay applies (rank >= 2 and not a norm) */
    bool saved;       /* STATE: belongs to the model file (running statistics) */
    brim_value *
        like; /* STATE: lies in memory as this parameter does (momentum, half copy, ...); or NULL */
};

/* A named attribute: integers or one real number. */
typedef struct brim_attr {
    const char *key;
    bool real;
    int n; /* number of integers; 1 for a real */
    int64_t i[8];
    double f;
} brim_attr;

#define BRIM_INT(key, x)     ((brim_attr){key, false, 1, {(x)}, 0})
#define BRIM_INT2(key, x, y) ((brim_attr){key, false, 2, {(x), (y)}, 0})
#define BRIM_FLOAT(key, x)   ((brim_attr){key, true, 1, {0}, (x)})

struct brim_body;

struct brim_node {
    int id; /* unique in the graph; not an index */
    const brim_op *op;
    const char *name; /* for messages and profiles: "layer3.0.conv2" */
    int n_in, n_out;
    brim_value **in; /* NULL entries: absent optional inputs */
    brim_value **out;
    int n_attr;
    brim_attr *attr;
    const struct brim_body *body; /* op `fused` only */
};

typedef struct brim_output {
    const char *name;
    brim_value *value;
} brim_output;

/* A trained parameter and the value that holds its gradient; set by the autodiff pass. */
typedef struct brim_param_grad {
    brim_value *param, *grad;
} brim_param_grad;

struct brim_graph {
    brim_arena arena;
    brim_error error;  /* the first failure; builders do nothing after it */
    bool training;     /* batch norm and dropout in training mode */
    const char *scope; /* prefix of node names, set by the layer helpers */
    int next_node_id;
    BRIM_VEC(brim_node *) nodes;
    BRIM_VEC(brim_value *) values;
    BRIM_VEC(brim_output) outputs;   /* what the host reads after a run; alive to the end */
    BRIM_VEC(brim_param_grad) grads; /* between autodiff and optimizer; counted as uses */
};

/* Attributes; the default is returned when the key is absent. */
int64_t brim_attr_int(const brim_node *n, const char *key, int64_t otherwise);
int64_t brim_attr_int_at(const brim_node *n, const char *key, int k, int64_t otherwise);
double brim_attr_float(const brim_node *n, const char *key, double otherwise);
const brim_attr *brim_attr_find(const brim_node *n, const char *key);
/* Adds or replaces; false when out of memory. */
bool brim_attr_put(brim_graph *g, brim_node *n, brim_attr a);
/* "stride=2,2 eps=1e-05" into an array of at most `max` attributes; returns the count, -1 if
 * malformed. */
int brim_attr_parse(brim_arena *a, const char *text, brim_attr *out, int max);

brim_value *brim_value_new(brim_graph *g, brim_value_kind kind, const char *name, brim_dtype t,
                           const brim_shape *shape);
size_t brim_value_bytes(const brim_value *v); /* packed */

/* Appends a node: checks arity, infers outputs. Returns NULL and sets g->error when inputs do not
 * fit, when a required input is NULL, or when g already failed. */
brim_node *brim_emit(brim_graph *g, const brim_op *op, const char *name, brim_value *const *in,
                     int n_in, const brim_attr *attr, int n_attr);
/* The same, returning output 0. */
brim_value *brim_emit1(brim_graph *g, const brim_op *op, const char *name, brim_value *const *in,
                       int n_in, const brim_attr *attr, int n_attr);
#define BRIM_EMIT(g, op, name, ins, ...)                                                           \
    brim_emit1((g), (op), (name), (ins), (int)(sizeof(ins) / sizeof *(ins)),                       \
               (const brim_attr[]){__VA_ARGS__},                                                   \
               (int)(sizeof((const brim_attr[]){__VA_ARGS__}) / sizeof(brim_attr)))

/* Fails the graph (keeps the first error); always returns NULL. */
brim_value *brim_graph_fail(brim_graph *g, brim_status status, const char *fmt, ...)
    BRIM_PRINTF(3, 4);

/* The value marked as output `name`, or NULL. */
brim_value *brim_output_find(const brim_graph *g, const char *name);
brim_value *brim_value_find(const brim_graph *g,
                            const char *name); /* INPUT, PARAM, STATE; or NULL */

/* For passes: take the node list out, emit a new one. Nodes appended with brim_emit or moved with
 * brim_graph_keep end up in the new list. */
typedef struct brim_rewrite {
    brim_node **old;
    size_t n_old;
} brim_rewrite;
brim_rewrite brim_rewrite_begin(brim_graph *g);
void brim_graph_keep(brim_graph *g, brim_node *n);
void brim_rewrite_end(brim_graph *g, brim_rewrite *r);
void brim_replace_uses(brim_graph *g, brim_value *from,
                       brim_value *to); /* also outputs and grads */
/* How often each value is read, by id, outputs and gradients included; heap, NULL when out of
 * memory. */
int *brim_use_counts(const brim_graph *g);
/* Runs the shape rule of n again after its inputs changed type. */
brim_status brim_node_infer(brim_graph *g, brim_node *n, brim_error *err);

/* Checks every invariant of this file; passes run it after each change. */
brim_status brim_graph_verify(const brim_graph *g, brim_error *err);
/* The graph as text, one node a line. */
void brim_graph_print(const brim_graph *g, brim_str *out);

#endif
