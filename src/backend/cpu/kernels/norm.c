/* Batch norm over columns of [rows, c] (channels last) and layer norm over rows. Column sums run in
 * float over blocks of 64 rows and go on in double; deviations are taken from a mean that is known
 * already, so nothing cancels. */
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/simd.h"

enum { BLOCK = 64, TOGETHER = 4 };

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#define F32(p) vf_get((p), i, n, BRIM_F32)

/* s += x - shift, q += (x - shift)^2 over a few rows. */
SIMD void moments_rows(const void *x, brim_dtype t, int64_t row, int rows, int64_t c,
                       const float *shift, float *s, float *q)
{
    VF_EACH(i, n, c, {
        vf m = F32(shift), a = F32(s), b = F32(q);
        for (int r = 0; r < rows; r++) {
            vf d = vf_get(x, (row + r) * c + i, n, t) - m;
            a += d;
            b = vf_fma(d, d, b);
        }
        vf_put(s, i, n, BRIM_F32, a);
        vf_put(q, i, n, BRIM_F32, b);
    });
}

SIMD void moments_block(const void *x, brim_dtype t, int64_t row, int64_t rows, int64_t c,
                        const float *shift, float *s, float *q)
{
    int64_t end = row + rows;
    for (int64_t j = 0; j < c; j++) s[j] = q[j] = 0;
    for (; row + TOGETHER <= end; row += TOGETHER)
        moments_rows(x, t, row, TOGETHER, c, shift, s, q);
    for (; row < end; row++) moments_rows(x, t, row, 1, c, shift, s, q);
}

void K(column_moments)(const void *x, brim_dtype t, int64_t rows, int64_t c, double *mean,
                       double *m2, float *tmp)
{
    float *shift = tmp, *s = tmp + c, *q = tmp + 2 * c;
    for (int64_t j = 0; j < c; j++) mean[j] = m2[j] = 0;
    if (rows) K(widen)(shift, x, t, c);
    for (int64_t row = 0; row < rows; row += BLOCK) {
        int64_t b = least(BLOCK, rows - row);
        FOR_DTYPE(t, moments_block(x, T, row, b, c, shift, s, q));
        /* Chan, Golub and LeVeque's pairwise update; the block's moments are about `shift`. */
        double old = (double)row, all = (double)(row + b), inv = 1 / (double)b, w = (double)b / all;
        for (int64_t j = 0; j < c; j++) {
            double d = s[j] * inv, delta = (shift[j] + d) - mean[j];
            m2[j] += (q[j] - s[j] * d) + delta * delta * old * w;
            mean[j] += delta * w;
            shift[j] = (float)mean[j];
        }
    }
}

SIMD void apply_rows(void *y, const void *x, const void *res, brim_dtype t, int64_t row, int rows,
                     int64_t c, const float *mean, const float *scale, const float *beta, bool act)
{
    VF_EACH(i, n, c, {
        vf m = F32(mean), k = F32(scale), b = F32(beta);
        for (int r = 0; r < rows; r++) {
            int64_t at = (row + r) * c + i;
            vf v = vf_fma(vf_get(x, at, n, t) - m, k, b);
            if (res) v += vf_get(res, at, n, t);
            if (act) v = vf_max(vf_set(0), v); /* NaN stays */
            vf_put(y, at, n, t, v);
        }
    });
}

SIMD void apply(void *y, const void *x, const void *res, brim_dtype t, int64_t rows, int64_t c,
                const float *mean, const float *scale, const float *beta, bool act)
{
    int64_t row = 0;
    for (; row + TOGETHER <= rows; row += TOGETHER)
        apply_rows(y, x, res, t, row, TOGETHER, c, mean, scale, beta, act);
    for (; row < rows; row++) apply_rows(y, x, res, t, row, 1, c, mean, scale, beta, act);
}

void K(bn_apply)(void *y, const void *x, const void *res, brim_dtype t, int64_t rows, int64_t c,
                 const float *mean, const float *scale, const float *beta, bool act)
{
    if (res && act)
        FOR_DTYPE(t, apply(y, x, res, T, rows, c, mean, scale, beta, true));
    else if (res)
        FOR_DTYPE(t, apply(y, x, res, T, rows, c, mean, scale, beta, false));
    else if (act)
        FOR_DTYPE(t, apply(y, x, NULL, T, rows, c, mean, scale, beta, true));
    else
        FOR_DTYPE(t, apply(y, x, NULL, T, rows, c, mean, scale, beta, false));
}

