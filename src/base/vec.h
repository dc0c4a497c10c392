/* A growable array in three fields, for any element type:
 *     struct { int *at; size_t n, cap; } v = {0};
 *     if (!brim_vec_push(&v, 7)) ... out of memory, v unchanged
 *     free(v.at); */
#ifndef BRIM_BASE_VEC_H
#define BRIM_BASE_VEC_H

#include "base/mem.h"

#include <stdbool.h>

#define BRIM_VEC(type)                                                                             \
    struct {                                                                                       \
        type *at;                                                                                  \
        size_t n, cap;                                                                             \
    }

/* True when at least n elements fit; grows by doubling. */
#define brim_vec_reserve(v, want)                                                                  \
    brim__vec_reserve((void **)&(v)->at, &(v)->cap, sizeof *(v)->at, (want))

#define brim_vec_push(v, x) (brim_vec_reserve((v), (v)->n + 1) && ((v)->at[(v)->n++] = (x), true))

bool brim__vec_reserve(void **at, size_t *cap, size_t elem_bytes, size_t want);

#endif
