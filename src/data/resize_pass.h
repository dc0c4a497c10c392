/* The two inner loops of resampling, portable and for AVX2; both give the same bits. */
#ifndef BRIM_DATA_RESIZE_PASS_H
#define BRIM_DATA_RESIZE_PASS_H

#include <stdint.h>
#include <stdlib.h>

enum { BRIM_TAP_BITS = 14 };

/* For each output position: the first input, and `support` weights of which those past its own
 * reach are 0. support is even, or 1. */
typedef struct brim_taps {
    int support;
    int *first;
    int16_t *weight; /* [positions][support] */
} brim_taps;

typedef struct brim_resize_passes {
    /* One row of w pixels. */
    void (*horizontal1)(const uint8_t *row, uint8_t *out, int w, const brim_taps *t);
    void (*horizontal3)(const uint8_t *row, uint8_t *out, int w, const brim_taps *t);
    /* n bytes of one output row from `support` input rows, `stride` bytes apart. */
    void (*vertical)(const uint8_t *rows, size_t stride, uint8_t *out, size_t n,
                     const int16_t *weight, int support);
} brim_resize_passes;

extern const brim_resize_passes brim_resize_portable;
/* The best for this processor. */
const brim_resize_passes *brim_resize_passes_here(void);

static inline uint8_t brim_tap_round(int32_t x)
{
    x >>= BRIM_TAP_BITS;
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

#endif
