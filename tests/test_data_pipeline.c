/* Batches are a function of set, options, seed, epoch and index: not of threads, ring, cache or of
 * where one begins. */
#include "base/log.h"
#include "base/mem.h"
#include "data/pipeline.h"
#include "data_files.h"
#include "tests.h"

#include <math.h>
#include <png.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { W = 24, H = 20, PHOTOS = 37, BAD = 2 };

static brim_dataset *open_set(const char *path)
{
    brim_dataset *d;
    brim_error err = {0};
    brim_dataset_opts o = {.split = BRIM_SPLIT_ALL};
    if (brim_dataset_open(path, &o, &d, &err) != BRIM_OK) fail_msg("%s", err.text);
    return d;
}

/* Small and large images of each format, two of them damaged. */
static brim_dataset *set;

static void ignore(const char *line, void *user)
{
    (void)line;
    (void)user;
}

static int make_set(void **state)
{
    if (files_begin(state)) return -1;
    brim_log_set_sink(ignore, NULL); /* warnings of damaged images */
    for (unsigned i = 0; i < PHOTOS; i++) {
        int w = i % 5 == 0 ? 210 : 30 + (int)i, h = i % 5 == 0 ? 150 : 60 - (int)i;
        uint8_t *p = pixels_make(w, h, 4, i);
        bytes b = i % 4 == 0   ? png_make(p, w, h, PNG_COLOR_TYPE_RGB, 8, 0)
                  : i % 4 == 1 ? webp_make(p, w, h, 3, 0)
                               : jpeg_make(p, w, h, i % 4 == 2 ? JPEG_RGB : JPEG_GREY, 0);
        if (i == 11 || i == 20) b.n /= 2;
        char name[64];
        snprintf(name, sizeof name, "set/%s/%02u.jpg", i % 3 ? "cat" : i % 2 ? "dog" : "ant", i);
        files_write_bytes(name, &b);
        free(p);
    }
    set = open_set(files_path("set"));
    assert_int_equal(brim_dataset_size(set), PHOTOS);
    return 0;
}

static int free_set(void **state)
{
    brim_dataset_free(set);
    return files_end(state);
}

/* Everything random that there is. */
static brim_pipeline_opts train_opts(void)
{
    return (brim_pipeline_opts){.batch = 12,
                                .width = W,
                                .height = H,
                                .channels = 3,
                                .shuffle = true,
                                .seed = 5,
                                .ring = 2,
                                .augment = {.random_resized_crop = true,
                                            .scale_min = 0.2,
                                            .scale_max = 1,
                                            .ratio_min = 0.75,
                                            .ratio_max = 1.3333,
                                            .pad_crop = 2,
                                            .flip = 0.5,
                                            .brightness = 0.4,
                                            .contrast = 0.4,
                                            .saturation = 0.4,
                                            .hue = 0.1,
                                            .randaugment_n = 2,
                                            .randaugment_m = 9,
                                            .mixup = 0.2,
                                            .cutmix = 1}};
}

static brim_pipeline_opts eval_opts(void)
{
    return (brim_pipeline_opts){.batch = 12,
                                .width = W,
                                .height = H,
                                .channels = 3,
                                .ring = 2,
                                .augment = {.crop_ratio = 1}};
}

static brim_pipeline *pipeline(const brim_dataset *d, const brim_pipeline_opts *o)
{
    brim_pipeline *p;
    brim_error err = {0};
    if (brim_pipeline_new(d, o, &p, &err) != BRIM_OK) fail_msg("%s", err.text);
    return p;
}

static void seek(brim_pipeline *p, int64_t epoch, int64_t first)
{
    brim_error err = {0};
    if (brim_pipeline_seek(p, epoch, first, &err) != BRIM_OK) fail_msg("%s", err.text);
}

/* NULL at the end of the epoch. */
static const brim_batch *next(brim_pipeline *p)
{
    const brim_batch *b;
    brim_error err = {0};
    if (brim_pipeline_next(p, &b, NULL, &err) != BRIM_OK) fail_msg("%s", err.text);
    return b;
}

