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

/* Opens and checks a file; BRIM_EFORMAT says what is wrong with a damaged one, BRIM_EUNSUPPORTED
 * names an element type that the format does not (yet) know. The file may be replaced by rename
 * while it is open; it must not be truncated. Everything returned below lives until close. An open
 * file may be read from any number of threads. */
brim_status brim_st_open(const char *path, brim_st_file **out, brim_error *err);
/* The same over n bytes that the caller keeps alive until close; `name` is for messages. */
brim_status brim_st_parse(const char *name, const void *bytes, size_t n, brim_st_file **out,
                          brim_error *err);
void brim_st_close(brim_st_file *f); /* accepts NULL */
int64_t brim_st_count(const brim_st_file *f);
const brim_st_tensor *brim_st_at(const brim_st_file *f, int64_t i);          /* sorted by name */
const brim_st_tensor *brim_st_find(const brim_st_file *f, const char *name); /* NULL when absent */
const char *brim_st_metadata(const brim_st_file *f, const char *key);        /* NULL when absent */

typedef struct brim_st_entry {
    const char *name; /* UTF-8, unique in the file, not "__metadata__" */
    brim_dtype type;
    int rank;
    int64_t dim[8];
    const void *data; /* row-major, packed; or NULL, then: */
    /* Writes the data to out (host memory), so that a file can be larger than what memory is left.
     * Called once, while the file is written. */
    brim_status (*read)(const void *source, void *out, brim_error *err);
    const void *source;
} brim_st_entry;

/* Writes through a temporary file in the same folder, fsync, rename, fsync of the folder: after any
 * crash the path holds the old file or the new one. Tensors lie in the file by falling element
 * size, else in the order given, so that every one is aligned when the file is mapped. The
 * metadata is n_metadata pairs of key and value. */
brim_status brim_st_save(const char *path, const brim_st_entry *entry, int64_t n,
                         const char *const (*metadata)[2], int n_metadata, brim_error *err);

#endif
