/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11): a
 * counter-based generator. The same (key, counter) gives the same numbers on every device and
 * thread count. */
#ifndef BRIM_BASE_RNG_H
#define BRIM_BASE_RNG_H

#include <stdint.h>

typedef struct brim_philox {
    uint32_t v[4];
} brim_philox;

static inline brim_philox brim_philox4x32(uint64_t key, uint64_t counter_hi, uint64_t counter_lo)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter_lo, c1 = (uint32_t)(counter_lo >> 32);
    uint32_t c2 = (uint32_t)counter_hi, c3 = (uint32_t)(counter_hi >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (brim_philox){{c0, c1, c2, c3}};
}

/* [0,1) with 24 bits. */
static inline float brim_u32_to_unit(uint32_t u)
{
    return (float)(u >> 8) * 0x1p-24f;
}

/* A sequential stream over one key: for augmentation and shuffling. */
typedef struct brim_rng {
    uint64_t key, stream, pos;
    brim_philox block;
} brim_rng;

void brim_rng_init(brim_rng *r, uint64_t key, uint64_t stream);
uint32_t brim_rng_u32(brim_rng *r);
uint64_t brim_rng_below(brim_rng *r, uint64_t n);           /* uniform in [0, n), unbiased; n > 0 */
double brim_rng_uniform(brim_rng *r, double lo, double hi); /* [lo, hi), 53 bits */
double brim_rng_normal(brim_rng *r);                        /* mean 0, variance 1 (Box-Muller) */

/* FNV-1a: stable hash of a name, to derive a stream per parameter. */
uint64_t brim_hash_text(const char *s);

#endif
