/* Training steps of Brim on one batch that stays in memory, timed: bench/cpu.sh and bench/gpu.sh
 * let it take turns with bench/peers/cpu_train.py, which has the same protocol.
 *
 *     train_step WORK PRECISION [DEVICE [THREADS [WARMUP]]]
 *
 * Prints "ready" once warm; then for each line on stdin, a number N, runs N steps and prints their
 * mean in milliseconds; ends at end of file. WORK: resnet18-32 (batch 128), resnet18-224 (batch
 * 32), mlp (784-1024-1024-10, batch 128). One step is what `brim train` does with a batch: uint8
 * pixels to float, forward, loss and top-1, backward, SGD with momentum 0.9, weight decay 1e-4. */
#include "base/mem.h"
#include "base/clock.h"
#include "base/rng.h"
#include "train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct work {
    const char *name, *model;
    int batch, channels, size, classes;
} work;

static const work works[] = {
    {"resnet18-32", "resnet18", 128, 3, 32, 10},
    {"resnet18-224", "resnet18", 32, 3, 224, 1000},
    {"mlp", "mlp", 128, 1, 28, 10},
};

static const struct {
    const char *name;
    brim_dtype type;
} precisions[] = {{"fp32", BRIM_F32}, {"bf16", BRIM_BF16}, {"fp16", BRIM_F16}};

typedef struct bench {
    const work *w;
    brim_session *s;
    uint8_t *image;
    int32_t *label;
    float *weight;
} bench;

static brim_status make_session(bench *b, brim_dtype precision, const char *device, int threads,
                                brim_error *err)
{
    const work *w = b->w;
    brim_classifier c = {
        .model = {w->model, w->classes, w->channels, w->size, w->size, 0},
        .mean = {0.5F, 0.5F, 0.5F},
        .std = {0.25F, 0.25F, 0.25F},
    };
    brim_session_opts o;
    brim_session_opts_init(&o);
    o.precision = precision;
    o.device = device;
    o.threads = threads;
    o.batch = w->batch;
    o.optimizer.weight_decay = 1e-4;
    return brim_session_new(brim_classifier_build, &c, &o, &b->s, err);
}

static bool make_batch(bench *b)
{
    const work *w = b->w;
    size_t rows = (size_t)w->batch, pixels = rows * (size_t)(w->channels * w->size * w->size);
    brim_rng r;
    brim_rng_init(&r, 1, 0);
    b->image = brim_malloc(pixels);
    b->label = brim_malloc(rows * sizeof *b->label);
    b->weight = brim_malloc(rows * sizeof *b->weight);
    if (!b->image || !b->label || !b->weight) return false;
    for (size_t i = 0; i < pixels; i++) b->image[i] = (uint8_t)brim_rng_below(&r, 256);
    for (size_t i = 0; i < rows; i++) {
        b->label[i] = (int32_t)brim_rng_below(&r, (uint32_t)w->classes);
        b->weight[i] = 1;
    }
    return true;
}

static brim_status run(bench *b, int n, double *ms, brim_error *err)
{
    brim_feed feed[] = {{"image", b->image}, {"label", b->label}, {"weight", b->weight}};
    brim_micro micro = {feed, 3, b->w->batch};
    int64_t start = brim_now_ns();
    for (int i = 0; i < n; i++)
        BRIM_TRY(brim_session_step(b->s, &micro, 1, b->w->batch, 0.01, 0, err));
    *ms = (double)(brim_now_ns() - start) / 1e6 / (n ? n : 1);
    return BRIM_OK;
}

static brim_status serve(bench *b, int warmup, brim_error *err)
{
    char line[64];
    double ms;
    BRIM_TRY(run(b, warmup, &ms, err));
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        BRIM_TRY(run(b, atoi(line), &ms, err));
        printf("%.4f\n", ms);
        fflush(stdout);
    }
    return BRIM_OK;
}

int main(int argc, char **argv)
{
    bench b = {0};
    int precision = -1;
    for (size_t i = 0; argc > 2 && i < sizeof works / sizeof *works; i++)
        if (!strcmp(argv[1], works[i].name)) b.w = &works[i];
    for (int i = 0; argc > 2 && i < 3; i++)
        if (!strcmp(argv[2], precisions[i].name)) precision = i;
    if (!b.w || precision < 0) {
        fprintf(stderr, "usage: train_step resnet18-32|resnet18-224|mlp fp32|bf16|fp16 "
                        "[DEVICE [THREADS [WARMUP]]]\n");
        return 2;
    }
    brim_error err = {0};
    brim_status st = make_session(&b, precisions[precision].type, argc > 3 ? argv[3] : "cpu",
                                  argc > 4 ? atoi(argv[4]) : 0, &err);
    if (st == BRIM_OK && !make_batch(&b)) st = brim_fail(&err, BRIM_ENOMEM, "out of memory");
    if (st == BRIM_OK) st = serve(&b, argc > 5 ? atoi(argv[5]) : 5, &err);
    if (st != BRIM_OK) fprintf(stderr, "train_step: %s\n", err.text);
    brim_session_free(b.s);
    free(b.image);
    free(b.label);
    free(b.weight);
    return st == BRIM_OK ? 0 : 1;
}
