/* Brim's loader on one core: decode, random resized crop, flip, into a batch. bench/loader.sh lets
 * it take turns with its peers (see take_turns.py for the protocol; a step is one image).
 *
 *     loader DIR [SIZE [centre]] */
#include "base/clock.h"
#include "data/pipeline.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 32 };

static brim_status next(brim_pipeline *p, int64_t *epoch, brim_error *err)
{
    const brim_batch *b;
    BRIM_TRY(brim_pipeline_next(p, &b, NULL, err));
    if (!b) {
        BRIM_TRY(brim_pipeline_seek(p, ++*epoch, 0, err));
        BRIM_TRY(brim_pipeline_next(p, &b, NULL, err));
    }
    brim_pipeline_release(p, b);
    return BRIM_OK;
}

static brim_status serve(brim_pipeline *p, brim_error *err)
{
    char line[64];
    int64_t epoch = 0;
    BRIM_TRY(brim_pipeline_seek(p, 0, 0, err));
    for (int64_t i = brim_pipeline_batches(p); i > 0; i--) BRIM_TRY(next(p, &epoch, err));
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int n = (atoi(line) + BATCH - 1) / BATCH;
        int64_t start = brim_now_ns();
        for (int i = 0; i < n; i++) BRIM_TRY(next(p, &epoch, err));
        printf("%.6f\n", (double)(brim_now_ns() - start) / 1e6 / (n * BATCH));
        fflush(stdout);
    }
    return BRIM_OK;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: loader DIR [SIZE [centre]]\n");
        return 2;
    }
    brim_dataset *d = NULL;
    brim_pipeline *p = NULL;
    brim_error err = {0};
    brim_dataset_opts set = {.split = BRIM_SPLIT_ALL};
    int size = argc > 2 ? atoi(argv[2]) : 224;
    brim_pipeline_opts o = {.batch = BATCH,
                            .width = size,
                            .height = size,
                            .channels = 3,
                            .augment = {.random_resized_crop = argc < 4,
                                        .scale_min = 0.08,
                                        .scale_max = 1,
                                        .ratio_min = 3.0 / 4,
                                        .ratio_max = 4.0 / 3,
                                        .crop_ratio = 0.875,
                                        .flip = argc < 4 ? 0.5 : 0},
                            .shuffle = true,
                            .drop_last = true,
                            .ring = 2};
    brim_status st = brim_dataset_open(argv[1], &set, &d, &err);
    if (st == BRIM_OK) st = brim_pipeline_new(d, &o, &p, &err);
    if (st == BRIM_OK) st = serve(p, &err);
    if (st != BRIM_OK) fprintf(stderr, "loader: %s\n", err.text);
    brim_pipeline_free(p);
    brim_dataset_free(d);
    return st == BRIM_OK ? 0 : 1;
}
