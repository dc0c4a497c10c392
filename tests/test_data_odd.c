/* The odd images of other projects' tests, most of them broken: each is read or refused as the
 * manifest beside them says that Pillow does, and what is read has the pixels that Pillow finds.
 * What Pillow reads although djpeg or pngcheck complain may be refused as damaged. The folder is
 * that in BRIM_TEST_DATA; without it the test is skipped. */
#include "data/decoder.h"
#include "data_files.h"
#include "io/file.h"
#include "tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 15 };
enum {
    FILE_NAME,
    TYPE = 2,
    VERDICT = 5,
    MODE = 7,
    DIMENSIONS = 8,
    MEAN = 10,
    SUM = 11,
    CHECKER = 13
};

typedef struct row {
    char *at[COLUMNS];
} row;

/* libpng, which skips such chunks, finds nothing wrong with the pixels of this one. */
static const char unlike_pillow[] = "odd/libpng-testpngs/crashers/empty_ancillary_chunks.png";

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

/* Splits a line at its tabs. */
static row row_of(char *line)
{
    row r = {{0}};
    for (int k = 0; k < COLUMNS && line; k++) r.at[k] = strsep(&line, "\t");
    assert_non_null(r.at[COLUMNS - 1]);
    return r;
}

static bool is(const row *r, int column, const char *text)
{
    return !strcmp(r->at[column], text);
}

typedef struct tally {
    int read, refused, hashed, wrong;
    FILE *sums; /* for sha256sum -c */
} tally;

static void wrong(tally *t, const row *r, const char *what)
{
    print_error("%s: %s\n", r->at[FILE_NAME], what);
    t->wrong++;
}

static brim_status decode(brim_decoder *d, const char *text, size_t n, int channels, brim_image *im,
                          brim_error *err)
{
    brim_sample s = {.bytes = (const uint8_t *)text, .n = n};
    brim_image_info info;
    *err = (brim_error){0};
    brim_status st = brim_image_probe(&s, &info, err);
    return st == BRIM_OK ? brim_image_decode(d, &s, &info, channels, NULL, im, err) : st;
}

static void check_mean(tally *t, const row *r, const brim_image *im, double tolerance)
{
    double sum[3] = {0}, want[3] = {0}, n = (double)im->w * im->h;
    char what[128];
    assert_int_equal(sscanf(r->at[MEAN], "%lf,%lf,%lf", want, want + 1, want + 2), 3);
    for (int y = 0; y < im->h; y++)
        for (int x = 0; x < im->w * 3; x++) sum[x % 3] += im->pixels[(size_t)y * im->stride + x];
    for (int c = 0; c < 3; c++) {
        if (fabs(sum[c] / n - want[c]) <= tolerance) continue;
        snprintf(what, sizeof what, "mean of channel %d is %.2f, wants %.2f", c, sum[c] / n,
                 want[c]);
        wrong(t, r, what);
        return;
    }
}

static void check_size(tally *t, const row *r, const brim_image *im)
{
    int w, h;
    char what[64];
    assert_int_equal(sscanf(r->at[DIMENSIONS], "%dx%d", &w, &h), 2);
    if ((im->w == w && im->h == h) || (im->w == h && im->h == w)) return; /* stored; upright */
    snprintf(what, sizeof what, "is %d x %d", im->w, im->h);
    wrong(t, r, what);
}

/* Leaves the pixels in a file, to be summed: one byte a value, or one bit in mode 1. */
static void put_pixels(tally *t, const row *r, const brim_image *im)
{
    char name[32];
    bytes b = {0};
    size_t n = (size_t)(im->w * im->channels);
    for (int y = 0; y < im->h; y++) {
        const uint8_t *line = im->pixels + (size_t)y * im->stride;
        if (!is(r, MODE, "1")) bytes_add(&b, line, n);
        for (size_t x = 0; is(r, MODE, "1") && x < n; x += 8) {
            uint8_t bits = 0;
            for (size_t k = x; k < x + 8 && k < n; k++) bits |= (line[k] & 128) >> (k - x);
            bytes_add(&b, &bits, 1);
        }
    }
    snprintf(name, sizeof name, "pixels/%d", t->hashed++);
    files_write_bytes(name, &b);
    fprintf(t->sums, "%s  %s\n", r->at[SUM], files_path(name));
}

static void check_file(tally *t, brim_decoder *d, const row *r)
{
    char path[640], *text;
    size_t n;
    brim_error err = {0};
    brim_image im;
    bool good = is(r, VERDICT, "OK"), jpeg = is(r, TYPE, "jpeg");
    bool clean = ends_with(r->at[CHECKER], ":0");
    snprintf(path, sizeof path, "%s/%s", files_path("."), r->at[FILE_NAME]);
    if (brim_file_read(path, 1 << 26, &text, &n, &err) != BRIM_OK) fail_msg("%s", err.text);
    brim_status st = decode(d, text, n, 3, &im, &err);
    if (st != BRIM_OK) {
        assert_int_equal(st, BRIM_EFORMAT);
        if (good && clean) wrong(t, r, err.text);
        t->refused++;
    } else {
        t->read++;
        if (!good && !is(r, FILE_NAME, unlike_pillow)) wrong(t, r, "is read");
        if (good) {
            check_size(t, r, &im);
            if (!is(r, MODE, "I")) check_mean(t, r, &im, jpeg ? 1 : 0.006);
        }
    }
    bool plain = is(r, MODE, "1") || is(r, MODE, "L");
    if (st == BRIM_OK && good && !jpeg && (plain || is(r, MODE, "RGB"))) {
        assert_int_equal(decode(d, text, n, plain ? 1 : 3, &im, &err), BRIM_OK);
        put_pixels(t, r, &im);
    }
    free(text);
}

static void unpack(const char *folder)
{
    char cmd[1200];
    snprintf(cmd, sizeof cmd, "tar -xzf '%s/odd-images.tar.gz' -C '%s'", folder, files_path("."));
    assert_int_equal(system(cmd), 0);
}

static void reads_or_refuses_as_the_manifest_says(void **state)
{
    char folder[512], path[640], *text;
    size_t n;
    tally t = {0};
    brim_error err = {0};
    snprintf(folder, sizeof folder, "%s/fixtures/images", TEST_DATA_OR_SKIP());
    unpack(folder);
    snprintf(path, sizeof path, "%s/odd-images.MANIFEST.tsv", folder);
    if (brim_file_read(path, 1 << 24, &text, &n, &err) != BRIM_OK) fail_msg("%s", err.text);
    t.sums = fopen(files_path("sums"), "w");
    assert_non_null(t.sums);
    brim_decoder *d = brim_decoder_new();
    char *rest = text, *line = strsep(&rest, "\n"); /* the head */
    int files = 0;
    while ((line = strsep(&rest, "\n")) && *line) {
        row r = row_of(line);
        check_file(&t, d, &r);
        files++;
    }
    brim_decoder_free(d);
    fclose(t.sums);
    free(text);
    assert_int_equal(files, 742);
    assert_int_equal(t.read + t.refused, files);
    assert_int_equal(t.hashed, 80);
    assert_int_equal(t.wrong, 0);
    snprintf(path, sizeof path, "sha256sum --quiet -c '%s' >&2", files_path("sums"));
    assert_int_equal(system(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_or_refuses_as_the_manifest_says),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
