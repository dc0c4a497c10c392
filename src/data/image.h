/* Decode JPEG, PNG and WebP to 8-bit RGB or grey, whatever the file holds: CMYK and YCCK, grey,
 * palette, alpha (dropped, as Pillow's convert("RGB") does), 16-bit (the high byte is kept),
 * interlaced, progressive; EXIF orientation is applied. */
#ifndef BRIM_DATA_IMAGE_H
#define BRIM_DATA_IMAGE_H

#include "data/dataset.h"

/* Pixels [h, w, channels], rows `stride` bytes apart, in a decoder's buffer. They may be a part of
 * the image: the whole one, perhaps reduced, is full_w x full_h, and pixel (0, 0) here is pixel
 * (left, top) there. */
typedef struct brim_image {
    int w, h, channels; /* channels 1 or 3 */
    size_t stride;      /* bytes */
    const uint8_t *pixels;
    int full_w, full_h, left, top;
} brim_image;

/* The part of the upright image that is wanted, as shares of its width and height (0 .. 1), and the
 * number of pixels that it needs: the decoder may leave out the rest and reduce the size while it
 * undoes the transform, as long as the part keeps min_w x min_h pixels. */
typedef struct brim_view {
    double x0, y0, x1, y1;
    int min_w, min_h; /* 0: full size */
} brim_view;

typedef enum brim_image_format {
    BRIM_IMAGE_RAW,
    BRIM_IMAGE_JPEG,
    BRIM_IMAGE_PNG,
    BRIM_IMAGE_WEBP
} brim_image_format;

/* What the header says. */
typedef struct brim_image_info {
    brim_image_format format;
    int w, h;        /* upright */
    int orientation; /* EXIF, 1 .. 8 */
    int channels; /* as stored: 1 grey, 2 grey and alpha, 3 colour or palette, 4 with alpha or CMYK
                   */
    int depth;    /* bits a channel */
} brim_image_info;

typedef struct brim_decoder brim_decoder; /* library handles and buffers; one per thread */
brim_decoder *brim_decoder_new(void);     /* NULL when out of memory */
void brim_decoder_free(brim_decoder *d);

/* Reads the header only. Errors: BRIM_EFORMAT, BRIM_ENOMEM. */
brim_status brim_image_probe(const brim_sample *s, brim_image_info *info, brim_error *err);

/* Decodes s, whose header is `info`, into d's own buffer (valid until the next call on d).
 * view: NULL for all of it; inside it the pixels are those of the whole image at that size. Limits:
 * 1 GiB of pixels, 65,500 a side, and above 16 Mi pixels a byte of the file for 1024 of them;
 * brim_image_probe refuses what is beyond. Errors: BRIM_EFORMAT (damaged or cut short where it was
 * read, unsupported), BRIM_ENOMEM. */
brim_status brim_image_decode(brim_decoder *d, const brim_sample *s, const brim_image_info *info,
                              int channels, const brim_view *view, brim_image *out,
                              brim_error *err);

#endif
