/* CIFAR's binary files: records of a label byte (CIFAR-100: coarse and fine) and 3072 bytes,
 * channel by channel, 32 x 32. */
#include "data/source.h"

#include <string.h>

enum { PIXELS = 3072 };

brim_status brim_source_cifar(brim_source *s, const char *path, brim_error *err)
{
    uint32_t blob;
    s->kind = "cifar";
    BRIM_TRY(brim_source_load(s, path, &blob, err));
    size_t n = s->blobs.at[blob].n;
    int labels = n % (PIXELS + 1) == 0 ? 1 : n % (PIXELS + 2) == 0 ? 2 : 0;
    if (!labels)
        return brim_fail(err, BRIM_EFORMAT,
                         "%s: %zu bytes are not a whole number of CIFAR records (of 3073 or 3074)",
                         path, n);
    const char *name = brim_arena_strdup(&s->arena, path);
    size_t record = PIXELS + (size_t)labels;
    for (size_t i = 0; i < n / record; i++) {
        int label = s->blobs.at[blob].at[i * record + (size_t)labels - 1];
        if (label > (labels == 1 ? 9 : 99))
            return brim_fail(err, BRIM_EFORMAT,
                             "%s: record %zu has label %d (not a CIFAR file, or damaged)", path, i,
                             label);
        brim_item it = {.name = name,
                        .planar = true,
                        .label = label,
                        .record = (int64_t)i,
                        .blob = blob,
                        .offset = i * record + (size_t)labels,
                        .bytes = PIXELS,
                        .w = 32,
                        .h = 32,
                        .channels = 3};
        BRIM_TRY(brim_source_add(s, it, err));
    }
    return BRIM_OK;
}
