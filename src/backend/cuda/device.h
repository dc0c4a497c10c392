/* The one CUDA device of the process: its context, its stream, and what it can do. All work goes to
 * the stream in order; failures of work that was queued are kept and told at the next check. One
 * thread at a time. */
#ifndef BRIM_CUDA_DEVICE_H
#define BRIM_CUDA_DEVICE_H

#include "backend/cuda/library.h"

typedef struct brim_cuda_device {
    char name[128], bus[32]; /* bus: its PCI address */
    int cc;                  /* compute capability, 89 for 8.9 */
    int driver;              /* CUDA version of the driver, 12040 for 12.4 */
    int sms;                 /* streaming multiprocessors */
    size_t total_bytes, l2_bytes, shared_block_bytes, shared_sm_bytes;
    CUcontext context;
    CUstream stream, copies; /* kernels; inputs on their way */
} brim_cuda_device;

/* Opens driver, compiler and device; once, later calls give the first result. Errors are one line
 * each: BRIM_ENOTFOUND (no library, no card), BRIM_EUNSUPPORTED (driver older than CUDA 12, card
 * below 7.5), BRIM_EDEVICE (busy, lost). */
brim_status brim_cuda_open(brim_error *err);
const brim_cuda_device *brim_cuda_get(void); /* after brim_cuda_open */

/* Plans and compiles for a card that is not here: `like` (without context and stream) is what
 * brim_cuda_open then gives. Only before the first brim_cuda_open or after another assumption. */
void brim_cuda_assume(const brim_cuda_device *like);

/* BRIM_OK for success; else says what was done, why it failed and what to do. */
brim_status brim_cuda_result(CUresult r, const char *what, brim_error *err);
/* Keeps the first failure of queued work. */
void brim_cuda_note(CUresult r, const char *what);
/* The kept failure, if any; check waits for all queued work before. A failed device stays failed.
 */
brim_status brim_cuda_failure(brim_error *err);
brim_status brim_cuda_check(brim_error *err);

#endif
