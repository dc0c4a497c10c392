/* A run's folder: config.yaml, metrics.jsonl, TensorBoard events, last/best/state.safetensors. */
#ifndef BRIM_TRAIN_RUN_FOLDER_H
#define BRIM_TRAIN_RUN_FOLDER_H

#include "base/str.h"
#include "io/safetensors.h"
#include "train/train.h"

#include <stdio.h>

typedef struct brim_run_folder {
    char *path;
    FILE *metrics;
    struct brim_tb *tb;
    brim_str changes; /* options that a resumed run has now and had not before, "lr: 0.1, ..." */
} brim_run_folder;

/* Where a training stands: saved in state.safetensors. */
typedef struct brim_position {
    int64_t step;       /* updates done in all */
    int64_t epoch;      /* 0-based; the one that goes on */
    int64_t micro_done; /* micro-batches of that epoch already used */
    double best_top1;   /* -1: none yet */
    int64_t best_epoch;
    double loss_sum, top1_sum; /* over the epoch so far */
    int64_t samples, damaged;
    double window_loss, window_top1, window_weight; /* since the last log line */
} brim_position;

/* Finds the folder, and writes nothing yet. Without resume one that already holds a run is refused;
 * with it, one that holds none. */
brim_status brim_run_open(brim_run_folder *r, const brim_train_opts *o, brim_error *err);
/* Makes the folder, saves config.yaml and opens the logs; lines of updates after `step` (from
 * before a crash) are taken out. */
brim_status brim_run_start(brim_run_folder *r, const brim_train_opts *o, int64_t step,
                           brim_error *err);
void brim_run_close(brim_run_folder *r);

brim_status brim_run_log_step(brim_run_folder *r, const brim_progress *p, size_t mem_bytes,
                              brim_error *err);
brim_status brim_run_log_epoch(brim_run_folder *r, const brim_epoch_report *e, int64_t step,
                               brim_error *err);

/* Writes last.safetensors (and best.safetensors when best), with the model's card in the metadata.
 */
brim_status brim_run_save_model(const brim_run_folder *r, brim_session *s, const brim_train_opts *o,
                                const brim_classifier *c, const brim_dataset *d, bool best,
                                brim_error *err);
/* Writes confusion.csv: a line and a column a class of `d`, true by predicted. */
brim_status brim_run_save_confusion(const brim_run_folder *r, const brim_dataset *d,
                                    const brim_eval_result *e, brim_error *err);
brim_status brim_run_save_state(const brim_run_folder *r, const brim_session *s,
                                const brim_position *p, const char *signature, brim_error *err);
/* Loads state.safetensors; a signature that differs is an error that says what changed. */
brim_status brim_run_load_state(const brim_run_folder *r, brim_session *s, const char *signature,
                                brim_position *p, brim_error *err);
/* The same from an open file; `name` is for messages. */
brim_status brim_run_take_state(const char *name, const brim_st_file *f, brim_session *s,
                                const char *signature, brim_position *p, brim_error *err);

#endif
