/* The host allocations of the library, in one place so that tests can make any of them fail. */
#ifndef BRIM_BASE_MEM_H
#define BRIM_BASE_MEM_H

#include <stddef.h>
#include <stdlib.h>

void *brim_malloc(size_t bytes); /* NULL when out of memory; bytes = 0 gives a valid pointer */
void *brim_calloc(size_t n, size_t bytes);
void *brim_realloc(void *p, size_t bytes); /* on failure p stays valid */
char *brim_strdup(const char *s);

/* Large buffers: 64-byte aligned, zeroed lazily by the kernel, huge pages asked for.
 * Pair with brim_pages_free and the same size. */
void *brim_pages_alloc(size_t bytes);
void brim_pages_free(void *p, size_t bytes);

/* Tests only: the n-th allocation from now (1 = the next) fails, and every later one; 0 = never. */
void brim_mem_fail_after(long n);

#endif
