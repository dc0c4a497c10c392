/* Resampling, colour changes, RandAugment and mixing against torchvision's results on Pillow images
 * (tests/golden/image_ops.py). */
#include "data/augment.h"
#include "data/decoder.h"
#include "data/mix.h"
#include "data/randaugment.h"
#include "data/resize_pass.h"
#include "io/safetensors.h"
#include "tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static brim_st_file *golden;

static int open_golden(void **state)
{
    char path[1024];
    const char *dir = getenv("BRIM_GOLDEN");
    brim_error err = {0};
    snprintf(path, sizeof path, "%s/image_ops.safetensors", dir ? dir : "tests/golden");
    if (brim_st_open(path, &golden, &err) != BRIM_OK) fail_msg("%s", err.text);
    return 0;
}

static int close_golden(void **state)
{
    brim_st_close(golden);
    return 0;
}

/* [h,w,3] or [h,w] u8 */
static brim_image image_of(const brim_st_tensor *t)
{
    assert_true(t && t->type == BRIM_U8 && (t->rank == 2 || (t->rank == 3 && t->dim[2] == 3)));
    return brim_image_whole((int)t->dim[1], (int)t->dim[0], t->rank == 2 ? 1 : 3, t->data);
}

static size_t bytes_of(const brim_image *im)
{
    return im->stride * (size_t)im->h;
}

/* A copy with the slack behind it that resampling wants; the caller frees it. */
static uint8_t *copy_of(const brim_image *im)
{
    uint8_t *p = calloc(bytes_of(im) + BRIM_IMAGE_SLACK, 1);
    memcpy(p, im->pixels, bytes_of(im));
    return p;
}

/* "IMAGE/KIND/ARGUMENTS" of the fixture; false when the kind is another. */
typedef struct test_case {
    const char *arguments;
    brim_image in, want;
} test_case;

static bool case_of(int64_t i, const char *kind, test_case *c)
{
    const brim_st_tensor *t = brim_st_at(golden, i);
    const char *slash = strchr(t->name, '/');
    size_t n = strlen(kind);
    if (!slash || strncmp(slash + 1, kind, n) || slash[1 + n] != '/') return false;
    char name[16];
    snprintf(name, sizeof name, "%.*s", (int)(slash - t->name), t->name);
    *c = (test_case){slash + n + 2, image_of(brim_st_find(golden, name)), image_of(t)};
    return true;
}

/* ---- resampling ---- */

/* Our weights have 14 bits behind the point, Pillow's 22: a value may differ by one, few do. Where
 * the width grows and the height shrinks, Pillow 13 makes the vertical pass first, and the rounding
 * in between is another one. */
static void resizes(const test_case *c, brim_crop crop, bool flip)
{
    brim_resizer r = {0};
    brim_image in = c->in;
    size_t n = bytes_of(&c->want);
    uint8_t *from = copy_of(&in), *out = malloc(n);
    double from_w = (crop.x1 - crop.x0) * in.w, from_h = (crop.y1 - crop.y0) * in.h;
    bool other_order = c->want.w > from_w && c->want.h < from_h;
    int64_t differ = 0;
    in.pixels = from;
    assert_int_equal(brim_crop_draw(&r, &in, &crop, flip, out, c->want.w, c->want.h, NULL), 0);
    if (flip) brim_flip(out, c->want.w, c->want.h, c->want.channels);
    for (size_t i = 0; i < n; i++) {
        if (abs(out[i] - c->want.pixels[i]) > 1)
            fail_msg("%s: byte %zu is %d, wants %d", c->arguments, i, out[i], c->want.pixels[i]);
        differ += out[i] != c->want.pixels[i];
    }
    if ((double)differ > (other_order ? 0.3 : 0.05) * (double)n + 1)
        fail_msg("%s: %d of %zu bytes differ", c->arguments, (int)differ, n);
    free(from);
    free(out);
    brim_resizer_release(&r);
}

