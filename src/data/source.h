/* What dataset.c asks of a kind of storage. A source finds its samples when it is opened and then
 * only reads. */
#ifndef BRIM_DATA_SOURCE_H
#define BRIM_DATA_SOURCE_H

#include "base/arena.h"
#include "base/vec.h"
#include "data/dataset.h"

/* A sample as a source knows it. */
typedef struct brim_item {
    const char *name; /* path for messages, and for class and split: "train/cat/1.jpg"; arena */
    int label;        /* class index when the source knows it (cls files, IDX, CIFAR), else -1 */
    uint32_t blob;    /* which memory block (archives, raw files) */
    uint64_t offset;  /* in the block; folders: unused */
    uint64_t bytes;
    int w, h, channels; /* raw pixels; 0 for encoded files */
} brim_item;

/* A mapped or unpacked file. */
typedef struct brim_blob {
    uint8_t *at;
    size_t n;
    bool mapped;
} brim_blob;

typedef struct brim_source {
    brim_arena arena;
    const char *kind;
    BRIM_VEC(brim_item) items;
    BRIM_VEC(brim_blob) blobs;
    BRIM_VEC(const char *) names; /* of classes, when the source has a list of its own */
    const char *root;             /* folder sources: what item names are relative to */
    bool planar;                  /* raw pixels are stored channel by channel (CIFAR) */
    int64_t ignored;              /* files that are no images */
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

#endif
