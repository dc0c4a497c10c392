/* What the rest of the library asks of a device. One table per backend; src/backend/backend.c lists
 * them. */
#ifndef BRIM_BACKEND_BACKEND_H
#define BRIM_BACKEND_BACKEND_H

#include "backend/impl.h"

typedef struct brim_backend {
    const char *name; /* "cpu" */
    /* Best implementation for a node; reasons of refusal are appended to log (may be NULL). */
    const brim_impl *(*choose)(const brim_node *n, brim_str *log);
    /* Device memory, zeroed, 64-byte aligned; NULL when there is none left. */
    void *(*alloc)(size_t bytes);
    void (*free)(void *p, size_t bytes);
    /* Host <-> device; when the call returns the source may be reused and the destination read. */
    void (*upload)(void *device, const void *host, size_t bytes);
    void (*download)(void *host, const void *device, size_t bytes);
    void (*threads_set)(int n); /* host threads that kernels use; 0: all cores */
    /* Memory that the process holds besides our arenas once kernels have run (code, library state).
     */
    size_t overhead_bytes;
} brim_backend;

extern const brim_backend brim_backend_cpu;

const brim_backend *brim_backend_find(const char *name); /* NULL when unknown */

#endif
