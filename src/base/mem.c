#include "base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

static atomic_long fail_countdown; /* 0: off; 1: failing; n > 1: n - 1 more succeed */

void brim_mem_fail_after(long n)
{
    atomic_store(&fail_countdown, n);
}

static bool must_fail(void)
{
    long n = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    if (n == 0) return false;
    if (n == 1) return true;
    atomic_fetch_sub(&fail_countdown, 1);
    return false;
}

void *brim_malloc(size_t bytes)
{
    return must_fail() ? NULL : malloc(bytes ? bytes : 1);
}

void *brim_calloc(size_t n, size_t bytes)
{
    return must_fail() ? NULL : calloc(n ? n : 1, bytes ? bytes : 1);
}

void *brim_realloc(void *p, size_t bytes)
{
    return must_fail() ? NULL : realloc(p, bytes ? bytes : 1);
}

char *brim_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = brim_malloc(n);
    if (p) memcpy(p, s, n);
    return p;
}

void *brim_pages_alloc(size_t bytes)
{
    if (must_fail()) return NULL;
    void *p =
        mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, bytes ? bytes : 1, MADV_HUGEPAGE);
    return p;
}

void brim_pages_free(void *p, size_t bytes)
{
    if (p) munmap(p, bytes ? bytes : 1);
}
