/* Each augmentation alone, as the pipeline applies it: what it does to pixels and labels. The
 * images tell where each pixel comes from: at (x, y) they are (8 x, 8 y, 3 i), i the image. */
#include "data/pipeline.h"
#include "data_files.h"
#include "tests.h"

#include <math.h>
#include <string.h>

enum { SIZE = 32, N = 64, IMAGE = SIZE * SIZE * 3 };

static brim_dataset *set;

static int make_set(void **state)
{
    bytes b = {0};
    if (files_begin(state)) return -1;
    for (int i = 0; i < N; i++) {
        uint8_t record[1 + IMAGE] = {(uint8_t)(i % 10)};
        for (int y = 0; y < SIZE; y++)
            for (int x = 0; x < SIZE; x++) {
                uint8_t *at = record + 1 + y * SIZE + x;
                at[0] = (uint8_t)(8 * x);
                at[SIZE * SIZE] = (uint8_t)(8 * y);
                at[2 * SIZE * SIZE] = (uint8_t)(3 * i);
            }
        bytes_add(&b, record, sizeof record);
    }
    files_write_bytes("places.bin", &b);
    brim_dataset_opts o = {.split = BRIM_SPLIT_ALL};
    brim_error err = {0};
    if (brim_dataset_open(files_path("places.bin"), &o, &set, &err) != BRIM_OK)
        fail_msg("%s", err.text);
    return 0;
}

static int free_set(void **state)
{
    brim_dataset_free(set);
    return files_end(state);
}

/* All images of an epoch in one batch, in stored order. */
typedef struct view {
    brim_pipeline *p;
    const brim_batch *b;
} view;

static view load(brim_augment a)
{
    view v;
    brim_error err = {0};
    brim_pipeline_opts o = {.batch = N,
                            .width = SIZE,
                            .height = SIZE,
                            .channels = 3,
                            .ring = 1,
                            .seed = 7,
                            .augment = a};
    if (!o.augment.crop_ratio) o.augment.crop_ratio = 1;
    if (brim_pipeline_new(set, &o, &v.p, &err) != BRIM_OK ||
        brim_pipeline_seek(v.p, 0, 0, &err) != BRIM_OK ||
        brim_pipeline_next(v.p, &v.b, NULL, &err) != BRIM_OK)
        fail_msg("%s", err.text);
    assert_int_equal(v.b->n, N);
    return v;
}

static const uint8_t *pixel(const view *v, int i, int x, int y)
{
    return v->b->image + (size_t)i * IMAGE + (size_t)(y * SIZE + x) * 3;
}

/* Image i has the pixel of place (x, y) of the file. */
static bool is_from(const uint8_t *p, int i, int x, int y)
{
    return p[0] == 8 * x && p[1] == 8 * y && p[2] == 3 * i;
}

static bool untouched(const view *v, int i)
{
    for (int y = 0; y < SIZE; y++)
        for (int x = 0; x < SIZE; x++)
            if (!is_from(pixel(v, i, x, y), i, x, y)) return false;
    return true;
}

static int count_untouched(const view *v)
{
    int n = 0;
    for (int i = 0; i < N; i++) n += untouched(v, i);
    return n;
}

/* ---- places ---- */

static void nothing_changes_without_options(void **state)
{
    view v = load((brim_augment){0});
    assert_int_equal(count_untouched(&v), N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(v.b->label[i], i % 10);
        assert_int_equal(v.b->label2[i], i % 10);
        assert_true(v.b->lam[i] == 1 && v.b->weight[i] == 1);
    }
    brim_pipeline_free(v.p);
}

static void flips_with_its_probability(void **state)
{
    static const struct {
        double p;
        int lo, hi;
    } row[] = {{0, 0, 0}, {0.25, 6, 28}, {0.75, 36, 58}, {1, N, N}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        view v = load((brim_augment){.flip = row[k].p});
        int flipped = 0;
        for (int i = 0; i < N; i++) {
            bool flip = !untouched(&v, i);
            for (int y = 0; flip && y < SIZE; y++)
                for (int x = 0; x < SIZE; x++)
                    assert_true(is_from(pixel(&v, i, x, y), i, SIZE - 1 - x, y));
            flipped += flip;
        }
        if (flipped < row[k].lo || flipped > row[k].hi)
            fail_msg("flip %g: %d of %d", row[k].p, flipped, N);
        brim_pipeline_free(v.p);
    }
}

