/* Batches, made ahead of the step by worker threads into a ring: decode, augment, resize. What a
 * batch holds is a function of (dataset, options, seed, epoch, index) only, never of thread count
 * or timing. Pixels stay uint8; the device normalises. */
#ifndef BRIM_DATA_PIPELINE_H
#define BRIM_DATA_PIPELINE_H

#include "data/dataset.h"

typedef struct brim_augment {
    bool random_resized_crop; /* else: resize shorter side to size/crop_ratio, centre crop */
    double scale_min, scale_max, ratio_min, ratio_max; /* torchvision defaults .08, 1, 3/4, 4/3 */
    double crop_ratio;                                 /* 0.875 */
    int pad_crop; /* CIFAR: zero-pad by this many pixels, random crop back; 0 = off */
    double flip;  /* probability of a horizontal flip */
    double brightness, contrast, saturation,
        hue;                          /* colour jitter strengths, torchvision's meaning */
    int randaugment_n, randaugment_m; /* operations, magnitude 0..30; n = 0: off */
    double mixup, cutmix; /* Beta(a,a) parameter; 0 = off; both: one chosen per batch at random */
} brim_augment;

typedef struct brim_pipeline_opts {
    int64_t batch; /* samples a batch */
    int width, height, channels;
    brim_augment augment;
    bool shuffle;   /* order = f(seed, epoch); else stored order */
    bool drop_last; /* else the last batch is short: n < batch, the rest has weight 0 */
    uint64_t seed;
    int threads;        /* 0: decode in brim_pipeline_next's caller */
    int ring;           /* batches ahead, >= 1 */
    size_t cache_bytes; /* small images are kept decoded in so much memory (data/cache.h); 0: off */
} brim_pipeline_opts;

/* Borrowed from the ring until brim_pipeline_release. */
typedef struct brim_batch {
    int64_t index;     /* position in the epoch, 0-based */
    int64_t n;         /* real samples; rows n .. batch-1 are zero with weight 0 */
    uint8_t *image;    /* [batch, height, width, channels] u8 */
    int32_t *label;    /* [batch] */
    int32_t *label2;   /* [batch]: the mixed-in class (mixup, cutmix); = label otherwise */
    float *lam;        /* [batch]: target is lam * label + (1 - lam) * label2; 1 otherwise */
    float *weight;     /* [batch]: 1; 0 for padding and for damaged images */
    int64_t *sample;   /* [batch]: index in the data set; -1 for padding */
    int64_t damaged;   /* images in this batch that could not be decoded */
    int64_t decode_ns; /* sum over workers, for the report */
} brim_batch;

typedef struct brim_pipeline brim_pipeline;

brim_status brim_pipeline_new(const brim_dataset *d, const brim_pipeline_opts *opts,
                              brim_pipeline **out, brim_error *err);
void brim_pipeline_free(brim_pipeline *p); /* stops the workers; accepts NULL */

int64_t brim_pipeline_batches(const brim_pipeline *p); /* per epoch */

/* Begins (or jumps to) batch `first` of `epoch`. Batches made ahead for another place are dropped.
 */
brim_status brim_pipeline_seek(brim_pipeline *p, int64_t epoch, int64_t first, brim_error *err);

/* The next batch in order; *out = NULL at the end of the epoch. *wait_ns (may be NULL) gets the
 * time spent waiting for the workers. A damaged image is skipped (weight 0), counted and warned
 * about once per file. Errors: BRIM_EIO when not one file of a batch of two or more can be read,
 * BRIM_ENOMEM, BRIM_EINVAL when all batches of the ring are held. */
brim_status brim_pipeline_next(brim_pipeline *p, const brim_batch **out, int64_t *wait_ns,
                               brim_error *err);
void brim_pipeline_release(brim_pipeline *p, const brim_batch *b);

/* Mean and standard deviation of each channel in 0..1 over at most `max_samples` samples (0: all),
 * after resizing to width x height. */
brim_status brim_dataset_statistics(const brim_dataset *d, int width, int height, int channels,
                                    int64_t max_samples, int threads, double mean[3], double std[3],
                                    brim_error *err);

#endif