SIMD vf masked(const void *dy, const void *y, int64_t at, int n, brim_dtype t)
{
    vf g = vf_get(dy, at, n, t);
    return y ? vf_sel(vf_gt(vf_get(y, at, n, t), vf_set(0)), g, vf_set(0)) : g;
}

SIMD void reduce_rows(const void *dy, const void *x, const void *y, void *dres, brim_dtype t,
                      int64_t row, int rows, int64_t c, const float *mean, float *s, float *q)
{
    VF_EACH(i, n, c, {
        vf m = F32(mean), a = F32(s), b = F32(q);
        for (int r = 0; r < rows; r++) {
            int64_t at = (row + r) * c + i;
            vf g = masked(dy, y, at, n, t);
            if (dres) vf_put(dres, at, n, t, g);
            a += g;
            b = vf_fma(g, vf_get(x, at, n, t) - m, b);
        }
        vf_put(s, i, n, BRIM_F32, a);
        vf_put(q, i, n, BRIM_F32, b);
    });
}

SIMD void reduce(const void *dy, const void *x, const void *y, void *dres, brim_dtype t,
                 int64_t rows, int64_t c, const float *mean, double *sums, float *tmp)
{
    float *s = tmp, *q = tmp + c;
    for (int64_t j = 0; j < 2 * c; j++) sums[j] = 0;
    for (int64_t row = 0; row < rows;) {
        int64_t end = least(rows, row + BLOCK);
        for (int64_t j = 0; j < 2 * c; j++) tmp[j] = 0;
        for (; row + TOGETHER <= end; row += TOGETHER)
            reduce_rows(dy, x, y, dres, t, row, TOGETHER, c, mean, s, q);
        for (; row < end; row++) reduce_rows(dy, x, y, dres, t, row, 1, c, mean, s, q);
        for (int64_t j = 0; j < 2 * c; j++) sums[j] += tmp[j];
    }
}

void K(bn_reduce)(const void *dy, const void *x, const void *y, void *dres, brim_dtype t,
                  int64_t rows, int64_t c, const float *mean, double *sums, float *tmp)
{
    if (y && dres)
        FOR_DTYPE(t, reduce(dy, x, y, dres, T, rows, c, mean, sums, tmp));
    else if (y)
        FOR_DTYPE(t, reduce(dy, x, y, NULL, T, rows, c, mean, sums, tmp));
    else if (dres)
        FOR_DTYPE(t, reduce(dy, x, NULL, dres, T, rows, c, mean, sums, tmp));
    else
        FOR_DTYPE(t, reduce(dy, x, NULL, NULL, T, rows, c, mean, sums, tmp));
}

SIMD void apply_bwd_rows(void *dx, const void *dy, const void *x, const void *y, brim_dtype t,
                         int64_t row, int rows, int64_t c, const float *mean, const float *a,
                         const float *b, const float *k)
{
    VF_EACH(i, n, c, {
        vf m = F32(mean), va = F32(a), vb = F32(b), vk = F32(k);
        for (int r = 0; r < rows; r++) {
            int64_t at = (row + r) * c + i;
            vf g = vf_fma(masked(dy, y, at, n, t), va, -vb);
            vf_put(dx, at, n, t, vf_fma(m - vf_get(x, at, n, t), vk, g));
        }
    });
}

SIMD void apply_bwd(void *dx, const void *dy, const void *x, const void *y, brim_dtype t,
                    int64_t rows, int64_t c, const float *mean, const float *a, const float *b,
                    const float *k)
{
    int64_t row = 0;
    for (; row + TOGETHER <= rows; row += TOGETHER)
        apply_bwd_rows(dx, dy, x, y, t, row, TOGETHER, c, mean, a, b, k);
    for (; row < rows; row++) apply_bwd_rows(dx, dy, x, y, t, row, 1, c, mean, a, b, k);
}

