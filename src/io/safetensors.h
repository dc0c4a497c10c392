/* The safetensors format: 8-byte little-endian header length, JSON header, raw tensors.
 * https://github.com/huggingface/safetensors (format section). Reading maps the file; hostile
 * headers (lengths, overlaps, offsets, nesting, duplicates) are refused, never trusted. */
#ifndef BRIM_IO_SAFETENSORS_H
#define BRIM_IO_SAFETENSORS_H

#include "base/error.h"
#include "brim/types.h"

typedef struct brim_st_tensor {
    const char *name;
    const char *dtype; /* the code in the file, "F32", "BF16", "I64", "U8", "BOOL", ... */
    brim_dtype type;   /* BRIM_DTYPE_COUNT when Brim has no such type (still listed) */
    int rank;
    int64_t dim[8];
    const void *data; /* into the mapping; row-major; may be unaligned */
    size_t bytes;
} brim_st_tensor;

typedef struct brim_st_file brim_st_file;

brim_status brim_st_open(const char *path, brim_st_file **out, brim_error *err);
void brim_st_close(brim_st_file *f); /* accepts NULL */
int64_t brim_st_count(const brim_st_file *f);
const brim_st_tensor *brim_st_at(const brim_st_file *f, int64_t i);          /* sorted by name */
const brim_st_tensor *brim_st_find(const brim_st_file *f, const char *name); /* NULL when absent */
const char *brim_st_metadata(const brim_st_file *f, const char *key);        /* NULL when absent */

/* Writes through a temporary file in the same folder, fsync, rename, fsync of the folder: after any
 * crash the path holds the old file or the new one. `write` is asked for each tensor's bytes in
 * order, so that a large model needs no second copy. */
typedef struct brim_st_entry {
    const char *name;
    brim_dtype type;
    int rank;
    int64_t dim[8];
    const void *data; /* row-major, packed */
} brim_st_entry;
brim_status brim_st_save(const char *path, const brim_st_entry *entry, int64_t n,
                         const char *const (*metadata)[2], int n_metadata, brim_error *err);

#endif
