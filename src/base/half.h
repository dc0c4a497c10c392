/* bfloat16 and IEEE half: conversions, round to nearest even, NaN stays NaN. */
#ifndef BRIM_BASE_HALF_H
#define BRIM_BASE_HALF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float brim_bits_to_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t brim_f32_to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float brim_bf16_to_f32(uint16_t h)
{
    return brim_bits_to_f32((uint32_t)h << 16);
}

static inline uint16_t brim_f32_to_bf16(float f)
{
    uint32_t u = brim_f32_to_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40); /* quiet NaN */
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static inline float brim_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = h >> 10 & 31, man = h & 0x3ffu;
    if (exp == 31) return brim_bits_to_f32(sign | 0x7f800000u | man << 13);
    if (exp) return brim_bits_to_f32(sign | (exp + 112) << 23 | man << 13);
    float f = (float)man * 0x1p-24f; /* zero and subnormals */
    return sign ? -f : f;
}

static inline uint16_t brim_f32_to_f16(float f)
{
    uint32_t u = brim_f32_to_bits(f), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* rounds to infinity from 65520 */
    if (a < 0x38800000u) { /* below 2^-14: adding 0.5 aligns the subnormal's bits */
        float t = brim_bits_to_f32(a) + 0.5f;
        return (uint16_t)(sign | (brim_f32_to_bits(t) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((a - 0x38000000u + 0xfffu + (a >> 13 & 1)) >> 13));
}

#endif