/* Everything that a batch holds, but for how long it took. */
static void add_batch(bytes *to, const brim_pipeline_opts *o, const brim_batch *b)
{
    size_t n = (size_t)o->batch;
    bytes_add(to, &b->index, sizeof b->index);
    bytes_add(to, &b->n, sizeof b->n);
    bytes_add(to, &b->damaged, sizeof b->damaged);
    bytes_add(to, b->image, n * (size_t)(o->width * o->height * o->channels));
    bytes_add(to, b->label, n * sizeof *b->label);
    bytes_add(to, b->label2, n * sizeof *b->label2);
    bytes_add(to, b->lam, n * sizeof *b->lam);
    bytes_add(to, b->weight, n * sizeof *b->weight);
    bytes_add(to, b->sample, n * sizeof *b->sample);
}

/* The batches from `first` to the end of the epoch. */
static bytes rest_of(brim_pipeline *p, const brim_pipeline_opts *o, int64_t epoch, int64_t first)
{
    bytes all = {0};
    seek(p, epoch, first);
    for (const brim_batch *b; (b = next(p)); brim_pipeline_release(p, b)) add_batch(&all, o, b);
    assert_null(next(p));
    return all;
}

static bytes epochs(const brim_dataset *d, const brim_pipeline_opts *o, int n)
{
    bytes all = {0};
    brim_pipeline *p = pipeline(d, o);
    for (int e = 0; e < n; e++) {
        bytes one = rest_of(p, o, e, 0);
        bytes_add(&all, one.at, one.n);
        bytes_free(&one);
    }
    brim_pipeline_free(p);
    return all;
}

static void same(const bytes *a, const bytes *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->at, b->at, a->n);
}

static void gives_the_same_bits_with_any_threads(void **state)
{
    for (int k = 0; k < 4; k++) {
        brim_pipeline_opts o = k == 0 ? eval_opts() : train_opts();
        if (k == 2) o.augment.mixup = o.augment.cutmix = 0;
        if (k == 3) o.channels = 1;
        bytes want = epochs(set, &o, 2);
        static const int threads[] = {1, 3}, ring[] = {1, 4};
        for (int i = 0; i < 4; i++) {
            o.threads = threads[i / 2];
            o.ring = ring[i % 2];
            bytes got = epochs(set, &o, 2);
            same(&want, &got);
            bytes_free(&got);
        }
        bytes_free(&want);
    }
}

static void seeks_to_any_batch(void **state)
{
    brim_pipeline_opts o = train_opts();
    o.batch = 5;
    brim_pipeline *straight = pipeline(set, &o);
    bytes want[2] = {rest_of(straight, &o, 0, 0), rest_of(straight, &o, 3, 0)};
    int64_t n = brim_pipeline_batches(straight);
    brim_pipeline_free(straight);
    assert_int_equal(n, 8);
    size_t each = want[0].n / (size_t)n;
    o.threads = 3;
    o.ring = 3;
    brim_pipeline *p = pipeline(set, &o);
    for (int64_t k = 2 * n + 1; k >= 0; k--) {
        int64_t first = (k * 7) % (n + 1);
        bytes got = rest_of(p, &o, k % 2 ? 3 : 0, first);
        assert_int_equal(got.n, (size_t)(n - first) * each);
        if (got.n) assert_memory_equal(got.at, want[k % 2].at + (size_t)first * each, got.n);
        bytes_free(&got);
        seek(p, 1, 0); /* away again, while workers are on it */
        const brim_batch *b = next(p);
        if (k % 3 == 0) brim_pipeline_release(p, b);
    }
    brim_error err = {0};
    assert_int_equal(brim_pipeline_seek(p, 0, n + 1, &err), BRIM_EINVAL);
    assert_int_equal(brim_pipeline_seek(p, 0, -1, &err), BRIM_EINVAL);
    assert_int_equal(brim_pipeline_seek(p, -1, 0, &err), BRIM_EINVAL);
    assert_true(err.text[0]);
    brim_pipeline_free(p);
    bytes_free(&want[0]);
    bytes_free(&want[1]);
}

