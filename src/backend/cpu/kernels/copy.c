/* Transposing copies, tile by tile so that both sides stay in L1. */
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/simd.h"

enum { TILE = 32 };

#define TILED(type)                                                                                \
    static void tile_##type(type *restrict d, int64_t dst_ld, const type *restrict s,              \
                            int64_t src_ld, int64_t rows, int64_t n)                               \
    {                                                                                              \
        for (int64_t j = 0; j < n; j++)                                                            \
            for (int64_t i = 0; i < rows; i++) d[j * dst_ld + i] = s[i * src_ld + j];              \
    }                                                                                              \
    static void transpose_##type(void *dst, int64_t dst_ld, const void *src, int64_t src_ld,       \
                                 int64_t rows, int64_t n)                                          \
    {                                                                                              \
        for (int64_t i = 0; i < rows; i += TILE)                                                   \
            for (int64_t j = 0; j < n; j += TILE)                                                  \
                tile_##type((type *)dst + j * dst_ld + i, dst_ld,                                  \
                            (const type *)src + i * src_ld + j, src_ld,                            \
                            rows - i < TILE ? rows - i : TILE, n - j < TILE ? n - j : TILE);       \
    }
TILED(uint8_t)
TILED(uint16_t)
TILED(uint32_t)
TILED(uint64_t)

void K(transpose)(void *dst, int64_t dst_ld, const void *src, int64_t src_ld, int64_t rows,
                  int64_t n, int bytes)
{
    switch (bytes) {
    case 1: transpose_uint8_t(dst, dst_ld, src, src_ld, rows, n); break;
    case 2: transpose_uint16_t(dst, dst_ld, src, src_ld, rows, n); break;
    case 4: transpose_uint32_t(dst, dst_ld, src, src_ld, rows, n); break;
    default: transpose_uint64_t(dst, dst_ld, src, src_ld, rows, n); break;
    }
}
