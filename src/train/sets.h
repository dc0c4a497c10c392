/* The data sets of a training, and the memory that they take. */
#ifndef BRIM_TRAIN_SETS_H
#define BRIM_TRAIN_SETS_H

#include "train/train.h"

/* Opens the training set and, unless there is none, the one for validation: of val_data, of the
 * set's own split, or val_fraction of it. On failure those that were opened stay for the caller. */
brim_status brim_sets_open(const brim_train_opts *o, brim_dataset **train, brim_dataset **val,
                           brim_error *err);

typedef struct brim_sets_bytes {
    size_t train_cache, val_cache; /* for decoded images that the pipelines keep */
    size_t bytes;                  /* those and the sets' own memory */
} brim_sets_bytes;

/* val may be NULL; cap_bytes 0: none. */
brim_sets_bytes brim_sets_memory(const brim_dataset *train, const brim_dataset *val, int channels,
                                 size_t cap_bytes);

#endif
