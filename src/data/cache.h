/* Decoded small images, kept over epochs so that only the first one decodes. Any number of threads
 * may get and keep at once; what is kept stays until the release. */
#ifndef BRIM_DATA_CACHE_H
#define BRIM_DATA_CACHE_H

#include "data/image.h"

typedef struct brim_cache brim_cache;

/* For samples 0 .. n-1, at most `limit` bytes of pixels. NULL when out of memory. */
brim_cache *brim_cache_new(int64_t n, size_t limit);
void brim_cache_free(brim_cache *c); /* accepts NULL */

/* Is an image like this worth keeping? Large ones and stored pixels are not. */
bool brim_cache_wants(const brim_image_info *info);
/* Keeps a copy of sample i's whole image while there is room. */
void brim_cache_keep(brim_cache *c, int64_t i, const brim_image *im);
/* Sample i's image in *im, borrowed from the cache; false: not kept. c may be NULL. */
bool brim_cache_get(const brim_cache *c, int64_t i, int channels, brim_image *im);

/* What a cache for this set will come to hold, judged by the headers of up to 64 samples spread
 * over it; at most `limit`. */
size_t brim_cache_need(const brim_dataset *d, int channels, size_t limit);

#endif
