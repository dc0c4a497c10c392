/* The training loop: windows of micro-batches, updates, logs, evaluation, checkpoints. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "train/run_folder.h"
#include "train/sets.h"
#include "train/signature.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { RING = 2, NAN_STEPS = 5 };

void brim_train_opts_init(brim_train_opts *o)
{
    *o = (brim_train_opts){
        .model = "resnet18",
        .val_fraction = 0.1,
        .epochs = 10,
        .log_every = 10,
        .workers = 2,
        .augment = {.scale_min = 0.08,
                    .scale_max = 1,
                    .ratio_min = 3.0 / 4,
                    .ratio_max = 4.0 / 3,
                    .crop_ratio = 0.875},
        .schedule = {.kind = BRIM_LR_COSINE, .lr = 0.1, .gamma = 0.1, .step_epochs = 30}};
    brim_session_opts_init(&o->session);
}

/* Sums since the last log line, or since the start when that is later: of what is about speed. */
typedef struct window_sums {
    int64_t samples, steps, step_ns, wait_ns;
} window_sums;

/* An update that was started and whose results are not there. */
typedef struct started_update {
    double weight, lr;
    int64_t samples;
} started_update;

typedef struct trainer {
    const brim_train_opts *o;
    const brim_train_events *ev;
    brim_session_opts session_opts;
    brim_classifier classifier;
    brim_dataset *train, *val;
    brim_pipeline *pipe, *val_pipe;
    brim_session *s;
    brim_run_folder run;
    brim_position at; /* updates started; sums are those of the settled ones */
    int64_t settled;  /* updates whose results are counted */
    started_update under_way[BRIM_READY_UPDATES];
    bool saved; /* the run folder has a state to resume from */
    brim_str signature;
    int64_t micro, accumulation; /* rows of a micro-batch; micro-batches an update */
    int64_t per_epoch, steps;    /* updates */
    brim_sets_bytes sets_memory;
    brim_micro *window;
    brim_feed (*feeds)[5];
    const brim_batch **batch;
    window_sums sums;
    int64_t epoch_ns, epoch_wait_ns, epoch_start_samples;
    int nan_steps;
} trainer;

static void note(const trainer *t, const char *fmt, ...) BRIM_PRINTF(2, 3);
static void note(const trainer *t, const char *fmt, ...)
{
    if (!t->ev->note) return;
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    t->ev->note(t->ev->user, text);
}

/* What the weights were trained with: as their file says, else as published for the model. */
static brim_status normalisation_of(const char *init, const brim_model_info *info, bool rgb,
                                    double mean[3], double std[3], bool *known, brim_error *err)
{
    brim_model_card card;
    BRIM_TRY(brim_model_card_read(init, &card, err));
    *known = card.normalised || rgb;
    for (int k = 0; k < 3; k++) {
        mean[k] = card.normalised ? card.mean[k] : (double)info->mean[k];
        std[k] = card.normalised ? card.std[k] : (double)info->std[k];
    }
    brim_model_card_release(&card);
    return BRIM_OK;
}

/* Image size, channels and normalisation: what is given, else the model's and the set's own. */
static brim_status choose_input(trainer *t, brim_error *err)
{
    const brim_train_opts *o = t->o;
    const brim_model_info *info = brim_model_find(o->model);
    if (!info)
        return brim_fail(err, BRIM_ENOTFOUND,
                         "model: \"%s\" is not in the zoo (`brim models` lists it)", o->model);
    t->classifier =
        (brim_classifier){.model = {.name = info->name,
                                    .classes = brim_dataset_classes(t->train),
                                    .channels = o->channels ? o->channels : info->channels,
                                    .height = o->height ? o->height : info->size,
                                    .width = o->width ? o->width : info->size,
                                    .dropout = o->dropout},
                          .label_smoothing = o->label_smoothing,
                          .mixed = o->augment.mixup > 0 || o->augment.cutmix > 0};
    brim_classifier *c = &t->classifier;
    double mean[3], std[3];
    bool known = o->mean_given;
    if (o->mean_given)
        for (int k = 0; k < 3; k++) mean[k] = o->mean[k], std[k] = o->std[k];
    else if (o->init)
        BRIM_TRY(normalisation_of(o->init, info, c->model.channels == 3, mean, std, &known, err));
    if (!known)
        BRIM_TRY(brim_dataset_statistics(t->train, c->model.width, c->model.height,
                                         c->model.channels, 1000, o->workers, mean, std, err));
    for (int k = 0; k < 3; k++) {
        c->mean[k] = (float)mean[k];
        c->std[k] = std[k] > 1e-4 ? (float)std[k] : 1;
    }
    return BRIM_OK;
}

