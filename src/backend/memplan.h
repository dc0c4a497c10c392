/* Static memory plan of one program: where each temporary value and workspace lies in the step's
 * arena.
 *
 *   time (node)   0     1     2     3     4
 *   %a         [=====]              placed at the lowest offset where nothing that lives at the
 *   %b               [===========]  same time overlaps; the largest first
 *   workspace         [=]
 */
#ifndef BRIM_BACKEND_MEMPLAN_H
#define BRIM_BACKEND_MEMPLAN_H

#include "backend/impl.h"

enum { BRIM_PLAN_ALIGN = 64 };

typedef enum brim_mem_kind {
    BRIM_MEM_ACTIVATION,
    BRIM_MEM_GRADIENT,
    BRIM_MEM_WORKSPACE,
    BRIM_MEM_KINDS
} brim_mem_kind;

typedef struct brim_memplan {
    size_t bytes;      /* the arena: highest end of any buffer */
    size_t live_bytes; /* the largest sum of live buffers at one time: no plan can be smaller */
    int peak_step;     /* where that is */
    size_t at_peak[BRIM_MEM_KINDS]; /* what is live there */
    size_t *value_offset;           /* by value id; SIZE_MAX when the value has no storage here */
    size_t *workspace_offset;       /* by step */
    int n_inplace;                  /* outputs that took an input's storage */
} brim_memplan;

/* Plans the temporaries of g, run as step[i] for node i, with step[i].workspace_bytes and out_used
 * known. reuse = false gives every buffer its own place (tests). Errors: BRIM_ENOMEM. */
brim_status brim_memplan_make(const brim_graph *g, const brim_step *step, bool reuse,
                              brim_memplan *out, brim_error *err);
void brim_memplan_release(brim_memplan *p);

#endif