static void resamples_as_pillow(void **state)
{
    int n = 0;
    test_case c;
    for (int64_t i = 0; i < brim_st_count(golden); i++) {
        double v[4];
        brim_crop crop = {0, 0, 1, 1, case_of(i, "crop", &c)};
        if (crop.alone || case_of(i, "box", &c)) { /* x y w h, or x0 y0 x1 y1 */
            assert_int_equal(sscanf(c.arguments, "%lf %lf %lf %lf", v, v + 1, v + 2, v + 3), 4);
            if (crop.alone) v[2] += v[0], v[3] += v[1];
            crop =
                (brim_crop){v[0] / c.in.w, v[1] / c.in.h, v[2] / c.in.w, v[3] / c.in.h, crop.alone};
        } else if (!case_of(i, "resize", &c))
            continue;
        resizes(&c, crop, false);
        resizes(&c, crop, true);
        n++;
    }
    assert_int_equal(n, 4 * 14);
}

static void gives_the_same_bits_on_every_processor(void **state)
{
    enum { IN = 200, OUT = 37, ROWS = 13 };
    const brim_resize_passes *here = brim_resize_passes_here();
    static uint8_t in[3 * IN * ROWS + BRIM_IMAGE_SLACK], a[3 * IN], b[3 * IN];
    static int16_t weight[OUT * ROWS];
    int first[OUT];
    brim_rng r;
    brim_rng_init(&r, 3, 3);
    for (int k = 0; k < 200; k++) {
        int support = k % 7 ? 2 * (k % 7) : 1;
        for (size_t i = 0; i < sizeof in; i++) in[i] = (uint8_t)brim_rng_below(&r, 256);
        for (int i = 0; i < OUT; i++) {
            int left = 1 << BRIM_TAP_BITS;
            first[i] = (int)brim_rng_below(&r, (uint64_t)(IN - support + 1));
            for (int t = 0; t < support; t++) {
                int x = t == support - 1 ? left : (int)brim_rng_below(&r, (uint64_t)left + 1);
                weight[i * support + t] = (int16_t)x;
                left -= x;
            }
        }
        brim_taps t = {support, first, weight};
        brim_resize_portable.horizontal3(in, a, OUT, &t);
        here->horizontal3(in, b, OUT, &t);
        assert_memory_equal(a, b, 3 * OUT);
        brim_resize_portable.horizontal1(in, a, OUT, &t);
        here->horizontal1(in, b, OUT, &t);
        assert_memory_equal(a, b, OUT);
        size_t n = 1 + brim_rng_below(&r, 3 * IN);
        brim_resize_portable.vertical(in, 3 * IN, a, n, weight, support);
        here->vertical(in, 3 * IN, b, n, weight, support);
        assert_memory_equal(a, b, n);
    }
}

/* ---- colours and RandAugment: exactly Pillow's ---- */

static void saturation(brim_pixels p, double factor, uint8_t *tmp)
{
    (void)tmp;
    brim_color_saturation(p, factor);
}

static void brightness(brim_pixels p, double factor, uint8_t *tmp)
{
    (void)tmp;
    brim_color_brightness(p, factor);
}

static void contrast(brim_pixels p, double factor, uint8_t *tmp)
{
    (void)tmp;
    brim_color_contrast(p, factor);
}

static void hue(brim_pixels p, double turns, uint8_t *tmp)
{
    (void)tmp;
    brim_color_hue(p, turns);
}

static void changes_colours_as_pillow(void **state)
{
    static const struct {
        const char *kind;
        void (*apply)(brim_pixels p, double factor, uint8_t *tmp);
    } op[] = {{"brightness", brightness},
              {"contrast", contrast},
              {"saturation", saturation},
              {"sharpness", brim_color_sharpness},
              {"hue", hue}};
    int n = 0;
    test_case c;
    for (int64_t i = 0; i < brim_st_count(golden); i++)
        for (size_t k = 0; k < sizeof op / sizeof *op; k++) {
            if (!case_of(i, op[k].kind, &c)) continue;
            uint8_t *out = copy_of(&c.in), *tmp = malloc(bytes_of(&c.in));
            op[k].apply((brim_pixels){out, c.in.w, c.in.h, c.in.channels}, atof(c.arguments), tmp);
            if (memcmp(out, c.want.pixels, bytes_of(&c.want)))
                fail_msg("%s differs", brim_st_at(golden, i)->name);
            free(out);
            free(tmp);
            n++;
        }
    assert_int_equal(n, 3 * 25);
}

