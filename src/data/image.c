/* Which format a file is of, limits, rotation. */
#include "data/decoder.h"
#include "base/mem.h"

#include <string.h>

uint8_t *brim_scratch_reserve(brim_scratch *s, size_t bytes)
{
    if (bytes <= s->cap && s->at) return s->at;
    free(s->at);
    s->at = brim_malloc(bytes);
    s->cap = s->at ? bytes : 0;
    return s->at;
}

brim_decoder *brim_decoder_new(void)
{
    return brim_calloc(1, sizeof(brim_decoder));
}

void brim_decoder_free(brim_decoder *d)
{
    if (!d) return;
    free(d->pixels.at);
    free(d->turned.at);
    free(d->extra.at);
    free(d);
}

brim_status brim_image_check_size(int64_t w, int64_t h, int channels, brim_error *err)
{
    if (w < 1 || h < 1)
        return brim_fail(err, BRIM_EFORMAT, "image: %lld x %lld pixels", (long long)w,
                         (long long)h);
    if (w > BRIM_IMAGE_MAX_SIDE || h > BRIM_IMAGE_MAX_SIDE ||
        (size_t)(w * h) > BRIM_IMAGE_MAX_BYTES / (size_t)channels)
        return brim_fail(err, BRIM_EFORMAT,
                         "image: %lld x %lld pixels are more than is read (1 GiB)", (long long)w,
                         (long long)h);
    return BRIM_OK;
}

typedef struct format {
    brim_status (*decode)(brim_decoder *d, brim_decode_job *j, brim_error *err);
    brim_status (*probe)(const brim_decode_job *in, int *w, int *h, int *orientation,
                         brim_error *err);
} format;

static const format *recognise(const uint8_t *p, size_t n)
{
    static const format jpeg = {brim_jpeg_decode, brim_jpeg_probe},
                        png = {brim_png_decode, brim_png_probe},
                        webp = {brim_webp_decode, brim_webp_probe};
    if (n >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff) return &jpeg;
    if (n >= 8 && !memcmp(p, "\x89PNG\r\n\x1a\n", 8)) return &png;
    if (n >= 12 && !memcmp(p, "RIFF", 4) && !memcmp(p + 8, "WEBP", 4)) return &webp;
    return NULL;
}

static brim_status unknown(brim_error *err)
{
    return brim_fail(err, BRIM_EFORMAT, "image: neither JPEG, PNG nor WebP");
}

brim_status brim_image_probe(const brim_sample *s, int *w, int *h, brim_error *err)
{
    if (s->raw) {
        *w = s->w;
        *h = s->h;
        return BRIM_OK;
    }
    const format *f = recognise(s->bytes, s->n);
    if (!f) return unknown(err);
    brim_decode_job j = {.bytes = s->bytes, .n = s->n};
    int turn;
    BRIM_TRY(f->probe(&j, w, h, &turn, err));
    if (turn >= 5) {
        int t = *w;
        *w = *h;
        *h = t;
    }
    return BRIM_OK;
}

/* EXIF orientation: where pixel (x, y) of the upright image comes from. */
static void turn_pixels(const uint8_t *in, uint8_t *out, int w, int h, int c, int orientation)
{
    bool swap = orientation >= 5;
    int ow = swap ? h : w, oh = swap ? w : h;
    for (int y = 0; y < oh; y++)
        for (int x = 0; x < ow; x++) {
            int sx = swap ? y : x, sy = swap ? x : y;
            if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8)
                sx = w - 1 - sx;
            if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
                sy = h - 1 - sy;
            memcpy(out + ((size_t)y * (size_t)ow + (size_t)x) * (size_t)c,
                   in + ((size_t)sy * (size_t)w + (size_t)sx) * (size_t)c, (size_t)c);
        }
}

static brim_status upright(brim_decoder *d, const brim_decode_job *j, brim_image *out,
                           brim_error *err)
{
    *out = (brim_image){j->w, j->h, j->channels, d->pixels.at};
    if (j->orientation <= 1 || j->orientation > 8) return BRIM_OK;
    size_t bytes = (size_t)j->w * (size_t)j->h * (size_t)j->channels;
    uint8_t *to = brim_scratch_reserve(&d->turned, bytes);
    if (!to) return brim_fail(err, BRIM_ENOMEM, "image: out of memory");
    turn_pixels(d->pixels.at, to, j->w, j->h, j->channels, j->orientation);
    out->pixels = to;
    if (j->orientation >= 5) {
        out->w = j->h;
        out->h = j->w;
    }
    return BRIM_OK;
}

/* Raw samples: only the number of channels may change. */
static brim_status from_raw(brim_decoder *d, const brim_sample *s, int channels, brim_image *out,
                            brim_error *err)
{
    size_t n = (size_t)s->w * (size_t)s->h;
    uint8_t *to = brim_scratch_reserve(&d->pixels, n * (size_t)channels);
    if (!to) return brim_fail(err, BRIM_ENOMEM, "image: out of memory");
    if (s->channels == channels)
        memcpy(to, s->bytes, n * (size_t)channels);
    else
        for (size_t i = 0; i < n; i++) {
            if (channels == 3)
                to[3 * i] = to[3 * i + 1] = to[3 * i + 2] = s->bytes[i];
            else
                to[i] = brim_luma(s->bytes[3 * i], s->bytes[3 * i + 1], s->bytes[3 * i + 2]);
        }
    *out = (brim_image){s->w, s->h, channels, to};
    return BRIM_OK;
}

brim_status brim_image_decode(brim_decoder *d, const brim_sample *s, int channels, int min_w,
                              int min_h, brim_image *out, brim_error *err)
{
    if (s->raw) return from_raw(d, s, channels, out, err);
    const format *f = recognise(s->bytes, s->n);
    if (!f) return unknown(err);
    brim_decode_job j = {.bytes = s->bytes, .n = s->n, .channels = channels, .orientation = 1};
    if (min_w > 0 && min_h > 0) { /* before rotation either side may be the longer */
        int w, h;
        BRIM_TRY(f->probe(&j, &w, &h, &j.orientation, err));
        j.want_w = j.orientation >= 5 ? min_h : min_w;
        j.want_h = j.orientation >= 5 ? min_w : min_h;
    }
    BRIM_TRY(f->decode(d, &j, err));
    return upright(d, &j, out, err);
}
