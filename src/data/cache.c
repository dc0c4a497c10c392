#include "data/cache.h"
#include "base/mem.h"
#include "data/decoder.h"

#include <stdatomic.h>
#include <string.h>

enum { MAX_PIXELS = 128 * 128, PROBES = 64 };

typedef struct kept {
    _Atomic(uint8_t *) pixels; /* NULL: not kept */
    int w, h;
} kept;

struct brim_cache {
    int64_t n;
    size_t limit;
    atomic_size_t used;
    kept at[];
};

brim_cache *brim_cache_new(int64_t n, size_t limit)
{
    brim_cache *c = brim_calloc(1, sizeof *c + (size_t)n * sizeof c->at[0]);
    if (c) {
        c->n = n;
        c->limit = limit;
    }
    return c;
}

void brim_cache_free(brim_cache *c)
{
    if (!c) return;
    for (int64_t i = 0; i < c->n; i++) free(atomic_load(&c->at[i].pixels));
    free(c);
}

bool brim_cache_wants(const brim_image_info *info)
{
    return info->format != BRIM_IMAGE_RAW && (int64_t)info->w * info->h <= MAX_PIXELS;
}

void brim_cache_keep(brim_cache *c, int64_t i, const brim_image *im)
{
    size_t bytes = im->stride * (size_t)im->h;
    if (atomic_fetch_add(&c->used, bytes) + bytes > c->limit) {
        atomic_fetch_sub(&c->used, bytes);
        return;
    }
    uint8_t *copy = brim_malloc(bytes + BRIM_IMAGE_SLACK);
    if (!copy) return;
    memcpy(copy, im->pixels, bytes);
    c->at[i].w = im->w;
    c->at[i].h = im->h;
    atomic_store_explicit(&c->at[i].pixels, copy, memory_order_release);
}

bool brim_cache_get(const brim_cache *c, int64_t i, int channels, brim_image *im)
{
    uint8_t *pixels = c ? atomic_load_explicit(&c->at[i].pixels, memory_order_acquire) : NULL;
    if (pixels) *im = brim_image_whole(c->at[i].w, c->at[i].h, channels, pixels);
    return pixels != NULL;
}

size_t brim_cache_need(const brim_dataset *d, int channels, size_t limit)
{
    int64_t n = brim_dataset_size(d), probes = n < PROBES ? n : PROBES;
    brim_scratch scratch = {0};
    double bytes = 0;
    for (int64_t k = 0; k < probes; k++) {
        brim_sample s = {0};
        brim_image_info info;
        if (brim_dataset_read(d, k * n / probes, &scratch, &s, NULL) == BRIM_OK &&
            brim_image_probe(&s, &info, NULL) == BRIM_OK && brim_cache_wants(&info))
            bytes += (double)info.w * info.h * channels;
    }
    brim_scratch_free(&scratch);
    double all = probes ? bytes / (double)probes * (double)n : 0;
    return all < (double)limit ? (size_t)all : limit;
}