static void ends_with_a_short_batch_or_none(void **state)
{
    for (int drop = 0; drop < 2; drop++)
        for (int threads = 0; threads <= 3; threads += 3) {
            brim_pipeline_opts o = eval_opts();
            o.drop_last = drop;
            o.threads = threads;
            brim_pipeline *p = pipeline(set, &o);
            assert_int_equal(brim_pipeline_batches(p), drop ? 3 : 4);
            seek(p, 0, 0);
            for (int64_t k = 0; k < brim_pipeline_batches(p); k++) {
                const brim_batch *b = next(p);
                int64_t n = k < 3 ? 12 : 1;
                assert_non_null(b);
                assert_int_equal(b->index, k);
                assert_int_equal(b->n, n);
                for (int64_t i = 0; i < 12; i++)
                    assert_int_equal(b->sample[i], i < n ? 12 * k + i : -1);
                for (int64_t i = n; i < 12; i++) assert_true(b->weight[i] == 0 && b->lam[i] == 1);
                for (size_t i = (size_t)n * W * H * 3; i < 12 * W * H * 3; i++)
                    assert_int_equal(b->image[i], 0);
                brim_pipeline_release(p, b);
            }
            assert_null(next(p));
            brim_pipeline_free(p);
        }
    brim_pipeline_opts o = eval_opts();
    o.batch = PHOTOS + 1;
    o.drop_last = true;
    brim_pipeline *p = pipeline(set, &o);
    assert_int_equal(brim_pipeline_batches(p), 0);
    seek(p, 0, 0);
    assert_null(next(p));
    brim_pipeline_free(p);
}

/* ---- damage ---- */

static int warnings;

static void count_warning(const char *line, void *user)
{
    assert_non_null(strstr(line, "(left out)"));
    assert_true(strstr(line, "/11.jpg") || strstr(line, "/20.jpg"));
    warnings++;
}

static void leaves_damaged_images_out(void **state)
{
    brim_log_set_sink(count_warning, NULL);
    for (int threads = 0; threads <= 3; threads += 3) {
        brim_pipeline_opts o = train_opts();
        o.threads = threads;
        brim_pipeline *p = pipeline(set, &o);
        warnings = 0;
        for (int e = 0; e < 3; e++) {
            int64_t damaged = 0, zero = 0;
            seek(p, e, 0);
            for (const brim_batch *b; (b = next(p)); brim_pipeline_release(p, b)) {
                damaged += b->damaged;
                for (int64_t i = 0; i < b->n; i++) {
                    char path[512];
                    brim_dataset_path(set, b->sample[i], path, sizeof path);
                    bool bad = strstr(path, "/11.jpg") || strstr(path, "/20.jpg");
                    assert_true(b->weight[i] == (bad ? 0 : 1));
                    const uint8_t *at = b->image + (size_t)i * W * H * 3;
                    for (int k = 0; k < W * H * 3 && bad; k++) assert_int_equal(at[k], 0);
                    if (bad) assert_true(b->lam[i] == 1 && b->label2[i] == b->label[i]);
                    zero += bad;
                }
            }
            assert_int_equal(damaged, BAD);
            assert_int_equal(zero, BAD);
        }
        assert_int_equal(warnings, BAD); /* once a file */
        brim_pipeline_free(p);
    }
    brim_log_set_sink(ignore, NULL);
}

/* One file that is gone is left out; when all are, the disk is, and training must not go on. */
static void stops_when_nothing_can_be_read(void **state)
{
    for (int i = 0; i < 6; i++) {
        char name[64];
        bytes b = photo_make((unsigned)i);
        snprintf(name, sizeof name, "gone/a/%d.jpg", i);
        files_write_bytes(name, &b);
    }
    brim_dataset *d = open_set(files_path("gone"));
    brim_pipeline_opts o = eval_opts();
    o.batch = 3;
    o.threads = 2;
    unlink(files_path("gone/a/0.jpg"));
    for (int i = 3; i < 6; i++) {
        char name[64];
        snprintf(name, sizeof name, "gone/a/%d.jpg", i);
        unlink(files_path(name));
    }
    brim_pipeline *p = pipeline(d, &o);
    seek(p, 0, 0);
    const brim_batch *b = next(p);
    assert_int_equal(b->damaged, 1);
    brim_pipeline_release(p, b);
    brim_error err = {0};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(brim_pipeline_next(p, &b, NULL, &err), BRIM_EIO);
        assert_null(b);
        assert_non_null(strstr(err.text, "none of 3 files can be read"));
        assert_non_null(strstr(err.text, "gone/a/"));
    }
    brim_pipeline_free(p);
    brim_dataset_free(d);
}

