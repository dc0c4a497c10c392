/* One sample on one thread: read, decode, crop, resize, augment. */
#ifndef BRIM_DATA_WORKER_H
#define BRIM_DATA_WORKER_H

#include "data/augment.h"

#include <stdatomic.h>

/* Decoded small images, kept over epochs; filled by any thread. */
typedef struct brim_cached {
    _Atomic(uint8_t *) pixels; /* NULL: not kept */
    int w, h;
} brim_cached;

typedef struct brim_worker {
    const brim_dataset *set;
    const brim_pipeline_opts *o;
    brim_cached *cache; /* by sample; NULL: off */
    atomic_size_t *cache_used;
    brim_scratch scratch, tmp;
    brim_decoder *decoder;
    brim_resizer resizer;
} brim_worker;

brim_status brim_worker_init(brim_worker *w, const brim_dataset *set, const brim_pipeline_opts *o,
                             brim_cached *cache, atomic_size_t *cache_used, brim_error *err);
void brim_worker_release(brim_worker *w);

/* Sample i in epoch `epoch` to out [height,width,channels]. */
brim_status brim_worker_sample(brim_worker *w, int64_t i, int64_t epoch, uint8_t *out,
                               brim_error *err);

#endif
