/* IDX files (LeCun's MNIST format): big-endian magic 0x0000TTRR, dimensions, data; images u8
 * [n,h,w] or [n,h,w,c], labels u8 [n] in a file whose name has "labels-idx1" for "images-idx3". */
#include "data/source.h"

#include <string.h>

static uint32_t big(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Reads the header: u8 data of `rank` dimensions whose product fits the file. */
static brim_status header(const char *path, const brim_blob *b, int lo, int hi, uint64_t dim[4],
                          size_t *data, brim_error *err)
{
    if (b->n < 8 || b->at[0] || b->at[1] || b->at[2] != 8)
        return brim_fail(err, BRIM_EFORMAT, "%s: not an IDX file of bytes", path);
    int rank = b->at[3];
    *data = 4 + 4 * (size_t)rank;
    if (rank < lo || rank > hi || b->n < *data)
        return brim_fail(err, BRIM_EFORMAT, "%s: has %d dimensions, wants %d", path, rank, lo);
    uint64_t count = 1;
    for (int k = 0; k < 4; k++) {
        dim[k] = k < rank ? big(b->at + 4 + 4 * k) : 1;
        if (__builtin_mul_overflow(count, dim[k], &count)) count = UINT64_MAX;
    }
    if (count != b->n - *data)
        return brim_fail(err, BRIM_EFORMAT,
                         "%s: its header tells of %llu bytes, %zu are there (fetch it again)", path,
                         (unsigned long long)count, b->n - *data);
    return BRIM_OK;
}

/* The labels file beside `images`: "images" -> "labels", "idx3" -> "idx1". */
static char *labels_path(brim_arena *a, const char *images)
{
    const char *slash = strrchr(images, '/'), *base = slash ? slash + 1 : images,
               *at = strstr(base, "images");
    if (!at) return NULL;
    char *out = brim_arena_printf(a, "%.*slabels%s", (int)(at - images), images, at + 6);
    char *idx = out ? strstr(out + (base - images), "idx3") : NULL;
    if (idx) idx[3] = '1';
    return out;
}

brim_status brim_source_idx(brim_source *s, const char *path, brim_error *err)
{
    uint32_t images, labels;
    uint64_t dim[4], count[4];
    size_t data, label_data;
    s->kind = "idx";
    const char *beside = labels_path(&s->arena, path);
    if (!beside)
        return brim_fail(
            err, BRIM_EINVAL,
            "%s: give the file whose name holds \"images\"; labels are found beside it", path);
    BRIM_TRY(brim_source_load(s, path, &images, err));
    BRIM_TRY(brim_source_load(s, beside, &labels, err));
    BRIM_TRY(header(path, &s->blobs.at[images], 3, 4, dim, &data, err));
    BRIM_TRY(header(beside, &s->blobs.at[labels], 1, 1, count, &label_data, err));
    if (dim[0] != count[0])
        return brim_fail(err, BRIM_EFORMAT, "%s: has %llu images, %s has %llu labels", path,
                         (unsigned long long)dim[0], beside, (unsigned long long)count[0]);
    /* Of single pixels a small gzipped file could hold so many that the list of them fills memory.
     */
    if (dim[1] * dim[2] < 4 || dim[1] > 65500 || dim[2] > 65500 || (dim[3] != 1 && dim[3] != 3))
        return brim_fail(err, BRIM_EFORMAT, "%s: images of %llu x %llu x %llu are not read", path,
                         (unsigned long long)dim[1], (unsigned long long)dim[2],
                         (unsigned long long)dim[3]);
    const char *name = brim_arena_strdup(&s->arena, path);
    uint64_t bytes = dim[1] * dim[2] * dim[3];
    for (uint64_t i = 0; i < dim[0]; i++) {
        brim_item it = {.name = name,
                        .label = s->blobs.at[labels].at[label_data + i],
                        .record = (int64_t)i,
                        .blob = images,
                        .offset = data + i * bytes,
                        .bytes = bytes,
                        .w = (int)dim[2],
                        .h = (int)dim[1],
                        .channels = (int)dim[3]};
        BRIM_TRY(brim_source_add(s, it, err));
    }
    return BRIM_OK;
}
