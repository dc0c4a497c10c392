/* PNG through libpng: every colour type and depth to 8-bit grey or RGB. 16-bit samples keep their
 * high byte, alpha and tRNS are dropped without blending, as Pillow's convert("RGB") does. */
#include "data/decoder.h"

#include <setjmp.h>
#include <string.h>

#include <png.h>

typedef struct source {
    const uint8_t *at, *end;
    char why[128];
} source;

static void read_bytes(png_structp png, png_bytep out, size_t n)
{
    source *s = png_get_io_ptr(png);
    if ((size_t)(s->end - s->at) < n) png_error(png, "the file ends too early");
    memcpy(out, s->at, n);
    s->at += n;
}

static void on_error(png_structp png, png_const_charp text)
{
    source *s = png_get_error_ptr(png);
    size_t n = strlen(text) < sizeof s->why ? strlen(text) : sizeof s->why - 1;
    memcpy(s->why, text, n);
    s->why[n] = 0;
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

typedef struct reader {
    png_structp png;
    png_infop info;
    source src;
} reader;

static bool open_reader(reader *r, const uint8_t *bytes, size_t n)
{
    *r = (reader){.src = {bytes, bytes + n, ""}};
    r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r->src, on_error, on_warning);
    r->info = r->png ? png_create_info_struct(r->png) : NULL;
    if (!r->info) {
        png_destroy_read_struct(&r->png, NULL, NULL);
        return false;
    }
    png_set_user_limits(r->png, BRIM_IMAGE_MAX_SIDE, BRIM_IMAGE_MAX_SIDE);
    /* No chunk is wanted but IHDR, PLTE, tRNS, IDAT and IEND; texts and profiles may be large. */
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_read_fn(r->png, &r->src, read_bytes);
    return true;
}

/* The eXIf chunk may lie behind the pixels, where libpng comes only by decoding them. */
static int orientation(const uint8_t *at, size_t n)
{
    size_t pos = 8;
    while (n - pos >= 12) { /* length, type, content, checksum */
        size_t bytes = png_get_uint_32(at + pos);
        if (bytes > n - pos - 12) break;
        if (!memcmp(at + pos + 4, "eXIf", 4)) return brim_exif_orientation(at + pos + 8, bytes);
        pos += 12 + bytes;
    }
    return 1;
}

brim_status brim_png_probe(const brim_decode_job *in, brim_image_info *out, brim_error *err)
{
    reader r;
    if (!open_reader(&r, in->bytes, in->n))
        return brim_fail(err, BRIM_ENOMEM, "PNG: out of memory");
    if (setjmp(png_jmpbuf(r.png))) {
        png_destroy_read_struct(&r.png, &r.info, NULL);
        return brim_fail(err, BRIM_EFORMAT, "PNG: %s", r.src.why);
    }
    png_read_info(r.png, r.info);
    *out = (brim_image_info){.format = BRIM_IMAGE_PNG,
                             .w = (int)png_get_image_width(r.png, r.info),
                             .h = (int)png_get_image_height(r.png, r.info),
                             .orientation = orientation(in->bytes, in->n),
                             .channels = png_get_channels(r.png, r.info),
                             .depth = png_get_bit_depth(r.png, r.info)};
    if (png_get_color_type(r.png, r.info) == PNG_COLOR_TYPE_PALETTE) {
        out->channels = 3;
        out->depth = 8;
    }
    png_destroy_read_struct(&r.png, &r.info, NULL);
    return BRIM_OK;
}

/* Asks libpng for 8-bit grey or RGB; returns the channels that come. */
static int set_transforms(reader *r)
{
    int type = png_get_color_type(r->png, r->info), depth = png_get_bit_depth(r->png, r->info);
    if (depth == 16) png_set_strip_16(r->png);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(r->png);
    else if (type == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(r->png);
    png_set_strip_alpha(r->png);
    return type & PNG_COLOR_MASK_COLOR ? 3 : 1;
}

/* Both pointers are volatile copies' targets: set before setjmp, read after. */
static brim_status read_image(reader *r, brim_decoder *d, brim_decode_job *j, brim_error *err)
{
    png_read_info(r->png, r->info);
    int64_t w = png_get_image_width(r->png, r->info), h = png_get_image_height(r->png, r->info);
    BRIM_TRY(brim_image_check_size(w, h, 3, j->n, err));
    int have = set_transforms(r);
    int passes = png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    size_t row = png_get_rowbytes(r->png, r->info);
    if (row != (size_t)w * (size_t)have)
        return brim_fail(err, BRIM_EFORMAT, "PNG: unexpected row size");
    uint8_t *raw = brim_scratch_reserve(&d->extra, row * (size_t)h);
    uint8_t *out = brim_scratch_reserve(&d->pixels, (size_t)(w * h * j->channels));
    if (!raw || !out) return brim_fail(err, BRIM_ENOMEM, "PNG: out of memory");
    for (int p = 0; p < passes; p++)
        for (int64_t y = 0; y < h; y++) png_read_row(r->png, raw + row * (size_t)y, NULL);
    png_read_end(r->png, r->info);
    for (size_t i = 0, n = (size_t)(w * h); i < n; i++) {
        if (have == j->channels) {
            memcpy(out, raw, n * (size_t)have);
            break;
        }
        if (have == 1)
            out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = raw[i];
        else
            out[i] = brim_luma(raw[3 * i], raw[3 * i + 1], raw[3 * i + 2]);
    }
    j->made = brim_image_whole((int)w, (int)h, j->channels, out);
    return BRIM_OK;
}

brim_status brim_png_decode(brim_decoder *d, brim_decode_job *j, brim_error *err)
{
    reader r;
    if (!open_reader(&r, j->bytes, j->n)) return brim_fail(err, BRIM_ENOMEM, "PNG: out of memory");
    if (setjmp(png_jmpbuf(r.png))) {
        png_destroy_read_struct(&r.png, &r.info, NULL);
        return brim_fail(err, BRIM_EFORMAT, "PNG: %s", r.src.why);
    }
    brim_status st = read_image(&r, d, j, err);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    return st;
}
