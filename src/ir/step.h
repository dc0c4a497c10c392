/* What changes from step to step, as values of the graph, so that a step never waits for the host.
 * The host fills the inputs `step` and `rng` before a run; the device keeps `scaler`. */
#ifndef BRIM_IR_STEP_H
#define BRIM_IR_STEP_H

/* INPUT "step": f32[BRIM_STEP_COUNT]. */
enum {
    BRIM_STEP_LR,         /* learning rate */
    BRIM_STEP_INV_WINDOW, /* 1 / sum of sample weights over all micro-batches of the step */
    BRIM_STEP_ACC_BETA,   /* 0 on the first micro-batch of a step, 1 after: gradients accumulate */
    BRIM_STEP_EMA,        /* decay of the averaged weights at this step */
    BRIM_STEP_COUNT = 8
};

/* INPUT "rng": i32[4] = seed low, seed high, step, micro-batch. Philox key = seed; counter_hi =
 * (step << 32 | micro-batch << 16 | key of the node), counter_lo = element index / 4. */
enum { BRIM_RNG_SEED_LO, BRIM_RNG_SEED_HI, BRIM_RNG_STEP, BRIM_RNG_MICRO, BRIM_RNG_COUNT };

/* STATE "scaler": f32[BRIM_SCALER_COUNT], changed by the optimizer node only. */
enum {
    BRIM_SCALER_SCALE,     /* the loss is multiplied by this; 1 when scaling is off */
    BRIM_SCALER_GOOD,      /* clean steps since the scale last changed */
    BRIM_SCALER_SKIPPED,   /* steps skipped because a gradient was not finite, in all */
    BRIM_SCALER_GRAD_NORM, /* global norm of the last step's true gradient */
    BRIM_SCALER_OVERFLOW,  /* 1 when the last step was skipped */
    BRIM_SCALER_UPDATES,   /* updates applied: AdamW's t */
    BRIM_SCALER_COUNT = 8
};

#endif
