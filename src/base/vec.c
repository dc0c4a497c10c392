#include "base/vec.h"

#include <stdint.h>

bool brim__vec_reserve(void **at, size_t *cap, size_t elem_bytes, size_t want)
{
    if (want <= *cap) return true;
    size_t n = *cap ? *cap * 2 : 8;
    if (n < want) n = want;
    if (n > SIZE_MAX / 2 / elem_bytes) return false;
    void *p = brim_realloc(*at, n * elem_bytes);
    if (!p) return false;
    *at = p;
    *cap = n;
    return true;
}
