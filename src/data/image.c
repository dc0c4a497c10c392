/* Which format a file is of, limits, rotation. */
#include "data/decoder.h"
#include "base/mem.h"

#include <string.h>

uint8_t *brim_scratch_reserve(brim_scratch *s, size_t bytes)
{
    if (bytes <= s->cap && s->at) return s->at;
    free(s->at);
    s->at = brim_malloc(bytes + BRIM_IMAGE_SLACK);
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

/* An image above 16 Mi pixels takes a byte for 1024 of them at least: JPEG's blocks of 64 take a
 * bit, PNG shrinks bytes a thousandfold. Less is a blank page, or a header made to fill memory. */
static bool plausible(int64_t pixels, size_t file_bytes)
{
    int64_t beyond = pixels - (1 << 24);
    return beyond <= 0 || (size_t)beyond / 1024 <= file_bytes;
}

brim_status brim_image_check_size(int64_t w, int64_t h, int channels, size_t file_bytes,
                                  brim_error *err)
{
    if (w < 1 || h < 1)
        return brim_fail(err, BRIM_EFORMAT, "image: %lld x %lld pixels", (long long)w,
                         (long long)h);
    if (w > BRIM_IMAGE_MAX_SIDE || h > BRIM_IMAGE_MAX_SIDE ||
        (size_t)(w * h) > BRIM_IMAGE_MAX_BYTES / (size_t)channels)
        return brim_fail(err, BRIM_EFORMAT,
                         "image: %lld x %lld pixels are more than is read (1 GiB)", (long long)w,
                         (long long)h);
    if (!plausible(w * h, file_bytes))
        return brim_fail(
            err, BRIM_EFORMAT,
            "image: %lld x %lld pixels cannot come from %zu bytes (damaged, or made to "
            "fill memory)",
            (long long)w, (long long)h, file_bytes);
    return BRIM_OK;
}

typedef struct format {
    brim_status (*decode)(brim_decoder *d, brim_decode_job *j, brim_error *err);
    brim_status (*probe)(const brim_decode_job *in, brim_image_info *out, brim_error *err);
} format;

static const format formats[] = {
    [BRIM_IMAGE_JPEG] = {brim_jpeg_decode, brim_jpeg_probe},
    [BRIM_IMAGE_PNG] = {brim_png_decode, brim_png_probe},
    [BRIM_IMAGE_WEBP] = {brim_webp_decode, brim_webp_probe},
};

/* NULL: none that is known. */
static const format *recognise(const uint8_t *p, size_t n)
{
    if (n >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff) return &formats[BRIM_IMAGE_JPEG];
    if (n >= 8 && !memcmp(p, "\x89PNG\r\n\x1a\n", 8)) return &formats[BRIM_IMAGE_PNG];
    if (n >= 12 && !memcmp(p, "RIFF", 4) && !memcmp(p + 8, "WEBP", 4))
        return &formats[BRIM_IMAGE_WEBP];
    return NULL;
}

brim_status brim_image_probe(const brim_sample *s, brim_image_info *info, brim_error *err)
{
    if (s->raw) {
        *info = (brim_image_info){BRIM_IMAGE_RAW, s->w, s->h, 1, s->channels, 8};
        return brim_image_check_size(s->w, s->h, 3, s->n, err);
    }
    if (!s->n) return brim_fail(err, BRIM_EFORMAT, "image: the file is empty");
    const format *f = recognise(s->bytes, s->n);
    if (!f) return brim_fail(err, BRIM_EFORMAT, "image: neither JPEG, PNG nor WebP");
    BRIM_TRY(f->probe(&(brim_decode_job){.bytes = s->bytes, .n = s->n}, info, err));
    if (info->orientation >= 5) {
        int t = info->w;
        info->w = info->h;
        info->h = t;
    }
    return brim_image_check_size(info->w, info->h, 3, s->n, err);
}

/* EXIF orientation says how the stored image becomes the upright one: the stored one is mirrored
 * left to right or top to bottom, and its rows may be the upright one's columns. */
typedef struct turn {
    bool swap, mirror_x, mirror_y; /* the mirrors are of the stored axes */
} turn;

static turn turn_of(int o)
{
    return (turn){o >= 5 && o <= 8, o == 2 || o == 3 || o == 7 || o == 8,
                  o == 3 || o == 4 || o == 6 || o == 7};
}

/* Where pixel (x, y) of the upright image comes from. */
static void turn_pixels(const brim_image *in, uint8_t *out, turn t)
{
    int w = in->w, h = in->h, ow = t.swap ? h : w, oh = t.swap ? w : h;
    size_t c = (size_t)in->channels;
    for (int y = 0; y < oh; y++)
        for (int x = 0; x < ow; x++, out += c) {
            int sx = t.swap ? y : x, sy = t.swap ? x : y;
            if (t.mirror_x) sx = w - 1 - sx;
            if (t.mirror_y) sy = h - 1 - sy;
            memcpy(out, in->pixels + (size_t)sy * in->stride + (size_t)sx * c, c);
        }
}

/* The view of the upright image, as one of the stored image. */
static brim_view stored_view(const brim_view *v, turn t)
{
    brim_view s = *v;
    if (t.swap) s = (brim_view){v->y0, v->x0, v->y1, v->x1, v->min_h, v->min_w};
    brim_view m = s;
    if (t.mirror_x) {
        m.x0 = 1 - s.x1;
        m.x1 = 1 - s.x0;
    }
    if (t.mirror_y) {
        m.y0 = 1 - s.y1;
        m.y1 = 1 - s.y0;
    }
    return m;
}

static brim_status upright(brim_decoder *d, const brim_image *in, int orientation, brim_image *out,
                           brim_error *err)
{
    *out = *in;
    if (orientation <= 1 || orientation > 8) return BRIM_OK;
    turn t = turn_of(orientation);
    size_t row = (size_t)(t.swap ? in->h : in->w) * (size_t)in->channels;
    uint8_t *to = brim_scratch_reserve(&d->turned, row * (size_t)(t.swap ? in->w : in->h));
    if (!to) return brim_fail(err, BRIM_ENOMEM, "image: out of memory");
    turn_pixels(in, to, t);
    int left = t.mirror_x ? in->full_w - in->left - in->w : in->left;
    int top = t.mirror_y ? in->full_h - in->top - in->h : in->top;
    out->pixels = to;
    out->stride = row;
    out->left = t.swap ? top : left;
    out->top = t.swap ? left : top;
    if (t.swap) {
        out->w = in->h;
        out->h = in->w;
        out->full_w = in->full_h;
        out->full_h = in->full_w;
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
    *out = brim_image_whole(s->w, s->h, channels, to);
    return BRIM_OK;
}

brim_status brim_image_decode(brim_decoder *d, const brim_sample *s, const brim_image_info *info,
                              int channels, const brim_view *view, brim_image *out, brim_error *err)
{
    static const brim_view all = {0, 0, 1, 1, 0, 0};
    if (info->format == BRIM_IMAGE_RAW) return from_raw(d, s, channels, out, err);
    brim_decode_job j = {.bytes = s->bytes, .n = s->n, .channels = channels};
    j.view = stored_view(view ? view : &all, turn_of(info->orientation));
    BRIM_TRY(formats[info->format].decode(d, &j, err));
    return upright(d, &j.made, info->orientation, out, err);
}
