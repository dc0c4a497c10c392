/* A training (or inference) session: compiles a model's graph for a device, plans all its memory,
 * takes it once, and runs steps. Nothing is allocated after brim_session_new, so a session that
 * starts cannot run out of memory later. One thread uses a session at a time. */
#ifndef BRIM_SESSION_H
#define BRIM_SESSION_H

#include "brim/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Builds the model for a batch of this many rows into g: adds inputs and parameters, marks outputs.
 * Called several times (training, the short last batch, evaluation: see brim_graph_training). For
 * training it must mark a scalar output "loss": the sum of the samples' losses. Returns BRIM_OK or
 * a failure. */
typedef brim_status (*brim_build_fn)(brim_graph *g, int64_t batch, void *user, brim_error *err);

typedef enum brim_algo { BRIM_SGD, BRIM_ADAMW } brim_algo;

typedef struct brim_optimizer_opts {
    brim_algo algo;
    double momentum; /* SGD */
    bool nesterov;
    double beta1, beta2, eps; /* AdamW */
    double weight_decay;      /* SGD: added to the gradient; AdamW: decoupled */
    bool decay_all;           /* also norms and biases */
    double clip;              /* global gradient norm; 0: off */
    bool ema;                 /* keep averaged weights "ema:NAME" */
    bool dynamic_scale;       /* loss scaling; set by brim_session_opts_init for fp16 */
    double scale_init, scale_min, scale_max;
    int scale_interval; /* clean steps before the scale doubles */
} brim_optimizer_opts;

typedef struct brim_session_opts {
    const char *device;   /* "cpu" */
    brim_dtype precision; /* BRIM_F32, BRIM_BF16, BRIM_F16 (with dynamic loss scaling) */
    int64_t batch;        /* samples an update */
    int64_t
        micro_batch; /* samples computed at once; 0: the most that fits under memory_cap_bytes */
    int64_t train_samples; /* samples an epoch, to plan for its short last batch; 0: all batches are
                              full */
    size_t memory_cap_bytes; /* hard cap on everything counted in the plan; 0: none */
    size_t extra_bytes;      /* memory that the caller will hold besides, counted too */
    size_t input_bytes; /* host bytes of one sample in the caller's input ring, which holds every */
    int input_ring;     /* micro-batch of an update and this many more: counted too */
    int threads;        /* 0: all cores */
    uint64_t seed;
    bool inference;            /* no gradients, no optimizer: batch is the evaluation batch */
    const char *const *freeze; /* patterns (* and ?) of parameter names that are not trained */
    int n_freeze;
    const char *dump_passes; /* file for the graph's text after each pass, or NULL */
    brim_optimizer_opts optimizer;
} brim_session_opts;

/* Defaults: cpu, f32, batch 32, SGD momentum 0.9, loss scale 65536 within 1 .. 2^24, interval 2000.
 */
void brim_session_opts_init(brim_session_opts *o);

/* What a session holds, in bytes, exact for the arena. */
typedef struct brim_plan {
    int64_t batch, micro_batch, accumulation;
    int64_t tail_batch;      /* rows of the short last micro-batch of an epoch; 0: none */
    int64_t left_out;        /* samples of an epoch that are not trained, because the model cannot
                                take so few at once (batch norm on one value a channel) */
    int64_t parameters;      /* numbers trained or frozen */
    double flops_per_sample; /* one training step (or inference) divided by its samples */
    size_t weights_bytes, half_bytes, state_bytes, gradient_bytes; /* persistent */
    size_t activation_bytes, workspace_bytes; /* of the step's arena at its fullest moment */
    size_t step_bytes;                        /* the step's arena: largest of all programs */
    size_t arena_bytes;                       /* everything in the one allocation */
    size_t library_bytes;                     /* held by the device libraries besides */
    size_t input_bytes;                       /* the input ring */
    size_t extra_bytes;                       /* as given */
    size_t total_bytes;                       /* all of the above: what the process will hold */
    int n_inplace;                            /* outputs that took over an input's storage */
} brim_plan;

typedef struct brim_session brim_session;

/* Errors: what the builder reports; BRIM_EMEMCAP when not even micro-batches of one sample fit,
 * with the smallest need in the text; BRIM_ENOMEM; *out is NULL then. */
brim_status brim_session_new(brim_build_fn build, void *user, const brim_session_opts *o,
                             brim_session **out, brim_error *err);
void brim_session_free(brim_session *s); /* accepts NULL */

/* Plans without taking memory or running anything. */
brim_status brim_session_plan_only(brim_build_fn build, void *user, const brim_session_opts *o,
                                   brim_plan *plan, brim_error *err);
