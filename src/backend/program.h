/* A compiled graph bound to implementations and memory: a flat list of steps. Built once, run many
 * times, no allocation and no decision inside a run. One thread runs a program at a time. */
#ifndef BRIM_BACKEND_PROGRAM_H
#define BRIM_BACKEND_PROGRAM_H

#include "backend/memplan.h"
#include "backend/store.h"

/* What an input is copied from before a run, where the device has its own memory. */
typedef struct brim_feed_slot {
    const brim_value *value;
    const void *host;
} brim_feed_slot;

typedef struct brim_program {
    const brim_backend *backend;
    brim_graph *graph; /* owned */
    brim_step *step;   /* one per node, in order */
    int n_steps;
    brim_memplan plan;
    size_t state_bytes; /* memory that implementations hold outside the arena */
    char *base;         /* of the step's arena, once bound */
    brim_feed_slot *feed;
    int n_feeds;
    brim_arena arena; /* tensors of the steps */
    int64_t *step_ns; /* time per step summed over runs while profiling; NULL: off */
    int64_t profiled_runs;
} brim_program;

/* Takes over g (also on failure). Chooses and prepares implementations and plans memory; takes no
 * device memory yet. The reasons of refused implementations go to log (may be NULL). */
brim_status brim_program_build(const brim_backend *b, brim_graph *g, brim_str *log,
                               brim_program **out, brim_error *err);
void brim_program_free(brim_program *p); /* accepts NULL */

/* Gives addresses: persistent values from the store, temporaries from `arena` (plan.bytes long). */
brim_status brim_program_bind(brim_program *p, const brim_store *store, void *arena,
                              brim_error *err);

/* Where INPUT `name` is read from in the next runs: packed in the input's layout (images: N,H,W,C).
 * The memory is borrowed. Unknown names are ignored and reported by the result. */
bool brim_program_feed(brim_program *p, const char *name, const void *data);

void brim_program_run(brim_program *p);

/* Tensor of output `name` after a run (device memory, valid until the next run); NULL data if
 * absent. */
brim_tensor brim_program_output(const brim_program *p, const char *name);

/* Starts (or ends) timing every step. */
brim_status brim_program_profile(brim_program *p, bool on, brim_error *err);

#endif
