/* Sums, maxima and exponentials along rows: softmax, loss, reductions. */
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/vmath.h"

#define F32(p) vf_get((p), i, n, BRIM_F32)

SIMD float max_of(const void *x, brim_dtype t, int64_t count)
{
    vf m = vf_set(-INFINITY);
    VF_EACH(i, n, count, m = vf_max_nan(m, vf_first(vf_get(x, i, n, t), n, -INFINITY)));
    return vf_hmax(m);
}

float K(max)(const void *x, brim_dtype t, int64_t n)
{
    float r = 0;
    FOR_DTYPE(t, r = max_of(x, T, n));
    return r;
}

/* Float over a block of 16 vectors in two lanes of work, double across blocks. */
SIMD double sum_of(const void *x, brim_dtype t, int64_t count)
{
    enum { BLOCK = 32 * VF };
    double total = 0;
    int64_t at = 0;
    for (; at + BLOCK <= count; at += BLOCK) {
        vf a = {0}, b = {0}, c = {0}, d = {0};
        for (int64_t i = at; i < at + BLOCK; i += 4 * VF) {
            a += vf_get(x, i, VF, t);
            b += vf_get(x, i + VF, VF, t);
            c += vf_get(x, i + 2 * VF, VF, t);
            d += vf_get(x, i + 3 * VF, VF, t);
        }
        total += vf_sum((a + b) + (c + d));
    }
    vf rest = {0};
    const void *tail = (const char *)x + at * (t == BRIM_F32 ? 4 : 2);
    VF_EACH(i, n, count - at, rest += vf_get(tail, i, n, t));
    return total + vf_sum(rest);
}

double K(sum)(const void *x, brim_dtype t, int64_t n)
{
    double r = 0;
    FOR_DTYPE(t, r = sum_of(x, T, n));
    return r;
}

SIMD void exp_sum(const void *x, brim_dtype t, int64_t count, float *max, float *exps, float *sum)
{
    float top = max_of(x, t, count);
    vf m = vf_set(top), e = {0}, s = {0};
    VF_EACH(i, n, count, {
        vf d = vf_get(x, i, n, t) - m;
        e += vf_first(vf_exp(d), n, 0);
        s += vf_first(d, n, 0);
    });
    *max = top;
    *exps = vf_sum(e);
    *sum = vf_sum(s);
}

void K(row_exp_sum)(const void *x, brim_dtype t, int64_t n, float *max, float *exps, float *sum)
{
    FOR_DTYPE(t, exp_sum(x, T, n, max, exps, sum));
}

void K(row_exp)(void *y, const void *x, brim_dtype t, int64_t count, float shift, float scale,
                float add)
{
    vf m = vf_set(shift), k = vf_set(scale), a = vf_set(add);
    FOR_DTYPE(
        t, VF_EACH(i, n, count, vf_put(y, i, n, T, vf_fma(vf_exp(vf_get(x, i, n, T) - m), k, a))));
}

void K(softmax_bwd_row)(void *dx, const void *dy, const void *y, brim_dtype t, int64_t count)
{
    vf s = {0};
    FOR_DTYPE(t, VF_EACH(i, n, count, s = vf_fma(vf_get(dy, i, n, T), vf_get(y, i, n, T), s)));
    float sum = vf_sum(s);
    FOR_DTYPE(t, VF_EACH(i, n, count,
                         vf_put(dx, i, n, T, vf_get(y, i, n, T) * (vf_get(dy, i, n, T) - sum))));
}

void K(column_sum)(float *acc, const void *x, brim_dtype t, int64_t rows, int64_t count, int64_t ld)
{
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4)
        FOR_DTYPE(t, VF_EACH(i, n, count, {
                      vf a = vf_get(x, row * ld + i, n, T) + vf_get(x, (row + 1) * ld + i, n, T);
                      vf b =
                          vf_get(x, (row + 2) * ld + i, n, T) + vf_get(x, (row + 3) * ld + i, n, T);
                      vf_put(acc, i, n, BRIM_F32, F32(acc) + (a + b));
                  }));
    for (; row < rows; row++)
        FOR_DTYPE(t,
                  VF_EACH(i, n, count,
                          vf_put(acc, i, n, BRIM_F32, F32(acc) + vf_get(x, row * ld + i, n, T))));
}

void K(column_max)(float *acc, const void *x, brim_dtype t, int64_t rows, int64_t count, int64_t ld)
{
    for (int64_t row = 0; row < rows; row++)
        FOR_DTYPE(t, VF_EACH(i, n, count,
                             vf_put(acc, i, n, BRIM_F32,
                                    vf_max_nan(F32(acc), vf_get(x, row * ld + i, n, T)))));
}

void K(accumulate)(float *acc, const void *g, brim_dtype t, int64_t count, bool first)
{
    if (first)
        K(widen)(acc, g, t, count);
    else
        FOR_DTYPE(t,
                  VF_EACH(i, n, count, vf_put(acc, i, n, BRIM_F32, F32(acc) + vf_get(g, i, n, T))));
}
