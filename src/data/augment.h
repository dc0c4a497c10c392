/* From a decoded image to the pixels of a batch, with the randomness of one sample. */
#ifndef BRIM_DATA_AUGMENT_H
#define BRIM_DATA_AUGMENT_H

#include "base/rng.h"
#include "data/pipeline.h"
#include "data/resize.h"

/* The part of the upright image, in units of its width and height, that becomes the output. */
typedef struct brim_crop {
    double x0, y0, x1, y1;
    bool alone; /* pixels outside it have no part in the result, as if cut out first */
} brim_crop;

/* torchvision's RandomResizedCrop.get_params: ten tries for a box of random area and aspect, else
 * the largest centred box of an allowed aspect. */
brim_crop brim_crop_random(const brim_augment *a, int w, int h, brim_rng *r);
/* Shorter side to size / crop_ratio, then the centre. */
brim_crop brim_crop_centre(const brim_augment *a, int w, int h, int out_w, int out_h);

/* What a decoder needs to know to make w x h pixels of the crop. */
brim_view brim_crop_view(const brim_crop *c, int w, int h);
/* The crop of the image that `im` is, or is a part of, to w x h at out. */
brim_status brim_crop_draw(brim_resizer *r, const brim_image *im, const brim_crop *c, bool flip,
                           uint8_t *out, int w, int h, brim_error *err);

/* In place, [h,w,c]. */
void brim_flip(uint8_t *pixels, int w, int h, int channels);
/* Moves the picture by (dx, dy); what comes from outside is zero. tmp: w * h * channels bytes. */
void brim_shift(uint8_t *pixels, uint8_t *tmp, int w, int h, int channels, int dx, int dy);

#endif
