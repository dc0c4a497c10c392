/* Files as memory: mapped, or unpacked once when they are gzipped. */
#include "data/source.h"

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

static brim_status unpack(const char *path, brim_blob *out, brim_error *err)
{
    gzFile f = gzopen(path, "rbe");
    if (!f) return brim_fail_errno(err, errno, "%s: cannot open", path);
    size_t cap = 1 << 20, n = 0;
    uint8_t *at = brim_malloc(cap);
    brim_status st = at ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
    gzbuffer(f, 1 << 17);
    while (st == BRIM_OK) {
        int got = gzread(f, at + n, (unsigned)(cap - n > 1 << 30 ? 1 << 30 : cap - n));
        int code;
        if (got < 0)
            st =
                brim_fail(err, BRIM_EFORMAT, "%s: damaged gzip data (%s)", path, gzerror(f, &code));
        if (got <= 0) break;
        n += (size_t)got;
        if (n < cap) continue;
        uint8_t *more = cap < UNPACKED_MAX ? brim_realloc(at, cap * 2) : NULL;
        if (!more)
            st = brim_fail(err, BRIM_ENOMEM,
                           "%s: unpacks to more than %zu MiB (unpack it to a folder)", path,
                           n >> 20);
        else {
            at = more;
            cap *= 2;
        }
    }
    if (gzclose(f) != Z_OK && st == BRIM_OK)
        st = brim_fail(err, BRIM_EFORMAT, "%s: the gzip data is cut off (fetch it again)", path);
    if (st != BRIM_OK)
        free(at);
    else
        *out = (brim_blob){.at = at, .n = n};
    return st;
}

static brim_status map(const char *path, brim_blob *out, brim_error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
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
        BRIM_TRY(unpack(path, &b, err));
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
