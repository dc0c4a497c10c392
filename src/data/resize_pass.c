#include "data/resize_pass.h"

#include <string.h>

enum { HALF = 1 << (BRIM_TAP_BITS - 1) };

static void horizontal1(const uint8_t *row, uint8_t *out, int w, const brim_taps *t)
{
    for (int i = 0; i < w; i++) {
        const uint8_t *p = row + t->first[i];
        const int16_t *k = t->weight + (size_t)i * (size_t)t->support;
        int32_t x = HALF;
        for (int n = 0; n < t->support; n++) x += p[n] * k[n];
        *out++ = brim_tap_round(x);
    }
}

static void horizontal3(const uint8_t *row, uint8_t *out, int w, const brim_taps *t)
{
    for (int i = 0; i < w; i++) {
        const uint8_t *p = row + 3 * (size_t)t->first[i];
        const int16_t *k = t->weight + (size_t)i * (size_t)t->support;
        int32_t r = HALF, g = HALF, b = HALF;
        for (int n = 0; n < t->support; n++, p += 3) {
            r += p[0] * k[n];
            g += p[1] * k[n];
            b += p[2] * k[n];
        }
        *out++ = brim_tap_round(r);
        *out++ = brim_tap_round(g);
        *out++ = brim_tap_round(b);
    }
}

static void vertical(const uint8_t *rows, size_t stride, uint8_t *out, size_t n,
                     const int16_t *weight, int support)
{
    for (size_t x = 0; x < n; x++) {
        int32_t sum = HALF;
        for (int k = 0; k < support; k++) sum += rows[(size_t)k * stride + x] * weight[k];
        out[x] = brim_tap_round(sum);
    }
}

const brim_resize_passes brim_resize_portable = {horizontal1, horizontal3, vertical};

#if defined __x86_64__

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

/* Two taps of three channels: bytes r0 g0 b0 r1 g1 b1 as words r0 r1 g0 g1 b0 b1 0 0, the taps'
 * weights beside each other, multiplied and added in pairs. Four taps fill a 256-bit register. */
AVX2 static void horizontal3_avx2(const uint8_t *row, uint8_t *out, int w, const brim_taps *t)
{
    const __m256i spread =
        _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, /* taps 0, 1 */
                         6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1); /* 2, 3 */
    for (int i = 0; i < w; i++, out += 3) {
        const uint8_t *p = row + 3 * (size_t)t->first[i];
        const int16_t *k = t->weight + (size_t)i * (size_t)t->support;
        __m256i sum = _mm256_setzero_si256();
        int n = 0;
        for (; n + 4 <= t->support; n += 4, p += 12) {
            int32_t k01, k23;
            memcpy(&k01, k + n, 4);
            memcpy(&k23, k + n + 2, 4);
            __m256i in = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
            __m256i weight = _mm256_set_m128i(_mm_set1_epi32(k23), _mm_set1_epi32(k01));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(in, spread), weight));
        }
        __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        for (; n < t->support; n += 2, p += 6) {
            int32_t k01 = k[n];
            if (t->support > 1) memcpy(&k01, k + n, 4);
            __m128i in = _mm_loadl_epi64((const __m128i *)p);
            in = _mm_shuffle_epi8(in, _mm256_castsi256_si128(spread));
            s = _mm_add_epi32(s, _mm_madd_epi16(in, _mm_set1_epi32(k01)));
        }
        s = _mm_srai_epi32(_mm_add_epi32(s, _mm_set1_epi32(HALF)), BRIM_TAP_BITS);
        s = _mm_packus_epi16(_mm_packs_epi32(s, s), s);
        uint32_t rgb = (uint32_t)_mm_cvtsi128_si32(s);
        out[0] = (uint8_t)rgb;
        out[1] = (uint8_t)(rgb >> 8);
        out[2] = (uint8_t)(rgb >> 16);
    }
}

/* Rows in pairs, 16 columns at once: bytes a0 b0 a1 b1 ... as words against (weight a, weight b).
 */
AVX2 static void vertical_avx2(const uint8_t *rows, size_t stride, uint8_t *out, size_t n,
                               const int16_t *weight, int support)
{
    size_t x = 0;
    for (; x + 16 <= n; x += 16) {
        __m256i lo = _mm256_set1_epi32(HALF), hi = lo;
        for (int k = 0; k < support; k += 2) {
            int32_t both = (uint16_t)weight[k];
            const uint8_t *p = rows + (size_t)k * stride + x;
            __m128i a = _mm_loadu_si128((const __m128i *)p), b = _mm_setzero_si128();
            if (support > 1) {
                memcpy(&both, weight + k, 4);
                if (weight[k + 1]) b = _mm_loadu_si128((const __m128i *)(p + stride));
            }
            __m256i w = _mm256_set1_epi32(both);
            lo = _mm256_add_epi32(
                lo, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b)), w));
            hi = _mm256_add_epi32(
                hi, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b)), w));
        }
        lo = _mm256_srai_epi32(lo, BRIM_TAP_BITS);
        hi = _mm256_srai_epi32(hi, BRIM_TAP_BITS);
        __m256i packed = _mm256_packs_epi32(lo, hi); /* lo 0-3, hi 0-3, lo 4-7, hi 4-7 */
        packed = _mm256_permute4x64_epi64(packed, 0xd8);
        __m128i bytes =
            _mm_packus_epi16(_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1));
        _mm_storeu_si128((__m128i *)(out + x), bytes);
    }
    vertical(rows + x, stride, out + x, n - x, weight, support);
}

static const brim_resize_passes avx2 = {horizontal1, horizontal3_avx2, vertical_avx2};

const brim_resize_passes *brim_resize_passes_here(void)
{
    return __builtin_cpu_supports("avx2") ? &avx2 : &brim_resize_portable;
}

#else

const brim_resize_passes *brim_resize_passes_here(void)
{
    return &brim_resize_portable;
}

#endif
