/* Decode JPEG, PNG and WebP to 8-bit RGB or grey, whatever the file holds: CMYK and YCCK, grey,
 * palette, alpha (over black... see .c), 16-bit, interlaced, progressive; EXIF orientation is
 * applied. */
#ifndef BRIM_DATA_IMAGE_H
#define BRIM_DATA_IMAGE_H

#include "data/dataset.h"

typedef struct brim_image {
    int w, h, channels; /* channels 1 or 3 */
    uint8_t *pixels;    /* [h,w,channels], rows packed; owned by the scratch given */
} brim_image;

typedef struct brim_decoder brim_decoder; /* library handles and buffers; one per thread */
brim_decoder *brim_decoder_new(void);     /* NULL when out of memory */
void brim_decoder_free(brim_decoder *d);

/* Size without decoding, after EXIF rotation. */
brim_status brim_image_probe(const brim_sample *s, int *w, int *h, brim_error *err);

/* Decodes s into d's own buffer (valid until the next call on d). The caller may ask for less than
 * the full size: the decoder may then use DCT scaling as long as the result is at least min_w x
 * min_h (0: full size). Limits: 1 GiB of pixels, 65,500 a side; more is refused. Errors:
 * BRIM_EFORMAT (damaged, truncated before any usable rows, unsupported), BRIM_ENOMEM. */
brim_status brim_image_decode(brim_decoder *d, const brim_sample *s, int channels, int min_w,
                              int min_h, brim_image *out, brim_error *err);

#endif
