/* The inside of a session, shared by the files of src/train that make, run and save it. */
#ifndef BRIM_TRAIN_SESSION_H
#define BRIM_TRAIN_SESSION_H

#include "backend/runner.h"
#include "brim/session.h"
#include "io/safetensors.h"
#include "pass/pass.h"

enum { BRIM_MAX_OUTPUTS = 16 };

/* Scalar outputs by name, and the loss scale's state. */
typedef struct brim_update_result {
    int n;
    struct {
        const char *name;
        double value;
    } at[BRIM_MAX_OUTPUTS];
    float scaler[BRIM_SCALER_COUNT];
} brim_update_result;

struct brim_session {
    brim_session_opts opts;
    const brim_backend *backend;
    brim_build_fn build;
    void *user;
    brim_store store;
    brim_program *train;  /* one micro-batch (with the update when there is only one) */
    brim_program *tail;   /* the same for the short last micro-batch, or NULL */
    brim_program *update; /* when gradients accumulate over several micro-batches, else NULL */
    brim_program *eval;
    brim_plan plan;
    void *arena; /* persistent values, then the step's temporaries */
    float step_input[BRIM_STEP_COUNT];
    int32_t rng_input[BRIM_RNG_COUNT];
    brim_runner runner;
    int64_t steps, finished;     /* updates started; updates whose results are there */
    brim_update_result now;      /* of the update that is looked at, or of the evaluation */
    brim_update_result building; /* of the update whose micro-batches come back */
    brim_update_result ready[BRIM_READY_UPDATES]; /* finished, not looked at; oldest first */
    int n_ready;
    bool scaler_known;
};

/* Matches name against a pattern with * and ?. */
bool brim_name_match(const char *pattern, const char *name);
bool brim_name_match_any(const char *const *pattern, int n, const char *name);

/* brim_session_load_state from an open file; `name` is for messages. */
brim_status brim_session_take_state(brim_session *s, const char *name, const brim_st_file *f,
                                    brim_error *err);

#endif
