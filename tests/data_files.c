#include "data_files.h"
#include "tests.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>
#include <webp/encode.h>
#include <zlib.h>

static char dir[64];

/* ---- bytes and files ---- */

void bytes_add(bytes *b, const void *from, size_t n)
{
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n);
        b->at = realloc(b->at, b->cap);
        assert_non_null(b->at);
    }
    if (n) memcpy(b->at + b->n, from, n);
    b->n += n;
}

void bytes_free(bytes *b)
{
    free(b->at);
    *b = (bytes){0};
}

bytes bytes_gzip(const bytes *b)
{
    z_stream z = {.next_in = b->at, .avail_in = (unsigned)b->n};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    bytes out = {.cap = deflateBound(&z, b->n) + 64};
    out.at = malloc(out.cap);
    z.next_out = out.at;
    z.avail_out = (unsigned)out.cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.n = z.total_out;
    deflateEnd(&z);
    return out;
}

int files_begin(void **state)
{
    strcpy(dir, "/tmp/brim-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

int files_end(void **state)
{
    char cmd[96];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
    return system(cmd) == 0 ? 0 : -1;
}

const char *files_path(const char *name)
{
    static char path[8][512];
    static int k;
    k = (k + 1) % 8;
    snprintf(path[k], sizeof path[k], "%s/%s", dir, name);
    return path[k];
}

void files_write(const char *name, const void *at, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s", files_path(name));
    for (char *slash = strchr(path + strlen(dir) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(at, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

void files_write_bytes(const char *name, bytes *b)
{
    files_write(name, b->at ? b->at : (const void *)"", b->n);
    bytes_free(b);
}

/* ---- archives and raw sets ---- */

void tar_header(bytes *tar, const char *name, char type, size_t n)
{
    char h[512] = {0};
    snprintf(h, 101, "%s", name);
    memcpy(h + 100, "0000644", 8);
    memcpy(h + 108, "0000000", 8);
    memcpy(h + 116, "0000000", 8);
    snprintf(h + 124, 12, "%011lo", (unsigned long)n);
    memcpy(h + 136, "00000000000", 12);
    h[156] = type;
    memcpy(h + 257, "ustar\00000", 8);
    unsigned sum = 8 * ' ';
    for (int k = 0; k < 512; k++) sum += (unsigned char)h[k];
    snprintf(h + 148, 8, "%06o", sum);
    h[155] = ' ';
    bytes_add(tar, h, 512);
}

static void tar_content(bytes *tar, const void *at, size_t n)
{
    static const char zero[512];
    bytes_add(tar, at, n);
    bytes_add(tar, zero, (512 - n % 512) % 512);
}

void tar_add(bytes *tar, const char *name, const void *at, size_t n)
{
    if (strlen(name) > 100) {
        tar_header(tar, "././@LongLink", 'L', strlen(name) + 1);
        tar_content(tar, name, strlen(name) + 1);
    }
    tar_header(tar, name, '0', n);
    tar_content(tar, at, n);
}

void tar_end(bytes *tar)
{
    static const char zero[1024];
    bytes_add(tar, zero, 1024);
}

bytes idx_make(int rank, const uint32_t *dim, const uint8_t *data)
{
    bytes b = {0};
    uint8_t head[4] = {0, 0, 8, (uint8_t)rank};
    size_t n = 1;
    bytes_add(&b, head, 4);
    for (int k = 0; k < rank; k++) {
        uint8_t big[4] = {(uint8_t)(dim[k] >> 24), (uint8_t)(dim[k] >> 16), (uint8_t)(dim[k] >> 8),
                          (uint8_t)dim[k]};
        bytes_add(&b, big, 4);
        n *= dim[k];
    }
    bytes_add(&b, data, n);
    return b;
}

bytes cifar_make(int n)
{
    bytes b = {0};
    for (int i = 0; i < n; i++) {
        uint8_t record[3073];
        record[0] = (uint8_t)(i % 10);
        for (int k = 0; k < 3072; k++) record[1 + k] = (uint8_t)(k * 7 + i * 13 + (k >> 8));
        bytes_add(&b, record, sizeof record);
    }
    return b;
}

/* ---- images ---- */

uint8_t *pixels_make(int w, int h, int channels, unsigned seed)
{
    uint8_t *p = malloc((size_t)(w * h * channels));
    assert_non_null(p);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int c = 0; c < channels; c++)
                p[(y * w + x) * channels + c] =
                    (uint8_t)((200 * x / w + 50 * (c + 1) * y / h + (int)(seed * 37 % 200)) & 255);
    return p;
}

/* An EXIF block in big-endian TIFF that holds the orientation alone. */
static size_t exif_make(uint8_t out[26], int orientation)
{
    static const uint8_t tiff[26] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12,
                                     0,   3,   0, 0,  0, 1, 0, 0, 0, 0, 0,    0};
    memcpy(out, tiff, 26);
    out[19] = (uint8_t)orientation;
    return 26;
}

bytes jpeg_make(const uint8_t *pixels, int w, int h, jpeg_kind kind, int orientation)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr mgr;
    unsigned char *out = NULL;
    unsigned long n = 0;
    c.err = jpeg_std_error(&mgr);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &n);
    c.image_width = (unsigned)w;
    c.image_height = (unsigned)h;
    c.input_components = kind == JPEG_GREY ? 1 : kind == JPEG_CMYK ? 4 : 3;
    c.in_color_space = kind == JPEG_GREY ? JCS_GRAYSCALE : kind == JPEG_CMYK ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 95, TRUE);
    if (kind == JPEG_PROGRESSIVE) jpeg_simple_progression(&c);
    if (kind == JPEG_CMYK) jpeg_set_colorspace(&c, JCS_YCCK);
    jpeg_start_compress(&c, TRUE);
    if (orientation) {
        uint8_t block[32] = "Exif\0";
        jpeg_write_marker(&c, JPEG_APP0 + 1, block,
                          (unsigned)(6 + exif_make(block + 6, orientation)));
    }
    while (c.next_scanline < c.image_height) {
        JSAMPROW row =
            (JSAMPROW)pixels + (size_t)c.next_scanline * (size_t)(w * c.input_components);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    bytes b = {0};
    bytes_add(&b, out, n);
    free(out);
    return b;
}

static void png_write(png_structp png, png_bytep at, size_t n)
{
    bytes_add(png_get_io_ptr(png), at, n);
}

static void png_flush_none(png_structp png)
{
    (void)png;
}

bytes png_make(const uint8_t *pixels, int w, int h, int type, int depth, int orientation)
{
    static const int samples[] = {1, 0, 3, 1, 2, 0, 4};
    bytes b = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_color palette[256];
    uint8_t exif[26];
    assert_false(setjmp(png_jmpbuf(png)));
    png_set_write_fn(png, &b, png_write, png_flush_none);
    png_set_IHDR(png, info, (unsigned)w, (unsigned)h, depth, type, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    for (int i = 0; i < 256; i++)
        palette[i] = (png_color){(uint8_t)i, (uint8_t)(255 - i), (uint8_t)(i / 2)};
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 1 << depth);
    if (orientation > 0) png_set_eXIf_1(png, info, (unsigned)exif_make(exif, orientation), exif);
    png_write_info(png, info);
    size_t row = ((size_t)w * (size_t)(samples[type] * depth) + 7) / 8;
    for (int y = 0; y < h; y++) png_write_row(png, pixels + row * (size_t)y);
    if (orientation < 0) {
        exif_make(exif, -orientation);
        png_write_chunk(png, (png_const_bytep) "eXIf", exif, sizeof exif);
    }
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    return b;
}

static void riff_chunk(bytes *b, const char *tag, const void *at, size_t n)
{
    uint8_t size[4] = {(uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), (uint8_t)(n >> 24)};
    bytes_add(b, tag, 4);
    bytes_add(b, size, 4);
    bytes_add(b, at, n);
    if (n % 2) bytes_add(b, "", 1);
}

bytes webp_make(const uint8_t *pixels, int w, int h, int channels, int orientation)
{
    uint8_t *out = NULL;
    size_t n = channels == 4 ? WebPEncodeLosslessRGBA(pixels, w, h, w * 4, &out)
                             : WebPEncodeLosslessRGB(pixels, w, h, w * 3, &out);
    assert_true(n > 12);
    bytes b = {0}, body = {0};
    if (orientation) { /* RIFF: VP8X (flags: EXIF), the picture, EXIF */
        uint8_t exif[26], x[10] = {8};
        exif_make(exif, orientation);
        x[0] |= channels == 4 ? 16 : 0;
        for (int k = 0; k < 3; k++) {
            x[4 + k] = (uint8_t)((w - 1) >> 8 * k);
            x[7 + k] = (uint8_t)((h - 1) >> 8 * k);
        }
        bytes_add(&body, "WEBP", 4);
        riff_chunk(&body, "VP8X", x, 10);
        bytes_add(&body, out + 12, n - 12);
        riff_chunk(&body, "EXIF", exif, sizeof exif);
        riff_chunk(&b, "RIFF", body.at, body.n);
        bytes_free(&body);
    } else
        bytes_add(&b, out, n);
    WebPFree(out);
    return b;
}

bytes photo_make(unsigned seed)
{
    uint8_t *p = pixels_make(24, 16, 3, seed);
    bytes b = jpeg_make(p, 24, 16, JPEG_RGB, 0);
    free(p);
    return b;
}
