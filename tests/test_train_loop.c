/* Whole trainings by brim_train: which epoch is the best, when to stop early, and what the logs
 * hold. */
#include "base/rng.h"
#include "data_files.h"
#include "event_file.h"
#include "io/file.h"
#include "tests.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 4, TRAIN = 48, VAL = 24, CLASSES = 6, MOST = 16 };

static void set_make(const char *part, int n, uint64_t seed)
{
    static uint8_t pixels[TRAIN * SIZE * SIZE], labels[TRAIN];
    char name[64];
    brim_rng r;
    brim_rng_init(&r, seed, 0);
    for (int i = 0; i < n * SIZE * SIZE; i++) pixels[i] = (uint8_t)brim_rng_below(&r, 256);
    for (int i = 0; i < n; i++) labels[i] = (uint8_t)(i % CLASSES);
    bytes b = idx_make(3, (uint32_t[]){(uint32_t)n, SIZE, SIZE}, pixels);
    snprintf(name, sizeof name, "set/%s-images-idx3-ubyte", part);
    files_write_bytes(name, &b);
    b = idx_make(1, (uint32_t[]){(uint32_t)n}, labels);
    snprintf(name, sizeof name, "set/%s-labels-idx1-ubyte", part);
    files_write_bytes(name, &b);
}

/* Noise, which no training makes sense of: top-1 of the validation set goes up and down. */
static int make_sets(void **state)
{
    if (files_begin(state)) return -1;
    set_make("train", TRAIN, 1);
    set_make("val", VAL, 2);
    return 0;
}

typedef struct told {
    char path[512];
    int epochs, best; /* epochs reported; the last one called best, 0-based */
    double top1[MOST], val_loss[MOST], train_loss[MOST];
    bool is_best[MOST];
    char *best_file; /* last.safetensors when the best epoch was reported */
    size_t best_bytes;
    int lines; /* log lines */
    int stopped_early;
} told;

static void file_in(const told *t, const char *name, char **text, size_t *n)
{
    char path[600];
    brim_error err = {0};
    snprintf(path, sizeof path, "%s/%s", t->path, name);
    if (brim_file_read(path, 1 << 26, text, n, &err) != BRIM_OK) fail_msg("%s", err.text);
}

static void on_epoch(void *user, const brim_epoch_report *r)
{
    told *t = user;
    assert_int_equal(r->epoch, t->epochs + 1);
    t->top1[t->epochs] = r->eval->top1;
    t->val_loss[t->epochs] = r->eval->loss;
    t->train_loss[t->epochs] = r->train_loss;
    t->is_best[t->epochs] = r->best;
    if (r->best) {
        free(t->best_file);
        file_in(t, "last.safetensors", &t->best_file, &t->best_bytes);
        t->best = t->epochs;
    }
    t->epochs++;
}

static void on_progress(void *user, const brim_progress *p)
{
    ((told *)user)->lines += p->log_line;
}

static void on_note(void *user, const char *text)
{
    if (strstr(text, "stopped early")) ((told *)user)->stopped_early++;
}

static told train(const char *out, int epochs, int early_stop, double lr)
{
    told t = {0};
    brim_train_opts o;
    brim_train_events ev = {
        .user = &t, .note = on_note, .progress = on_progress, .epoch = on_epoch};
    brim_error err = {0};
    snprintf(t.path, sizeof t.path, "%s", files_path(out));
    brim_train_opts_init(&o);
    o.model = "mlp";
    o.data = files_path("set");
    o.out = t.path;
    o.width = o.height = SIZE;
    o.epochs = epochs;
    o.early_stop = early_stop;
    o.log_every = 2;
    o.augment.crop_ratio = 1;
    o.schedule.kind = BRIM_LR_STEP; /* another rate in each epoch */
    o.schedule.lr = lr;
    o.schedule.step_epochs = 1;
    o.schedule.gamma = 0.9;
    o.session.batch = 16;
    o.session.threads = 1;
    if (brim_train(&o, &ev, &err) != BRIM_OK) fail_msg("%s", err.text);
    return t;
}