static void survives_allocation_failures(void **state)
{
    brim_pipeline_opts o = train_opts();
    bytes want = epochs(set, &o, 1), got = {0};
    bool done = false;
    for (long n = 1; n < 3000 && !done; n += n < 40 ? 1 : 7) {
        brim_pipeline *p = NULL;
        const brim_batch *b = NULL;
        brim_error err = {0};
        got.n = 0;
        brim_mem_fail_after(n);
        brim_status st = brim_pipeline_new(set, &o, &p, &err);
        if (st == BRIM_OK) st = brim_pipeline_seek(p, 0, 0, &err);
        while (st == BRIM_OK && (st = brim_pipeline_next(p, &b, NULL, &err)) == BRIM_OK && b) {
            brim_mem_fail_after(0);
            add_batch(&got, &o, b);
            brim_mem_fail_after(1000);
            brim_pipeline_release(p, b);
        }
        brim_mem_fail_after(0);
        brim_pipeline_free(p);
        if (st == BRIM_OK)
            same(&want, &got);
        else
            assert_true(st == BRIM_ENOMEM && err.text[0]);
        done = st == BRIM_OK;
    }
    assert_true(done);
    bytes_free(&want);
    bytes_free(&got);
}

/* ---- cache ---- */

static void gives_the_same_bits_with_a_cache(void **state)
{
    bytes c = cifar_make(20);
    files_write_bytes("twenty.bin", &c);
    brim_dataset *raw = open_set(files_path("twenty.bin"));
    const brim_dataset *sets[] = {set, raw};
    for (int k = 0; k < 4; k++) {
        brim_pipeline_opts o = k / 2 ? eval_opts() : train_opts();
        bytes want = epochs(sets[k % 2], &o, 3);
        static const size_t room[] = {16 << 20, 20000, 0}; /* all small ones, some, none */
        for (int i = 0; i < 6; i++) {
            o.cache_bytes = room[i / 2];
            o.threads = i % 2 ? 3 : 0;
            bytes got = epochs(sets[k % 2], &o, 3);
            same(&want, &got);
            bytes_free(&got);
        }
        bytes_free(&want);
    }
    brim_dataset_free(raw);
}

/* ---- order ---- */

static void order_of(const brim_pipeline_opts *o, int64_t epoch, int64_t order[PHOTOS])
{
    brim_pipeline *p = pipeline(set, o);
    int64_t n = 0;
    seek(p, epoch, 0);
    for (const brim_batch *b; (b = next(p)); brim_pipeline_release(p, b))
        for (int64_t i = 0; i < b->n; i++) order[n++] = b->sample[i];
    assert_int_equal(n, PHOTOS);
    brim_pipeline_free(p);
}

static void shuffles_anew_in_every_epoch(void **state)
{
    int64_t order[4][PHOTOS];
    brim_pipeline_opts o = eval_opts();
    o.shuffle = true;
    o.seed = 1;
    for (int e = 0; e < 3; e++) order_of(&o, e, order[e]);
    o.seed = 2;
    order_of(&o, 0, order[3]);
    for (int e = 0; e < 4; e++) {
        bool seen[PHOTOS] = {false};
        int moved = 0;
        for (int i = 0; i < PHOTOS; i++) {
            assert_in_range(order[e][i], 0, PHOTOS - 1);
            assert_false(seen[order[e][i]]);
            seen[order[e][i]] = true;
            moved += order[e][i] != i;
        }
        assert_true(moved > PHOTOS / 2);
        for (int f = 0; f < e; f++) assert_memory_not_equal(order[e], order[f], sizeof order[e]);
    }
    o.shuffle = false;
    order_of(&o, 1, order[0]);
    for (int i = 0; i < PHOTOS; i++) assert_int_equal(order[0][i], i);
}

/* ---- statistics ---- */

static void check_statistics(const brim_dataset *d, int size, int channels, const double mean[3],
                             const double std[3])
{
    for (int threads = 0; threads < 3; threads += 2) {
        double m[3], s[3];
        brim_error err = {0};
        if (brim_dataset_statistics(d, size, size, channels, 0, threads, m, s, &err) != BRIM_OK)
            fail_msg("%s", err.text);
        for (int c = 0; c < 3; c++)
            if (fabs(m[c] - mean[c]) > 1e-9 || fabs(s[c] - std[c]) > 1e-7)
                fail_msg("channel %d: mean %.9g, deviation %.9g", c, m[c], s[c]);
    }
}

/* Grey: four times 0, four times 1, twice 0.2 and twice 0.8; their mean square is 5.36 / 12. One
 * channel stands for all three. */
