/* From a decoded image to the pixels of a batch, with the randomness of one sample. */
#ifndef BRIM_DATA_AUGMENT_H
#define BRIM_DATA_AUGMENT_H

#include "base/rng.h"
#include "data/pipeline.h"
#include "data/resize.h"

/* The part of the upright image, in units of its width and height, that becomes the output. */
typedef struct brim_crop {
    double x0, y0, x1, y1;
} brim_crop;

/* torchvision's RandomResizedCrop.get_params: ten tries for a box of random area and aspect, else
 * the largest centred box of an allowed aspect. */
brim_crop brim_crop_random(const brim_augment *a, int w, int h, brim_rng *r);
/* Shorter side to size / crop_ratio, then the centre. */
brim_crop brim_crop_centre(const brim_augment *a, int w, int h, int out_w, int out_h);

/* In place, [h,w,c]. */
void brim_flip(uint8_t *pixels, int w, int h, int channels);
/* Moves the picture by (dx, dy); what comes from outside is zero. tmp: w * h * channels bytes. */
void brim_shift(uint8_t *pixels, uint8_t *tmp, int w, int h, int channels, int dx, int dy);

#endif