static brim_status make_session(trainer *t, brim_error *err)
{
    const brim_model_opts *m = &t->classifier.model;
    int64_t n = brim_dataset_size(t->train);
    t->session_opts = t->o->session;
    brim_session_opts *so = &t->session_opts;
    if (so->batch > n) {
        note(t, "batch lowered from %lld to the %lld images of the set", (long long)so->batch,
             (long long)n);
        so->batch = n;
        so->micro_batch = 0;
    }
    so->train_samples = n;
    so->input_bytes = (size_t)(m->width * m->height * m->channels) + 24;
    so->input_ring = 2 * RING;
    t->sets_memory = brim_sets_memory(t->train, t->val, m->channels, so->memory_cap_bytes);
    so->extra_bytes = t->sets_memory.bytes;
    BRIM_TRY(brim_session_new(brim_classifier_build, &t->classifier, so, &t->s, err));
    const brim_plan *p = brim_session_plan(t->s);
    t->micro = p->micro_batch;
    t->accumulation = p->accumulation;
    t->per_epoch = (n - p->left_out + so->batch - 1) / so->batch;
    if (p->left_out)
        note(t,
             "each epoch leaves out %lld of the %lld images: %s cannot train on a last batch so "
             "small",
             (long long)p->left_out, (long long)n, m->name);
    t->steps = t->per_epoch * t->o->epochs;
    if (t->o->max_steps > 0 && t->o->max_steps < t->steps) t->steps = t->o->max_steps;
    brim_signature_write(&t->signature, &t->classifier, t->o->init, t->train, so, p);
    return t->signature.failed ? brim_fail(err, BRIM_ENOMEM, "training: out of memory") : BRIM_OK;
}

static brim_status make_pipelines(trainer *t, brim_error *err)
{
    const brim_model_opts *m = &t->classifier.model;
    brim_pipeline_opts po = {.batch = t->micro,
                             .width = m->width,
                             .height = m->height,
                             .channels = m->channels,
                             .augment = t->o->augment,
                             .shuffle = true,
                             .seed = t->session_opts.seed,
                             .threads = t->o->workers,
                             .ring = (int)t->accumulation + RING,
                             .cache_bytes = t->sets_memory.train_cache};
    BRIM_TRY(brim_pipeline_new(t->train, &po, &t->pipe, err));
    if (!t->val) return BRIM_OK;
    po.shuffle = false;
    po.ring = RING;
    po.cache_bytes = t->sets_memory.val_cache;
    po.augment = (brim_augment){.crop_ratio = t->o->augment.crop_ratio};
    return brim_pipeline_new(t->val, &po, &t->val_pipe, err);
}

static brim_status load_weights(trainer *t, brim_error *err)
{
    if (t->o->resume) {
        BRIM_TRY(brim_run_load_state(&t->run, t->s, brim_str_text(&t->signature), &t->at, err));
        t->saved = true;
        if (t->run.changes.n) note(t, "changed since: %s", brim_str_text(&t->run.changes));
        note(t, "resumed at update %lld, epoch %lld", (long long)t->at.step,
             (long long)t->at.epoch + 1);
        return BRIM_OK;
    }
    t->at.best_top1 = -1;
    if (!t->o->init) return BRIM_OK;
    const char *head = brim_model_find(t->o->model)->head;
    brim_load_report r;
    BRIM_TRY(brim_session_load(t->s, t->o->init, &head, 1, &r, err));
    note(t, "%s: %d tensors loaded", t->o->init, r.loaded);
    if (r.kept)
        note(t, "new head for %d classes: %s start at random", t->classifier.model.classes,
             r.kept_names);
    if (r.unused)
        note(t, "%d tensors of the file are not part of %s and were ignored", r.unused,
             t->o->model);
    return BRIM_OK;
}

