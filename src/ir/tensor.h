/* Shapes, physical layouts and the strided view that every kernel gets. Logical order of a 4-D
 * value is always N,C,H,W (weights O,I,H,W); the layout says how it lies in memory. */
#ifndef BRIM_IR_TENSOR_H
#define BRIM_IR_TENSOR_H

#include "brim/types.h"

typedef struct brim_shape {
    int rank; /* 0: a scalar */
    int64_t dim[BRIM_MAX_RANK];
} brim_shape;

typedef enum brim_layout {
    BRIM_LAYOUT_ROW = 0,       /* last dimension contiguous */
    BRIM_LAYOUT_CHANNELS_LAST, /* rank 4 only: N,H,W,C in memory */
} brim_layout;

typedef struct brim_tensor {
    void *data; /* NULL: an absent optional input */
    brim_dtype dtype;
    brim_layout layout;
    brim_shape shape;
    int64_t stride[BRIM_MAX_RANK]; /* in elements */
} brim_tensor;

int64_t brim_shape_count(const brim_shape *s); /* elements; 1 for rank 0; -1 on overflow */
bool brim_shape_equal(const brim_shape *a, const brim_shape *b);
brim_shape brim_shape_make(int rank, const int64_t *dim);
/* "[2,3,8,8]"; into buf, returned. */
const char *brim_shape_text(char buf[128], const brim_shape *s);
/* NumPy broadcasting of a and b into *out; false when they do not fit. */
bool brim_shape_broadcast(const brim_shape *a, const brim_shape *b, brim_shape *out);

/* Fills strides for a packed tensor of this shape and layout. */
void brim_strides(const brim_shape *s, brim_layout layout, int64_t stride[BRIM_MAX_RANK]);
brim_tensor brim_tensor_make(void *data, brim_dtype t, const brim_shape *s, brim_layout layout);
static inline int64_t brim_tensor_count(const brim_tensor *t)
{
    return brim_shape_count(&t->shape);
}

/* Element offset of logical row-major index i. */
int64_t brim_tensor_offset(const brim_tensor *t, int64_t i);
/* Element offset of i in `t` seen as broadcast to shape `to`. */
int64_t brim_tensor_offset_broadcast(const brim_tensor *t, const brim_shape *to, int64_t i);
/* Any dtype <-> double; the element at `offset` (not at an index). Integers saturate. */
double brim_tensor_get(const brim_tensor *t, int64_t offset);
void brim_tensor_set(const brim_tensor *t, int64_t offset, double x);
/* The same by logical row-major index. */
static inline double brim_tensor_at(const brim_tensor *t, int64_t i)
{
    return brim_tensor_get(t, brim_tensor_offset(t, i));
}
static inline void brim_tensor_put(const brim_tensor *t, int64_t i, double x)
{
    brim_tensor_set(t, brim_tensor_offset(t, i), x);
}
/* Copies between any two dtypes and layouts of one shape. */
void brim_tensor_copy(const brim_tensor *dst, const brim_tensor *src);

#endif
