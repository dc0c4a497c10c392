/* Files as memory: mapped, or unpacked once when they are gzipped. */
#include "data/source.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define UNPACKED_MAX ((size_t)16 << 30)

static brim_status keep(brim_source *s, brim_blob b, uint32_t *index, brim_error *err)
{
    if (!b.path || !brim_vec_push(&s->blobs, b)) {
        if (b.mapped)
            munmap(b.at, b.n);
        else
            free(b.at);
        return brim_fail(err, BRIM_ENOMEM, "data: out of memory");
    }
    *index = (uint32_t)s->blobs.n - 1;
    return BRIM_OK;
}

/* Images hardly shrink, sparse digits and lists of labels up to some hundredfold; what grows
 * further is not data, and a small file must not fill the memory. */
static size_t unpacked_limit(size_t packed)
{
    size_t limit = ((size_t)16 << 20) + 200 * packed;
    return limit < UNPACKED_MAX ? limit : UNPACKED_MAX;
}

/* Appends all that the stream gives to out, which the caller frees also on failure. */
static brim_status unpack_stream(gzFile f, const char *path, size_t limit, brim_blob *out,
                                 brim_error *err)
{
    size_t cap = 0;
    int code;
    for (;;) {
        if (out->n == cap) {
            if (cap > limit)
                return brim_fail(err, BRIM_EFORMAT,
                                 "%s: unpacks to more than the %zu MiB that are read from a file "
                                 "of its size (unpack it with gzip -d if that is right)",
                                 path, limit >> 20);
            cap = cap ? cap * 2 : 1 << 20;
            if (cap > limit) cap = limit + 1;
            uint8_t *more = brim_realloc(out->at, cap);
            if (!more) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
            out->at = more;
        }
        size_t room = cap - out->n;
        int got = gzread(f, out->at + out->n, (unsigned)(room > 1 << 30 ? 1 << 30 : room));
        if (got < 0)
            return brim_fail(err, BRIM_EFORMAT, "%s: damaged gzip data (%s)", path,
                             gzerror(f, &code));
        if (got == 0) break;
        out->n += (size_t)got;
    }
    uint8_t *less = brim_realloc(out->at, out->n ? out->n : 1);
    if (less) out->at = less;
    return BRIM_OK;
}

static brim_status unpack(const char *path, size_t packed, brim_blob *out, brim_error *err)
{
    *out = (brim_blob){0};
    gzFile f = gzopen(path, "rbe");
    if (!f) return brim_fail_errno(err, errno, "%s: cannot open", path);
    gzbuffer(f, 1 << 17);
    brim_status st = unpack_stream(f, path, unpacked_limit(packed), out, err);
    if (gzclose(f) != Z_OK && st == BRIM_OK)
        st = brim_fail(err, BRIM_EFORMAT, "%s: the gzip data is cut off (fetch it again)", path);
    if (st != BRIM_OK) free(out->at);
    return st;
}

static brim_status map(const char *path, brim_blob *out, brim_error *err)
{
    struct stat st;
    /* O_NONBLOCK: opening a pipe that nobody writes to must not hang. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return brim_fail_errno(err, errno, "%s: cannot open", path);
    void *at = MAP_FAILED;
    bool file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (file && st.st_size > 0) at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int why = errno;
    close(fd);
    if (!file || st.st_size == 0)
        return brim_fail(err, BRIM_EFORMAT, "%s: empty or not a regular file", path);
    if (at == MAP_FAILED) return brim_fail_errno(err, why, "%s: cannot map", path);
    *out = (brim_blob){.at = at, .n = (size_t)st.st_size, .mapped = true};
    return BRIM_OK;
}

brim_status brim_source_load(brim_source *s, const char *path, uint32_t *blob, brim_error *err)
{
    brim_blob b = {0};
    BRIM_TRY(map(path, &b, err));
    if (b.n >= 2 && b.at[0] == 0x1f && b.at[1] == 0x8b) {
        munmap(b.at, b.n);
        BRIM_TRY(unpack(path, b.n, &b, err));
        s->unpacked += b.n;
        if (s->max_unpacked && s->unpacked > s->max_unpacked) {
            free(b.at);
            return brim_fail(err, BRIM_EMEMCAP,
                             "memory: %s unpacked is more than the cap leaves (raise --memory, or "
                             "unpack it on disk)",
                             path);
        }
    }
    b.path = brim_arena_strdup(&s->arena, path);
    return keep(s, b, blob, err);
}

bool brim_image_name(const char *name)
{
    static const char *const end[] = {".jpg", ".jpeg", ".png", ".webp", ".jpe", ".jfif"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof end / sizeof *end; i++) {
        size_t k = strlen(end[i]);
        if (n > k && !strcasecmp(name + n - k, end[i])) return true;
    }
    return false;
}

brim_status brim_source_add(brim_source *s, brim_item item, brim_error *err)
{
    return brim_vec_push(&s->items, item) ? BRIM_OK
                                          : brim_fail(err, BRIM_ENOMEM, "data: out of memory");
}

brim_status brim_source_ignore(brim_source *s, const char *name, brim_error *err)
{
    enum { KINDS = 16 };
    brim_ignored one = {.end = "other", .n = 1};
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *dot = *base == '.' ? NULL : strrchr(base, '.');
    if (dot && strlen(dot) < sizeof one.end && s->ignored.n < KINDS) strcpy(one.end, dot);
    for (char *p = one.end; *p; p++) *p = (char)tolower((unsigned char)*p);
    brim_one_line(one.end);
    for (size_t k = 0; k < s->ignored.n; k++)
        if (!strcmp(s->ignored.at[k].end, one.end)) {
            s->ignored.at[k].n++;
            return BRIM_OK;
        }
    return brim_vec_push(&s->ignored, one) ? BRIM_OK
                                           : brim_fail(err, BRIM_ENOMEM, "data: out of memory");
}