/* Takes the micro-batches of the next update from the ring; *n = 0 at the end of the epoch. */
static brim_status fetch_window(trainer *t, int *n, double *weight, int64_t *samples,
                                brim_error *err)
{
    *n = 0;
    *weight = 0;
    *samples = 0;
    while (*n < t->accumulation) {
        const brim_batch *b;
        int64_t wait = 0;
        BRIM_TRY(brim_pipeline_next(t->pipe, &b, &wait, err));
        t->sums.wait_ns += wait;
        t->epoch_wait_ns += wait;
        if (!b) break;
        t->at.micro_done++;
        if (b->n < t->micro && !brim_session_plan(t->s)->tail_batch) { /* left out */
            brim_pipeline_release(t->pipe, b);
            break;
        }
        t->at.damaged += b->damaged;
        for (int64_t i = 0; i < b->n; i++) *weight += (double)b->weight[i];
        *samples += b->n;
        t->batch[*n] = b;
        t->window[*n] = (brim_micro){t->feeds[*n], brim_classifier_feeds(b, t->feeds[*n]), b->n};
        (*n)++;
    }
    return BRIM_OK;
}

static void release_window(trainer *t, int n)
{
    for (int i = 0; i < n; i++) brim_pipeline_release(t->pipe, t->batch[i]);
}

/* A loss that stays NaN does not come back: stop and name where it arises. */
static brim_status check_loss(trainer *t, double loss, brim_error *err)
{
    if (isfinite(loss)) {
        t->nan_steps = 0;
        return BRIM_OK;
    }
    if (++t->nan_steps < NAN_STEPS) return BRIM_OK;
    char name[256] = "the loss";
    brim_session_find_nonfinite(t->s, &t->window[0], name, sizeof name);
    return brim_fail(err, BRIM_ENUMERIC,
                     "training: the loss was not finite in %d updates in a row; first in %s (lower "
                     "--lr, set --clip 1 or a longer --warmup; %s)",
                     NAN_STEPS, name,
                     t->saved ? "the last checkpoint is intact" : "nothing is saved yet");
}

static double ema_now(const trainer *t)
{
    /* Short at first, so that the average does not drag the random start along. */
    double warm = (double)(t->at.step + 1) / (double)(t->at.step + 10);
    return t->o->ema_decay < warm ? t->o->ema_decay : warm;
}

static brim_status log_progress(trainer *t, double lr, brim_error *err)
{
    window_sums *w = &t->sums;
    brim_scaler_info sc = brim_session_scaler(t->s);
    double seconds = (double)(w->step_ns + w->wait_ns) / 1e9;
    double n = t->at.window_weight > 0 ? t->at.window_weight : 1;
    bool line = t->settled == t->steps || t->settled % t->o->log_every == 0;
    double done = w->steps ? (double)w->steps : 1;
    brim_progress p = {.epoch = (int)t->at.epoch + 1,
                       .epochs = t->o->epochs,
                       .step = t->settled,
                       .steps = t->steps,
                       .epoch_step = t->settled - t->at.epoch * t->per_epoch,
                       .epoch_steps = t->per_epoch,
                       .loss = t->at.window_loss / n,
                       .top1 = t->at.window_top1 / n,
                       .lr = lr,
                       .loss_scale = sc.scale,
                       .grad_norm = sc.grad_norm,
                       .skipped = sc.skipped,
                       .samples_per_s = seconds > 0 ? (double)w->samples / seconds : 0,
                       .step_ms = (double)w->step_ns / 1e6 / done,
                       .data_wait_ms = (double)w->wait_ns / 1e6 / done,
                       .seconds_left = seconds / done * (double)(t->steps - t->settled),
                       .log_line = line};
    if (t->ev->progress) t->ev->progress(t->ev->user, &p);
    if (!line) return BRIM_OK;
    *w = (window_sums){0};
    t->at.window_loss = t->at.window_top1 = t->at.window_weight = 0;
    return brim_run_log_step(&t->run, &p, brim_session_plan(t->s)->total_bytes, err);
}

/* Counts the results of the updates that have finished. On a GPU that is an update or two late. */
static brim_status settle(trainer *t, brim_error *err)
{
    while (brim_session_next(t->s)) {
        started_update u = t->under_way[0];
        memmove(t->under_way, t->under_way + 1, sizeof t->under_way - sizeof u);
        double loss = brim_session_scalar(t->s, "loss");
        double top1 = brim_session_scalar(t->s, "correct1");
        t->settled++;
        t->at.loss_sum += loss;
        t->at.top1_sum += top1;
        t->at.samples += (int64_t)u.weight;
        t->at.window_loss += loss;
        t->at.window_top1 += top1;
        t->at.window_weight += u.weight;
        t->sums.samples += u.samples;
        t->sums.steps++;
        BRIM_TRY(check_loss(t, loss / (u.weight > 0 ? u.weight : 1), err));
        BRIM_TRY(log_progress(t, u.lr, err));
    }
    return BRIM_OK;
}

