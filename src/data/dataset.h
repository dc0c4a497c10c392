/* A set of labelled images: where each sample's bytes lie and which class it has. Opening reads
 * directories, archive indexes and small headers, never whole images. Read-only after opening, so
 * any number of threads may call brim_dataset_read at once. Knows no graph and no device.
 *
 * Accepted paths (a directory, a file, or a pattern with one {a..b} or {x,y} brace list):
 *   folder of class folders        DIR/cat/1.jpg       class = folder, sorted by name
 *   .tar, .tar.gz of the same      cat/1.jpg           (.gz is unpacked once into memory)
 *   WebDataset shards              key.jpg + key.cls   class index as text
 *   IDX                            *-images-idx3-ubyte[.gz] (labels file found beside it)
 *   CIFAR-10/100 binary            data_batch_1.bin ... / a folder of them
 * A folder or archive that holds train/ and val/ (or test/, valid/, validation/), and a folder with
 * files of the other kinds named so, gives those as its splits. */
#ifndef BRIM_DATA_DATASET_H
#define BRIM_DATA_DATASET_H

#include "base/error.h"
#include "brim/types.h"

typedef struct brim_dataset brim_dataset;

typedef enum brim_split { BRIM_SPLIT_ALL, BRIM_SPLIT_TRAIN, BRIM_SPLIT_VAL } brim_split;

typedef struct brim_dataset_opts {
    brim_split split;
    double val_fraction; /* used when the path has no split of its own: a fixed pseudo-random share,
                            stratified by class, the same for every run with this seed */
    uint64_t seed;
    const char *const *class_names; /* expected order of classes (from a checkpoint), or NULL */
    int n_class_names;
    const char *names_of; /* whose those are, for messages; NULL: "the model" */
    size_t max_bytes;     /* unpacked archives may take no more; 0: any */
    bool allow_empty;     /* a class folder without images is no error; brim_dataset_empty_folder */
} brim_dataset_opts;

/* Errors: BRIM_EMEMCAP for max_bytes, BRIM_ENOTFOUND, BRIM_EFORMAT, BRIM_EIO, BRIM_EINVAL,
 * BRIM_ENOMEM; *out is NULL then. An empty set, an empty class folder outside of validation or a
 * class unknown to class_names is an error that names it. */
brim_status brim_dataset_open(const char *path, const brim_dataset_opts *opts, brim_dataset **out,
                              brim_error *err);
void brim_dataset_free(brim_dataset *d); /* accepts NULL */

int64_t brim_dataset_size(const brim_dataset *d);
int brim_dataset_classes(const brim_dataset *d);
const char *brim_dataset_class_name(const brim_dataset *d, int k); /* borrowed; never NULL */
int brim_dataset_label(const brim_dataset *d, int64_t i);          /* 0 .. classes - 1 */
/* For messages: a file's path, "ARCHIVE:MEMBER" or "FILE[RECORD]"; into buf, which is returned. */
const char *brim_dataset_path(const brim_dataset *d, int64_t i, char *buf, size_t n);
/* The part that sample i belongs to; BRIM_SPLIT_ALL in a set that has no parts. */
brim_split brim_dataset_split(const brim_dataset *d, int64_t i);
/* Storage itself tells training from validation. */
bool brim_dataset_has_split(const brim_dataset *d);
int64_t brim_dataset_ignored(const brim_dataset *d); /* files that are no images */
/* The k-th kind of them, ".txt", and how many there are; NULL behind the last. */
const char *brim_dataset_ignored_kind(const brim_dataset *d, int k, int64_t *n);
/* The k-th class folder without images, as a path in the set; NULL behind the last. Folders of the
 * validation part do not count. */
const char *brim_dataset_empty_folder(const brim_dataset *d, int k);
const char *brim_dataset_kind(
    const brim_dataset *d); /* "folder", "tar", "webdataset", "idx", "cifar" */
size_t brim_dataset_memory_bytes(const brim_dataset *d); /* host memory it holds */
/* The same for the same samples in the same order, wherever the set lies: from names, labels and
 * the sizes and first bytes of a few samples. Reads little, so it may miss a change. */
uint64_t brim_dataset_fingerprint(const brim_dataset *d);

/* One stored sample. For encoded files `bytes` is the file; for raw formats it is pixels
 * [h,w,channels] u8. Borrowed from the set (mapped or in memory) or from `scratch`, valid until
 * scratch is reused. */
typedef struct brim_sample {
    const uint8_t *bytes;
    size_t n;
    bool raw;
    int w, h, channels; /* raw only */
} brim_sample;

typedef struct brim_scratch { /* a growing buffer, one per thread; zero it before first use */
    uint8_t *at;
    size_t cap;
} brim_scratch;
void brim_scratch_free(brim_scratch *s);

/* Errors do not name the sample, brim_dataset_path does: BRIM_ENOTFOUND, BRIM_EIO, BRIM_ENOMEM. */
brim_status brim_dataset_read(const brim_dataset *d, int64_t i, brim_scratch *scratch,
                              brim_sample *out, brim_error *err);

#endif
