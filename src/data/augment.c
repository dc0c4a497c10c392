#include "data/augment.h"

#include <math.h>
#include <string.h>

brim_crop brim_crop_random(const brim_augment *a, int w, int h, brim_rng *r)
{
    double area = (double)w * h, lo = log(a->ratio_min), hi = log(a->ratio_max);
    for (int k = 0; k < 10; k++) {
        double target = area * brim_rng_uniform(r, a->scale_min, a->scale_max);
        double ratio = exp(brim_rng_uniform(r, lo, hi));
        int cw = (int)lround(sqrt(target * ratio)), ch = (int)lround(sqrt(target / ratio));
        if (cw < 1 || ch < 1 || cw > w || ch > h) continue;
        double x = (double)brim_rng_below(r, (uint64_t)(w - cw + 1)),
               y = (double)brim_rng_below(r, (uint64_t)(h - ch + 1));
        return (brim_crop){x / w, y / h, (x + cw) / w, (y + ch) / h, true};
    }
    double aspect = (double)w / h, cw = w, ch = h;
    if (aspect < a->ratio_min)
        ch = round(w / a->ratio_min);
    else if (aspect > a->ratio_max)
        cw = round(h * a->ratio_max);
    double x = floor((w - cw) / 2), y = floor((h - ch) / 2);
    return (brim_crop){x / w, y / h, (x + cw) / w, (y + ch) / h, true};
}

brim_crop brim_crop_centre(const brim_augment *a, int w, int h, int out_w, int out_h)
{
    double ratio = a->crop_ratio > 0 && a->crop_ratio <= 1 ? a->crop_ratio : 1;
    double scale = fmin((double)w / out_w, (double)h / out_h) * ratio;
    double cw = out_w * scale, ch = out_h * scale, x = (w - cw) / 2, y = (h - ch) / 2;
    return (brim_crop){x / w, y / h, (x + cw) / w, (y + ch) / h, false};
}

brim_view brim_crop_view(const brim_crop *c, int w, int h)
{
    return (brim_view){c->x0, c->y0, c->x1, c->y1, w, h};
}

/* An edge of the crop in pixels of the part that was decoded. What is a whole pixel but for
 * rounding is made one, so that a plain copy is seen as one. */
static double place(double share, int full, int offset, int limit)
{
    double x = share * full - offset;
    if (fabs(x - round(x)) < 1e-6) x = round(x);
    return fmin(fmax(x, 0), limit);
}

brim_status brim_crop_draw(brim_resizer *r, const brim_image *im, const brim_crop *c, bool flip,
                           uint8_t *out, int w, int h, brim_error *err)
{
    brim_box b = {
        place(c->x0, im->full_w, im->left, im->w), place(c->y0, im->full_h, im->top, im->h),
        place(c->x1, im->full_w, im->left, im->w), place(c->y1, im->full_h, im->top, im->h)};
    if (!c->alone) return brim_resize(r, im, b, flip, out, w, h, err);
    brim_image part = *im;
    double left = floor(b.x0), top = floor(b.y0);
    part.pixels += (size_t)top * im->stride + (size_t)left * (size_t)im->channels;
    part.w = (int)(ceil(b.x1) - left);
    part.h = (int)(ceil(b.y1) - top);
    brim_box inside = {b.x0 - left, b.y0 - top, b.x1 - left, b.y1 - top};
    return brim_resize(r, &part, inside, flip, out, w, h, err);
}

void brim_flip(uint8_t *pixels, int w, int h, int channels)
{
    for (int y = 0; y < h; y++) {
        uint8_t *row = pixels + (size_t)y * (size_t)w * (size_t)channels;
        for (int x = 0; x < w / 2; x++)
            for (int c = 0; c < channels; c++) {
                uint8_t *a = row + x * channels + c, *b = row + (w - 1 - x) * channels + c, t = *a;
                *a = *b;
                *b = t;
            }
    }
}

void brim_shift(uint8_t *pixels, uint8_t *tmp, int w, int h, int channels, int dx, int dy)
{
    size_t row = (size_t)w * (size_t)channels;
    memcpy(tmp, pixels, row * (size_t)h);
    memset(pixels, 0, row * (size_t)h);
    int x0 = dx > 0 ? dx : 0, x1 = dx < 0 ? w + dx : w;
    for (int y = 0; y < h; y++) {
        int sy = y - dy;
        if (sy < 0 || sy >= h || x1 <= x0) continue;
        memcpy(pixels + (size_t)y * row + (size_t)(x0 * channels),
               tmp + (size_t)sy * row + (size_t)((x0 - dx) * channels),
               (size_t)((x1 - x0) * channels));
    }
}
