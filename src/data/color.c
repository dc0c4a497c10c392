#include "data/color.h"
#include "data/decoder.h"

#include <math.h>
#include <string.h>

static size_t values(brim_pixels p)
{
    return (size_t)p.w * (size_t)p.h * (size_t)p.channels;
}

/* From the plain value towards (or beyond) the given one; Pillow's Image.blend. */
static inline uint8_t blend(int plain, int given, float factor)
{
    float x = (float)plain + factor * (float)(given - plain);
    return x <= 0 ? 0 : x >= 255 ? 255 : (uint8_t)x;
}

/* The same table for every channel, or one table each. */
static void look_up(brim_pixels p, const uint8_t table[][256], bool each)
{
    uint8_t *at = p.at;
    for (size_t n = (size_t)p.w * (size_t)p.h; n > 0; n--)
        for (int c = 0; c < p.channels; c++, at++) *at = table[each ? c : 0][*at];
}

static void blend_with(brim_pixels p, int plain, double factor)
{
    uint8_t table[1][256];
    for (int v = 0; v < 256; v++) table[0][v] = blend(plain, v, (float)factor);
    look_up(p, table, false);
}

static inline uint8_t grey(const uint8_t *at, int channels)
{
    return channels == 3 ? brim_luma(at[0], at[1], at[2]) : *at;
}

void brim_color_brightness(brim_pixels p, double factor)
{
    blend_with(p, 0, factor);
}

void brim_color_contrast(brim_pixels p, double factor)
{
    int64_t sum = 0, n = (int64_t)p.w * p.h;
    const uint8_t *at = p.at;
    for (int64_t i = 0; i < n; i++, at += p.channels) sum += grey(at, p.channels);
    blend_with(p, (int)((double)sum / (double)n + 0.5), factor);
}

void brim_color_saturation(brim_pixels p, double factor)
{
    if (p.channels != 3) return;
    uint8_t *at = p.at;
    for (size_t n = (size_t)p.w * (size_t)p.h; n > 0; n--, at += 3) {
        int g = brim_luma(at[0], at[1], at[2]);
        for (int c = 0; c < 3; c++) at[c] = blend(g, at[c], (float)factor);
    }
}

typedef struct hsv {
    uint8_t h, s, v;
} hsv;

/* Hue, saturation and value in 255ths, rounded down as Pillow's "HSV" images are, and to float
 * where Pillow does. */
static hsv to_hsv(const uint8_t *rgb)
{
    int r = rgb[0], g = rgb[1], b = rgb[2];
    int most = r > g ? r : g, least = r < g ? r : g;
    if (b > most) most = b;
    if (b < least) least = b;
    if (most == least) return (hsv){0, 0, (uint8_t)most};
    float span = (float)(most - least), rc = (float)(most - r) / span,
          gc = (float)(most - g) / span, bc = (float)(most - b) / span,
          saturation = span / (float)most;
    float h = r == most   ? bc - gc
              : g == most ? (float)(2.0 + (double)rc - (double)bc)
                          : (float)(4.0 + (double)gc - (double)rc);
    h = (float)fmod((double)h / 6.0 + 1.0, 1.0);
    return (hsv){(uint8_t)((double)h * 255.0), (uint8_t)((double)saturation * 255.0),
                 (uint8_t)most};
}

