/* Training an image classifier from files to checkpoints: the loop, and what it tells its caller.
 */
#ifndef BRIM_TRAIN_TRAIN_H
#define BRIM_TRAIN_TRAIN_H

#include "brim/model.h"
#include "brim/session.h"
#include "data/pipeline.h"
#include "train/schedule.h"

typedef struct brim_train_opts {
    const char *model;           /* zoo name */
    const char *data, *val_data; /* val_data NULL: the set's own split, or val_fraction of it */
    double val_fraction;
    const char *out;  /* run folder */
    const char *init; /* weights to start from, or NULL */
    bool resume;      /* go on from out/state.safetensors */
    int epochs;
    int64_t max_steps; /* stop after this many updates; 0: epochs decide */
    int width, height,
        channels; /* 0: the model's default, or the data's own size for small raw images */
    double mean[3], std[3];
    bool mean_given; /* else: the model's when weights are loaded, else the set's own statistics */
    double dropout, label_smoothing;
    double ema_decay;   /* 0: off */
    int early_stop;     /* epochs without a better top-1; 0: off */
    int64_t save_every; /* updates between checkpoints inside an epoch; 0: at its end only */
    int64_t log_every;  /* updates between log lines */
    int workers;        /* decoding threads */
    brim_augment augment;
    brim_schedule schedule;
    brim_session_opts session; /* device, precision, batch, memory, optimizer, seed, freeze, ... */
    const char *config_yaml;   /* text saved as config.yaml */
} brim_train_opts;

void brim_train_opts_init(brim_train_opts *o);

typedef struct brim_progress {
    int epoch, epochs;
    int64_t step, steps; /* updates in all */
    int64_t epoch_step, epoch_steps;
    double loss, top1; /* mean since the last log line; top1 in 0..1 */
    double lr, loss_scale, grad_norm;
    double samples_per_s, step_ms, data_wait_ms; /* means since the last log line */
    double seconds_left;
    int64_t skipped; /* steps skipped for an overflow, in all */
    bool log_line;   /* a line of metrics.jsonl was written with these numbers */
} brim_progress;

typedef struct brim_eval_result {
    int64_t samples, damaged;
    double loss, top1, top5;
    int classes;
    int64_t *confusion; /* [classes][classes]: row true, column predicted; owned by the result */
    double seconds;
} brim_eval_result;
void brim_eval_result_release(brim_eval_result *r);

typedef struct brim_epoch_report {
    int epoch, epochs;
    double train_loss, train_top1, seconds, samples_per_s, data_wait_share;
    int64_t damaged;
    const brim_eval_result *eval; /* NULL when there is no validation set */
    bool best;
} brim_epoch_report;

/* What a training looks like from outside. Every callback may be NULL. */
typedef struct brim_train_events {
    void *user;
    void (*started)(void *user, const brim_plan *plan, const brim_dataset *train,
                    const brim_dataset *val, const brim_train_opts *o);
    void (*note)(void *user, const char *text); /* a decision that was taken for the user */
    void (*progress)(void *user, const brim_progress *p);
    void (*epoch)(void *user, const brim_epoch_report *r);
    bool (*stop)(void *user); /* true: finish the step, save, return BRIM_EINTERRUPTED */
    void (*ended)(void *user, const brim_session *s, int64_t steps, double seconds);
} brim_train_events;

brim_status brim_train(const brim_train_opts *o, const brim_train_events *events, brim_error *err);

/* ---- evaluation and prediction from a model file ---- */

/* What a model file of a run says about itself (metadata); fields are heap strings or NULL. */
typedef struct brim_model_card {
    char *model;
    int classes, width, height, channels;
    double mean[3], std[3];
    bool normalised; /* mean and std are known */
    double crop_ratio;
    char **class_names; /* classes entries, or NULL */
} brim_model_card;
brim_status brim_model_card_read(const char *path, brim_model_card *out, brim_error *err);
/* The same from an open file; `name` is for messages. */
struct brim_st_file;
brim_status brim_model_card_take(const char *name, const struct brim_st_file *f,
                                 brim_model_card *out, brim_error *err);
void brim_model_card_release(brim_model_card *c);

/* Inputs image (u8), label, label2, lam, weight; outputs loss (sum), correct1, correct5, logits. */
typedef struct brim_classifier {
    brim_model_opts model;
    float mean[3], std[3]; /* of pixels in 0..1 */
    double label_smoothing;
    bool mixed; /* inputs label2 and lam are used */
} brim_classifier;
brim_status brim_classifier_build(brim_graph *g, int64_t batch, void *classifier, brim_error *err);

/* Feeds of a batch for a classifier session; feed has room for 5. Returns their number. */
int brim_classifier_feeds(const brim_batch *b, brim_feed feed[5]);

brim_status brim_evaluate(brim_session *s, brim_pipeline *p, int classes, brim_eval_result *out,
                          brim_error *err);

#endif
