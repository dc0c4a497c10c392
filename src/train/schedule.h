/* Learning rate as a function of the update's number. */
#ifndef BRIM_TRAIN_SCHEDULE_H
#define BRIM_TRAIN_SCHEDULE_H

#include <stdint.h>

typedef enum brim_schedule_kind {
    BRIM_LR_CONSTANT,
    BRIM_LR_COSINE,  /* to min_factor * lr (Loshchilov and Hutter, SGDR, without restarts) */
    BRIM_LR_STEP,    /* times gamma every step_size epochs */
    BRIM_LR_ONECYCLE /* Smith: up from lr/25 over 30 % of the steps, down to lr/250000, both cosine
                      */
} brim_schedule_kind;

typedef struct brim_schedule {
    brim_schedule_kind kind;
    double lr;            /* peak */
    double warmup_epochs; /* linear from 0 to lr; not for one-cycle */
    double min_factor;
    double step_epochs, gamma;
} brim_schedule;

/* Rate for update `step` (0-based) of `steps`, `per_epoch` updates an epoch. */
double brim_schedule_at(const brim_schedule *s, int64_t step, int64_t steps, int64_t per_epoch);

#endif
