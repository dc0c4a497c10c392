/* WebP through libwebp; alpha is dropped without blending. */
#include "data/decoder.h"

#include <string.h>

#include <webp/decode.h>

/* A RIFF file: "RIFF", size, "WEBP", then chunks of name, size (little-endian), content, and a byte
 * where the size is odd. */
static int orientation(const uint8_t *at, size_t n)
{
    size_t pos = 12;
    while (n - pos >= 8) {
        const uint8_t *p = at + pos;
        size_t bytes = p[4] | (size_t)p[5] << 8 | (size_t)p[6] << 16 | (size_t)p[7] << 24;
        if (bytes > n - pos - 8) break;
        if (!memcmp(p, "EXIF", 4)) { /* some writers put JPEG's prefix before it */
            size_t skip = bytes >= 6 && !memcmp(p + 8, "Exif\0\0", 6) ? 6 : 0;
            return brim_exif_orientation(p + 8 + skip, bytes - skip);
        }
        bytes += bytes & 1;
        pos += bytes > n - pos - 8 ? n - pos : 8 + bytes;
    }
    return 1;
}

brim_status brim_webp_probe(const brim_decode_job *in, brim_image_info *out, brim_error *err)
{
    WebPBitstreamFeatures f;
    if (WebPGetFeatures(in->bytes, in->n, &f) != VP8_STATUS_OK)
        return brim_fail(err, BRIM_EFORMAT, "WebP: damaged header");
    if (f.has_animation) return brim_fail(err, BRIM_EFORMAT, "WebP: an animation, not one image");
    *out = (brim_image_info){.format = BRIM_IMAGE_WEBP,
                             .w = f.width,
                             .h = f.height,
                             .orientation = orientation(in->bytes, in->n),
                             .channels = f.has_alpha ? 4 : 3,
                             .depth = 8};
    return BRIM_OK;
}

brim_status brim_webp_decode(brim_decoder *d, brim_decode_job *j, brim_error *err)
{
    brim_image_info info;
    BRIM_TRY(brim_webp_probe(j, &info, err));
    int w = info.w, h = info.h;
    BRIM_TRY(brim_image_check_size(w, h, 3, j->n, err));
    size_t bytes = (size_t)w * (size_t)h * 3;
    uint8_t *rgb = brim_scratch_reserve(j->channels == 3 ? &d->pixels : &d->extra, bytes);
    if (!rgb) return brim_fail(err, BRIM_ENOMEM, "WebP: out of memory");
    if (!WebPDecodeRGBInto(j->bytes, j->n, rgb, bytes, w * 3))
        return brim_fail(err, BRIM_EFORMAT, "WebP: damaged");
    j->made = brim_image_whole(w, h, j->channels, rgb);
    if (j->channels == 3) return BRIM_OK;
    uint8_t *grey = brim_scratch_reserve(&d->pixels, bytes / 3);
    if (!grey) return brim_fail(err, BRIM_ENOMEM, "WebP: out of memory");
    for (size_t i = 0; i < bytes / 3; i++)
        grey[i] = brim_luma(rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
    j->made.pixels = grey;
    return BRIM_OK;
}
