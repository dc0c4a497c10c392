/* A compiled graph bound to implementations and memory: a flat list of steps. Built once, run many
 * times, no allocation and no decision inside a run. One thread runs a program at a time. On a
 * device with memory of its own, runner.h runs it. */
#ifndef BRIM_BACKEND_PROGRAM_H
#define BRIM_BACKEND_PROGRAM_H

#include "backend/memplan.h"
#include "backend/store.h"

enum { BRIM_PROGRAM_SCALARS = 16 };

typedef struct brim_program {
    const brim_backend *backend;
    brim_graph *graph; /* owned */
    brim_step *step;   /* one per node, in order */
    int n_steps;
    brim_memplan plan;
    size_t state_bytes; /* memory that implementations hold outside the arena */
    brim_arena arena;   /* tensors of the steps */
    int64_t *step_ns;   /* time per step summed over runs while profiling; NULL: off */
    int64_t profiled_runs;

    /* On a device of its own: inputs lie in a slot, constants behind one another; their offsets
     * there are in plan.value_offset. */
    size_t input_bytes, const_bytes;
    char *slot[BRIM_SLOTS], *consts;
    const void **feed; /* by value id: what an input is fed with; host */
    void *recording[BRIM_SLOTS];
    int runs[BRIM_SLOTS];
    void **mark; /* while profiling: the start, and the end of each step */
} brim_program;

/* Takes over g (also on failure). Chooses and prepares implementations and plans memory; takes no
 * device memory yet. The reasons of refused implementations go to log (may be NULL). */
brim_status brim_program_build(const brim_backend *b, brim_graph *g, brim_str *log,
                               brim_program **out, brim_error *err);
void brim_program_free(brim_program *p); /* accepts NULL */

/* Gives addresses: persistent values from the store, temporaries from `arena` (plan.bytes long). */
brim_status brim_program_bind(brim_program *p, const brim_store *store, void *arena,
                              brim_error *err);
/* On a device, before bind: where its inputs (input_bytes in each slot) and constants (const_bytes)
 * lie. Copies the constants. */
void brim_program_place(brim_program *p, char *const slot[BRIM_SLOTS], char *consts);

/* Where INPUT `name` is read from in the next runs: packed in the input's layout (images: N,H,W,C).
 * The memory is borrowed. Unknown names are ignored and reported by the result. */
bool brim_program_feed(brim_program *p, const char *name, const void *data);

/* All steps in order; on a device they are queued, with the inputs of slot 0. */
void brim_program_run(brim_program *p);
/* On a device: the steps read the inputs of this slot from now on. */
void brim_program_use_slot(brim_program *p, int slot);
/* On a device: copies what inputs are fed with to slot 0, for steps that are run one by one. */
void brim_program_feed_now(brim_program *p);

/* Tensor of output `name` after a run (device memory, valid until the next run); NULL data if
 * absent. */
brim_tensor brim_program_output(const brim_program *p, const char *name);

/* Starts (or ends) timing every step; on a device, one run in the middle is timed. */
brim_status brim_program_profile(brim_program *p, bool on, brim_error *err);

#endif
