/* Runs programs and brings their scalar outputs back. On a device of its own, runs overlap: inputs
 * are copied to pinned memory and from there to a slot on the device while the run before computes,
 * a program's steps are recorded once a slot and replayed, and results are taken when they are
 * there. On the host a run is done when start returns. One thread uses a runner at a time. */
#ifndef BRIM_BACKEND_RUNNER_H
#define BRIM_BACKEND_RUNNER_H

#include "backend/program.h"
#include "ir/step.h"

typedef struct brim_runner {
    const brim_backend *backend;
    const brim_entry *scaler;  /* state that is brought back after each run; or NULL */
    char *pinned[BRIM_SLOTS];  /* inputs on their way */
    char *fetched[BRIM_SLOTS]; /* results: 8 bytes a scalar, then the scaler */
    struct {
        brim_program *p; /* in flight; NULL: the slot is free */
        int64_t tag;
        bool timed;
    } slot[BRIM_SLOTS];
    int next;
} brim_runner;

/* Bytes of device memory that these programs want from brim_runner_open; 0 on the host. NULL
 * entries are skipped. */
size_t brim_runner_bytes(brim_program *const *p, int n);
/* `memory`: that many bytes of the device. Places the programs; they are bound afterwards. */
brim_status brim_runner_open(brim_runner *r, const brim_backend *b, brim_program *const *p, int n,
                             void *memory, brim_error *err);
/* Waits for what is in flight. */
void brim_runner_close(brim_runner *r);

/* What a run gave. */
typedef struct brim_result {
    const brim_program *p; /* NULL: nothing was in flight */
    int64_t tag;
    int n;
    struct {
        const char *name;
        double value;
    } scalar[BRIM_PROGRAM_SCALARS];
    float scaler[BRIM_SCALER_COUNT];
} brim_result;

/* True when a run must be taken before another can start. */
bool brim_runner_full(const brim_runner *r);
/* Starts p with what it is fed; feeds may be reused when it returns. */
void brim_runner_start(brim_runner *r, brim_program *p, int64_t tag);
/* The oldest run that was started and not taken, once it is done; what failed is BRIM_EDEVICE. */
brim_status brim_runner_take(brim_runner *r, brim_result *out, brim_error *err);

#endif
