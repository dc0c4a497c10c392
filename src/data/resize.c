#include "data/resize.h"
#include "data/decoder.h"

#include <math.h>
#include <string.h>

enum { BITS = 22 };

/* For each output position: first input, count, and fixed-point weights. */
typedef struct taps {
    int support; /* weights a position */
    int *first, *count;
    int32_t *weight;
} taps;

static size_t taps_bytes(int out, double scale, int *support)
{
    *support = (int)ceil(fmax(scale, 1)) * 2 + 1;
    return (size_t)out * (2 + (size_t)*support) * sizeof(int32_t);
}

static taps make_taps(void *at, int in, double from, double to, int out)
{
    double scale = (to - from) / out, filter = fmax(scale, 1);
    taps t;
    taps_bytes(out, scale, &t.support);
    t.first = at;
    t.count = t.first + out;
    t.weight = t.count + out;
    for (int i = 0; i < out; i++) {
        double centre = from + (i + 0.5) * scale, sum = 0;
        int lo = (int)(centre - filter + 0.5), hi = (int)(centre + filter + 0.5);
        lo = lo < 0 ? 0 : lo;
        hi = hi > in ? in : hi;
        if (hi - lo > t.support) hi = lo + t.support;
        int32_t *to_weight = t.weight + (size_t)i * (size_t)t.support;
        for (int pass = 0; pass < 2; pass++)
            for (int k = lo; k < hi; k++) {
                double d = fabs((k - centre + 0.5) / filter), x = d < 1 ? 1 - d : 0;
                if (pass == 0)
                    sum += x;
                else
                    to_weight[k - lo] = (int32_t)(x / sum * (1 << BITS) + 0.5);
            }
        t.first[i] = lo;
        t.count[i] = hi - lo;
    }
    return t;
}

static inline uint8_t clip8(int32_t x)
{
    x >>= BITS;
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

static void horizontal3(const uint8_t *row, uint8_t *out, int w, const taps *t)
{
    for (int i = 0; i < w; i++) {
        const uint8_t *p = row + 3 * (size_t)t->first[i];
        const int32_t *k = t->weight + (size_t)i * (size_t)t->support;
        int32_t r = 1 << (BITS - 1), g = r, b = r;
        for (int n = t->count[i]; n > 0; n--, p += 3, k++) {
            r += p[0] * *k;
            g += p[1] * *k;
            b += p[2] * *k;
        }
        *out++ = clip8(r);
        *out++ = clip8(g);
        *out++ = clip8(b);
    }
}

static void horizontal1(const uint8_t *row, uint8_t *out, int w, const taps *t)
{
    for (int i = 0; i < w; i++) {
        const int32_t *k = t->weight + (size_t)i * (size_t)t->support;
        int32_t x = 1 << (BITS - 1);
        for (int n = 0; n < t->count[i]; n++) x += row[t->first[i] + n] * k[n];
        *out++ = clip8(x);
    }
}

/* acc is one row of 32-bit sums. */
static void vertical(const uint8_t *rows, size_t stride, uint8_t *out, int32_t *restrict acc,
                     const int32_t *k, int n)
{
    for (size_t x = 0; x < stride; x++) acc[x] = 1 << (BITS - 1);
    for (int i = 0; i < n; i++) {
        const uint8_t *restrict p = rows + stride * (size_t)i;
        int32_t weight = k[i];
        for (size_t x = 0; x < stride; x++) acc[x] += p[x] * weight;
    }
    for (size_t x = 0; x < stride; x++) out[x] = clip8(acc[x]);
}

void brim_resizer_release(brim_resizer *r)
{
    free(r->rows.at);
    free(r->weights.at);
    *r = (brim_resizer){0};
}

/* Nothing to resample: copy rows. */
static bool copy_box(const brim_image *in, double x0, double y0, double x1, double y1, uint8_t *out,
                     int w, int h)
{
    if (x1 - x0 != w || y1 - y0 != h || x0 != floor(x0) || y0 != floor(y0)) return false;
    size_t c = (size_t)in->channels, row = (size_t)w * c;
    for (int y = 0; y < h; y++)
        memcpy(out + row * (size_t)y,
               in->pixels + (((size_t)y0 + (size_t)y) * (size_t)in->w + (size_t)x0) * c, row);
    return true;
}

brim_status brim_resize(brim_resizer *r, const brim_image *in, double x0, double y0, double x1,
                        double y1, uint8_t *out, int w, int h, brim_error *err)
{
    if (copy_box(in, x0, y0, x1, y1, out, w, h)) return BRIM_OK;
    int sx, sy;
    size_t row = (size_t)w * (size_t)in->channels;
    size_t nx = taps_bytes(w, (x1 - x0) / w, &sx), ny = taps_bytes(h, (y1 - y0) / h, &sy);
    uint8_t *weights = brim_scratch_reserve(&r->weights, nx + ny + row * sizeof(int32_t));
    if (!weights) return brim_fail(err, BRIM_ENOMEM, "resize: out of memory");
    taps tx = make_taps(weights, in->w, x0, x1, w), ty = make_taps(weights + nx, in->h, y0, y1, h);
    int first = ty.first[0], last = ty.first[h - 1] + ty.count[h - 1];
    uint8_t *rows = brim_scratch_reserve(&r->rows, row * (size_t)(last - first));
    if (!rows) return brim_fail(err, BRIM_ENOMEM, "resize: out of memory");
    for (int y = first; y < last; y++) {
        const uint8_t *from = in->pixels + (size_t)y * (size_t)in->w * (size_t)in->channels;
        (in->channels == 3 ? horizontal3 : horizontal1)(from, rows + row * (size_t)(y - first), w,
                                                        &tx);
    }
    for (int y = 0; y < h; y++)
        vertical(rows + row * (size_t)(ty.first[y] - first), row, out + row * (size_t)y,
                 (int32_t *)(weights + nx + ny), ty.weight + (size_t)y * (size_t)ty.support,
                 ty.count[y]);
    return BRIM_OK;
}
