/* Graphs made from a seed, and what it takes to run them: for tests of the compiler, the memory
 * plan and the backends. A call that fails, fails the test. */
#ifndef BRIM_TESTS_RANDOM_GRAPH_H
#define BRIM_TESTS_RANDOM_GRAPH_H

#include "backend/program.h"

/* A model with the outputs "loss" and "logits": image operators (convolutions, norms, pooling,
 * pointwise chains, residuals, concat, slice, transpose, ...), then operators on rows, then a loss.
 * Sizes are small and odd: batch 1, images of 1x1, channels that no vector length divides. */
brim_graph *random_graph(uint64_t seed, bool training);

/* The content of an INPUT, PARAM or STATE, the same for a name in every graph: f32 numbers of about
 * 1, labels, weights by their initial distribution, loss scale 64 (1 unless `scaled`). Half copies
 * are rounded weights. */
void random_content(const brim_value *v, bool scaled, const brim_tensor *out);

/* A compiled graph with its memory, on the CPU. */
typedef struct random_run {
    brim_program *p;
    brim_store store;
    void *persistent, *arena;
    void *input[16]; /* by order of the graph's inputs */
    bool scaled;
} random_run;

/* Takes over g, which is compiled. */
void random_run_open(random_run *r, brim_graph *g, bool scaled);
void random_run_close(random_run *r);
/* Persistent values as random_content has them; every byte of the arena becomes `poison`. */
void random_run_reset(random_run *r, int poison);

#endif
