/* JPEG through libjpeg-turbo: baseline and progressive, grey, YCC, RGB, CMYK and YCCK, scaled while
 * the transform is undone when less than the full size is wanted. */
#include "data/decoder.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

typedef struct reader {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr mgr;
    jmp_buf escape;
    char why[JMSG_LENGTH_MAX];
    long warnings;
} reader;

static void on_error(j_common_ptr c)
{
    reader *r = (reader *)c;
    c->err->format_message(c, r->why);
    longjmp(r->escape, 1);
}

/* A warning means damaged or missing data: the pixels would be wrong, so the image is refused. */
static void on_message(j_common_ptr c, int level)
{
    reader *r = (reader *)c;
    if (level >= 0) return;
    if (r->warnings++ == 0) c->err->format_message(c, r->why);
}

static void on_output(j_common_ptr c)
{
    (void)c;
}

static void begin(reader *r, const uint8_t *bytes, size_t n)
{
    r->c.err = jpeg_std_error(&r->mgr);
    r->mgr.error_exit = on_error;
    r->mgr.emit_message = on_message;
    r->mgr.output_message = on_output;
    r->warnings = 0;
    r->why[0] = 0;
    jpeg_create_decompress(&r->c);
    r->c.mem->max_memory_to_use = 256 << 20;
    jpeg_save_markers(&r->c, JPEG_APP0 + 1, 0xffff);
    jpeg_mem_src(&r->c, (unsigned char *)bytes, n);
    jpeg_read_header(&r->c, TRUE);
}

static int orientation(const reader *r)
{
    for (jpeg_saved_marker_ptr m = r->c.marker_list; m; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length > 6 && !memcmp(m->data, "Exif\0\0", 6))
            return brim_exif_orientation(m->data + 6, m->data_length - 6);
    return 1;
}

static brim_status refuse(const reader *r, brim_error *err)
{
    return brim_fail(err, BRIM_EFORMAT, "JPEG: %s", r->why[0] ? r->why : "damaged");
}

brim_status brim_jpeg_probe(const brim_decode_job *in, int *w, int *h, int *turn, brim_error *err)
{
    reader r;
    if (setjmp(r.escape)) {
        jpeg_destroy_decompress(&r.c);
        return refuse(&r, err);
    }
    begin(&r, in->bytes, in->n);
    *w = (int)r.c.image_width;
    *h = (int)r.c.image_height;
    *turn = orientation(&r);
    jpeg_destroy_decompress(&r.c);
    return BRIM_OK;
}

/* The smallest k/8 of the full size that still covers what is wanted. */
static void choose_scale(struct jpeg_decompress_struct *c, const brim_decode_job *j)
{
    static const unsigned steps[] = {1, 2, 4, 8};
    c->scale_denom = 8;
    c->scale_num = 8;
    if (!j->want_w || !j->want_h) return;
    for (size_t i = 0; i < 4; i++) {
        c->scale_num = steps[i];
        jpeg_calc_output_dimensions(c);
        if ((int)c->output_width >= j->want_w && (int)c->output_height >= j->want_h) return;
    }
}

/* Adobe writes CMYK inverted: 255 is no ink. */
static void cmyk_row(const uint8_t *in, uint8_t *out, int w, int channels, bool inverted)
{
    for (int i = 0; i < w; i++) {
        int v[4];
        for (int k = 0; k < 4; k++) v[k] = inverted ? in[4 * i + k] : 255 - in[4 * i + k];
        int r = (v[0] * v[3] + 127) / 255, g = (v[1] * v[3] + 127) / 255,
            b = (v[2] * v[3] + 127) / 255;
        if (channels == 1)
            out[i] = brim_luma(r, g, b);
        else {
            out[3 * i] = (uint8_t)r;
            out[3 * i + 1] = (uint8_t)g;
            out[3 * i + 2] = (uint8_t)b;
        }
    }
}

/* Between begin and end of one image; called under setjmp. */
static brim_status read_rows(reader *r, brim_decoder *d, brim_decode_job *j, brim_error *err)
{
    struct jpeg_decompress_struct *c = &r->c;
    bool four = c->num_components == 4;
    BRIM_TRY(brim_image_check_size(c->image_width, c->image_height, four ? 4 : j->channels, err));
    c->out_color_space = four ? JCS_CMYK : j->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    choose_scale(c, j);
    jpeg_start_decompress(c);
    size_t w = c->output_width, h = c->output_height, row = w * (size_t)j->channels;
    uint8_t *pixels = brim_scratch_reserve(&d->pixels, row * h);
    uint8_t *cmyk = four ? brim_scratch_reserve(&d->extra, w * 4) : NULL;
    if (!pixels || (four && !cmyk)) return brim_fail(err, BRIM_ENOMEM, "JPEG: out of memory");
    while (c->output_scanline < h) {
        JSAMPROW to[8];
        uint8_t *at = pixels + row * c->output_scanline;
        if (four) {
            to[0] = cmyk;
            if (jpeg_read_scanlines(c, to, 1) != 1) break;
            cmyk_row(cmyk, at, (int)w, j->channels, c->saw_Adobe_marker);
            continue;
        }
        unsigned n = 0;
        for (; n < 8 && c->output_scanline + n < h; n++) to[n] = at + row * n;
        if (!jpeg_read_scanlines(c, to, n)) break;
    }
    jpeg_finish_decompress(c);
    j->w = (int)w;
    j->h = (int)h;
    return BRIM_OK;
}

brim_status brim_jpeg_decode(brim_decoder *d, brim_decode_job *j, brim_error *err)
{
    reader r;
    if (setjmp(r.escape)) {
        jpeg_destroy_decompress(&r.c);
        return refuse(&r, err);
    }
    begin(&r, j->bytes, j->n);
    j->orientation = orientation(&r);
    brim_status st = read_rows(&r, d, j, err);
    if (st == BRIM_OK && r.warnings) st = refuse(&r, err);
    jpeg_destroy_decompress(&r.c);
    return st;
}
