/* Every pointwise operator and every fusion group, by one interpreter (kernels/interp.c). Here: the
 * body's registers get buffers, and the loops over the tensors are merged until as much as possible
 * is one long run. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/parallel.h"
#include "backend/loops.h"
#include "base/mem.h"

#include <string.h>

static bool supports(const brim_node *n, const char **why)
{
    brim_body b;
    if (!brim_pointwise_body(n, &b)) return *why = "no pointwise formula of fitting length", false;
    bool integers = false;
    for (int k = 0; k < n->n_in; k++) {
        brim_dtype t = n->in[k]->dtype;
        if (t == BRIM_F64 || t == BRIM_I64) return *why = "more than 32 bits", false;
        integers |= t == BRIM_I32;
    }
    for (int k = 0; k < n->n_out; k++) {
        brim_dtype t = n->out[k]->dtype;
        if (t == BRIM_F64 || t == BRIM_I64) return *why = "more than 32 bits", false;
        if (integers && t == BRIM_I32) return *why = "32-bit integers do not fit a float", false;
    }
    return true;
}

/* Constants and inputs that are the same for every chunk of a run are written once, before it. */
static bool is_fixed(const brim_interp *p, int k)
{
    const brim_instr *i = &p->body.at[k];
    return i->op == BRIM_S_CONST ||
           (i->op == BRIM_S_LOAD &&
            (p->mode[i->a] == BRIM_OPERAND_SCALAR || p->mode[i->a] == BRIM_OPERAND_PERIOD));
}

/* A buffer for every register: fixed ones and outputs keep theirs, the others pass it on after
 * their last use. */
static void place_registers(brim_interp *p)
{
    const brim_body *b = &p->body;
    int last[BRIM_BODY_MAX], free_slot[BRIM_BODY_MAX], n_free = 0, used = 0;
    for (int k = 0; k < b->n; k++) {
        const brim_instr *i = &b->at[k];
        int args = brim_scalar_args((brim_scalar_op)i->op);
        last[k] = is_fixed(p, k) ? BRIM_BODY_MAX : k;
        if (args > 0 && last[i->a] < k) last[i->a] = k;
        if (args > 1 && last[i->b] < k) last[i->b] = k;
        if (args > 2 && last[i->c] < k) last[i->c] = k;
    }
    for (int k = 0; k < b->n_out; k++) {
        last[b->out[k]] = BRIM_BODY_MAX;
        p->is_out[b->out[k]] = true;
    }
    for (int k = 0; k < b->n; k++) {
        /* Freed after the instruction that reads it last, so results never overwrite arguments. */
        for (int j = 0; j < k; j++)
            if (last[j] == k - 1) free_slot[n_free++] = p->slot[j];
        bool reuse = n_free && !is_fixed(p, k);
        p->slot[k] = (uint8_t)(reuse ? free_slot[--n_free] : used++);
    }
}

/* Mode of tensor t when the two innermost loops are run as one. */
static bool merged_mode(const brim_loops *l, int t, brim_operand *mode)
{
    int64_t inner = l->stride[l->rank - 1][t], outer = l->stride[l->rank - 2][t];
    if (inner == 0 && outer == 0)
        *mode = BRIM_OPERAND_SCALAR;
    else if (inner == 1 && outer == l->dim[l->rank - 1])
        *mode = BRIM_OPERAND_FLAT;
    else if (inner == 1 && outer == 0)
        *mode = BRIM_OPERAND_PERIOD;
    else
        return false;
    return true;
}

static void plan_loops(brim_interp *p, const brim_step *s)
{
    brim_loops l = brim_loops_of(s);
    int64_t c = l.dim[l.rank - 1];
    bool merged = l.rank >= 2 && c <= BRIM_INTERP_CHUNK;
    for (int t = 0; t < l.tensors && merged; t++) merged = merged_mode(&l, t, &p->mode[t]);
    p->tensors = l.tensors;
    p->outer_rank = l.rank - 1 - merged;
    p->run = merged ? c * l.dim[l.rank - 2] : c;
    p->period = merged ? c : 1;
    p->chunk = BRIM_INTERP_CHUNK / p->period * p->period;
    for (int t = 0; t < l.tensors; t++) {
        int64_t stride = l.stride[l.rank - 1][t];
        p->stride[t] = stride;
        p->dtype[t] = t < s->node->n_in ? s->in[t].dtype : s->out[t - s->node->n_in].dtype;
        if (!merged)
            p->mode[t] = stride == 1 || c == 1 ? BRIM_OPERAND_FLAT
                         : stride == 0         ? BRIM_OPERAND_SCALAR
                                               : BRIM_OPERAND_STRIDED;
    }
    p->chunks = (p->run + p->chunk - 1) / p->chunk;
    p->items = p->chunks;
    for (int d = 0; d < p->outer_rank; d++) {
        p->outer_dim[d] = l.dim[d];
        memcpy(p->outer_stride[d], l.stride[d], sizeof l.stride[d]);
        p->items *= l.dim[d];
    }
}

static brim_status prepare(brim_step *s, brim_error *err)
{
    brim_interp *p = brim_calloc(1, sizeof *p);
    if (!p) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    s->state = p;
    s->state_bytes = sizeof *p;
    brim_pointwise_body(s->node, &p->body);
    if (brim_tensor_count(&s->out[0]) > 0) plan_loops(p, s);
    place_registers(p);
    return BRIM_OK;
}

static void run(const brim_step *s)
{
    const brim_interp *p = s->state;
    const brim_kernels *k = brim_kernels_get();
    void *data[BRIM_BODY_MAX_IN + BRIM_BODY_MAX_OUT];
    for (int t = 0; t < s->node->n_in; t++) data[t] = s->in[t].data;
    for (int t = 0; t < s->node->n_out; t++) data[s->node->n_in + t] = s->out[t].data;
    int64_t each = (p->run < p->chunk ? p->run : p->chunk) * (p->body.n + 1) / 4;
    int parts = brim_thread_parts(p->items, each);
    BRIM_PARALLEL_FOR(parts)
    for (int i = 0; i < parts; i++)
        k->interp(p, data, brim_part_begin(p->items, i, parts),
                  brim_part_begin(p->items, i + 1, parts));
}

static void release(brim_step *s)
{
    free(s->state);
    s->state = NULL;
}

const brim_impl brim_cpu_pointwise[] = {{.name = "brim.pointwise",
                                         .supports = supports,
                                         .prepare = prepare,
                                         .run = run,
                                         .release = release}};
const int brim_cpu_pointwise_count = 1;
