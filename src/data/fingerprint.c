/* A number that tells one set of images from another, without reading all of either. */
#include "base/rng.h"
#include "data/labels.h"
#include "data/twins.h"

#include <stdio.h>
#include <sys/stat.h>

enum { SAMPLES = 256, HEAD_BYTES = 4096 };

static void mix(uint64_t *h, uint64_t x)
{
    *h = (*h ^ x) * 0x9e3779b97f4a7c15u;
    *h ^= *h >> 29;
}

/* Of a file its size; of what lies in memory the first bytes, too. */
static uint64_t content_of(const brim_dataset *d, const brim_item *it)
{
    if (!d->src.root) {
        uint64_t head = it->bytes < HEAD_BYTES ? it->bytes : HEAD_BYTES;
        return it->bytes ^ brim_twin_hash(d->src.blobs.at[it->blob].at + it->offset, head);
    }
    char path[4096];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", d->src.root, it->name);
    return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

uint64_t brim_dataset_fingerprint(const brim_dataset *d)
{
    uint64_t h = (uint64_t)d->n;
    for (int k = 0; k < d->classes; k++) mix(&h, brim_hash_text(d->name[k]));
    int64_t apart = d->n / SAMPLES + 1;
    for (int64_t i = 0; i < d->n; i++) {
        const brim_item *it = &d->item[i];
        if (!it->channels) mix(&h, brim_hash_text(it->inner ? it->inner : it->name));
        mix(&h, (uint64_t)it->label);
        if (i % apart == 0) mix(&h, content_of(d, it));
    }
    return h;
}
