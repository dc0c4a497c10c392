/* Elementary functions on vectors of floats, within about two units in the last place, with C's
 * results for NaN, infinities and denormals. The polynomials are Chebyshev interpolations computed
 * in 40 digits. */
#ifndef BRIM_CPU_VMATH_H
#define BRIM_CPU_VMATH_H

#include "backend/cpu/kernels/simd.h"

SIMD vf vf_poly_(vf x, const float *c, int degree)
{
    vf r = vf_set(c[degree]);
    for (int k = degree - 1; k >= 0; k--) r = vf_fma(r, x, vf_set(c[k]));
    return r;
}
/* c[0] + c[1] x + ... */
#define VF_POLY(x, ...)                                                                            \
    vf_poly_((x), (const float[]){__VA_ARGS__},                                                    \
             (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)) - 1)

/* 2^n in two factors, since 2^128 (overflow) and 2^-149 (denormal) are no floats to multiply by. */
SIMD vf vf_scale2(vf x, vi n)
{
    vi half = n >> 1, rest = n - half;
    return x * (vf)((half + 127) << 23) * (vf)((rest + 127) << 23);
}

/* e^x = 2^n e^r, |r| <= ln2 / 2. */
SIMD vf vf_exp(vf x)
{
    x = vf_min(vf_set(89.0f), vf_max(vf_set(-104.0f), x)); /* NaN passes: second operand */
    const vf magic = vf_set(0x1.8p23f);
    vf t = vf_fma(x, vf_set(1.44269504f), magic), n = t - magic;
    vf r = vf_fma(n, vf_set(-0x1.62e400p-1f), x);
    r = vf_fma(n, vf_set(-0x1.7f7d1cp-20f), r);
    vf p = VF_POLY(r, 0.5000000014f, 0.1666666668f, 0.0416664569f, 0.008333310035f, 0.001393453166f,
                   0.0001989196991f);
    return vf_scale2(vf_fma(r * r, p, r) + 1.0f, (vi)t - 0x4b400000);
}

/* ln x = e ln2 + ln(1 + f), 1 + f in [sqrt(1/2), sqrt 2). */
SIMD vf vf_log(vf x)
{
    vm tiny = vf_gt(vf_set(0x1p-126f), x);
    vf m = vf_sel(tiny, x * 0x1p23f, x);
    vi u = (vi)m - 0x3f3504f3;
    vi e = (u >> 23) - (vi)vf_sel(tiny, (vf)vi_set(23), (vf)vi_set(0));
    vf f = (vf)((u & 0x7fffff) + 0x3f3504f3) - 1.0f;
    vf q = VF_POLY(f, 0.3333333118f, -0.2499999696f, 0.2000071575f, -0.1666780232f, 0.1424905765f,
                   -0.1242568733f, 0.1168541992f, -0.1147973385f, 0.06971611471f);
    vf n = __builtin_convertvector(e, vf), z = f * f;
    vf y = vf_fma(z * f, q, n * -2.12194440e-4f);
    y = vf_fma(z, vf_set(-0.5f), y);
    y = vf_fma(n, vf_set(0.693359375f), y + f);
    vm fine = vf_gt(vf_set(INFINITY), x); /* false for NaN and infinity: they stay */
    y = vf_sel(fine, y, x);
    y = vf_sel(vf_gt(vf_set(0), x), vf_set(NAN), y);
    return vf_sel(vf_nonzero(x), y, vf_set(-INFINITY));
}

SIMD vf vf_tanh(vf x)
{
    vf a = vf_abs(x), z = x * x;
    vf small = VF_POLY(z, -0.3333333317f, 0.1333330356f, -0.05395925958f, 0.02176891865f,
                       -0.008343945516f, 0.002292744816f);
    small = vf_fma(x * z, small, x);
    vf big = 1.0f - 2.0f / (vf_exp(a + a) + 1.0f);
    big = (vf)((vi)big | ((vi)x & INT32_MIN));
    return vf_sel(vf_gt(vf_set(0.625f), a), small, big);
}

/* |x| < 1: odd polynomial; above: 1 - exp(ln erfc |x|), which is 1 to the last bit from 4 on. */
SIMD vf vf_erf(vf x)
{
    vf a = vf_abs(x), z = x * x;
    vf small = VF_POLY(z, 0.1283791658f, -0.3761262667f, 0.1128359472f, -0.02685421201f,
                       0.005189087423f, -0.0008016864287f, 7.875875063e-5f);
    small = vf_fma(x, small, x);
    vf t = vf_min(vf_set(4.0f), a); /* NaN passes */
    vf l =
        VF_POLY(t, -0.0003214710264f, 1.130239201f, 0.6318156996f, 0.1100901975f, -0.02642704377f,
                0.004761717236f, -0.0005972644331f, 4.611291391e-5f, -1.639938016e-6f);
    vf big = 1.0f - vf_exp(-l);
    big = (vf)((vi)big | ((vi)x & INT32_MIN));
    return vf_sel(vf_gt(vf_set(1.0f), a), small, big);
}

SIMD vf vf_sigmoid(vf x)
{
    return 1.0f / (1.0f + vf_exp(-x));
}

#endif
