/* A tar archive (ustar, with GNU and pax long names), read in place: class folders, or WebDataset
 * pairs "key.jpg" + "key.cls". */
#include "data/source.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 512 };

/* An octal or base-256 field; false when it is neither or too large. */
static bool number(const uint8_t *p, int n, uint64_t *out)
{
    uint64_t x = 0;
    if (p[0] & 0x80) {
        for (int k = 1; k < n; k++) {
            if (x >> 55) return false;
            x = x << 8 | p[k];
        }
        *out = x;
        return !(p[0] & 0x7f);
    }
    int k = 0;
    while (k < n && p[k] == ' ') k++;
    for (; k < n && p[k] >= '0' && p[k] <= '7'; k++) x = x << 3 | (uint64_t)(p[k] - '0');
    *out = x;
    return k == n || p[k] == 0 || p[k] == ' ';
}

static bool checksum_fits(const uint8_t *h)
{
    uint64_t want, sum = 0;
    for (int k = 0; k < BLOCK; k++) sum += k >= 148 && k < 156 ? ' ' : h[k];
    return number(h + 148, 8, &want) && want == sum;
}

/* "path" of a pax header, which is a row of records "LEN key=value\n", to *found. */
static brim_status pax_path(brim_arena *a, const char *at, size_t n, const char **found,
                            brim_error *err)
{
    const char *end = at + n;
    while (at < end) {
        size_t len = 0;
        const char *p = at;
        while (p < end && *p >= '0' && *p <= '9' && len < 1 << 20)
            len = len * 10 + (size_t)(*p++ - '0');
        if (p == end || *p != ' ' || len > (size_t)(end - at) || at + len <= p) return BRIM_OK;
        const char *last = at + len - 1; /* the newline */
        p++;
        if (last - p >= 5 && !memcmp(p, "path=", 5)) {
            *found = brim_arena_printf(a, "%.*s", (int)(last - p - 5), p + 5);
            if (!*found) return brim_fail(err, BRIM_ENOMEM, "out of memory");
        }
        at += len;
    }
    return BRIM_OK;
}

