/* Tensors seen as rows of their last dimension: row-major, packed. */
#ifndef BRIM_CPU_ROWS_H
#define BRIM_CPU_ROWS_H

#include "ir/tensor.h"

static inline int64_t brim_row_length(const brim_tensor *x)
{
    return x->shape.dim[x->shape.rank - 1];
}

static inline int64_t brim_row_count(const brim_tensor *x)
{
    int64_t n = 1;
    for (int k = 0; k < x->shape.rank - 1; k++) n *= x->shape.dim[k];
    return n;
}

/* NULL when x is absent. */
static inline void *brim_row(const brim_tensor *x, int64_t row)
{
    int64_t bytes = (int64_t)brim_dtype_bytes(x->dtype);
    return x->data ? (char *)x->data + row * brim_row_length(x) * bytes : NULL;
}

#endif