static void from_hsv(hsv x, uint8_t *rgb)
{
    int sector = (int)floor(x.h * 6.0 / 255.0);
    double f = (float)(x.h * 6.0 / 255.0 - sector), s = (float)(x.s / 255.0);
    uint8_t v = x.v, p = (uint8_t)lround(v * (1 - s)), q = (uint8_t)lround(v * (1 - s * f)),
            t = (uint8_t)lround(v * (1 - s * (1 - f)));
    const uint8_t of[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
    memcpy(rgb, of[sector % 6], 3);
}

void brim_color_hue(brim_pixels p, double turns)
{
    int by = (int)(turns * 255);
    if (p.channels != 3 || by == 0) return;
    uint8_t *at = p.at;
    for (size_t n = (size_t)p.w * (size_t)p.h; n > 0; n--, at += 3) {
        hsv x = to_hsv(at);
        x.h = (uint8_t)(x.h + by);
        from_hsv(x, at);
    }
}

void brim_color_sharpness(brim_pixels p, double factor, uint8_t *tmp)
{
    size_t c = (size_t)p.channels, row = (size_t)p.w * c;
    memcpy(tmp, p.at, values(p));
    for (int y = 1; y < p.h - 1; y++)
        for (size_t x = c; x + c < row; x++) {
            const uint8_t *m = tmp + (size_t)y * row + x, *u = m - row, *d = m + row;
            int sum = u[0] + m[0] * 5 + d[0] + *(u - c) + *(m - c) + *(d - c) + u[c] + m[c] + d[c];
            p.at[(size_t)y * row + x] = blend((int)((float)sum / 13 + 0.5f), m[0], (float)factor);
        }
}

void brim_color_posterize(brim_pixels p, int bits)
{
    uint8_t mask = (uint8_t)(0xff << (8 - bits));
    for (size_t i = 0; i < values(p); i++) p.at[i] &= mask;
}

void brim_color_solarize(brim_pixels p, int threshold)
{
    for (size_t i = 0; i < values(p); i++)
        if (p.at[i] >= threshold) p.at[i] = (uint8_t)(255 - p.at[i]);
}

static void histogram(brim_pixels p, int64_t count[3][256])
{
    memset(count, 0, sizeof(int64_t[3][256]));
    const uint8_t *at = p.at;
    for (size_t n = (size_t)p.w * (size_t)p.h; n > 0; n--)
        for (int c = 0; c < p.channels; c++) count[c][*at++]++;
}

void brim_color_autocontrast(brim_pixels p)
{
    int64_t count[3][256];
    uint8_t table[3][256];
    histogram(p, count);
    for (int c = 0; c < p.channels; c++) {
        int lo = 0, hi = 255;
        while (lo < 255 && !count[c][lo]) lo++;
        while (hi > 0 && !count[c][hi]) hi--;
        double scale = hi > lo ? 255.0 / (hi - lo) : 1, offset = hi > lo ? -lo * scale : 0;
        for (int v = 0; v < 256; v++) {
            int x = (int)(v * scale + offset);
            table[c][v] = (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
        }
    }
    look_up(p, table, true);
}

void brim_color_equalize(brim_pixels p)
{
    int64_t count[3][256];
    uint8_t table[3][256];
    histogram(p, count);
    for (int c = 0; c < p.channels; c++) {
        int last = 255;
        while (last > 0 && !count[c][last]) last--;
        int64_t step = ((int64_t)p.w * p.h - count[c][last]) / 255, n = step / 2;
        for (int v = 0; v < 256; v++) {
            table[c][v] = (uint8_t)(step ? n / step > 255 ? 255 : n / step : v);
            n += count[c][v];
        }
    }
    look_up(p, table, true);
}

static double factor(double strength, brim_rng *r)
{
    return brim_rng_uniform(r, strength < 1 ? 1 - strength : 0, 1 + strength);
}

void brim_color_jitter(const brim_augment *a, brim_pixels p, brim_rng *r)
{
    if (a->brightness <= 0 && a->contrast <= 0 && a->saturation <= 0 && a->hue <= 0) return;
    int order[4] = {0, 1, 2, 3};
    for (int i = 3; i > 0; i--) {
        int k = (int)brim_rng_below(r, (uint64_t)i + 1), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    double b = factor(a->brightness, r), c = factor(a->contrast, r), s = factor(a->saturation, r);
    double h = brim_rng_uniform(r, -a->hue, a->hue);
    for (int i = 0; i < 4; i++) {
        if (order[i] == 0 && a->brightness > 0) brim_color_brightness(p, b);
        if (order[i] == 1 && a->contrast > 0) brim_color_contrast(p, c);
        if (order[i] == 2 && a->saturation > 0) brim_color_saturation(p, s);
        if (order[i] == 3 && a->hue > 0) brim_color_hue(p, h);
    }
}
