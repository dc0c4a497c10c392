/* WebP through libwebp; alpha is dropped. */
#include "data/decoder.h"

#include <webp/decode.h>

brim_status brim_webp_probe(const brim_decode_job *in, int *w, int *h, int *turn, brim_error *err)
{
    *turn = 1;
    if (!WebPGetInfo(in->bytes, in->n, w, h))
        return brim_fail(err, BRIM_EFORMAT, "WebP: damaged header");
    return BRIM_OK;
}

brim_status brim_webp_decode(brim_decoder *d, brim_decode_job *j, brim_error *err)
{
    int w, h;
    BRIM_TRY(brim_webp_probe(j, &w, &h, &j->orientation, err));
    BRIM_TRY(brim_image_check_size(w, h, 3, err));
    size_t bytes = (size_t)w * (size_t)h * 3;
    uint8_t *rgb = brim_scratch_reserve(j->channels == 3 ? &d->pixels : &d->extra, bytes);
    if (!rgb) return brim_fail(err, BRIM_ENOMEM, "WebP: out of memory");
    if (!WebPDecodeRGBInto(j->bytes, j->n, rgb, bytes, w * 3))
        return brim_fail(err, BRIM_EFORMAT, "WebP: damaged");
    j->w = w;
    j->h = h;
    if (j->channels == 3) return BRIM_OK;
    uint8_t *grey = brim_scratch_reserve(&d->pixels, bytes / 3);
    if (!grey) return brim_fail(err, BRIM_ENOMEM, "WebP: out of memory");
    for (size_t i = 0; i < bytes / 3; i++)
        grey[i] = brim_luma(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
    return BRIM_OK;
}
