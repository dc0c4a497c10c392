#include "data/resize.h"
#include "data/augment.h"
#include "data/decoder.h"
#include "data/resize_pass.h"

#include <math.h>
#include <string.h>

/* Input positions lo .. hi - 1 that the filter of output i reaches. */
static double reach(int i, double from, double scale, int in, int *lo, int *hi)
{
    double filter = fmax(scale, 1), centre = from + (i + 0.5) * scale;
    *lo = (int)(centre - filter + 0.5);
    *hi = (int)(centre + filter + 0.5);
    if (*lo < 0) *lo = 0;
    if (*hi > in) *hi = in;
    return centre;
}

static int taps_support(double from, double to, int in, int out)
{
    int most = 1, lo, hi;
    for (int i = 0; i < out; i++) {
        reach(i, from, (to - from) / out, in, &lo, &hi);
        if (hi - lo > most) most = hi - lo;
    }
    return most == 1 ? 1 : (most + 1) & ~1;
}

static size_t taps_bytes(int support, int out)
{
    return (size_t)out * (sizeof(int) + (size_t)support * sizeof(int16_t)) + 64;
}

/* Taps of out positions over [from, to) of `in` inputs. Windows that would end behind the input
 * begin earlier instead, with weights of 0. */
static brim_taps make_taps(void *at, int support, double from, double to, int in, int out,
                           bool flip)
{
    double scale = (to - from) / out, filter = fmax(scale, 1);
    brim_taps t = {.support = support, .first = at, .weight = (int16_t *)((int *)at + out)};
    memset(t.weight, 0, (size_t)out * (size_t)support * sizeof *t.weight);
    for (int i = 0; i < out; i++) {
        int lo, hi, at_i = flip ? out - 1 - i : i;
        double centre = reach(i, from, scale, in, &lo, &hi), sum = 0;
        int first = lo + support > in ? in - support : lo;
        if (first < 0) first = 0;
        int16_t *weight = t.weight + (size_t)at_i * (size_t)support;
        for (int pass = 0; pass < 2; pass++)
            for (int k = lo; k < hi; k++) {
                double d = fabs((k - centre + 0.5) / filter), x = d < 1 ? 1 - d : 0;
                if (pass == 0)
                    sum += x;
                else
                    weight[k - first] = (int16_t)lrint(x / sum * (1 << BRIM_TAP_BITS));
            }
        t.first[at_i] = first;
    }
    return t;
}

void brim_resizer_release(brim_resizer *r)
{
    free(r->rows.at);
    free(r->weights.at);
    *r = (brim_resizer){0};
}

/* Nothing to resample: copy rows. */
static bool copy_box(const brim_image *in, brim_box b, bool flip, uint8_t *out, int w, int h)
{
    if (b.x1 - b.x0 != w || b.y1 - b.y0 != h || b.x0 != floor(b.x0) || b.y0 != floor(b.y0))
        return false;
    size_t c = (size_t)in->channels, row = (size_t)w * c;
    const uint8_t *from = in->pixels + (size_t)b.y0 * in->stride + (size_t)b.x0 * c;
    for (int y = 0; y < h; y++) memcpy(out + row * (size_t)y, from + in->stride * (size_t)y, row);
    if (flip) brim_flip(out, w, h, in->channels);
    return true;
}

brim_status brim_resize(brim_resizer *r, const brim_image *in, brim_box box, bool flip,
                        uint8_t *out, int w, int h, brim_error *err)
{
    if (copy_box(in, box, flip, out, w, h)) return BRIM_OK;
    const brim_resize_passes *pass = brim_resize_passes_here();
    size_t row = (size_t)w * (size_t)in->channels;
    int sx = taps_support(box.x0, box.x1, in->w, w), sy = taps_support(box.y0, box.y1, in->h, h);
    uint8_t *at = brim_scratch_reserve(&r->weights, taps_bytes(sx, w) + taps_bytes(sy, h));
    if (!at) return brim_fail(err, BRIM_ENOMEM, "resize: out of memory");
    brim_taps tx = make_taps(at, sx, box.x0, box.x1, in->w, w, flip);
    size_t second = taps_bytes(sx, w) & ~(size_t)63;
    brim_taps ty = make_taps(at + second, sy, box.y0, box.y1, in->h, h, false);
    int first = ty.first[0], last = ty.first[h - 1] + sy;
    uint8_t *rows = brim_scratch_reserve(&r->rows, row * (size_t)(last - first));
    if (!rows) return brim_fail(err, BRIM_ENOMEM, "resize: out of memory");
    if (last > in->h) { /* an input of fewer rows than taps: the weight there is 0 */
        memset(rows + row * (size_t)(in->h - first), 0, row * (size_t)(last - in->h));
        last = in->h;
    }
    for (int y = first; y < last; y++)
        (in->channels == 3 ? pass->horizontal3 : pass->horizontal1)(
            in->pixels + (size_t)y * in->stride, rows + row * (size_t)(y - first), w, &tx);
    for (int y = 0; y < h; y++)
        pass->vertical(rows + row * (size_t)(ty.first[y] - first), row, out + row * (size_t)y, row,
                       ty.weight + (size_t)y * (size_t)sy, sy);
    return BRIM_OK;
}
