/* Every pointwise operator and every fusion group: printed as CUDA C, one kernel a formula. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/strided.h"

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

static brim_status prepare(brim_step *s, brim_error *err)
{
    brim_cuda_strided *k = brim_calloc(1, sizeof *k);
    brim_dtype type[BRIM_LOOP_TENSORS];
    brim_body b;
    if (!k) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    s->state = k;
    brim_pointwise_body(s->node, &b);
    brim_loops l = brim_loops_of(s);
    for (int t = 0; t < l.tensors; t++)
        type[t] = t < s->node->n_in ? s->in[t].dtype : s->out[t - s->node->n_in].dtype;
    return brim_cuda_strided_make(k, &l, type, s->node->n_out, &b, NULL, err);
}

static void run(const brim_step *s)
{
    void *data[BRIM_LOOP_TENSORS];
    for (int t = 0; t < s->node->n_in; t++) data[t] = s->in[t].data;
    for (int t = 0; t < s->node->n_out; t++) data[s->node->n_in + t] = s->out[t].data;
    brim_cuda_strided_run(s->state, data);
}

const brim_impl brim_cuda_pointwise[] = {{.name = "brim.pointwise",
                                          .supports = supports,
                                          .prepare = prepare,
                                          .run = run,
                                          .release = brim_cuda_state_free}};
const int brim_cuda_pointwise_count = 1;