/* All that was started is finished and counted. */
static brim_status settle_all(trainer *t, brim_error *err)
{
    int64_t start = brim_now_ns();
    BRIM_TRY(brim_session_sync(t->s, err));
    t->epoch_ns += brim_now_ns() - start;
    t->sums.step_ns += brim_now_ns() - start;
    return settle(t, err);
}

static brim_status update(trainer *t, int n, double weight, int64_t samples, brim_error *err)
{
    int64_t start = brim_now_ns();
    double lr = brim_schedule_at(&t->o->schedule, t->at.step, t->steps, t->per_epoch);
    BRIM_TRY(brim_session_step(t->s, t->window, n, weight, lr, ema_now(t), err));
    int64_t ns = brim_now_ns() - start;
    t->under_way[t->at.step++ - t->settled] = (started_update){weight, lr, samples};
    t->epoch_ns += ns;
    t->sums.step_ns += ns;
    return settle(t, err);
}

static bool stopped(const trainer *t)
{
    return t->ev->stop && t->ev->stop(t->ev->user);
}

static brim_status save_state(trainer *t, brim_error *err)
{
    BRIM_TRY(settle_all(t, err));
    BRIM_TRY(brim_run_save_state(&t->run, t->s, &t->at, brim_str_text(&t->signature), err));
    t->saved = true;
    return BRIM_OK;
}

/* Averaged weights are what is evaluated, and what is saved to be used. */
static brim_status save_model(trainer *t, bool best, brim_error *err)
{
    BRIM_TRY(brim_session_swap_ema(t->s, err));
    brim_status st = brim_run_save_model(&t->run, t->s, t->o, &t->classifier, t->train, best, err);
    brim_status back = brim_session_swap_ema(t->s, st == BRIM_OK ? err : NULL);
    return st == BRIM_OK ? back : st;
}

static brim_status interrupted(trainer *t, brim_error *err)
{
    BRIM_TRY(save_state(t, err));
    BRIM_TRY(save_model(t, false, err));
    return brim_fail(err, BRIM_EINTERRUPTED,
                     "training: stopped at update %lld of %lld, saved in %s", (long long)t->at.step,
                     (long long)t->steps, t->run.path);
}

/* The rest of the current epoch, from micro-batch at.micro_done. */
static brim_status run_epoch(trainer *t, brim_error *err)
{
    t->epoch_ns = t->epoch_wait_ns = 0;
    t->epoch_start_samples = t->at.samples;
    BRIM_TRY(brim_pipeline_seek(t->pipe, t->at.epoch, t->at.micro_done, err));
    while (t->at.step < t->steps) {
        int n;
        double weight;
        int64_t samples;
        brim_status st = fetch_window(t, &n, &weight, &samples, err);
        if (st == BRIM_OK && n) st = update(t, n, weight, samples, err);
        release_window(t, n);
        BRIM_TRY(st);
        if (!n) break;
        if (stopped(t)) return interrupted(t, err);
        if (t->o->save_every > 0 && t->at.step % t->o->save_every == 0 && !t->nan_steps)
            BRIM_TRY(save_state(t, err));
    }
    return settle_all(t, err);
}

static brim_status evaluate(trainer *t, brim_eval_result *r, brim_error *err)
{
    BRIM_TRY(brim_session_swap_ema(t->s, err));
    brim_status st = brim_evaluate(t->s, t->val_pipe, t->classifier.model.classes, r, err);
    brim_status back = brim_session_swap_ema(t->s, st == BRIM_OK ? err : NULL);
    return st == BRIM_OK ? back : st;
}

static void next_epoch(brim_position *p)
{
    p->epoch++;
    p->micro_done = p->samples = p->damaged = 0;
    p->loss_sum = p->top1_sum = 0;
}