/* Moved by at most 4 pixels each way; what comes from outside is black. */
static void pads_and_crops(void **state)
{
    enum { PAD = 4, SPAN = 2 * PAD + 1 };
    view v = load((brim_augment){.pad_crop = PAD});
    bool seen[SPAN][SPAN] = {{false}};
    int different = 0, mid = SIZE / 2;
    for (int i = 0; i < N; i++) {
        int dx = mid - pixel(&v, i, mid, mid)[0] / 8, dy = mid - pixel(&v, i, mid, mid)[1] / 8;
        assert_true(abs(dx) <= PAD && abs(dy) <= PAD);
        for (int y = 0; y < SIZE; y++)
            for (int x = 0; x < SIZE; x++) {
                int sx = x - dx, sy = y - dy;
                const uint8_t *p = pixel(&v, i, x, y);
                bool outside = sx < 0 || sy < 0 || sx >= SIZE || sy >= SIZE;
                assert_true(outside ? !p[0] && !p[1] && !p[2] : is_from(p, i, sx, sy));
            }
        different += !seen[dy + PAD][dx + PAD];
        seen[dy + PAD][dx + PAD] = true;
    }
    assert_true(different > 25); /* of 81; 64 draws give 44 on average */
    brim_pipeline_free(v.p);
}

/* Width and height of the crop, from the ramps that it makes of columns and rows; the two pixels at
 * each end are left out, where the filter meets the edge. */
static void crop_size(const view *v, int i, double *w, double *h)
{
    int mid = SIZE / 2, first = 2, last = SIZE - 3;
    double run = 8.0 * (last - first) / SIZE;
    *w = (pixel(v, i, last, mid)[0] - pixel(v, i, first, mid)[0]) / run;
    *h = (pixel(v, i, mid, last)[1] - pixel(v, i, mid, first)[1]) / run;
}

static void crops_at_random_sizes_and_places(void **state)
{
    brim_augment a = {.random_resized_crop = true,
                      .scale_min = 0.25,
                      .scale_max = 1,
                      .ratio_min = 3.0 / 4,
                      .ratio_max = 4.0 / 3};
    view v = load(a);
    double least = 1, most = 0, left = SIZE, right = 0;
    for (int i = 0; i < N; i++) {
        double w, h;
        crop_size(&v, i, &w, &h);
        double area = w * h / (SIZE * SIZE), ratio = w / h, x = pixel(&v, i, 2, 16)[0] / 8.0;
        if (area < 0.2 || area > 1.1 || ratio < 0.65 || ratio > 1.5)
            fail_msg("image %d: a crop of %.1f x %.1f", i, w, h);
        least = fmin(least, area);
        most = fmax(most, area);
        left = fmin(left, x);
        right = fmax(right, x);
    }
    assert_true(least < 0.4 && most > 0.8 && left < 4 && right > 8);
    brim_pipeline_free(v.p);
    a.scale_min = 1; /* nothing but the whole image has this area and aspect */
    a.ratio_min = a.ratio_max = 1;
    v = load(a);
    assert_int_equal(count_untouched(&v), N);
    brim_pipeline_free(v.p);
}

static void the_centre_crop_takes_its_share(void **state)
{
    double w, h;
    view v = load((brim_augment){.crop_ratio = 0.5});
    for (int i = 0; i < N; i++) {
        crop_size(&v, i, &w, &h);
        assert_true(fabs(w - SIZE / 2) < 0.5 && fabs(h - SIZE / 2) < 0.5);
        assert_true(abs(pixel(&v, i, 16, 16)[0] - 8 * 16) <= 4);
    }
    brim_pipeline_free(v.p);
}

/* ---- colours ---- */

/* What each kind of jitter leaves as it is, and by which factor it changes the rest. Pixels are
 * taken where nothing is cut off at 0 or 255. */
typedef double factor_fn(const uint8_t *from, const uint8_t *to, double mean);

static double brightness_of(const uint8_t *from, const uint8_t *to, double mean)
{
    for (int c = 1; c < 3; c++)
        assert_true(fabs(to[c] * (double)from[0] - from[c] * (double)to[0]) <= 1.1 * 255);
    return (double)to[0] / from[0];
}

static double contrast_of(const uint8_t *from, const uint8_t *to, double mean)
{
    double f = (to[0] - mean) / (from[0] - mean);
    for (int c = 1; c < 3; c++) assert_true(fabs(to[c] - mean - f * (from[c] - mean)) <= 4);
    return f;
}

static double grey(const uint8_t *p)
{
    return 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
}

static double saturation_of(const uint8_t *from, const uint8_t *to, double mean)
{
    double f = (to[0] - to[1]) / (double)(from[0] - from[1]);
    assert_true(fabs(grey(to) - grey(from)) <= 2);
    for (int c = 0; c < 3; c++)
        assert_true(fabs(to[c] - grey(from) - f * (from[c] - grey(from))) <= 4);
    return f;
}

/* The largest and the smallest value stay; 1 and how far a channel moved, in units of 255. */
static double hue_of(const uint8_t *from, const uint8_t *to, double mean)
{
    int a[2] = {255, 0}, b[2] = {255, 0}, moved = 0;
    for (int c = 0; c < 3; c++) {
        if (from[c] < a[0]) a[0] = from[c];
        if (from[c] > a[1]) a[1] = from[c];
        if (to[c] < b[0]) b[0] = to[c];
        if (to[c] > b[1]) b[1] = to[c];
        if (abs(from[c] - to[c]) > moved) moved = abs(from[c] - to[c]);
    }
    assert_true(abs(a[0] - b[0]) <= 3 && abs(a[1] - b[1]) <= 3);
    return 1 + moved / 255.0;
}

