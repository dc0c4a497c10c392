/* A bump allocator: many small objects, one release. Not thread-safe. Memory is zeroed. */
#ifndef BRIM_BASE_ARENA_H
#define BRIM_BASE_ARENA_H

#include "base/error.h"

#include <stddef.h>

typedef struct brim_arena {
    struct brim_arena_block *head;
    size_t used_bytes; /* sum of what was handed out */
} brim_arena;

void brim_arena_init(brim_arena *a);
void brim_arena_release(brim_arena *a); /* frees everything; the arena may be used again */

/* 16-byte aligned, zeroed. Returns NULL when the host has no memory (or a test injects it). */
void *brim_arena_alloc(brim_arena *a, size_t bytes);
char *brim_arena_strdup(brim_arena *a, const char *s);
char *brim_arena_printf(brim_arena *a, const char *fmt, ...) BRIM_PRINTF(2, 3);

#define BRIM_ARENA_NEW(a, type)      ((type *)brim_arena_alloc((a), sizeof(type)))
#define BRIM_ARENA_ARRAY(a, type, n) ((type *)brim_arena_alloc((a), sizeof(type) * (size_t)(n)))

#endif