/* Evaluation, checkpoint and report at the end of an epoch. */
static brim_status end_epoch(trainer *t, brim_error *err)
{
    brim_eval_result eval = {0};
    if (t->val) BRIM_TRY(evaluate(t, &eval, err));
    double n = t->at.samples ? (double)t->at.samples : 1;
    double seconds = (double)(t->epoch_ns + t->epoch_wait_ns) / 1e9;
    double top1 = t->val ? eval.top1 : t->at.top1_sum / n;
    bool best = top1 > t->at.best_top1;
    if (best) {
        t->at.best_top1 = top1;
        t->at.best_epoch = t->at.epoch;
    }
    brim_epoch_report r = {
        .epoch = (int)t->at.epoch + 1,
        .epochs = t->o->epochs,
        .train_loss = t->at.loss_sum / n,
        .train_top1 = t->at.top1_sum / n,
        .seconds = seconds,
        .samples_per_s =
            seconds > 0 ? (double)(t->at.samples - t->epoch_start_samples) / seconds : 0,
        .data_wait_share = seconds > 0 ? (double)t->epoch_wait_ns / 1e9 / seconds : 0,
        .damaged = t->at.damaged,
        .eval = t->val ? &eval : NULL,
        .best = best};
    brim_status st = brim_run_log_epoch(&t->run, &r, t->at.step, err);
    /* A limit of steps may lie inside the epoch: a resumed run with a higher one completes it.
     * Below the limit the epoch has run out of images, whatever the count of updates says. */
    if (t->at.step < t->steps || t->at.step == (t->at.epoch + 1) * t->per_epoch) next_epoch(&t->at);
    if (st == BRIM_OK) st = save_model(t, best, err);
    if (st == BRIM_OK && t->val) st = brim_run_save_confusion(&t->run, t->train, &eval, err);
    if (st == BRIM_OK) st = save_state(t, err);
    if (st == BRIM_OK && t->ev->epoch) t->ev->epoch(t->ev->user, &r);
    brim_eval_result_release(&eval);
    return st;
}

/* Top-1 has not become better for as long as --early-stop waits. */
static bool stale(const trainer *t)
{
    return t->o->early_stop > 0 && t->at.epoch - 1 - t->at.best_epoch >= t->o->early_stop;
}

static bool more_to_do(const trainer *t)
{
    return t->at.step < t->steps && t->at.epoch < t->o->epochs && !stale(t);
}

static brim_status run(trainer *t, brim_error *err)
{
    int64_t start = brim_now_ns();
    BRIM_TRY(brim_session_profile(t->s, true, err));
    if (!more_to_do(t)) {
        note(t, "nothing left to do (more --epochs or --steps go on with this run)");
        return BRIM_OK;
    }
    while (more_to_do(t)) {
        BRIM_TRY(run_epoch(t, err));
        BRIM_TRY(end_epoch(t, err));
        if (stopped(t) && more_to_do(t)) return interrupted(t, err);
    }
    if (stale(t)) note(t, "stopped early: no better top-1 in %d epochs", t->o->early_stop);
    if (t->ev->ended)
        t->ev->ended(t->ev->user, t->s, t->at.step, (double)(brim_now_ns() - start) / 1e9);
    return BRIM_OK;
}

static brim_status prepare(trainer *t, brim_error *err)
{
    BRIM_TRY(brim_run_open(&t->run, t->o, err));
    BRIM_TRY(brim_sets_open(t->o, &t->train, &t->val, err));
    BRIM_TRY(choose_input(t, err));
    BRIM_TRY(make_session(t, err));
    BRIM_TRY(make_pipelines(t, err));
    BRIM_TRY(load_weights(t, err));
    t->settled = t->at.step;
    t->window = brim_calloc((size_t)t->accumulation, sizeof *t->window);
    t->feeds = brim_calloc((size_t)t->accumulation, sizeof *t->feeds);
    t->batch = brim_calloc((size_t)t->accumulation, sizeof *t->batch);
    if (!t->window || !t->feeds || !t->batch)
        return brim_fail(err, BRIM_ENOMEM, "training: out of memory");
    return brim_run_start(&t->run, t->o, t->at.step, err);
}

brim_status brim_train(const brim_train_opts *o, const brim_train_events *events, brim_error *err)
{
    static const brim_train_events silent;
    trainer t = {.o = o, .ev = events ? events : &silent};
    brim_status st = prepare(&t, err);
    if (st == BRIM_OK && t.ev->started)
        t.ev->started(t.ev->user, brim_session_plan(t.s), t.train, t.val, o);
    if (st == BRIM_OK) st = run(&t, err);
    brim_pipeline_free(t.pipe);
    brim_pipeline_free(t.val_pipe);
    brim_session_free(t.s);
    brim_dataset_free(t.train);
    brim_dataset_free(t.val);
    brim_run_close(&t.run);
    brim_str_free(&t.signature);
    free(t.window);
    free(t.feeds);
    free(t.batch);
    return st;
}
