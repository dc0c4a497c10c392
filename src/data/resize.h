/* Resampling with a triangle filter that widens when shrinking, as Pillow's BILINEAR and
 * torchvision's antialiased bilinear: 8-bit in and out, horizontal pass first, 22-bit fixed-point
 * weights. */
#ifndef BRIM_DATA_RESIZE_H
#define BRIM_DATA_RESIZE_H

#include "data/image.h"

/* Buffers that are reused between calls; zero before first use. */
typedef struct brim_resizer {
    brim_scratch rows, weights;
} brim_resizer;
void brim_resizer_release(brim_resizer *r);

/* The box [x0,x1) x [y0,y1) of `in` to w x h at `out` (packed). The box may be fractional and must
 * lie inside. */
brim_status brim_resize(brim_resizer *r, const brim_image *in, double x0, double y0, double x1,
                        double y1, uint8_t *out, int w, int h, brim_error *err);

#endif