const brim_plan *brim_session_plan(const brim_session *s);

/* An input by name: packed, row-major; 4-D inputs as N,H,W,C. Borrowed until the call returns. */
typedef struct brim_feed {
    const char *name;
    const void *data;
} brim_feed;

typedef struct brim_micro {
    const brim_feed *feed;
    int n_feed;
    int64_t rows; /* the session's micro-batch, or its tail batch */
} brim_micro;

/* Starts one update from n_micro micro-batches. window_weight: the sum of the sample weights in all
 * of them (the loss is divided by it). On the CPU it is finished when this returns; on a GPU up to
 * two runs are under way, so that it never idles. Data of the micro-batches may be reused at once.
 * Scalar outputs, sums over the micro-batches, are those of the last finished update. */
brim_status brim_session_step(brim_session *s, const brim_micro *micro, int n_micro,
                              double window_weight, double lr, double ema_decay, brim_error *err);
enum { BRIM_READY_UPDATES = 4 };
/* Updates whose results are there, of those that this session started. */
int64_t brim_session_finished(const brim_session *s);
/* Waits until all are. Errors: BRIM_EDEVICE. */
brim_status brim_session_sync(brim_session *s, brim_error *err);
/* Goes on to the next finished update that was not looked at yet, of the last BRIM_READY_UPDATES:
 * scalars and loss scale are then its. False when there is none; without this call they are the
 * newest's. */
bool brim_session_next(brim_session *s);
/* One evaluation batch of the session's micro-batch size. */
brim_status brim_session_eval(brim_session *s, const brim_micro *micro, brim_error *err);

/* A scalar output of the last finished update or evaluation; NaN when there is no such output. */
double brim_session_scalar(const brim_session *s, const char *name);
/* Any output of the last evaluation as f32, row-major; at most `max` numbers; returns the count, -1
 * if absent. */
int64_t brim_session_read(const brim_session *s, const char *name, float *out, int64_t max);

/* Loss scale, steps skipped, gradient norm of the last step. */
typedef struct brim_scaler_info {
    double scale, grad_norm;
    int64_t skipped, updates;
    bool overflow; /* the last step was skipped */
} brim_scaler_info;
brim_scaler_info brim_session_scaler(const brim_session *s);

/* Model files (safetensors): parameters and running statistics under their names. Loading wants
 * every name; names listed in `skip` patterns may be missing or differ in shape and keep their
 * initial content. */
typedef struct brim_load_report {
    int loaded, kept,
        unused;           /* tensors taken; kept at their start; in the file but not in the model */
    char kept_names[256]; /* the first few, for a message */
} brim_load_report;
brim_status brim_session_load(brim_session *s, const char *path, const char *const *skip,
                              int n_skip, brim_load_report *report, brim_error *err);
brim_status brim_session_save(const brim_session *s, const char *path,
                              const char *const (*metadata)[2], int n_metadata, brim_error *err);
/* Optimizer state, loss scale, averaged weights, step counter: with the model file enough to go on
 * with the same bits. */
brim_status brim_session_load_state(brim_session *s, const char *path, brim_error *err);
brim_status brim_session_save_state(const brim_session *s, const char *path,
                                    const char *const (*metadata)[2], int n_metadata,
                                    brim_error *err);

/* Exchanges the weights with their averages (and back). Nothing happens without optimizer.ema. */
brim_status brim_session_swap_ema(brim_session *s, brim_error *err);

/* Copies a parameter or state out or in, f32 row-major, by name. */
brim_status brim_session_get(const brim_session *s, const char *name, float *out, int64_t count,
                             brim_error *err);
brim_status brim_session_set(brim_session *s, const char *name, const float *in, int64_t count,
                             brim_error *err);

/* After a step whose loss was not finite: computes the micro-batch again node by node and names the
 * first node whose result holds a NaN or an infinity, "layer3.0.conv2 (conv2d)". Spoils the step's
 * state. Returns false when everything was finite. */
bool brim_session_find_nonfinite(brim_session *s, const brim_micro *micro, char *name, size_t n);

/* Updates done, counted from the start of training (also after loading state). */
int64_t brim_session_steps(const brim_session *s);

/* Time per node of the training step, measured while on. */
typedef struct brim_node_time {
    const char *name, *op, *impl;
    double ms, flops, bytes; /* per step */
} brim_node_time;
brim_status brim_session_profile(brim_session *s, bool on, brim_error *err);
/* Returns the number of nodes; fills at most max rows in order of execution. */
int brim_session_times(const brim_session *s, brim_node_time *out, int max);

#ifdef __cplusplus
}
#endif
#endif
