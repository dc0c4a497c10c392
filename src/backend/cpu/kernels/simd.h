/* Vectors of floats, as wide as the instruction set that the including file is compiled for: 16
 * with AVX-512, 8 with AVX2, 4 otherwise (plain C on GCC's vector types). The kernels are written
 * once on top of this and compiled once per instruction set.
 *
 * VF floats fill a vector `vf`; `vi` has as many int32. Arithmetic and integer operators are the
 * language's own. */
#ifndef BRIM_CPU_SIMD_H
#define BRIM_CPU_SIMD_H

#include "base/half.h"
#include "brim/types.h"

#include <math.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { VF = 16 };
#elif defined(__AVX2__)
enum { VF = 8 };
#else
enum { VF = 4 };
#endif
typedef float vf __attribute__((vector_size(VF * 4), may_alias));
typedef int32_t vi __attribute__((vector_size(VF * 4), may_alias));

#define SIMD static inline __attribute__((always_inline))

SIMD vf vf_set(float x)
{
    return x - (vf){0};
}
SIMD vi vi_set(int32_t x)
{
    return x - (vi){0};
}
SIMD vf vf_load(const float *p)
{
    vf v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
SIMD void vf_store(float *p, vf v)
{
    __builtin_memcpy(p, &v, sizeof v);
}

/* Masks: one bit or one lane per element. */
#if defined(__AVX512F__)
typedef __mmask16 vm;
SIMD vm vf_gt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}
SIMD vm vf_nan(vf a)
{
    return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}
SIMD vm vf_nonzero(vf a)
{
    return _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_NEQ_UQ);
}
SIMD vf vf_sel(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}
SIMD vi vi_sel(vm m, vi a, vi b)
{
    return (vi)_mm512_mask_blend_epi32(m, (__m512i)b, (__m512i)a);
}
SIMD vm vi_below(vi a, vi b) /* unsigned */
{
    return _mm512_cmplt_epu32_mask((__m512i)a, (__m512i)b);
}
SIMD bool vm_any(vm m)
{
    return m != 0;
}
#else
typedef vi vm;
SIMD vm vf_gt(vf a, vf b)
{
    return (vm)(a > b);
}
SIMD vm vf_nan(vf a)
{
    return (vm)(a != a);
}
SIMD vm vf_nonzero(vf a)
{
    return (vm)(a != 0);
}
SIMD vi vi_sel(vm m, vi a, vi b)
{
    return (m & a) | (~m & b);
}
SIMD vf vf_sel(vm m, vf a, vf b)
{
    return (vf)vi_sel(m, (vi)a, (vi)b);
}
SIMD vm vi_below(vi a, vi b)
{
    const int32_t top = INT32_MIN;
    return (vm)((a ^ top) < (b ^ top));
}
SIMD bool vm_any(vm m)
{
    int32_t any = 0;
    for (int i = 0; i < VF; i++) any |= m[i];
    return any != 0;
}
#endif

SIMD vf vf_fma(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}
/* The larger; b when either is NaN. */
SIMD vf vf_max(vf a, vf b)
{
#if defined(__AVX512F__)
    return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
    return _mm256_max_ps(a, b);
#else
    return vf_sel(vf_gt(a, b), a, b);
#endif
}
SIMD vf vf_min(vf a, vf b)
{
#if defined(__AVX512F__)
    return _mm512_min_ps(a, b);
#elif defined(__AVX2__)
    return _mm256_min_ps(a, b);
#else
    return vf_sel(vf_gt(b, a), a, b);
#endif
}
/* NaN when either is NaN. */
SIMD vf vf_max_nan(vf a, vf b)
{
    return vf_sel(vf_nan(a), a, vf_max(a, b));
}
SIMD vf vf_min_nan(vf a, vf b)
{
    return vf_sel(vf_nan(a), a, vf_min(a, b));
}
SIMD vf vf_abs(vf a)
{
    return (vf)((vi)a & 0x7fffffff);
}
SIMD vf vf_sqrt(vf a)
{
#if defined(__AVX512F__)
    return _mm512_sqrt_ps(a);
#elif defined(__AVX2__)
    return _mm256_sqrt_ps(a);
#else
    for (int i = 0; i < VF; i++) a[i] = sqrtf(a[i]);
    return a;
#endif
}
SIMD float vf_sum(vf a)
{
    float t[VF];
    vf_store(t, a);
    for (int h = VF / 2; h; h /= 2)
        for (int i = 0; i < h; i++) t[i] += t[i + h];
    return t[0];
}
/* NaN when any element is. */
SIMD float vf_hmax(vf a)
{
    float t[VF], m;
    vf_store(t, a);
    m = t[0];
    for (int i = 1; i < VF; i++) m = t[i] > m || t[i] != t[i] ? t[i] : m;
    return m;
}

/* ---- half types; bit for bit as base/half.h ---- */