/* Without a rate nothing becomes better after the first epoch. */
static void stops_when_nothing_becomes_better(void **state)
{
    static const struct {
        int early_stop, epochs;
    } row[] = {{0, 7}, {1, 2}, {3, 4}, {9, 7}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        char out[32];
        snprintf(out, sizeof out, "early%zu", k);
        told t = train(out, 7, row[k].early_stop, 0);
        assert_int_equal(t.epochs, row[k].epochs);
        assert_int_equal(t.stopped_early, row[k].epochs < 7);
        for (int e = 0; e < t.epochs; e++) assert_int_equal(t.is_best[e], e == 0);
        free(t.best_file);
    }
}

/* best.safetensors holds the weights of the epoch that was the best, not of the last. */
static void keeps_the_best_epoch(void **state)
{
    told t = train("best", 10, 0, 0.05);
    double most = -1;
    char *best, *last;
    size_t n, n_last;
    assert_int_equal(t.epochs, 10);
    for (int e = 0; e < t.epochs; e++) {
        assert_int_equal(t.is_best[e], t.top1[e] > most);
        most = fmax(most, t.top1[e]);
    }
    file_in(&t, "best.safetensors", &best, &n);
    file_in(&t, "last.safetensors", &last, &n_last);
    assert_int_equal(n, t.best_bytes);
    assert_memory_equal(best, t.best_file, n);
    assert_true(t.best < 9 && n_last == n); /* else the noise says nothing */
    assert_memory_not_equal(best, last, n);
    free(best);
    free(last);
    free(t.best_file);
}

/* ---- logs ---- */

/* The number after "key": in a line. */
static double number_of(const char *line, const char *key)
{
    char word[64];
    snprintf(word, sizeof word, "\"%s\":", key);
    const char *at = strstr(line, word);
    if (!at) fail_msg("no %s in %s", word, line);
    return strtod(at + strlen(word), NULL);
}

/* Every number of the line is in the event files, once, and the same. */
static void same_in_events(const told *t, const char *line, const char *const (*pair)[2], int n)
{
    int64_t step = (int64_t)number_of(line, "step");
    for (int k = 0; k < n; k++) {
        event_scalar s = event_find(t->path, pair[k][1], step);
        double want = number_of(line, pair[k][0]);
        if (s.n != 1 || !(fabs(s.value - want) <= 1e-6 * fabs(want)))
            fail_msg("%s at %d: %d times, %.9g; metrics.jsonl has %.9g", pair[k][1], (int)step, s.n,
                     s.value, want);
    }
}

static void logs_the_same_numbers_twice(void **state)
{
    static const char *const update[][2] = {{"loss", "train/loss"},
                                            {"top1", "train/top1"},
                                            {"lr", "train/lr"},
                                            {"samples_per_s", "speed/samples_per_s"}};
    static const char *const epoch[][2] = {{"train_loss", "epoch/train_loss"},
                                           {"val_loss", "epoch/val_loss"},
                                           {"val_top1", "epoch/val_top1"},
                                           {"val_top5", "epoch/val_top5"}};
    told t = train("logs", 4, 0, 0.05);
    char *text;
    size_t n;
    int lines = 0, epochs = 0;
    file_in(&t, "metrics.jsonl", &text, &n);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (strstr(line, "\"lr\":")) {
            int64_t step = (int64_t)number_of(line, "step");
            double lr = 0.05 * pow(0.9, (double)((step - 1) / 3));
            assert_int_equal(step, 2 * ++lines);
            assert_true(fabs(number_of(line, "lr") - lr) < 1e-6);
            same_in_events(&t, line, update, 4);
            continue;
        }
        assert_int_equal(number_of(line, "step"), 3 * (epochs + 1));
        assert_true(fabs(number_of(line, "val_loss") / t.val_loss[epochs] - 1) < 1e-6);
        assert_true(fabs(number_of(line, "val_top1") - t.top1[epochs]) < 1e-6);
        assert_true(fabs(number_of(line, "train_loss") / t.train_loss[epochs] - 1) < 1e-6);
        same_in_events(&t, line, epoch, 4);
        epochs++;
    }
    assert_int_equal(lines, 6); /* 12 updates */
    assert_int_equal(t.lines, 6);
    assert_int_equal(epochs, 4);
    assert_int_equal(event_find(t.path, NULL, 0).n, 4 * 6 + 4 * 4);
    free(text);
    free(t.best_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_when_nothing_becomes_better),
        cmocka_unit_test(keeps_the_best_epoch),
        cmocka_unit_test(logs_the_same_numbers_twice),
    };
    return cmocka_run_group_tests(tests, make_sets, files_end);
}
