#include "base/arena.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024, ALIGN = 16 };

struct brim_arena_block {
    struct brim_arena_block *next;
    size_t size, used; /* of data[] */
    _Alignas(ALIGN) unsigned char data[];
};

void brim_arena_init(brim_arena *a)
{
    *a = (brim_arena){0};
}

void brim_arena_release(brim_arena *a)
{
    for (struct brim_arena_block *b = a->head, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *a = (brim_arena){0};
}

void *brim_arena_alloc(brim_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct brim_arena_block *b = a->head;
    if (!b || b->size - b->used < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        b = brim_calloc(1, sizeof *b + size);
        if (!b) return NULL;
        b->size = size;
        b->next = a->head;
        a->head = b;
    }
    void *p = b->data + b->used;
    b->used += bytes;
    a->used_bytes += bytes;
    return p;
}

char *brim_arena_strdup(brim_arena *a, const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = brim_arena_alloc(a, n);
    if (p) memcpy(p, s, n);
    return p;
}

char *brim_arena_printf(brim_arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : brim_arena_alloc(a, (size_t)n + 1);
    if (p) vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}
