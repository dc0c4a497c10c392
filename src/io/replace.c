/* Atomic replacement of a file.
 *
 *     folder/NAME              the old file, untouched until rename(2)
 *     folder/.NAME.PID-K.brim~ the temporary, locked (flock) as long as its writer lives
 *
 * A temporary that nobody holds locked was left by a killed process and may be removed. Between
 * open and flock of a new temporary another process may take it for such a one: the writer sees
 * that by its link count and tries the next name. */
#include "io/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 64 * 1024, NAME_BYTES = 256 };
static const char suffix[] = ".brim~";

struct brim_file_writer {
    char *path;   /* of the file to replace, links resolved */
    char *folder; /* its folder, to fsync */
    char *temp;   /* path of the temporary; NULL until it exists */
    int fd;
    int errnum; /* the first failure, 0 while there is none */
    size_t used;
    char buffer[BUFFER_BYTES];
};

static void writer_free(brim_file_writer *w)
{
    if (w->fd >= 0) close(w->fd);
    free(w->path);
    free(w->folder);
    free(w->temp);
    free(w);
}

/* The target behind any links, and its folder. */
static brim_status resolve(brim_file_writer *w, const char *path, struct stat *old, bool *exists,
                           brim_error *err)
{
    if (!*path) return brim_fail(err, BRIM_EINVAL, "file: empty name (give a path)");
    struct stat link;
    bool there = lstat(path, &link) == 0;
    if (!there && errno != ENOENT) return brim_fail_write(err, errno, path);
    *exists = there && stat(path, old) == 0;
    if (there && !*exists)
        return brim_fail(err, BRIM_EIO,
                         "%s: is a symbolic link to nothing (remove the link or create its target)",
                         path);
    if (*exists && !S_ISREG(old->st_mode))
        return brim_fail(err, BRIM_EIO, "%s: is %s, not a regular file (choose another name)", path,
                         S_ISDIR(old->st_mode) ? "a folder" : "a device or a pipe");
    if (*exists && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        return brim_fail(err, BRIM_EIO,
                         "%s: is write-protected (chmod u+w it, or choose another name)", path);
    if (there && S_ISLNK(link.st_mode)) {
        char *real = realpath(path, NULL); /* malloc'd by libc */
        w->path = real ? brim_strdup(real) : NULL;
        free(real);
    } else {
        w->path = brim_strdup(path);
    }
    w->folder = w->path ? brim_strdup(w->path) : NULL;
    if (!w->folder)
        return brim_fail(err, BRIM_ENOMEM, "%s: out of memory (close other programs)", path);
    char *slash = strrchr(w->folder, '/');
    if (slash)
        slash[slash == w->folder ? 1 : 0] = 0;
    else
        memcpy(w->folder, ".", 2); /* fits: the path is not empty */
    return BRIM_OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ".NAME." cut so that a temporary's name stays within the file system's limit. */
static void temp_prefix(char out[NAME_BYTES], const char *path)
{
    snprintf(out, NAME_BYTES, ".%.200s.", base_name(path));
}

static void remove_stale(const brim_file_writer *w)
{
    char prefix[NAME_BYTES];
    temp_prefix(prefix, w->path);
    DIR *dir = opendir(w->folder);
    if (!dir) return;
    size_t head = strlen(prefix), tail = strlen(suffix);
    for (struct dirent *e; (e = readdir(dir));) {
        size_t n = strlen(e->d_name);
        if (n < head + tail || strncmp(e->d_name, prefix, head) != 0 ||
            strcmp(e->d_name + n - tail, suffix) != 0)
            continue;
        int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0) continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(dirfd(dir), e->d_name, 0);
        close(fd);
    }
    closedir(dir);
}

/* True when the open temporary is locked and still has its name. A file system without locks
 * counts as locked: nobody can lock it there to remove it. */
static bool own(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

static int create_temp(brim_file_writer *w)
{
    static atomic_uint counter;
    char prefix[NAME_BYTES];
    temp_prefix(prefix, w->path);
    size_t n = strlen(w->folder) + strlen(prefix) + 64;
    w->temp = brim_malloc(n);
    if (!w->temp) return ENOMEM;
    for (int tries = 0; tries < 1000; tries++) {
        snprintf(w->temp, n, "%s/%s%ld-%u%s", w->folder, prefix, (long)getpid(),
                 atomic_fetch_add(&counter, 1), suffix);
        w->fd = open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd < 0 && errno == EEXIST) continue;
        if (w->fd < 0) break;
        if (own(w->fd)) return 0;
        close(w->fd);
        w->fd = -1;
    }
    int errnum = errno;
    free(w->temp);
    w->temp = NULL;
    return errnum;
}

brim_status brim_file_replace(const char *path, brim_file_writer **out, brim_error *err)
{
    brim_file_writer *w = brim_calloc(1, sizeof *w);
    if (!w) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory (close other programs)", path);
    w->fd = -1;
    struct stat old;
    bool exists = false;
    brim_status s = resolve(w, path, &old, &exists, err);
    if (s != BRIM_OK) {
        writer_free(w);
        return s;
    }
    remove_stale(w);
    int errnum = create_temp(w);
    if (errnum) {
        writer_free(w);
        return errnum == ENOMEM
                   ? brim_fail(err, BRIM_ENOMEM, "%s: out of memory (close other programs)", path)
                   : brim_fail_write(err, errnum, path);
    }
    if (exists) {
        /* The owner first: chown clears mode bits. Only root can give files away; others make the
         * new file their own, as any editor that renames does. */
        if (geteuid() == 0 && fchown(w->fd, old.st_uid, old.st_gid) != 0) w->errnum = errno;
        if (fchmod(w->fd, old.st_mode & 0777) != 0 && !w->errnum) w->errnum = errno;
    }
    *out = w;
    return BRIM_OK;
}

static void flush(brim_file_writer *w)
{
    if (!w->errnum) w->errnum = brim_write_all(w->fd, w->buffer, w->used);
    w->used = 0;
}

void brim_file_write(brim_file_writer *w, const void *bytes, size_t n)
{
    if (n == 0 || w->errnum) return;
    if (n > BUFFER_BYTES - w->used) flush(w);
    if (n >= BUFFER_BYTES) {
        if (!w->errnum) w->errnum = brim_write_all(w->fd, bytes, n);
        return;
    }
    memcpy(w->buffer + w->used, bytes, n);
    w->used += n;
}

void brim_file_abandon(brim_file_writer *w)
{
    if (!w) return;
    if (w->temp) unlink(w->temp);
    writer_free(w);
}

/* The rename itself must reach the disk. Some file systems cannot sync a folder: EINVAL. */
static int sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno == EACCES ? 0 : errno; /* a folder may be writable yet not readable */
    int errnum = fsync(fd) != 0 && errno != EINVAL ? errno : 0;
    close(fd);
    return errnum;
}

brim_status brim_file_commit(brim_file_writer *w, brim_error *err)
{
    flush(w);
    if (!w->errnum && fsync(w->fd) != 0 && errno != EINVAL) w->errnum = errno;
    if (!w->errnum && rename(w->temp, w->path) != 0) w->errnum = errno;
    if (w->errnum) {
        brim_status s = brim_fail_write(err, w->errnum, w->path);
        brim_file_abandon(w);
        return s;
    }
    int errnum = sync_folder(w->folder);
    brim_status s = errnum ? brim_fail_write(err, errnum, w->path) : BRIM_OK;
    writer_free(w);
    return s;
}

brim_status brim_file_save(const char *path, const void *bytes, size_t n, brim_error *err)
{
    brim_file_writer *w;
    BRIM_TRY(brim_file_replace(path, &w, err));
    brim_file_write(w, bytes, n);
    return brim_file_commit(w, err);
}
