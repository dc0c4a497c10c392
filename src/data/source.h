/* What dataset.c asks of a kind of storage. A source finds its samples when it is opened and then
 * only reads. */
#ifndef BRIM_DATA_SOURCE_H
#define BRIM_DATA_SOURCE_H

#include "base/arena.h"
#include "base/vec.h"
#include "data/dataset.h"

/* A sample as a source knows it. */
typedef struct brim_item {
    const char *name;  /* whole path: in the folder or archive, or of the raw file; arena */
    const char *inner; /* the part of name that begins with the class folder: "cat/1.jpg" */
    brim_split split;  /* BRIM_SPLIT_ALL when storage does not tell; set by brim_labels_assign */
    bool planar;       /* raw pixels are stored channel by channel (CIFAR) */
    int label;         /* class index when the source knows it (cls files, IDX, CIFAR), else -1 */
    uint32_t blob;     /* which memory block (archives, raw files) */
    uint64_t offset;   /* in the block; folders: unused */
    uint64_t bytes;
    int w, h, channels; /* raw pixels; 0 for encoded files */
    int64_t record;     /* raw pixels: number in the file */
} brim_item;

/* A mapped or unpacked file. */
typedef struct brim_blob {
    const char *path; /* arena */
    uint8_t *at;
    size_t n;
    bool mapped;
} brim_blob;

/* Files of one kind that are no images. */
typedef struct brim_ignored {
    char end[12]; /* ".txt", or "other" */
    int64_t n;
} brim_ignored;

typedef struct brim_source {
    brim_arena arena;
    const char *kind;
    BRIM_VEC(brim_item) items;
    BRIM_VEC(brim_blob) blobs;
    BRIM_VEC(const char *) empty;   /* folders in which there is no image, as items' names */
    size_t unpacked, max_unpacked;  /* bytes; 0: no limit */
    const char *root;               /* folder sources: what item names are relative to */
    BRIM_VEC(brim_ignored) ignored; /* files that are no images */
} brim_source;

/* Each returns BRIM_OK with items found. */
brim_status brim_source_folder(brim_source *s, const char *path, brim_error *err);
brim_status brim_source_tar(brim_source *s, const char *path,
                            brim_error *err); /* one archive; may be called again */
brim_status brim_source_idx(brim_source *s, const char *path,
                            brim_error *err); /* the images file */
brim_status brim_source_cifar(brim_source *s, const char *path,
                              brim_error *err); /* one .bin file */

/* The whole file in memory: mapped, or unpacked when it is gzipped. Index in *blob. */
brim_status brim_source_load(brim_source *s, const char *path, uint32_t *blob, brim_error *err);
/* "img.JPG" -> true: an extension that images have. */
bool brim_image_name(const char *name);
brim_status brim_source_add(brim_source *s, brim_item item, brim_error *err);
/* Counts a file that is no image. */
brim_status brim_source_ignore(brim_source *s, const char *name, brim_error *err);

#endif
