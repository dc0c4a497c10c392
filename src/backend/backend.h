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

/* How runs of programs overlap on a device with memory of its own. There are BRIM_SLOTS slots:
 * while the run of one computes, the next one's inputs are copied. All calls queue work and return,
 * but for `wait`; failures are told by check. */
enum { BRIM_SLOTS = 2 };
typedef struct brim_device_ops {
    /* Host memory that copies use directly; NULL when there is none left. */
    void *(*host_alloc)(size_t bytes);
    void (*host_free)(void *p);
    /* Copies of a slot's inputs, ahead of what computes: begin waits for the slot's last run; what
     * is queued after end waits for the copies. `host` is from host_alloc and stays as it is until
     * the run has ended. */
    void (*feed_begin)(int slot);
    void (*feed)(void *device, const void *host, size_t bytes);
    void (*feed_end)(int slot);
    void (*fetch)(void *host, const void *device, size_t bytes); /* to memory from host_alloc */
    void (*ended)(int slot); /* marks the end of the slot's run */
    void (*wait)(int slot);  /* until there */
    /* What is queued between record and recorded is kept, not done, and may be replayed. NULL: it
     * could not be recorded. */
    void (*record)(void);
    void *(*recorded)(void);
    void (*replay)(void *recording);
    void (*forget)(void *recording);
    /* Points in time on the device. */
    void *(*mark_new)(void);
    void (*mark)(void *m);
    double (*between_ms)(void *from, void *to); /* of marks that have passed */
    void (*mark_free)(void *m);
} brim_device_ops;

typedef struct brim_backend {
    const char *name;            /* "cpu" */
    const brim_impl_list *lists; /* best first */
    int n_lists;
    const brim_device_ops *device; /* NULL: its memory is the host's, and work is done at once */
    /* Makes the device ready; once, later calls give the first result. NULL: it always is. */
    brim_status (*open)(brim_error *err);
    /* Waits for all work; the first failure since open, if any. NULL: work cannot fail. */
    brim_status (*check)(brim_error *err);
    /* The first failure that is known by now; NULL as check is. Does not wait. */
    brim_status (*failure)(brim_error *err);
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
