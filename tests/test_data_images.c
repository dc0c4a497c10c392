/* Decoding: orientation, files cut short, parts of images, and what is refused for its size. */
#include "base/rng.h"
#include "data/decoder.h"
#include "data_files.h"
#include "tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>
#include <webp/encode.h>
#include <zlib.h>

static brim_status decode(brim_decoder *d, const uint8_t *at, size_t n, int channels,
                          const brim_view *v, brim_image_info *info, brim_image *im,
                          brim_error *err)
{
    brim_sample s = {.bytes = at, .n = n};
    *err = (brim_error){0};
    brim_status st = brim_image_probe(&s, info, err);
    return st == BRIM_OK ? brim_image_decode(d, &s, info, channels, v, im, err) : st;
}

/* Decodes what must be right, to pixels that the caller frees, rows packed. */
static uint8_t *decoded(const bytes *b, int channels, brim_image_info *info, brim_image *im)
{
    brim_decoder *d = brim_decoder_new();
    brim_error err;
    if (decode(d, b->at, b->n, channels, NULL, info, im, &err) != BRIM_OK) fail_msg("%s", err.text);
    assert_true(im->w == im->full_w && im->h == im->full_h && im->left == 0 && im->top == 0);
    assert_true(im->w == info->w && im->h == info->h && im->channels == channels);
    size_t row = (size_t)im->w * (size_t)channels;
    uint8_t *out = malloc(row * (size_t)im->h);
    for (int y = 0; y < im->h; y++)
        memcpy(out + row * (size_t)y, im->pixels + im->stride * (size_t)y, row);
    brim_decoder_free(d);
    im->pixels = out;
    im->stride = row;
    return out;
}

static void refused(const bytes *b, const char *word)
{
    brim_decoder *d = brim_decoder_new();
    brim_image_info info;
    brim_image im;
    brim_error err;
    assert_int_equal(decode(d, b->at, b->n, 3, NULL, &info, &im, &err), BRIM_EFORMAT);
    if (!strstr(err.text, word)) fail_msg("\"%s\" (wants \"%s\")", err.text, word);
    brim_decoder_free(d);
}

static uint8_t *noise_make(int w, int h, int channels, uint64_t seed)
{
    size_t n = (size_t)(w * h * channels);
    uint8_t *p = malloc(n);
    brim_rng r;
    brim_rng_init(&r, seed, 1);
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)brim_rng_below(&r, 256);
    return p;
}

/* ---- formats ---- */

enum { JPEG_420 = 1, JPEG_422, JPEG_440, JPEG_444, JPEG_411 };

static bytes jpeg_sampled(const uint8_t *rgb, int w, int h, int kind, const jpeg_scan_info *scan,
                          int scans)
{
    static const int factor[][2] = {{0, 0}, {2, 2}, {2, 1}, {1, 2}, {1, 1}, {4, 1}};
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr mgr;
    unsigned char *out = NULL;
    unsigned long n = 0;
    c.err = jpeg_std_error(&mgr);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &n);
    c.image_width = (unsigned)w;
    c.image_height = (unsigned)h;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    c.comp_info[0].h_samp_factor = factor[kind][0];
    c.comp_info[0].v_samp_factor = factor[kind][1];
    c.scan_info = scan;
    c.num_scans = scans;
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
        JSAMPROW row = (JSAMPROW)rgb + (size_t)c.next_scanline * (size_t)w * 3;
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    bytes b = {0};
    bytes_add(&b, out, n);
    free(out);
    return b;
}

static bytes webp_lossy(const uint8_t *rgb, int w, int h)
{
    uint8_t *out = NULL;
    bytes b = {0};
    size_t n = WebPEncodeRGB(rgb, w, h, w * 3, 60, &out);
    bytes_add(&b, out, n);
    WebPFree(out);
    return b;
}

/* ---- orientation ---- */

/* Where pixel (x, y) of the upright image lies in the stored one of w x h, by the words of
 * EXIF 2.3: which edges of the picture the stored row 0 and column 0 are. */
