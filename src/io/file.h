/* Whole files, safely. Everything here may be called from any thread; one writer belongs to one. */
#ifndef BRIM_IO_FILE_H
#define BRIM_IO_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Reads a whole regular file into a NUL-terminated heap buffer (the caller frees it), at most
 * `limit` bytes; a longer one is BRIM_EFORMAT. *out and *n are untouched on failure. */
brim_status brim_file_read(const char *path, size_t limit, char **out, size_t *n, brim_error *err);

/* Opens a regular file for reading and gives its size. Never blocks on a pipe, never opens a
 * device or a folder. The caller closes *fd, which is -1 on failure. */
brim_status brim_file_open(const char *path, int *fd, size_t *size_bytes, brim_error *err);

/* Replaces a file atomically: open a temporary beside it, write, then commit (fsync, rename, fsync
 * of the folder) or abandon (the old file stays as it was). Disk full and short writes are reported
 * at commit. When `path` is a symbolic link, the file that it points to is replaced and the link
 * stays. A replaced file keeps its permissions. Temporaries that a killed process left behind for
 * the same path are removed on the way. */
typedef struct brim_file_writer brim_file_writer;
brim_status brim_file_replace(const char *path, brim_file_writer **out, brim_error *err);
void brim_file_write(brim_file_writer *w, const void *bytes, size_t n); /* errors are kept */
brim_status brim_file_commit(brim_file_writer *w, brim_error *err);     /* frees w */
void brim_file_abandon(brim_file_writer *w);                            /* frees w; accepts NULL */

/* Replaces `path` by these n bytes, atomically as above. */
brim_status brim_file_save(const char *path, const void *bytes, size_t n, brim_error *err);
brim_status brim_make_dirs(const char *path, brim_error *err); /* like mkdir -p */
bool brim_file_exists(const char *path); /* anything there, also a folder; follows links */

/* Writes all n bytes, however many calls it takes; returns 0 or errno. */
int brim_write_all(int fd, const void *bytes, size_t n);
/* Fails with the text for an errno met while writing `path`: says what to do about a full disk, a
 * read-only file system, missing permission or a missing folder. */
brim_status brim_fail_write(brim_error *err, int errnum, const char *path);
#endif
