#include "io/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

brim_status brim_file_open(const char *path, int *fd, size_t *size_bytes, brim_error *err)
{
    *fd = -1;
    /* O_NONBLOCK: opening a pipe that nobody writes to must not hang. */
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (f < 0 && errno == ENOENT)
        return brim_fail(err, BRIM_ENOTFOUND, "%s: no such file (check the path)", path);
    if (f < 0 && errno == EACCES)
        return brim_fail(err, BRIM_EIO,
                         "%s: permission denied (make it readable: chmod u+r, or run as its owner)",
                         path);
    if (f < 0) return brim_fail_errno(err, errno, "%s: cannot be opened", path);
    struct stat st;
    const char *kind = NULL;
    if (fstat(f, &st) != 0)
        kind = "cannot be examined";
    else if (S_ISDIR(st.st_mode))
        kind = "is a folder";
    else if (!S_ISREG(st.st_mode))
        kind = "is a device or a pipe";
    if (kind) {
        close(f);
        return brim_fail(err, BRIM_EIO, "%s: %s (give the name of a regular file)", path, kind);
    }
    *fd = f;
    *size_bytes = (size_t)st.st_size;
    return BRIM_OK;
}

static brim_status too_long(const char *path, size_t limit, brim_error *err)
{
    return brim_fail(err, BRIM_EFORMAT,
                     "%s: longer than the %zu bytes that such a file may have (is it the right "
                     "file?)",
                     path, limit);
}

/* Reads to the end whatever fstat said: files in /proc have size 0, others grow meanwhile. */
static brim_status read_to_end(int fd, const char *path, size_t guess, size_t limit, char **out,
                               size_t *n, brim_error *err)
{
    size_t cap = guess + 2, used = 0; /* one for the NUL, one to see the end without growing */
    char *buf = brim_malloc(cap);
    while (buf) {
        ssize_t got = read(fd, buf + used, cap - used - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            int errnum = errno;
            free(buf);
            return brim_fail_errno(err, errnum, "%s: reading failed", path);
        }
        used += (size_t)got;
        if (used > limit) {
            free(buf);
            return too_long(path, limit, err);
        }
        if (got == 0) {
            buf[used] = 0;
            *out = buf;
            *n = used;
            return BRIM_OK;
        }
        if (used + 1 < cap) continue;
        cap = cap > SIZE_MAX / 4 ? SIZE_MAX : cap * 2;
        char *bigger = brim_realloc(buf, cap);
        if (!bigger) free(buf);
        buf = bigger;
    }
    return brim_fail(err, BRIM_ENOMEM, "%s: no memory for %zu bytes (close other programs)", path,
                     cap);
}

brim_status brim_file_read(const char *path, size_t limit, char **out, size_t *n, brim_error *err)
{
    int fd;
    size_t size;
    BRIM_TRY(brim_file_open(path, &fd, &size, err));
    brim_status s =
        size > limit ? too_long(path, limit, err) : read_to_end(fd, path, size, limit, out, n, err);
    close(fd);
    return s;
}

bool brim_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

int brim_write_all(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n) {
        ssize_t put = write(fd, p, n);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno;
        if (put == 0) return ENOSPC;
        p += put;
        n -= (size_t)put;
    }
    return 0;
}

brim_status brim_fail_write(brim_error *err, int errnum, const char *path)
{
    const char *why = strerror(errnum), *remedy = "check the disk and the path";
    switch (errnum) {
    case ENOSPC:
        why = "the disk is full";
        remedy = "free some space or choose a folder on another disk";
        break;
    case EDQUOT:
        why = "your disk quota is used up";
        remedy = "free some space or choose a folder on another disk";
        break;
    case EFBIG:
        why = "the file is too large for this file system or its limit";
        remedy = "raise ulimit -f or choose a folder on another disk";
        break;
    case EROFS:
        why = "the file system is read-only";
        remedy = "choose another folder";
        break;
    case EACCES:
    case EPERM:
        why = "permission denied";
        remedy = "make the folder writable (chmod u+w) or choose another";
        break;
    case ENOENT:
    case ENOTDIR:
        why = "its folder does not exist";
        remedy = "create it (mkdir -p) or correct the path";
        break;
    case EMFILE:
    case ENFILE: remedy = "close some files or raise ulimit -n"; break;
    default: break;
    }
    brim_status status = errnum == ENOENT || errnum == ENOTDIR ? BRIM_ENOTFOUND : BRIM_EIO;
    return brim_fail(err, status, "%s: cannot be written: %s (%s)", path, why, remedy);
}

/* One level of mkdir -p. A folder that appears meanwhile (another process) is as good as ours. */
static brim_status make_dir(const char *path, brim_error *err)
{
    if (mkdir(path, 0777) == 0) return BRIM_OK;
    int errnum = errno;
    struct stat st;
    bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) return BRIM_OK;
    if (there || errnum == EEXIST)
        return brim_fail(err, BRIM_EIO,
                         "%s: is not a folder (choose another name, or move it out of the way)",
                         path);
    return brim_fail_write(err, errnum, path);
}

brim_status brim_make_dirs(const char *path, brim_error *err)
{
    if (!*path) return brim_fail(err, BRIM_EINVAL, "folder: empty name (give a path)");
    char *part = brim_strdup(path);
    if (!part) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory (close other programs)", path);
    brim_status s = BRIM_OK;
    for (char *p = part + 1; s == BRIM_OK && *p; p++) {
        if (*p != '/' || p[-1] == '/') continue;
        *p = 0;
        s = make_dir(part, err);
        *p = '/';
    }
    if (s == BRIM_OK) s = make_dir(part, err);
    free(part);
    return s;
}