static void stored_place(int o, int w, int h, int x, int y, int *sx, int *sy)
{
    switch (o) {
    case 1: *sx = x, *sy = y; break;                 /* top, left */
    case 2: *sx = w - 1 - x, *sy = y; break;         /* top, right */
    case 3: *sx = w - 1 - x, *sy = h - 1 - y; break; /* bottom, right */
    case 4: *sx = x, *sy = h - 1 - y; break;         /* bottom, left */
    case 5: *sx = y, *sy = x; break;                 /* left, top */
    case 6: *sx = y, *sy = h - 1 - x; break;         /* right, top */
    case 7: *sx = w - 1 - y, *sy = h - 1 - x; break; /* right, bottom */
    default: *sx = w - 1 - y, *sy = x; break;        /* left, bottom */
    }
}

/* The decoded file is the upright form of the stored pixels. */
static void is_turned(const bytes *b, int o, const uint8_t *stored, int w, int h)
{
    brim_image_info info;
    brim_image im;
    uint8_t *p = decoded(b, 3, &info, &im);
    assert_int_equal(info.orientation, o);
    assert_int_equal(im.w, o >= 5 ? h : w);
    assert_int_equal(im.h, o >= 5 ? w : h);
    for (int y = 0; y < im.h; y++)
        for (int x = 0; x < im.w; x++) {
            int sx, sy;
            stored_place(o, w, h, x, y, &sx, &sy);
            assert_memory_equal(p + 3 * (y * im.w + x), stored + 3 * (sy * w + sx), 3);
        }
    free(p);
}

static void turns_upright(void **state)
{
    enum { W = 21, H = 13 };
    uint8_t *rgb = noise_make(W, H, 3, 5);
    bytes plain = jpeg_make(rgb, W, H, JPEG_RGB, 0);
    brim_image_info info;
    brim_image im;
    uint8_t *jpeg_pixels = decoded(&plain, 3, &info, &im);
    assert_int_equal(info.orientation, 1);
    for (int o = 1; o <= 8; o++) {
        bytes file[] = {png_make(rgb, W, H, PNG_COLOR_TYPE_RGB, 8, o),
                        png_make(rgb, W, H, PNG_COLOR_TYPE_RGB, 8, -o), webp_make(rgb, W, H, 3, o),
                        jpeg_make(rgb, W, H, JPEG_RGB, o)};
        for (int k = 0; k < 4; k++) {
            is_turned(&file[k], o, k == 3 ? jpeg_pixels : rgb, W, H);
            bytes_free(&file[k]);
        }
    }
    bytes_free(&plain);
    free(jpeg_pixels);
    free(rgb);
}

/* A damaged EXIF block leaves the image as it is. */
static void ignores_damaged_exif(void **state)
{
    static const uint8_t good[26] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0,
                                     3,   0,   0, 0,  1, 0, 6, 0, 0, 0, 0,    0,    0};
    static const uint8_t little[26] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 0x01, 3,
                                       0,   1,   0,  0, 0, 6, 0, 0, 0, 0, 0,    0,    0};
    assert_int_equal(brim_exif_orientation(good, 26), 6);
    assert_int_equal(brim_exif_orientation(little, 26), 6);
    for (size_t n = 0; n <= 26; n++) {
        uint8_t *cut = malloc(n ? n : 1);
        memcpy(cut, good, n);
        assert_int_equal(brim_exif_orientation(cut, n), n >= 22 ? 6 : 1);
        free(cut);
    }
    static const struct {
        int at, value;
    } damage[] = {{0, 'X'}, {4, 0xff}, {7, 3}, {7, 25}, {10, 2}, {19, 9}, {19, 0}, {18, 1}};
    for (size_t k = 0; k < sizeof damage / sizeof *damage; k++) {
        uint8_t bad[26];
        memcpy(bad, good, 26);
        bad[damage[k].at] = (uint8_t)damage[k].value;
        assert_int_equal(brim_exif_orientation(bad, 26), 1);
    }
}

/* ---- cut short ---- */

/* Of a file that ends early, a view that does not need the rest may be decoded, right. */
static void cut_view(brim_decoder *d, const uint8_t *at, size_t n, const uint8_t *whole, int w)
{
    static const brim_view top = {0, 0, 1, 0.25, 0, 0};
    brim_image_info info;
    brim_image im;
    brim_error err;
    if (decode(d, at, n, 3, &top, &info, &im, &err) != BRIM_OK) {
        assert_true(err.text[0]);
        return;
    }
    size_t row = (size_t)w * 3;
    for (int y = 0; y < info.h / 4; y++)
        assert_memory_equal(im.pixels + im.stride * (size_t)y, whole + row * (size_t)y, row);
}

