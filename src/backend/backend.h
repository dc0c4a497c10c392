/* What the rest of the library asks of a device. One table per backend; src/backend/backends.c
 * lists them. */
#ifndef BRIM_BACKEND_BACKEND_H
#define BRIM_BACKEND_BACKEND_H

#include "backend/impl.h"

/* An array of implementations and its length. */
typedef struct brim_impl_list {
    const brim_impl *at;
    const int *n;
} brim_impl_list;

typedef struct brim_backend {
    const char *name;            /* "cpu" */
    const brim_impl_list *lists; /* best first */
    int n_lists;
    /* Memory of its own: programs keep copies of inputs and constants there. */
    bool separate;
    /* Makes the device ready; once, later calls give the first result. NULL: it always is. */
    brim_status (*open)(brim_error *err);
    /* Waits for all work; the first failure since open, if any. NULL: work cannot fail. */
    brim_status (*check)(brim_error *err);
    /* Device memory, zeroed, 64-byte aligned; NULL when there is not as much: BRIM_ENOMEM says what
     * holds it. */
    void *(*alloc)(size_t bytes, brim_error *err);
    void (*free)(void *p, size_t bytes);
    /* Host <-> device, in order with the kernels; when the call returns the source may be reused
     * and the destination read. Failures are told by check. */
    void (*upload)(void *device, const void *host, size_t bytes);
    void (*download)(void *host, const void *device, size_t bytes);
    void (*threads_set)(int n); /* host threads that kernels use; 0: all cores */
    /* Memory that the process holds besides our arenas once kernels have run (code, library state).
     */
    size_t overhead_bytes;
} brim_backend;

extern const brim_backend brim_backend_cpu, brim_backend_cuda;

const brim_backend *brim_backend_find(const char *name); /* NULL when unknown */

/* The first implementation of b that supports n; NULL when there is none. Reasons of those that
 * refused are appended to `log` (may be NULL). */
const brim_impl *brim_choose(const brim_backend *b, const brim_node *n, brim_str *log);

#endif
