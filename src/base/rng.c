#include "base/rng.h"

#include <math.h>

void brim_rng_init(brim_rng *r, uint64_t key, uint64_t stream)
{
    *r = (brim_rng){.key = key, .stream = stream};
}

uint32_t brim_rng_u32(brim_rng *r)
{
    unsigned lane = r->pos & 3;
    if (lane == 0) r->block = brim_philox4x32(r->key, r->stream, r->pos >> 2);
    r->pos++;
    return r->block.v[lane];
}

static uint64_t u64(brim_rng *r)
{
    uint64_t hi = brim_rng_u32(r);
    return hi << 32 | brim_rng_u32(r);
}

uint64_t brim_rng_below(brim_rng *r, uint64_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n; /* reject the tail that would bias */
    uint64_t x;
    do x = u64(r);
    while (x >= limit);
    return x % n;
}

double brim_rng_uniform(brim_rng *r, double lo, double hi)
{
    return lo + (hi - lo) * ((double)(u64(r) >> 11) * 0x1p-53);
}

double brim_rng_normal(brim_rng *r)
{
    double u = 1.0 - brim_rng_uniform(r, 0, 1), v = brim_rng_uniform(r, 0, 1);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

uint64_t brim_hash_text(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    while (*s) h = (h ^ (unsigned char)*s++) * 0x100000001b3u;
    return h;
}