/* Every length is refused, but for `rest` bytes at the end that hold no pixels. */
static void every_cut(bytes b, size_t rest)
{
    brim_decoder *d = brim_decoder_new();
    brim_image_info info;
    brim_image im;
    brim_error err;
    uint8_t *whole = decoded(&b, 3, &info, &im);
    size_t pixels = (size_t)(info.w * info.h * 3);
    int w = im.w;
    for (size_t n = 0; n < b.n; n++) {
        uint8_t *cut = malloc(n ? n : 1); /* of its own, so that reading behind it is seen */
        if (n) memcpy(cut, b.at, n);
        brim_status st = decode(d, cut, n, 3, NULL, &info, &im, &err);
        if (st == BRIM_OK) {
            assert_true(n >= b.n - rest);
            assert_memory_equal(im.pixels, whole, pixels);
        } else {
            assert_int_equal(st, BRIM_EFORMAT);
            assert_true(err.text[0]);
        }
        cut_view(d, cut, n, whole, w);
        free(cut);
    }
    brim_decoder_free(d);
    free(whole);
    bytes_free(&b);
}

static void refuses_every_cut(void **state)
{
    enum { W = 40, H = 32 };
    uint8_t *rgb = pixels_make(W, H, 4, 3);
    every_cut(jpeg_make(rgb, W, H, JPEG_RGB, 6), 0);
    every_cut(jpeg_make(rgb, W, H, JPEG_GREY, 0), 0);
    every_cut(jpeg_make(rgb, W, H, JPEG_PROGRESSIVE, 0), 0);
    every_cut(jpeg_make(rgb, W, H, JPEG_CMYK, 0), 0);
    every_cut(png_make(rgb, W, H, PNG_COLOR_TYPE_RGB, 8, -3), 0);
    every_cut(png_make(rgb, W, H, PNG_COLOR_TYPE_PALETTE, 8, 0), 0);
    every_cut(webp_make(rgb, W, H, 3, 0), 1);      /* a byte that fills up */
    every_cut(webp_make(rgb, W, H, 4, 5), 8 + 26); /* EXIF comes last */
    every_cut(webp_lossy(rgb, W, H), 1);
    free(rgb);
}

/* ---- parts ---- */

/* What a view gives holds the view, and there the pixels of the whole image at the same size. */
static void check_part(brim_decoder *d, const bytes *b, int channels, const brim_view *v,
                       const brim_image *whole)
{
    brim_image_info info;
    brim_image im;
    brim_error err;
    if (decode(d, b->at, b->n, channels, v, &info, &im, &err) != BRIM_OK) fail_msg("%s", err.text);
    assert_true(im.full_w == whole->full_w && im.full_h == whole->full_h);
    assert_true(im.left >= 0 && im.top >= 0 && im.w > 0 && im.h > 0);
    int x0 = (int)floor(v->x0 * im.full_w), x1 = (int)ceil(v->x1 * im.full_w),
        y0 = (int)floor(v->y0 * im.full_h), y1 = (int)ceil(v->y1 * im.full_h);
    assert_true(im.left <= x0 && im.left + im.w >= x1 && im.left + im.w <= im.full_w);
    assert_true(im.top <= y0 && im.top + im.h >= y1 && im.top + im.h <= im.full_h);
    for (int y = y0; y < y1; y++) {
        const uint8_t *got = im.pixels + (size_t)(y - im.top) * im.stride +
                             (size_t)((x0 - im.left) * channels),
                      *want = whole->pixels + (size_t)y * whole->stride + (size_t)(x0 * channels);
        assert_memory_equal(got, want, (size_t)((x1 - x0) * channels));
    }
}

