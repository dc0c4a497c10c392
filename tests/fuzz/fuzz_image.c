/* A JPEG, PNG or WebP of any bytes behind six bytes that choose the channels and the view: its
 * header is refused or read, then it is decoded whole and as the view. */
#include "data/image.h"

#include <string.h>
#include <zlib.h>

enum { OPTIONS = 6, MAX_PIXELS = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);

/* Refused with a text; or the pixels that are there can be read, and cover the view. */
static void check(const brim_sample *s, const brim_image_info *info, int channels,
                  const brim_view *v)
{
    brim_decoder *d = brim_decoder_new();
    brim_image im;
    brim_error err = {0};
    if (brim_image_decode(d, s, info, channels, v, &im, &err) != BRIM_OK)
        BRIM_CHECK(err.status == BRIM_EFORMAT && err.text[0]);
    else {
        BRIM_CHECK(im.channels == channels && im.w > 0 && im.h > 0 && im.left >= 0 && im.top >= 0);
        BRIM_CHECK(im.left + im.w <= im.full_w && im.top + im.h <= im.full_h);
        BRIM_CHECK(im.full_w <= info->w && im.full_h <= info->h);
        BRIM_CHECK(im.left <= v->x0 * im.full_w && im.left + im.w >= v->x1 * im.full_w);
        BRIM_CHECK(im.top <= v->y0 * im.full_h && im.top + im.h >= v->y1 * im.full_h);
        uint8_t *row = malloc((size_t)im.w * (size_t)channels);
        for (int y = 0; y < im.h; y++)
            memcpy(row, im.pixels + (size_t)y * im.stride, (size_t)im.w * (size_t)channels);
        free(row);
    }
    brim_decoder_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < OPTIONS) return 0;
    brim_sample s = {.bytes = data + OPTIONS, .n = n - OPTIONS};
    brim_image_info info;
    brim_error err = {0};
    int channels = data[0] & 1 ? 3 : 1;
    brim_view whole = {0, 0, 1, 1, 0, 0},
              part = {data[1] / 256.0,       data[2] / 256.0, (data[3] + 1) / 256.0,
                      (data[4] + 1) / 256.0, data[5] & 15,    data[5] >> 4};
    if (part.x1 <= part.x0) part.x1 = 1;
    if (part.y1 <= part.y0) part.y1 = 1;
    if (brim_image_probe(&s, &info, &err) != BRIM_OK) {
        BRIM_CHECK(err.status == BRIM_EFORMAT && err.text[0]);
        return 0;
    }
    BRIM_CHECK(info.w > 0 && info.h > 0 && info.orientation >= 1 && info.orientation <= 8);
    if ((int64_t)info.w * info.h > MAX_PIXELS) return 0; /* takes too long */
    check(&s, &info, channels, &whole);
    check(&s, &info, channels, &part);
    return 0;
}

/* Mutations of a PNG would end at a chunk's checksum: in most inputs they are made right again. */
static void fix_png(uint8_t *png, size_t n)
{
    size_t pos = 8;
    while (n >= 8 && n - pos >= 12) {
        uint8_t *p = png + pos;
        size_t bytes = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        if (bytes > n - pos - 12) break;
        uint32_t sum = (uint32_t)crc32(0, p + 4, (unsigned)bytes + 4);
        for (int k = 0; k < 4; k++) p[8 + bytes + (size_t)k] = (uint8_t)(sum >> (24 - 8 * k));
        pos += 12 + bytes;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    n = LLVMFuzzerMutate(data, n, max);
    if (n > OPTIONS + 4 && !memcmp(data + OPTIONS, "\x89PNG", 4) && seed % 8)
        fix_png(data + OPTIONS, n - OPTIONS);
    return n;
}
