#include "backend/loops.h"

#include <string.h>

void brim_loops_add(brim_loops *l, int64_t dim, const int64_t *stride)
{
    if (dim == 1) return;
    int j = l->rank++;
    for (; j > 0 && l->stride[j - 1][l->lead] < stride[l->lead]; j--) {
        l->dim[j] = l->dim[j - 1];
        memcpy(l->stride[j], l->stride[j - 1], sizeof l->stride[j]);
    }
    l->dim[j] = dim;
    memcpy(l->stride[j], stride, sizeof *stride * (size_t)l->tensors);
}

void brim_loops_merge(brim_loops *l)
{
    if (!l->rank) l->dim[l->rank++] = 1;
    int r = 0;
    for (int d = 1; d < l->rank; d++) {
        bool one = true;
        for (int t = 0; t < l->tensors; t++) one &= l->stride[r][t] == l->stride[d][t] * l->dim[d];
        if (one) {
            l->dim[r] *= l->dim[d];
        } else {
            l->dim[++r] = l->dim[d];
        }
        memcpy(l->stride[r], l->stride[d], sizeof l->stride[r]);
    }
    l->rank = r + 1;
}

brim_loops brim_loops_of(const brim_step *s)
{
    const brim_shape *shape = &s->out[0].shape;
    brim_loops l = {.tensors = s->node->n_in + s->node->n_out, .lead = s->node->n_in};
    for (int k = 0; k < shape->rank; k++) {
        int64_t stride[BRIM_LOOP_TENSORS];
        for (int t = 0; t < l.tensors; t++) {
            const brim_tensor *x = t < s->node->n_in ? &s->in[t] : &s->out[t - s->node->n_in];
            int j = k - (shape->rank - x->shape.rank);
            stride[t] = j < 0 || x->shape.dim[j] == 1 ? 0 : x->stride[j];
        }
        brim_loops_add(&l, shape->dim[k], stride);
    }
    brim_loops_merge(&l);
    return l;
}

bool brim_pointwise_body(const brim_node *n, brim_body *b)
{
    if (n->op == &brim_op_fused) {
        *b = *n->body;
        return true;
    }
    bool copies = n->op == &brim_op_broadcast_to;
    if ((!copies && !n->op->scalar) || n->n_in > BRIM_BODY_MAX_IN) return false;
    int in[BRIM_BODY_MAX_IN];
    *b = (brim_body){.n_in = n->n_in, .n_out = 1};
    for (int k = 0; k < n->n_in; k++) in[k] = brim_body_load(b, k);
    b->out[0] = (uint8_t)(copies ? in[0] : n->op->scalar(b, n, in));
    return !b->full;
}