/* Random views of the whole size, and of the size that `shrink` asks for. */
static void check_parts(bytes b, int channels, int shrink)
{
    brim_decoder *d = brim_decoder_new(), *all = brim_decoder_new();
    brim_image_info info;
    brim_image whole;
    brim_error err;
    brim_rng r;
    brim_rng_init(&r, 7, b.n);
    brim_view v = {0, 0, 1, 1, 0, 0};
    assert_int_equal(decode(all, b.at, b.n, channels, &v, &info, &whole, &err), BRIM_OK);
    int full_w = whole.full_w, full_h = whole.full_h;
    if (shrink > 1) {
        v.min_w = full_w / shrink;
        v.min_h = full_h / shrink;
        assert_int_equal(decode(all, b.at, b.n, channels, &v, &info, &whole, &err), BRIM_OK);
        bool scales = info.format == BRIM_IMAGE_JPEG;
        assert_int_equal(whole.full_w, scales ? (full_w + shrink - 1) / shrink : full_w);
    }
    for (int k = 0; k < 60; k++) {
        brim_view part = {brim_rng_uniform(&r, 0, 0.9), brim_rng_uniform(&r, 0, 0.9), 1, 1, 0, 0};
        part.x1 = k % 4 ? brim_rng_uniform(&r, part.x0 + 0.1, 1) : 1;
        part.y1 = k % 4 ? brim_rng_uniform(&r, part.y0 + 0.1, 1) : 1;
        if (k % 5 == 0) part.x0 = 0;
        if (k % 7 == 0) part.y0 = 0;
        part.min_w = (int)(v.min_w * (part.x1 - part.x0));
        part.min_h = (int)(v.min_h * (part.y1 - part.y0));
        check_part(d, &b, channels, &part, &whole);
    }
    brim_decoder_free(d);
    brim_decoder_free(all);
    bytes_free(&b);
}

static void decodes_parts_as_the_whole(void **state)
{
    enum { W = 150, H = 118 };
    uint8_t *noise = noise_make(W, H, 4, 9);
    for (int channels = 1; channels <= 3; channels += 2) {
        for (int shrink = 1; shrink <= 8; shrink *= 2) {
            for (int kind = JPEG_420; kind <= JPEG_411; kind++)
                check_parts(jpeg_sampled(noise, W, H, kind, NULL, 0), channels, shrink);
            check_parts(jpeg_make(noise, W, H, JPEG_GREY, 0), channels, shrink);
            check_parts(jpeg_make(noise, W, H, JPEG_PROGRESSIVE, 0), channels, shrink);
            check_parts(jpeg_make(noise, W, H, JPEG_CMYK, 0), channels, shrink);
        }
        check_parts(png_make(noise, W, H, PNG_COLOR_TYPE_RGB, 8, 0), channels, 4);
        check_parts(webp_make(noise, W, H, 3, 0), channels, 4);
        for (int o = 2; o <= 8; o++) {
            check_parts(jpeg_make(noise, W, H, JPEG_RGB, o), channels, 2);
            check_parts(png_make(noise, W, H, PNG_COLOR_TYPE_RGB, 8, o), channels, 1);
        }
    }
    free(noise);
}

/* ---- warnings of libjpeg ---- */

static size_t find_marker(const bytes *b, uint8_t marker)
{
    for (size_t k = 0; k + 1 < b->n; k++)
        if (b->at[k] == 0xff && b->at[k + 1] == marker) return k;
    fail();
    return 0;
}

/* What does not touch the pixels is forgiven, as Pillow does; lost pixels are not. */
static void forgives_only_what_is_harmless(void **state)
{
    bytes good = photo_make(4), odd = {0}, junk = {0}, inner = {0};
    brim_image_info info;
    brim_image a, b, c;
    size_t scan = find_marker(&good, 0xda), table = find_marker(&good, 0xc4);
    bytes_add(&odd, good.at, good.n);
    assert_int_equal(odd.at[scan + 4 + 1 + 6 + 1], 63); /* last coefficient of the scan */
    odd.at[scan + 4 + 1 + 6 + 1] = 17;
    bytes_add(&junk, good.at, table);
    bytes_add(&junk, "junk", 4);
    bytes_add(&junk, good.at + table, good.n - table);
    bytes_add(&inner, good.at, good.n - 2);
    for (int k = 0; k < 10; k++) bytes_add(&inner, "junk", 4);
    bytes_add(&inner, good.at + good.n - 2, 2);
    uint8_t *pa = decoded(&good, 3, &info, &a), *pb = decoded(&odd, 3, &info, &b),
            *pc = decoded(&junk, 3, &info, &c);
    size_t n = (size_t)(a.w * a.h * 3);
    assert_memory_equal(pa, pb, n);
    assert_memory_equal(pa, pc, n);
    refused(&inner, "extraneous bytes");
    good.n -= 2;
    refused(&good, "Premature end");
    bytes_free(&good);
    bytes_free(&odd);
    bytes_free(&junk);
    bytes_free(&inner);
    free(pa);
    free(pb);
    free(pc);
}