void K(bn_apply_bwd)(void *dx, const void *dy, const void *x, const void *y, brim_dtype t,
                     int64_t rows, int64_t c, const float *mean, const float *a, const float *b,
                     const float *k)
{
    if (y)
        FOR_DTYPE(t, apply_bwd(dx, dy, x, y, T, rows, c, mean, a, b, k));
    else
        FOR_DTYPE(t, apply_bwd(dx, dy, x, NULL, T, rows, c, mean, a, b, k));
}

/* ---- layer norm: a row stays in L1 between its passes ---- */

SIMD void ln_row(void *y, float *mean, float *rstd, const void *x, brim_dtype t, int64_t c,
                 const float *gamma, const float *beta, double eps)
{
    vf s = {0}, q = {0};
    VF_EACH(i, n, c, s += vf_get(x, i, n, t));
    float mu = vf_sum(s) / (float)c;
    vf m = vf_set(mu);
    /* The second sum corrects the rounding of the first. */
    s = vf_set(0);
    VF_EACH(i, n, c, {
        vf d = vf_first(vf_get(x, i, n, t) - m, n, 0);
        s += d;
        q = vf_fma(d, d, q);
    });
    double fix = (double)vf_sum(s) / (double)c;
    double variance = (double)vf_sum(q) / (double)c - fix * fix;
    float r = (float)(1 / sqrt((variance > 0 || variance != variance ? variance : 0) + eps));
    m = vf_set((float)(mu + fix));
    if (mean) *mean = (float)(mu + fix);
    if (rstd) *rstd = r;
    if (!y) return;
    VF_EACH(i, n, c,
            vf_put(y, i, n, t, vf_fma((vf_get(x, i, n, t) - m) * r, F32(gamma), F32(beta))));
}

SIMD void ln_rows(void *y, float *mean, float *rstd, const void *x, brim_dtype t, int64_t rows,
                  int64_t c, const float *gamma, const float *beta, double eps)
{
    int64_t bytes = c * (t == BRIM_F32 ? 4 : 2);
    for (int64_t row = 0; row < rows; row++)
        ln_row(y ? (char *)y + row * bytes : NULL, mean ? mean + row : NULL,
               rstd ? rstd + row : NULL, (const char *)x + row * bytes, t, c, gamma, beta, eps);
}

void K(layer_norm)(void *y, float *mean, float *rstd, const void *x, brim_dtype t, int64_t rows,
                   int64_t c, const float *gamma, const float *beta, double eps)
{
    FOR_DTYPE(t, ln_rows(y, mean, rstd, x, T, rows, c, gamma, beta, eps));
}

/* dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy gamma. */
SIMD void ln_bwd_rows(void *dx, float *dgamma, float *dbeta, const void *dy, const void *x,
                      brim_dtype t, int64_t rows, int64_t c, const float *gamma, const float *mean,
                      const float *rstd)
{
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = row * c;
        vf m = vf_set(mean[row]), s = {0}, q = {0};
        float r = rstd[row], inv = 1 / (float)c;
        VF_EACH(i, n, c, {
            vf d = vf_get(dy, at + i, n, t), xhat = (vf_get(x, at + i, n, t) - m) * r;
            vf g = d * F32(gamma);
            if (dgamma) vf_put(dgamma, i, n, BRIM_F32, vf_fma(d, xhat, F32(dgamma)));
            if (dbeta) vf_put(dbeta, i, n, BRIM_F32, d + F32(dbeta));
            s += g; /* past the end d is 0 */
            q = vf_fma(g, vf_first(xhat, n, 0), q);
        });
        if (!dx) continue;
        float mg = vf_sum(s) * inv, mq = vf_sum(q) * inv;
        VF_EACH(i, n, c, {
            vf xhat = (vf_get(x, at + i, n, t) - m) * r;
            vf g = vf_get(dy, at + i, n, t) * F32(gamma) - mg;
            vf_put(dx, at + i, n, t, (g - xhat * mq) * r);
        });
    }
}

void K(layer_norm_bwd)(void *dx, float *dgamma, float *dbeta, const void *dy, const void *x,
                       brim_dtype t, int64_t rows, int64_t c, const float *gamma, const float *mean,
                       const float *rstd)
{
    FOR_DTYPE(t, ln_bwd_rows(dx, dgamma, dbeta, dy, x, T, rows, c, gamma, mean, rstd));
}
