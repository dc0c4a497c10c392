/* Element types and limits shared by the whole API. */
#ifndef BRIM_TYPES_H
#define BRIM_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BRIM_MAX_RANK 6

typedef enum brim_dtype {
    BRIM_F32 = 0,
    BRIM_BF16, /* bfloat16: 8 exponent bits, 7 fraction bits */
    BRIM_F16,  /* IEEE binary16 */
    BRIM_F64,  /* used by gradient checks; every operator has a reference in it */
    BRIM_I32,
    BRIM_I64,
    BRIM_U8,
    BRIM_DTYPE_COUNT
} brim_dtype;

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of one element; 0 for an invalid type. */
size_t brim_dtype_bytes(brim_dtype t);

/* "f32", "bf16", ... static storage; "?" for an invalid type. */
const char *brim_dtype_name(brim_dtype t);

#ifdef __cplusplus
}
#endif
#endif