/* GNU's older format says "ustar  " and has other things where POSIX has the prefix. */
static const char *header_name(brim_arena *a, const uint8_t *h)
{
    int n = (int)strnlen((const char *)h, 100), prefix = 0;
    if (!memcmp(h + 257, "ustar", 6)) prefix = (int)strnlen((const char *)h + 345, 155);
    if (prefix)
        return brim_arena_printf(a, "%.*s/%.*s", prefix, (const char *)h + 345, n, (const char *)h);
    return brim_arena_printf(a, "%.*s", n, (const char *)h);
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

/* A .cls file: the class index as text, for the images of the same key. It is kept as an item
 * without image name until the pairs are joined. */
static brim_status add_member(brim_source *s, const char *name, uint32_t blob, uint64_t offset,
                              uint64_t bytes, brim_error *err)
{
    while (!strncmp(name, "./", 2)) name += 2;
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    if (*base == '.' || (!brim_image_name(name) && !ends_with(name, ".cls")))
        return brim_source_ignore(s, name, err);
    return brim_source_add(
        s, (brim_item){.name = name, .label = -1, .blob = blob, .offset = offset, .bytes = bytes},
        err);
}

static size_t key_length(const char *name)
{
    const char *slash = strrchr(name, '/'), *dot = strchr(slash ? slash : name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static int same_key(const brim_item *a, const brim_item *b)
{
    size_t n = key_length(a->name), m = key_length(b->name);
    return n == m && !memcmp(a->name, b->name, n);
}

static brim_status class_of(const brim_source *s, const brim_item *cls, int *label, brim_error *err)
{
    const char *text = (const char *)s->blobs.at[cls->blob].at + cls->offset;
    int x = 0, k = 0;
    for (; k < (int)cls->bytes && k < 9 && text[k] >= '0' && text[k] <= '9'; k++)
        x = x * 10 + text[k] - '0';
    bool rest = k < (int)cls->bytes && text[k] != '\n' && text[k] != '\r' && text[k] != ' ';
    if (k == 0 || k == 9 || rest || x >= 1 << 20)
        return brim_fail(err, BRIM_EFORMAT,
                         "%s: not a class index (a whole number from 0 to 1048575)", cls->name);
    *label = x;
    return BRIM_OK;
}

/* Joins neighbours key.jpg, key.cls of the items from `first` on. */
static brim_status join_pairs(brim_source *s, size_t first, brim_error *err)
{
    size_t kept = first;
    bool any = false;
    for (size_t i = first; i < s->items.n; i++) any |= ends_with(s->items.at[i].name, ".cls");
    if (!any) return BRIM_OK;
    s->kind = "webdataset";
    for (size_t i = first; i < s->items.n; i++) {
        brim_item it = s->items.at[i];
        if (ends_with(it.name, ".cls")) continue;
        for (int d = -2; d <= 2 && it.label < 0; d++) { /* a key's files are neighbours */
            if ((int64_t)i + d < (int64_t)first || i + (size_t)d >= s->items.n) continue;
            const brim_item *o = &s->items.at[i + (size_t)d];
            if (ends_with(o->name, ".cls") && same_key(&it, o))
                BRIM_TRY(class_of(s, o, &it.label, err));
        }
        if (it.label < 0)
            return brim_fail(err, BRIM_EFORMAT, "%s: has no .cls file beside it in the archive",
                             it.name);
        s->items.at[i].label = it.label;
    }
    for (size_t i = first; i < s->items.n; i++)
        if (s->items.at[i].label >= 0) s->items.at[kept++] = s->items.at[i];
    s->items.n = kept;
    return BRIM_OK;
}

/* Takes one member, whose content starts at `at`. A header that only gives the next member's name
 * leaves it in *long_name. */
static brim_status take_member(brim_source *s, const uint8_t *h, uint32_t blob, uint64_t offset,
                               uint64_t bytes, const char **long_name, brim_error *err)
{
    enum { NAME_MAX_BYTES = 4096, PAX_MAX_BYTES = 1 << 20 };
    const char *at = (const char *)s->blobs.at[blob].at + offset;
    char type = (char)h[156];
    if (type == 'x')
        return pax_path(&s->arena, at, bytes < PAX_MAX_BYTES ? bytes : 0, long_name, err);
    const char *name =
        type == 'L'  ? brim_arena_printf(&s->arena, "%.*s",
                                         (int)(bytes < NAME_MAX_BYTES ? bytes : NAME_MAX_BYTES), at)
        : *long_name ? *long_name
                     : header_name(&s->arena, h);
    if (!name) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    *long_name = type == 'L' ? name : NULL;
    bool file = type == '0' || type == 0 || type == '7';
    return file ? add_member(s, name, blob, offset, bytes, err) : BRIM_OK;
}

/* Walks the headers of one archive in memory. */
static brim_status scan(brim_source *s, uint32_t blob, brim_error *err)
{
    const uint8_t *at = s->blobs.at[blob].at;
    size_t n = s->blobs.at[blob].n, pos = 0;
    const char *long_name = NULL;
    while (pos + BLOCK <= n && at[pos]) {
        const uint8_t *h = at + pos;
        uint64_t bytes;
        if (!checksum_fits(h) || !number(h + 124, 12, &bytes))
            return brim_fail(err, BRIM_EFORMAT,
                             pos ? "damaged tar header at byte %zu (make the archive again)"
                                 : "not a tar archive (byte %zu is no tar header)",
                             pos);
        pos += BLOCK;
        if (bytes > n - pos)
            return brim_fail(err, BRIM_EFORMAT,
                             "the archive is cut off at byte %zu (fetch it again)", n);
        BRIM_TRY(take_member(s, h, blob, pos, bytes, &long_name, err));
        uint64_t padded = (bytes + BLOCK - 1) / BLOCK * BLOCK;
        pos = padded > n - pos ? n : pos + padded;
    }
    if (pos == 0) return brim_fail(err, BRIM_EFORMAT, "not a tar archive, or an empty one");
    if (pos < n && at[pos])
        return brim_fail(err, BRIM_EFORMAT, "the archive is cut off at byte %zu (fetch it again)",
                         n);
    return BRIM_OK;
}

brim_status brim_source_tar(brim_source *s, const char *path, brim_error *err)
{
    uint32_t blob;
    size_t first = s->items.n;
    s->kind = "tar";
    BRIM_TRY(brim_source_load(s, path, &blob, err));
    brim_status st = scan(s, blob, err);
    if (st == BRIM_OK) st = join_pairs(s, first, err);
    if (st != BRIM_OK) brim_error_context(err, "%s", path);
    return st;
}