static void augments_as_torchvision(void **state)
{
    static const char *const ops[BRIM_RANDAUGMENT_OPS] = {
        "Identity",  "ShearX",     "ShearY",       "TranslateX", "TranslateY",
        "Rotate",    "Brightness", "Color",        "Contrast",   "Sharpness",
        "Posterize", "Solarize",   "AutoContrast", "Equalize"};
    int n = 0, seen[BRIM_RANDAUGMENT_OPS] = {0};
    test_case c;
    for (int64_t i = 0; i < brim_st_count(golden); i++) {
        char name[32];
        int magnitude, sign, op = 0;
        if (!case_of(i, "randaugment", &c)) continue;
        assert_int_equal(sscanf(c.arguments, "%31s %d %d", name, &magnitude, &sign), 3);
        while (op < BRIM_RANDAUGMENT_OPS && strcmp(ops[op], name)) op++;
        assert_true(op < BRIM_RANDAUGMENT_OPS);
        uint8_t *out = copy_of(&c.in), *tmp = malloc(bytes_of(&c.in));
        brim_pixels p = {out, c.in.w, c.in.h, c.in.channels};
        brim_randaugment_op(op, p, magnitude, sign, tmp);
        if (memcmp(out, c.want.pixels, bytes_of(&c.want)))
            fail_msg("%s differs", brim_st_at(golden, i)->name);
        free(out);
        free(tmp);
        seen[op]++;
        n++;
    }
    assert_int_equal(n, 2 * (9 * 4 + 5 * 2));
    for (int op = 0; op < BRIM_RANDAUGMENT_OPS; op++) assert_true(seen[op] >= 4);
}

/* ---- mixing ---- */

enum { W = 8, H = 6, PIXELS = W * H, IMAGE = PIXELS * 3, BATCH = 7, REAL = 5, BAD = 2 };

typedef struct batch {
    uint8_t image[BATCH * IMAGE];
    int32_t label[BATCH], label2[BATCH];
    float lam[BATCH], weight[BATCH];
} batch;

/* Row i has the class 10 i and values that no other row has; row BAD is damaged; then comes
 * padding.
 */
static void fill_batch(batch *b, brim_rng *r)
{
    for (int i = 0; i < BATCH; i++) {
        for (int k = 0; k < IMAGE; k++)
            b->image[i * IMAGE + k] =
                (uint8_t)(40 * i + (int)brim_rng_below(r, 40) % (256 - 40 * i));
        b->label[i] = b->label2[i] = 10 * i;
        b->lam[i] = 1;
        b->weight[i] = i < REAL && i != BAD;
    }
}

static void mix(batch *b, int64_t n, double mixup, double cutmix, brim_rng *r)
{
    uint8_t tmp[IMAGE];
    brim_pipeline_opts o = {.batch = BATCH, .width = W, .height = H, .channels = 3};
    brim_batch view = {.n = n,
                       .image = b->image,
                       .label = b->label,
                       .label2 = b->label2,
                       .lam = b->lam,
                       .weight = b->weight};
    o.augment.mixup = mixup;
    o.augment.cutmix = cutmix;
    brim_mix(&o, &view, tmp, r);
}

/* The share of `other` in a row whose every pixel is that of `own` or of `other`, which lie in a
 * box; -1 when it is no such row. */
static double cut_share(const uint8_t *row, const uint8_t *own, const uint8_t *other)
{
    int x0 = W, y0 = H, x1 = 0, y1 = 0, n = 0;
    for (int k = 0; k < PIXELS; k++) {
        if (!memcmp(row + 3 * k, own + 3 * k, 3)) continue;
        if (memcmp(row + 3 * k, other + 3 * k, 3)) return -1;
        int x = k % W, y = k / W;
        if (x < x0) x0 = x;
        if (y < y0) y0 = y;
        if (x >= x1) x1 = x + 1;
        if (y >= y1) y1 = y + 1;
        n++;
    }
    if (n && n != (x1 - x0) * (y1 - y0)) return -1;
    return n / (double)PIXELS;
}