static void measures_grey_images(void **state)
{
    static const uint8_t pixels[] = {0, 0, 0, 0, 255, 255, 255, 255, 51, 204, 204, 51};
    bytes b = idx_make(3, (uint32_t[]){3, 2, 2}, pixels);
    files_write_bytes("grey-images-idx3-ubyte", &b);
    b = idx_make(1, (uint32_t[]){3}, (const uint8_t[]){0, 1, 0});
    files_write_bytes("grey-labels-idx1-ubyte", &b);
    brim_dataset *d = open_set(files_path("grey-images-idx3-ubyte"));
    double s = sqrt(5.36 / 12 - 0.25);
    check_statistics(d, 2, 1, (double[]){0.5, 0.5, 0.5}, (double[]){s, s, s});
    check_statistics(d, 2, 3, (double[]){0.5, 0.5, 0.5}, (double[]){s, s, s});
    brim_dataset_free(d);
}

/* Red is 0 or 1, green always 0.2, blue 0.4 or 0.8. */
static void measures_each_channel(void **state)
{
    static const uint8_t value[2][3] = {{0, 51, 102}, {255, 51, 204}};
    bytes b = {0};
    for (int i = 0; i < 40; i++) {
        uint8_t record[3073] = {(uint8_t)(i % 10)};
        for (int c = 0; c < 3; c++) memset(record + 1 + 1024 * c, value[i % 2][c], 1024);
        bytes_add(&b, record, sizeof record);
    }
    files_write_bytes("flat.bin", &b);
    brim_dataset *d = open_set(files_path("flat.bin"));
    check_statistics(d, 32, 3, (double[]){0.5, 0.2, 0.6}, (double[]){0.5, 0, 0.2});
    check_statistics(d, 8, 3, (double[]){0.5, 0.2, 0.6}, (double[]){0.5, 0, 0.2});
    brim_dataset_free(d);
}

/* A damaged image, which the batch holds as black, does not count. */
static void measures_no_damaged_image(void **state)
{
    uint8_t pixels[4 * 4 * 3];
    memset(pixels, 51, sizeof pixels);
    bytes b = png_make(pixels, 4, 4, PNG_COLOR_TYPE_RGB, 8, 0);
    files_write("flaws/a/1.png", b.at, b.n);
    files_write("flaws/b/2.png", b.at, b.n / 2);
    bytes_free(&b);
    brim_dataset *d = open_set(files_path("flaws"));
    check_statistics(d, 4, 3, (double[]){0.2, 0.2, 0.2}, (double[]){0, 0, 0});
    brim_dataset_free(d);
}

/* ---- ends ---- */

static void frees_while_workers_are_busy(void **state)
{
    for (int k = 0; k < 40; k++) {
        brim_pipeline_opts o = train_opts();
        o.threads = 3;
        o.ring = 1 + k % 4;
        o.cache_bytes = k % 2 ? 1 << 20 : 0;
        brim_pipeline *p = pipeline(set, &o);
        if (k % 5) seek(p, k, 0);
        for (int i = 0; i < k % 5 - 1 && i < o.ring; i++) {
            const brim_batch *b = next(p);
            assert_non_null(b);
            if (k % 3) brim_pipeline_release(p, b);
        }
        brim_pipeline_free(p); /* with batches held or being made */
    }
    brim_pipeline_free(NULL);
}

static void refuses_more_batches_than_the_ring_has(void **state)
{
    brim_pipeline_opts o = eval_opts();
    brim_error err = {0};
    const brim_batch *b;
    brim_pipeline *p = pipeline(set, &o);
    seek(p, 0, 0);
    const brim_batch *held = next(p);
    assert_non_null(next(p));
    assert_int_equal(brim_pipeline_next(p, &b, NULL, &err), BRIM_EINVAL);
    assert_null(b);
    assert_non_null(strstr(err.text, "2 batches"));
    brim_pipeline_release(p, held);
    assert_int_equal(next(p)->index, 2);
    brim_pipeline_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_same_bits_with_any_threads),
        cmocka_unit_test(seeks_to_any_batch),
        cmocka_unit_test(ends_with_a_short_batch_or_none),
        cmocka_unit_test(leaves_damaged_images_out),
        cmocka_unit_test(stops_when_nothing_can_be_read),
        cmocka_unit_test(survives_allocation_failures),
        cmocka_unit_test(gives_the_same_bits_with_a_cache),
        cmocka_unit_test(shuffles_anew_in_every_epoch),
        cmocka_unit_test(measures_grey_images),
        cmocka_unit_test(measures_each_channel),
        cmocka_unit_test(measures_no_damaged_image),
        cmocka_unit_test(frees_while_workers_are_busy),
        cmocka_unit_test(refuses_more_batches_than_the_ring_has),
    };
    return cmocka_run_group_tests(tests, make_set, free_set);
}
