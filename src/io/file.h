/* Whole files, safely. */
#ifndef BRIM_IO_FILE_H
#define BRIM_IO_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdbool.h>

/* Reads a whole regular file into a NUL-terminated heap buffer, at most `limit` bytes. */
brim_status brim_file_read(const char *path, size_t limit, char **out, size_t *n, brim_error *err);

/* Replaces a file atomically: open a temporary beside it, write, then commit (fsync, rename, fsync
 * of the folder) or abandon (the old file stays as it was). Disk full and short writes are reported
 * at commit. */
typedef struct brim_file_writer brim_file_writer;
brim_status brim_file_replace(const char *path, brim_file_writer **out, brim_error *err);
void brim_file_write(brim_file_writer *w, const void *bytes, size_t n); /* errors are kept */
brim_status brim_file_commit(brim_file_writer *w, brim_error *err);     /* frees w */
void brim_file_abandon(brim_file_writer *w);                            /* frees w; accepts NULL */

brim_status brim_file_save(const char *path, const void *bytes, size_t n, brim_error *err);
brim_status brim_make_dirs(const char *path, brim_error *err); /* like mkdir -p */
bool brim_file_exists(const char *path);
#endif
