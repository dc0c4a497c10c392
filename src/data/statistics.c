/* Mean and standard deviation of each channel. */
#include "base/mem.h"
#include "data/pipeline.h"

#include <math.h>

brim_status brim_dataset_statistics(const brim_dataset *d, int width, int height, int channels,
                                    int64_t max_samples, int threads, double mean[3], double std[3],
                                    brim_error *err)
{
    enum { BATCH = 32 };
    brim_pipeline_opts o = {.batch = BATCH,
                            .width = width,
                            .height = height,
                            .channels = channels,
                            .shuffle = true,
                            .threads = threads,
                            .ring = 2,
                            .augment = {.crop_ratio = 1}};
    brim_pipeline *p;
    double sum[3] = {0}, square[3] = {0};
    int64_t seen = 0;
    BRIM_TRY(brim_pipeline_new(d, &o, &p, err));
    brim_status st = brim_pipeline_seek(p, 0, 0, err);
    while (st == BRIM_OK && (!max_samples || seen < max_samples)) {
        const brim_batch *b;
        st = brim_pipeline_next(p, &b, NULL, err);
        if (st != BRIM_OK || !b) break;
        for (int64_t i = 0; i < b->n; i++) {
            const uint8_t *at = b->image + (size_t)i * (size_t)(width * height * channels);
            int64_t s[3] = {0}, q[3] = {0};
            if (b->weight[i] == 0) continue;
            for (int64_t k = 0; k < (int64_t)width * height; k++)
                for (int c = 0; c < channels; c++, at++) {
                    s[c] += *at;
                    q[c] += (int64_t)*at * *at;
                }
            for (int c = 0; c < channels; c++) {
                sum[c] += (double)s[c];
                square[c] += (double)q[c];
            }
            seen++;
        }
        brim_pipeline_release(p, b);
    }
    brim_pipeline_free(p);
    if (st == BRIM_OK && !seen)
        return brim_fail(err, BRIM_EFORMAT, "statistics: no image of the set can be read");
    double n = (double)seen * width * height;
    for (int c = 0; c < 3 && st == BRIM_OK; c++) {
        int from = c < channels ? c : 0;
        mean[c] = sum[from] / n / 255;
        std[c] = sqrt(fmax(square[from] / n / 255 / 255 - mean[c] * mean[c], 0));
    }
    return st;
}
