#include "data/randaugment.h"

#include <math.h>
#include <string.h>

/* 16 bits behind the point, as Pillow steps over images. */
static int64_t fixed(double x)
{
    return (int64_t)floor(x * 65536 + 0.5);
}

/* Output pixel (x, y) from input pixel (a x + b y + c, d x + e y + f), positions at pixel centres,
 * the nearest one; what comes from outside is 0. */
static void affine(brim_pixels p, uint8_t *tmp, const double m[6])
{
    size_t c = (size_t)p.channels;
    uint8_t *out = p.at;
    int64_t a = fixed(m[0]), b = fixed(m[1]), d = fixed(m[3]), e = fixed(m[4]),
            x0 = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), y0 = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
    memcpy(tmp, p.at, (size_t)p.w * (size_t)p.h * c);
    for (int y = 0; y < p.h; y++, x0 += b, y0 += e)
        for (int x = 0; x < p.w; x++, out += c) {
            int64_t sx = (x0 + a * x) >> 16, sy = (y0 + d * x) >> 16;
            if (sx < 0 || sy < 0 || sx >= p.w || sy >= p.h)
                memset(out, 0, c);
            else
                memcpy(out, tmp + ((size_t)sy * (size_t)p.w + (size_t)sx) * c, c);
        }
}

/* Each operation gets a strength that grows from 0 with the magnitude, signed where that makes
 * sense. */
static void identity(brim_pixels p, double x, uint8_t *tmp)
{
    (void)p;
    (void)x;
    (void)tmp;
}

static void shear_x(brim_pixels p, double x, uint8_t *tmp)
{
    affine(p, tmp, (double[]){1, x, 0, 0, 1, 0});
}

static void shear_y(brim_pixels p, double x, uint8_t *tmp)
{
    affine(p, tmp, (double[]){1, 0, 0, x, 1, 0});
}

static void translate_x(brim_pixels p, double x, uint8_t *tmp)
{
    affine(p, tmp, (double[]){1, 0, -trunc(x * p.w), 0, 1, 0});
}

static void translate_y(brim_pixels p, double x, uint8_t *tmp)
{
    affine(p, tmp, (double[]){1, 0, 0, 0, 1, -trunc(x * p.h)});
}

/* x degrees counter-clockwise around the centre. */
static void rotate(brim_pixels p, double x, uint8_t *tmp)
{
    double t = x * 3.14159265358979323846 / 180, c = cos(t), s = sin(t), cx = p.w / 2.0,
           cy = p.h / 2.0;
    affine(p, tmp, (double[]){c, -s, cx - c * cx + s * cy, s, c, cy - s * cx - c * cy});
}

static void brightness(brim_pixels p, double x, uint8_t *tmp)
{
    (void)tmp;
    brim_color_brightness(p, 1 + x);
}

static void saturation(brim_pixels p, double x, uint8_t *tmp)
{
    (void)tmp;
    brim_color_saturation(p, 1 + x);
}

static void contrast(brim_pixels p, double x, uint8_t *tmp)
{
    (void)tmp;
    brim_color_contrast(p, 1 + x);
}

static void sharpness(brim_pixels p, double x, uint8_t *tmp)
{
    brim_color_sharpness(p, 1 + x, tmp);
}

static void posterize(brim_pixels p, double x, uint8_t *tmp)
{
    (void)tmp;
    brim_color_posterize(p, 8 - (int)rint(x));
}

static void solarize(brim_pixels p, double x, uint8_t *tmp)
{
    (void)tmp;
    brim_color_solarize(p, (int)ceil(255 - x));
}

static void autocontrast(brim_pixels p, double x, uint8_t *tmp)
{
    (void)x;
    (void)tmp;
    brim_color_autocontrast(p);
}

static void equalize(brim_pixels p, double x, uint8_t *tmp)
{
    (void)x;
    (void)tmp;
    brim_color_equalize(p);
}

static const struct {
    const char *name;
    void (*apply)(brim_pixels p, double strength, uint8_t *tmp);
    double most; /* the strength at magnitude 30 */
    bool is_signed;
} ops[BRIM_RANDAUGMENT_OPS] = {
    {"identity", identity, 0, false},
    {"shear x", shear_x, 0.3, true},
    {"shear y", shear_y, 0.3, true},
    {"translate x", translate_x, 150.0 / 331, true},
    {"translate y", translate_y, 150.0 / 331, true},
    {"rotate", rotate, 30, true},
    {"brightness", brightness, 0.9, true},
    {"saturation", saturation, 0.9, true},
    {"contrast", contrast, 0.9, true},
    {"sharpness", sharpness, 0.9, true},
    {"posterize", posterize, 4, false},
    {"solarize", solarize, 255, false},
    {"autocontrast", autocontrast, 0, false},
    {"equalize", equalize, 0, false},
};

const char *brim_randaugment_op(int op, brim_pixels p, int magnitude, int sign, uint8_t *tmp)
{
    double strength = ops[op].most * magnitude / 30;
    ops[op].apply(p, ops[op].is_signed && sign < 0 ? -strength : strength, tmp);
    return ops[op].name;
}

void brim_randaugment(const brim_augment *a, brim_pixels p, uint8_t *tmp, brim_rng *r)
{
    for (int k = 0; k < a->randaugment_n; k++) {
        int op = (int)brim_rng_below(r, BRIM_RANDAUGMENT_OPS);
        int sign = brim_rng_below(r, 2) ? 1 : -1;
        brim_randaugment_op(op, p, a->randaugment_m, sign, tmp);
    }
}
