/* JPEG through libjpeg-turbo: baseline and progressive, grey, YCC, RGB, CMYK and YCCK, scaled while
 * the transform is undone when less than the full size is wanted. */
#include "data/decoder.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

/* Every scan goes over the whole image, and may take a few bytes of the file. */
enum { MAX_SCANS = 200 };

typedef struct reader {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr mgr;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    bool in_header;
    char why[JMSG_LENGTH_MAX];
} reader;

static void on_error(j_common_ptr c)
{
    reader *r = (reader *)c;
    c->err->format_message(c, r->why);
    longjmp(r->escape, 1);
}

/* A warning means damaged or missing data: the pixels would be wrong, so the image is refused. Not
 * so where a field is off that decoding does not use, or junk lies between segments of the header,
 * as Pillow reads them, too. */
static void on_message(j_common_ptr c, int level)
{
    int code = c->err->msg_code;
    bool harmless = code == JWRN_NOT_SEQUENTIAL || code == JWRN_JFIF_MAJOR ||
                    code == JWRN_ADOBE_XFORM ||
                    (code == JWRN_EXTRANEOUS_DATA && ((reader *)c)->in_header);
    if (level < 0 && !harmless) on_error(c);
}

static void on_progress(j_common_ptr c)
{
    reader *r = (reader *)c;
    if (r->c.input_scan_number <= MAX_SCANS) return;
    snprintf(r->why, sizeof r->why, "more than %d scans", MAX_SCANS);
    longjmp(r->escape, 1);
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
    r->progress.progress_monitor = on_progress;
    jpeg_create_decompress(&r->c);
    r->c.progress = &r->progress;
    r->c.mem->max_memory_to_use = 256 << 20;
    jpeg_save_markers(&r->c, JPEG_APP0 + 1, 0xffff);
    jpeg_mem_src(&r->c, (unsigned char *)bytes, n);
    r->in_header = true;
    jpeg_read_header(&r->c, TRUE);
    r->in_header = false;
}

static int orientation(const reader *r)
{
    for (jpeg_saved_marker_ptr m = r->c.marker_list; m; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length > 6 && !memcmp(m->data, "Exif\0\0", 6))
            return brim_exif_orientation(m->data + 6, m->data_length - 6);
    return 1;
}

brim_status brim_jpeg_probe(const brim_decode_job *in, brim_image_info *out, brim_error *err)
{
    reader r;
    if (setjmp(r.escape)) {
        jpeg_destroy_decompress(&r.c);
        return brim_fail(err, BRIM_EFORMAT, "JPEG: %s", r.why);
    }
    begin(&r, in->bytes, in->n);
    *out = (brim_image_info){.format = BRIM_IMAGE_JPEG,
                             .w = (int)r.c.image_width,
                             .h = (int)r.c.image_height,
                             .orientation = orientation(&r),
                             .channels = r.c.num_components,
                             .depth = 8};
    jpeg_destroy_decompress(&r.c);
    return BRIM_OK;
}

/* The smallest size, full, a half, a quarter or an eighth (those the library has vector code for),
 * at which the view still has the pixels that are wanted. */
static void choose_scale(struct jpeg_decompress_struct *c, const brim_view *v)
{
    static const unsigned steps[] = {1, 2, 4, 8};
    c->scale_denom = 8;
    c->scale_num = 8;
    if (!v->min_w || !v->min_h) return;
    for (size_t i = 0; i < 4; i++) {
        c->scale_num = steps[i];
        jpeg_calc_output_dimensions(c);
        if ((v->x1 - v->x0) * c->output_width >= v->min_w &&
            (v->y1 - v->y0) * c->output_height >= v->min_h)
            return;
    }
}

/* Leaves out what lies outside the view. Columns go by whole blocks, and the library's smooth
 * upsampling of colour would lack a neighbour at the cut, so the cut lies one block further out on
 * each side; the same for rows above. Called after jpeg_start_decompress. */
static void choose_part(struct jpeg_decompress_struct *c, const brim_view *v, brim_image *part)
{
    int w = (int)c->output_width, h = (int)c->output_height;
    int bw = c->max_h_samp_factor * (int)c->scale_num,
        bh = c->max_v_samp_factor * (int)c->scale_num;
    int x0 = (int)floor(v->x0 * w) - bw - 2, x1 = (int)ceil(v->x1 * w) + bw + 2;
    int y0 = (int)floor(v->y0 * h) - bh - 2, y1 = (int)ceil(v->y1 * h) + 2;
    *part = (brim_image){.full_w = w, .full_h = h, .w = w, .h = y1 < h ? y1 : h};
    if (x0 > 0 || x1 < w) {
        JDIMENSION from = (JDIMENSION)(x0 > 0 ? x0 : 0);
        JDIMENSION n = (JDIMENSION)(x1 < w ? x1 : w) - from;
        jpeg_crop_scanline(c, &from, &n);
        part->left = (int)from;
        part->w = (int)n;
    }
    if (y0 > 0) {
        part->top = (int)jpeg_skip_scanlines(c, (JDIMENSION)y0);
        part->h -= part->top;
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
    BRIM_TRY(
        brim_image_check_size(c->image_width, c->image_height, four ? 4 : j->channels, j->n, err));
    c->out_color_space = four ? JCS_CMYK : j->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    choose_scale(c, &j->view);
    jpeg_start_decompress(c);
    choose_part(c, &j->view, &j->made);
    size_t w = (size_t)j->made.w, h = (size_t)j->made.h, row = w * (size_t)j->channels;
    uint8_t *pixels = brim_scratch_reserve(&d->pixels, row * h);
    uint8_t *cmyk = four ? brim_scratch_reserve(&d->extra, w * 4) : NULL;
    if (!pixels || (four && !cmyk)) return brim_fail(err, BRIM_ENOMEM, "JPEG: out of memory");
    for (size_t y = 0; y < h;) {
        JSAMPROW to[8];
        uint8_t *at = pixels + row * y;
        if (four) {
            to[0] = cmyk;
            jpeg_read_scanlines(c, to, 1);
            cmyk_row(cmyk, at, (int)w, j->channels, c->saw_Adobe_marker);
            y++;
            continue;
        }
        unsigned n = 0;
        for (; n < 8 && y + n < h; n++) to[n] = at + row * n;
        y += jpeg_read_scanlines(c, to, n);
    }
    if (c->output_scanline == c->output_height)
        jpeg_finish_decompress(c); /* sees what is missing */
    j->made.channels = j->channels;
    j->made.stride = row;
    j->made.pixels = pixels;
    return BRIM_OK;
}

brim_status brim_jpeg_decode(brim_decoder *d, brim_decode_job *j, brim_error *err)
{
    reader r;
    if (setjmp(r.escape)) {
        jpeg_destroy_decompress(&r.c);
        return brim_fail(err, BRIM_EFORMAT, "JPEG: %s", r.why);
    }
    begin(&r, j->bytes, j->n);
    brim_status st = read_rows(&r, d, j, err);
    jpeg_destroy_decompress(&r.c);
    return st;
}