/* Rounded to the nearest; the ratio has 16 bits. */
static void check_mixed(const uint8_t *row, const uint8_t *own, const uint8_t *other, double lam)
{
    for (int k = 0; k < IMAGE; k++)
        assert_true(fabs(row[k] - (lam * own[k] + (1 - lam) * other[k])) <= 0.51);
}

static void mixes_pixels_and_labels_alike(void **state)
{
    static const double strength[][2] = {{0.3, 0}, {0, 1}, {1, 1}};
    brim_rng r;
    brim_rng_init(&r, 8, 8);
    for (int kind = 0; kind < 3; kind++) {
        int cuts = 0, mixed = 0;
        for (int k = 0; k < 200; k++) {
            batch b, was;
            fill_batch(&was, &r);
            b = was;
            mix(&b, REAL, strength[kind][0], strength[kind][1], &r);
            double lam = (double)b.lam[0];
            double share = cut_share(b.image, was.image, was.image + (REAL - 1) * IMAGE);
            bool cut = kind == 1 || (kind == 2 && fabs(share - (1 - lam)) < 1e-6);
            assert_true(lam >= 0 && lam <= 1);
            for (int i = 0; i < BATCH; i++) {
                const uint8_t *row = b.image + i * IMAGE, *own = was.image + i * IMAGE;
                int from = (i + REAL - 1) % REAL;
                assert_int_equal(b.label[i], 10 * i);
                if (i >= REAL || i == BAD || from == BAD) { /* as it was */
                    assert_memory_equal(row, own, IMAGE);
                    assert_true(b.lam[i] == 1 && b.label2[i] == 10 * i);
                    continue;
                }
                assert_int_equal(b.label2[i], 10 * from);
                assert_true((double)b.lam[i] == lam);
                const uint8_t *other = was.image + from * IMAGE;
                if (cut)
                    assert_true(fabs(cut_share(row, own, other) - (1 - lam)) < 1e-6);
                else
                    check_mixed(row, own, other, lam);
            }
            cuts += cut && lam < 0.999;
            mixed += !cut;
        }
        assert_true(kind == 0 || cuts > 60);
        assert_true(kind == 1 ? mixed == 0 : mixed > 60);
    }
}

static void leaves_a_lone_row_alone(void **state)
{
    batch b, was;
    brim_rng r;
    brim_rng_init(&r, 1, 1);
    fill_batch(&was, &r);
    b = was;
    mix(&b, 1, 1, 1, &r);
    assert_memory_equal(&b, &was, sizeof b);
}

/* Beta(a, a) has mean 1/2 and variance 1 / (8 a + 4). */
static void draws_ratios_from_beta(void **state)
{
    static const double a[] = {0.1, 0.2, 1, 4};
    enum { N = 40000 };
    brim_rng r;
    brim_rng_init(&r, 2, 2);
    for (int k = 0; k < 4; k++) {
        double sum = 0, square = 0, want = 1 / (8 * a[k] + 4);
        for (int i = 0; i < N; i++) {
            double x = brim_rng_beta(&r, a[k]);
            assert_true(x >= 0 && x <= 1);
            sum += x;
            square += (x - 0.5) * (x - 0.5);
        }
        assert_true(fabs(sum / N - 0.5) < 5 * sqrt(want / N));
        assert_true(fabs(square / N / want - 1) < 0.03);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resamples_as_pillow),
        cmocka_unit_test(gives_the_same_bits_on_every_processor),
        cmocka_unit_test(changes_colours_as_pillow),
        cmocka_unit_test(augments_as_torchvision),
        cmocka_unit_test(mixes_pixels_and_labels_alike),
        cmocka_unit_test(leaves_a_lone_row_alone),
        cmocka_unit_test(draws_ratios_from_beta),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
