/* The inside of decoding, shared by image.c and the formats' files. */
#ifndef BRIM_DATA_DECODER_H
#define BRIM_DATA_DECODER_H

#include "data/image.h"

enum { BRIM_IMAGE_MAX_SIDE = 65500 };
/* Behind every image in memory: vector loads may read, never use, so many bytes more. */
enum { BRIM_IMAGE_SLACK = 32 };
#define BRIM_IMAGE_MAX_BYTES ((size_t)1 << 30)

struct brim_decoder {
    brim_scratch pixels; /* the result */
    brim_scratch turned; /* while rotating or changing channels */
    brim_scratch extra;  /* rows, 16-bit or CMYK data */
};

/* At least `bytes` bytes and BRIM_IMAGE_SLACK more. NULL when out of memory. */
uint8_t *brim_scratch_reserve(brim_scratch *s, size_t bytes);

/* Refuses sizes beyond the limits, and those that are implausible in a file of so many bytes. */
brim_status brim_image_check_size(int64_t w, int64_t h, int channels, size_t file_bytes,
                                  brim_error *err);

/* What a format's file does: pixels of 1 or 3 channels into d->pixels, not yet rotated. */
typedef struct brim_decode_job {
    const uint8_t *bytes;
    size_t n;
    int channels;
    brim_view view;  /* before rotation; all of it by default */
    brim_image made; /* result, before rotation */
} brim_decode_job;

brim_status brim_jpeg_decode(brim_decoder *d, brim_decode_job *j, brim_error *err);
brim_status brim_png_decode(brim_decoder *d, brim_decode_job *j, brim_error *err);
brim_status brim_webp_decode(brim_decoder *d, brim_decode_job *j, brim_error *err);

/* The header; width and height before rotation. */
brim_status brim_jpeg_probe(const brim_decode_job *in, brim_image_info *out, brim_error *err);
brim_status brim_png_probe(const brim_decode_job *in, brim_image_info *out, brim_error *err);
brim_status brim_webp_probe(const brim_decode_job *in, brim_image_info *out, brim_error *err);

/* An image that is all there, rows packed. */
static inline brim_image brim_image_whole(int w, int h, int channels, const uint8_t *pixels)
{
    return (brim_image){.w = w,
                        .h = h,
                        .channels = channels,
                        .stride = (size_t)w * (size_t)channels,
                        .pixels = pixels,
                        .full_w = w,
                        .full_h = h};
}

/* Orientation (1..8) in an EXIF block that starts at its TIFF header; 1 when there is none or it is
 * damaged. */
int brim_exif_orientation(const uint8_t *tiff, size_t n);

/* Luma of ITU-R 601-2, as Pillow: (19595 R + 38470 G + 7471 B + 32768) >> 16. */
static inline uint8_t brim_luma(int r, int g, int b)
{
    return (uint8_t)((19595 * r + 38470 * g + 7471 * b + 32768) >> 16);
}

#endif
