/* One sample on one thread: read, decode, crop, resize, augment. */
#ifndef BRIM_DATA_WORKER_H
#define BRIM_DATA_WORKER_H

#include "data/augment.h"
#include "data/cache.h"

typedef struct brim_worker {
    const brim_dataset *set;
    const brim_pipeline_opts *o;
    brim_cache *cache; /* NULL: off */
    brim_scratch scratch, tmp;
    brim_decoder *decoder;
    brim_resizer resizer;
} brim_worker;

brim_status brim_worker_init(brim_worker *w, const brim_dataset *set, const brim_pipeline_opts *o,
                             brim_cache *cache, brim_error *err);
void brim_worker_release(brim_worker *w);

/* Sample i in epoch `epoch` to out [height,width,channels]. */
brim_status brim_worker_sample(brim_worker *w, int64_t i, int64_t epoch, uint8_t *out,
                               brim_error *err);

#endif
