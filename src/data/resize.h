/* Resampling with a triangle filter that widens when shrinking, as Pillow's BILINEAR and
 * torchvision's antialiased bilinear: 8-bit in and out, horizontal pass first, rounded in between.
 * Weights have 15 bits instead of Pillow's 22, so that two taps take one instruction: a value may
 * differ by one. Every processor gives the same bits. */
#ifndef BRIM_DATA_RESIZE_H
#define BRIM_DATA_RESIZE_H

#include "data/image.h"

/* Buffers that are reused between calls; zero before first use. */
typedef struct brim_resizer {
    brim_scratch rows, weights;
} brim_resizer;
void brim_resizer_release(brim_resizer *r);

/* A box in pixels of `in` (fractional, inside it). Pixels of `in` around the box are used where the
 * filter reaches them. */
typedef struct brim_box {
    double x0, y0, x1, y1;
} brim_box;

/* The box to w x h at `out`, packed; flip mirrors left to right. in->pixels must be followed by
 * BRIM_IMAGE_SLACK readable bytes, as a decoder's are. */
brim_status brim_resize(brim_resizer *r, const brim_image *in, brim_box box, bool flip,
                        uint8_t *out, int w, int h, brim_error *err);

#endif
