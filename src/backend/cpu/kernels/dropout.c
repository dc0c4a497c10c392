/* Philox4x32-10 (see base/rng.h) for VF counters at a time, and dropout with it. */
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/simd.h"
#include "base/rng.h"

typedef uint32_t vu __attribute__((vector_size(VF * 4), may_alias));

/* High and low halves of a * m. */
SIMD void mul_wide(vu a, uint32_t m, vu *hi, vu *lo)
{
#if defined(__AVX512F__)
    __m512i k = _mm512_set1_epi32((int)m), even = _mm512_mul_epu32((__m512i)a, k);
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), k);
    *hi = (vu)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
    *lo = (vu)_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
#elif defined(__AVX2__)
    __m256i k = _mm256_set1_epi32((int)m), even = _mm256_mul_epu32((__m256i)a, k);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), k);
    *hi = (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    *lo = (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
#else
    for (int i = 0; i < VF; i++) {
        uint64_t p = (uint64_t)a[i] * m;
        (*hi)[i] = (uint32_t)(p >> 32);
        (*lo)[i] = (uint32_t)p;
    }
#endif
}

/* Transposes the 4x4 blocks that v[0..3] make in each 128-bit lane. */
SIMD void transpose4(vu v[4])
{
#if defined(__AVX512F__)
#define LANES(op, a, b) (vu) _mm512_##op((__m512i)(a), (__m512i)(b))
#elif defined(__AVX2__)
#define LANES(op, a, b) (vu) _mm256_##op((__m256i)(a), (__m256i)(b))
#endif
#ifdef LANES
    vu t0 = LANES(unpacklo_epi32, v[0], v[1]), t1 = LANES(unpackhi_epi32, v[0], v[1]);
    vu t2 = LANES(unpacklo_epi32, v[2], v[3]), t3 = LANES(unpackhi_epi32, v[2], v[3]);
    v[0] = LANES(unpacklo_epi64, t0, t2);
    v[1] = LANES(unpackhi_epi64, t0, t2);
    v[2] = LANES(unpacklo_epi64, t1, t3);
    v[3] = LANES(unpackhi_epi64, t1, t3);
#undef LANES
#else
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++) {
            uint32_t t = v[i][j];
            v[i][j] = v[j][i];
            v[j][i] = t;
        }
#endif
}

/* out[0..3]: the 4 VF numbers of counters first .. first + VF - 1, in order. Lane 4b+k computes
 * counter k VF/4 + b, so that transposing within 128 bits puts them in order. */
SIMD void philox(uint64_t key, uint64_t counter_hi, uint64_t first, vu out[4])
{
    vu c0, c1, c2 = (vu){0} + (uint32_t)counter_hi, c3 = (vu){0} + (uint32_t)(counter_hi >> 32);
    for (int i = 0; i < VF; i++) {
        uint64_t c = first + (uint64_t)(i % 4 * (VF / 4) + i / 4);
        c0[i] = (uint32_t)c;
        c1[i] = (uint32_t)(c >> 32);
    }
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        vu hi0, lo0, hi1, lo1;
        mul_wide(c0, 0xD2511F53u, &hi0, &lo0);
        mul_wide(c2, 0xCD9E8D57u, &hi1, &lo1);
        c0 = hi1 ^ c1 ^ k0;
        c1 = lo1;
        c2 = hi0 ^ c3 ^ k1;
        c3 = lo0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
    transpose4(out);
}

SIMD void drop(void *y, const void *x, brim_dtype t, int64_t begin, int64_t count, uint64_t key,
               uint64_t counter_hi, uint32_t limit, float scale)
{
    vi least = vi_set((int32_t)limit);
    for (int64_t at = 0; at < count; at += 4 * VF) {
        vu u[4];
        philox(key, counter_hi, (uint64_t)(begin + at) / 4, u);
        for (int k = 0; k < 4; k++) {
            int64_t i = at + k * VF, left = count - i;
            if (left <= 0) break;
            vm off = vi_below((vi)(u[k] >> 8), least);
            if (left >= VF) {
                vf v = vf_get(x, begin + i, VF, t) * scale;
                vf_put(y, begin + i, VF, t, vf_sel(off, vf_set(0), v));
            } else {
                vf v = vf_get(x, begin + i, (int)left, t) * scale;
                vf_put(y, begin + i, (int)left, t, vf_sel(off, vf_set(0), v));
            }
        }
    }
}

void K(dropout)(void *y, const void *x, brim_dtype t, int64_t begin, int64_t n, uint64_t key,
                uint64_t counter_hi, uint32_t limit, float scale)
{
    FOR_DTYPE(t, drop(y, x, T, begin, n, key, counter_hi, limit, scale));
}