#if defined(__AVX512F__)
typedef __m256i vh; /* VF 16-bit values */
#elif defined(__AVX2__)
typedef __m128i vh;
#else
typedef uint16_t vh __attribute__((vector_size(VF * 2), may_alias));
#endif

SIMD vf vf_from_bf16(vh h)
{
#if defined(__AVX512F__)
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
#elif defined(__AVX2__)
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16);
#else
    return (vf)(__builtin_convertvector(h, vi) << 16);
#endif
}
SIMD vh vf_to_bf16(vf f)
{
    vi u = (vi)f;
    vi odd = (u >> 16) & 1;
    vi r = vi_sel(vf_nan(f), u | 0x400000, u + 0x7fff + odd);
#if defined(__AVX512F__)
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32((__m512i)r, 16));
#elif defined(__AVX2__)
    __m256i s = _mm256_srli_epi32((__m256i)r, 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
#else
    return __builtin_convertvector(r >> 16, vh);
#endif
}
SIMD vf vf_from_f16(vh h)
{
#if defined(__AVX512F__)
    return _mm512_cvtph_ps(h);
#elif defined(__AVX2__)
    return _mm256_cvtph_ps(h);
#else
    vf f;
    for (int i = 0; i < VF; i++) f[i] = brim_f16_to_f32(h[i]);
    return f;
#endif
}
SIMD vh vf_to_f16(vf f)
{
#if defined(__AVX512F__)
    return _mm512_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
    return _mm256_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    vh h;
    for (int i = 0; i < VF; i++) h[i] = brim_f32_to_f16(f[i]);
    return h;
#endif
}

/* ---- elements i .. i+n-1 of an array of f32, bf16 or f16 as floats; n <= VF ----
 * `t` is a constant after inlining, and so is n == VF in main loops. */

SIMD vf vf_get(const void *p, int64_t i, int n, brim_dtype t)
{
    const float *f = (const float *)p + i;
    const uint16_t *u = (const uint16_t *)p + i;
    vf v = {0};
    vh h = {0};
#ifdef __AVX512F__
    if (n < VF && t == BRIM_F32) return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), f);
    if (n < VF) h = _mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), u);
#else
    if (n < VF && t == BRIM_F32) __builtin_memcpy(&v, f, sizeof *f * (size_t)n);
    if (n < VF && t != BRIM_F32) __builtin_memcpy(&h, u, sizeof *u * (size_t)n);
#endif
    if (n == VF && t == BRIM_F32) __builtin_memcpy(&v, f, sizeof v);
    if (n == VF && t != BRIM_F32) __builtin_memcpy(&h, u, sizeof h);
    return t == BRIM_F32 ? v : t == BRIM_BF16 ? vf_from_bf16(h) : vf_from_f16(h);
}
SIMD void vf_put(void *p, int64_t i, int n, brim_dtype t, vf v)
{
    float *f = (float *)p + i;
    uint16_t *u = (uint16_t *)p + i;
    if (t == BRIM_F32) {
#ifdef __AVX512F__
        if (n < VF) _mm512_mask_storeu_ps(f, (__mmask16)((1u << n) - 1), v);
#else
        if (n < VF) __builtin_memcpy(f, &v, sizeof *f * (size_t)n);
#endif
        if (n == VF) __builtin_memcpy(f, &v, sizeof v);
        return;
    }
    vh h = t == BRIM_BF16 ? vf_to_bf16(v) : vf_to_f16(v);
#ifdef __AVX512F__
    if (n < VF) _mm256_mask_storeu_epi16(u, (__mmask16)((1u << n) - 1), h);
#else
    if (n < VF) __builtin_memcpy(u, &h, sizeof *u * (size_t)n);
#endif
    if (n == VF) __builtin_memcpy(u, &h, sizeof h);
}

/* v with the lanes from n on replaced. */
SIMD vf vf_first(vf v, int n, float otherwise)
{
    if (n < VF)
        for (int j = n; j < VF; j++) v[j] = otherwise;
    return v;
}

/* Runs the statement for i = 0, VF, 2 VF, ... below `count`, with `n` elements each. */
#define VF_EACH(i, n, count, ...)                                                                  \
    do {                                                                                           \
        int64_t i = 0;                                                                             \
        for (; i + VF <= (count); i += VF) {                                                       \
            enum { n = VF };                                                                       \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
        if (i < (count)) {                                                                         \
            int n = (int)((count)-i);                                                              \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

/* The statement with T as a constant, so that loads and stores are specialised. */
#define FOR_DTYPE(t, ...)                                                                          \
    do {                                                                                           \
        if ((t) == BRIM_F32) {                                                                     \
            const brim_dtype T = BRIM_F32;                                                         \
            __VA_ARGS__;                                                                           \
        } else if ((t) == BRIM_BF16) {                                                             \
            const brim_dtype T = BRIM_BF16;                                                        \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            const brim_dtype T = BRIM_F16;                                                         \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

#endif