/* ---- sizes ---- */

static bytes png_header(uint32_t w, uint32_t h)
{
    bytes b = {0};
    uint8_t chunk[25] = {0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0, 0, 0, 0, 0, 0, 0, 8, 2};
    for (int k = 0; k < 4; k++) {
        chunk[8 + k] = (uint8_t)(w >> (24 - 8 * k));
        chunk[12 + k] = (uint8_t)(h >> (24 - 8 * k));
    }
    uint32_t sum = (uint32_t)crc32(0, chunk + 4, 17);
    for (int k = 0; k < 4; k++) chunk[21 + k] = (uint8_t)(sum >> (24 - 8 * k));
    bytes_add(&b, "\x89PNG\r\n\x1a\n", 8);
    bytes_add(&b, chunk, 25);
    bytes_add(&b, "\0\0\0\1IDAT\x78\0\0\0\0", 13);
    return b;
}

/* A header may promise any size; memory is only taken for what the file can hold. */
static void refuses_sizes_that_cannot_be(void **state)
{
    static const struct {
        uint32_t w, h;
        const char *word;
    } row[] = {{60000, 60000, "more than is read"},
               {65501, 10, "Invalid IHDR"},
               {18000, 18000, "cannot come from"},
               {65500, 300, "cannot come from"},
               {4096, 4096, "PNG"}}; /* plausible, and cut short */
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        bytes b = png_header(row[k].w, row[k].h);
        refused(&b, row[k].word);
        bytes_free(&b);
    }
    bytes jpeg = photo_make(1);
    size_t frame = find_marker(&jpeg, 0xc0);
    memcpy(jpeg.at + frame + 5, "\xff\x00\x10\x00", 4); /* 4096 x 65280 */
    refused(&jpeg, "cannot come from");
    bytes_free(&jpeg);
    /* WebP codes one colour in no bits at all: this one is all right, but for its purpose. */
    enum { SIDE = 5000 };
    uint8_t *grey = calloc(SIDE * SIDE, 3);
    bytes webp = webp_make(grey, SIDE, SIDE, 3, 0);
    free(grey);
    assert_true(webp.n < 4096);
    refused(&webp, "cannot come from");
    bytes_free(&webp);
}

static void refuses_endless_scans(void **state)
{
    enum { SCANS = 1 + 3 * 63, MORE = 63 };
    jpeg_scan_info scan[SCANS + MORE] = {{3, {0, 1, 2}, 0, 0, 0, 0}};
    int n = 1;
    for (int c = 0; c < 3; c++)
        for (int k = 1; k < 64; k++) scan[n++] = (jpeg_scan_info){1, {c}, k, k, 0, c == 0};
    for (int k = 1; k < 64; k++) scan[n++] = (jpeg_scan_info){1, {0}, k, k, 1, 0};
    uint8_t *rgb = pixels_make(16, 16, 3, 1);
    bytes many = jpeg_sampled(rgb, 16, 16, JPEG_420, scan, SCANS),
          more = jpeg_sampled(rgb, 16, 16, JPEG_420, scan, SCANS + MORE);
    brim_image_info info;
    brim_image im;
    free(decoded(&many, 3, &info, &im));
    refused(&more, "scans");
    bytes_free(&many);
    bytes_free(&more);
    free(rgb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_upright),
        cmocka_unit_test(ignores_damaged_exif),
        cmocka_unit_test(refuses_every_cut),
        cmocka_unit_test(decodes_parts_as_the_whole),
        cmocka_unit_test(forgives_only_what_is_harmless),
        cmocka_unit_test(refuses_sizes_that_cannot_be),
        cmocka_unit_test(refuses_endless_scans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
