#include "event_file.h"
#include "io/file.h"
#include "io/tensorboard.h"
#include "tests.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static uint64_t le(const unsigned char *p, int n)
{
    uint64_t x = 0;
    while (n--) x = x << 8 | p[n];
    return x;
}

static uint32_t unmask(uint32_t masked)
{
    uint32_t r = masked - 0xa282ead8u;
    return r >> 17 | r << 15;
}

const unsigned char *event_record(const unsigned char **p, const unsigned char *end, size_t *n)
{
    if (*p == end) return NULL;
    assert_true(end - *p >= 16);
    *n = le(*p, 8);
    assert_true(*n <= (size_t)(end - *p) - 16);
    assert_int_equal(unmask((uint32_t)le(*p + 8, 4)), brim_crc32c(*p, 8));
    const unsigned char *body = *p + 12;
    assert_int_equal(unmask((uint32_t)le(body + *n, 4)), brim_crc32c(body, *n));
    *p = body + *n + 4;
    return body;
}

/* ---- protocol buffers: fields of a message ---- */

typedef struct field {
    int number;
    uint64_t bits;           /* of a number */
    const unsigned char *at; /* of bytes */
    size_t n;
} field;

static uint64_t varint(const unsigned char **p, const unsigned char *end)
{
    uint64_t x = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        assert_true(*p < end);
        unsigned char b = *(*p)++;
        x |= (uint64_t)(b & 127) << shift;
        if (b < 128) return x;
    }
    fail();
    return 0;
}

static bool next_field(const unsigned char **p, const unsigned char *end, field *f)
{
    if (*p == end) return false;
    uint64_t key = varint(p, end);
    *f = (field){.number = (int)(key >> 3)};
    int bytes = key % 8 == 1 ? 8 : key % 8 == 5 ? 4 : 0;
    if (key % 8 == 0) {
        f->bits = varint(p, end);
    } else if (bytes) {
        assert_true(end - *p >= bytes);
        f->bits = le(*p, bytes);
        *p += bytes;
    } else {
        assert_int_equal(key % 8, 2);
        f->n = varint(p, end);
        assert_true(f->n <= (size_t)(end - *p));
        f->at = *p;
        *p += f->n;
    }
    return true;
}

/* ---- Event { step = 2, summary = 5 { value = 1 { tag = 1, simple_value = 2 } } } ---- */

typedef struct point {
    const char *tag; /* what is looked for; NULL: any */
    int64_t step;
    event_scalar found;
} point;

static void look_at_value(const unsigned char *at, const unsigned char *end, bool wanted, point *to)
{
    field f, tag = {0}, value = {0};
    while (next_field(&at, end, &f)) {
        if (f.number == 1) tag = f;
        if (f.number == 2) value = f;
    }
    assert_true(tag.number && value.number);
    if (to->tag && (!wanted || tag.n != strlen(to->tag) || memcmp(tag.at, to->tag, tag.n))) return;
    uint32_t bits = (uint32_t)value.bits;
    float x;
    memcpy(&x, &bits, sizeof x);
    to->found.value = (double)x;
    to->found.n++;
}

static void look_at_event(const unsigned char *at, const unsigned char *end, point *to)
{
    field f, summary = {0};
    int64_t step = 0;
    while (next_field(&at, end, &f)) {
        if (f.number == 2) step = (int64_t)f.bits;
        if (f.number == 5) summary = f;
    }
    for (const unsigned char *p = summary.at;
         summary.n && next_field(&p, summary.at + summary.n, &f);)
        if (f.number == 1) look_at_value(f.at, f.at + f.n, step == to->step, to);
}

event_scalar event_find(const char *folder, const char *tag, int64_t step)
{
    point to = {tag, step, {0}};
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (!strstr(e->d_name, "events.out.tfevents.")) continue;
        char path[1024], *text;
        size_t n, len;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        assert_int_equal(brim_file_read(path, 1 << 24, &text, &n, NULL), BRIM_OK);
        const unsigned char *p = (unsigned char *)text, *end = p + n, *body;
        while ((body = event_record(&p, end, &len))) look_at_event(body, body + len, &to);
        free(text);
    }
    closedir(d);
    return to.found;
}