static void jitters_each_property_alone(void **state)
{
    static const struct {
        const char *name;
        brim_augment a;
        factor_fn *factor;
        double lo, hi;
    } row[] = {{"brightness", {.brightness = 0.4}, brightness_of, 0.6, 1.4},
               {"contrast", {.contrast = 0.4}, contrast_of, 0.6, 1.4},
               {"saturation", {.saturation = 0.4}, saturation_of, 0.6, 1.4},
               {"hue", {.hue = 0.2}, hue_of, 1, 1.4}};
    static const uint8_t rest[2] = {160, 96}; /* red and green at the place looked at */
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        view v = load(row[k].a);
        double least = 9, most = 0;
        for (int i = 16; i < 48; i++) { /* blue 48 .. 141: not cut off at 0 */
            const uint8_t from[3] = {rest[0], rest[1], (uint8_t)(3 * i)};
            double mean = 124 * (0.299 + 0.587) + 3 * i * 0.114;
            double f = row[k].factor(from, pixel(&v, i, rest[0] / 8, rest[1] / 8), mean);
            if (f < row[k].lo - 0.03 || f > row[k].hi + 0.03)
                fail_msg("%s of image %d: %g", row[k].name, i, f);
            least = fmin(least, f);
            most = fmax(most, f);
        }
        double span = row[k].hi - row[k].lo;
        if (most - least < 0.4 * span || least > row[k].lo + 0.3 * span)
            fail_msg("%s: factors only from %g to %g", row[k].name, least, most);
        brim_pipeline_free(v.p);
    }
}

/* At magnitude 0 only the two of the 14 operations that have no strength change anything. */
static void randaugment_draws_and_has_a_magnitude(void **state)
{
    static const struct {
        int n, m, lo, hi; /* images that stay as they are */
    } row[] = {{0, 9, N, N}, {1, 0, 40, N - 1}, {1, 30, 1, 16}, {3, 9, 0, 6}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        view v = load((brim_augment){.randaugment_n = row[k].n, .randaugment_m = row[k].m});
        int same = count_untouched(&v);
        if (same < row[k].lo || same > row[k].hi)
            fail_msg("randaugment %d,%d leaves %d images", row[k].n, row[k].m, same);
        brim_pipeline_free(v.p);
    }
}

/* ---- mixing ---- */

/* Blue is all that differs between images, so it tells how much of which one is there. */
static double blue_share(const view *v, int i, int from)
{
    double sum = 0;
    for (int y = 0; y < SIZE; y++)
        for (int x = 0; x < SIZE; x++) {
            const uint8_t *p = pixel(v, i, x, y);
            assert_true(p[0] == 8 * x && p[1] == 8 * y);
            sum += p[2];
        }
    return (sum / (SIZE * SIZE) - 3 * from) / (3 * i - 3 * from);
}

static int count_pure_pixels(const view *v, int i, int from)
{
    int n = 0;
    for (int k = 0; k < SIZE * SIZE; k++) {
        int blue = pixel(v, i, k % SIZE, k / SIZE)[2];
        n += blue == 3 * i || blue == 3 * from;
    }
    return n;
}

static void mixes_pixels_and_labels_at_one_ratio(void **state)
{
    static const brim_augment a[] = {{.mixup = 1}, {.cutmix = 1}};
    for (int cut = 0; cut < 2; cut++) {
        view v = load(a[cut]);
        double lam = (double)v.b->lam[0];
        assert_true(lam > 0.02 && lam < 0.98); /* with this seed */
        for (int i = 0; i < N; i++) {
            int from = (i + N - 1) % N;
            assert_int_equal(v.b->label[i], i % 10);
            assert_int_equal(v.b->label2[i], from % 10);
            assert_true((double)v.b->lam[i] == lam);
            double share = blue_share(&v, i, from);
            assert_true(fabs(share - lam) < (cut ? 1e-5 : 0.17));
            assert_int_equal(count_pure_pixels(&v, i, from) == SIZE * SIZE, cut);
            if (i == 0) assert_true(fabs(share - lam) < 0.003); /* 189 values apart, not 3 */
        }
        brim_pipeline_free(v.p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_changes_without_options),
        cmocka_unit_test(flips_with_its_probability),
        cmocka_unit_test(pads_and_crops),
        cmocka_unit_test(crops_at_random_sizes_and_places),
        cmocka_unit_test(the_centre_crop_takes_its_share),
        cmocka_unit_test(jitters_each_property_alone),
        cmocka_unit_test(randaugment_draws_and_has_a_magnitude),
        cmocka_unit_test(mixes_pixels_and_labels_at_one_ratio),
    };
    return cmocka_run_group_tests(tests, make_set, free_set);
}
