/* Pooling over channels-last images: one output pixel at a time, all its channels. */
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/simd.h"

SIMD vi index_get(const uint8_t *p, int n)
{
#if defined(__AVX512F__)
    return (vi)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8((__mmask16)((1u << n) - 1), p));
#else
    vi v = {0};
    for (int i = 0; i < n; i++) v[i] = p[i];
    return v;
#endif
}

SIMD void index_put(uint8_t *p, int n, vi v)
{
#if defined(__AVX512F__)
    _mm_mask_storeu_epi8(p, (__mmask16)((1u << n) - 1), _mm512_cvtepi32_epi8((__m512i)v));
#else
    for (int i = 0; i < n; i++) p[i] = (uint8_t)v[i];
#endif
}

SIMD vm index_is(vi v, int32_t place)
{
#if defined(__AVX512F__)
    return _mm512_cmpeq_epi32_mask((__m512i)v, (__m512i)vi_set(place));
#else
    return (vm)(v == place);
#endif
}

SIMD void window_max(void *y, uint8_t *index, const void *const *tap, const uint8_t *place,
                     int taps, brim_dtype t, int64_t c)
{
    VF_EACH(i, n, c, {
        vf best = vf_get(tap[0], i, n, t);
        vi at = vi_set(place[0]);
        for (int k = 1; k < taps; k++) {
            vf v = vf_get(tap[k], i, n, t);
            vm better = (vm)(vf_gt(v, best) | (vf_nan(v) & ~vf_nan(best)));
            best = vf_sel(better, v, best);
            at = vi_sel(better, vi_set(place[k]), at);
        }
        if (y) vf_put(y, i, n, t, best);
        if (index) index_put(index + i, n, at);
    });
}

void K(window_max)(void *y, uint8_t *index, const void *const *tap, const uint8_t *place, int taps,
                   brim_dtype t, int64_t c)
{
    FOR_DTYPE(t, window_max(y, index, tap, place, taps, T, c));
}

SIMD void window_pick(void *dx, const void *const *dy, const uint8_t *const *index,
                      const uint8_t *place, int taps, brim_dtype t, int64_t c)
{
    VF_EACH(i, n, c, {
        vf sum = {0};
        for (int k = 0; k < taps; k++) {
            vm chosen = index_is(index_get(index[k] + i, n), place[k]);
            sum += vf_sel(chosen, vf_get(dy[k], i, n, t), vf_set(0));
        }
        vf_put(dx, i, n, t, sum);
    });
}

void K(window_pick)(void *dx, const void *const *dy, const uint8_t *const *index,
                    const uint8_t *place, int taps, brim_dtype t, int64_t c)
{
    FOR_DTYPE(t, window_pick(dx, dy, index, place, taps, T, c));
}

SIMD void window_sum(void *y, const void *const *tap, const float *scale, int taps, brim_dtype t,
                     int64_t c)
{
    VF_EACH(i, n, c, {
        vf sum = {0};
        for (int k = 0; k < taps; k++) sum = vf_fma(vf_get(tap[k], i, n, t), vf_set(scale[k]), sum);
        vf_put(y, i, n, t, sum);
    });
}

void K(window_sum)(void *y, const void *const *tap, const float *scale, int taps, brim_dtype t,
                   int64_t c)
{
    FOR_DTYPE(t, window_sum(y, tap, scale, taps, T, c));
}
