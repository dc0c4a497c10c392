/* Operators that only move elements: relayout, transpose, reshape, slice, pad, concat, upsampling.
 * Each is copies between two strided views of one shape; dimensions are merged and ordered so that
 * the inner loop is a stretch of memory or a transposition of tiles. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/parallel.h"

#include <string.h>

/* A copy; strides in elements. The last dimension is the innermost of dst. */
typedef struct move {
    char *dst;
    const char *src;
    int bytes; /* of an element */
    int rank;
    int64_t dim[BRIM_MAX_RANK], to[BRIM_MAX_RANK], from[BRIM_MAX_RANK];
} move;

static void add_dim(move *m, int64_t dim, int64_t to, int64_t from)
{
    if (dim == 1) return;
    int j = m->rank++;
    for (; j > 0 && m->to[j - 1] < to; j--) {
        m->dim[j] = m->dim[j - 1];
        m->to[j] = m->to[j - 1];
        m->from[j] = m->from[j - 1];
    }
    m->dim[j] = dim;
    m->to[j] = to;
    m->from[j] = from;
}

static void merge(move *m)
{
    int r = 0;
    for (int d = 1; d < m->rank; d++) {
        bool one = m->to[r] == m->to[d] * m->dim[d] && m->from[r] == m->from[d] * m->dim[d];
        if (!one) r++;
        m->dim[r] = one ? m->dim[r] * m->dim[d] : m->dim[d];
        m->to[r] = m->to[d];
        m->from[r] = m->from[d];
    }
    m->rank = m->rank ? r + 1 : 0;
}

static void remove_dim(move *m, int d)
{
    for (m->rank--; d < m->rank; d++) {
        m->dim[d] = m->dim[d + 1];
        m->to[d] = m->to[d + 1];
        m->from[d] = m->from[d + 1];
    }
}

/* What is left of a move after its outer loops. */
typedef struct inner {
    enum { STRETCH, TILES, SINGLE } kind;
    int64_t n, to, from;          /* the innermost loop */
    int64_t across, to_a, from_a; /* TILES: the loop along which src is contiguous */
} inner;

static void copy_inner(const move *m, const inner *in, char *dst, const char *src)
{
    if (in->kind == STRETCH) {
        memcpy(dst, src, (size_t)(in->n * m->bytes));
    } else if (in->kind == TILES) {
        brim_kernels_get()->transpose(dst, in->to_a, src, in->from, in->n, in->across, m->bytes);
    } else {
        for (int64_t i = 0; i < in->n; i++)
            memcpy(dst + i * in->to * m->bytes, src + i * in->from * m->bytes, (size_t)m->bytes);
    }
}

/* Takes the inner loops out of m. Long ones leave an outer loop over their pieces, for threads. */
static inner take_inner(move *m)
{
    enum { PIECE = 4096, ACROSS = 64 };
    int last = m->rank - 1, a = last - 1;
    inner in = {SINGLE, m->dim[last], m->to[last], m->from[last], 1, 0, 0};
    bool stretch = in.to == 1 && in.from == 1;
    while (a >= 0 && m->from[a] != 1) a--;
    if (!stretch && in.to == 1 && a >= 0) {
        in.kind = TILES;
        in.across = m->dim[a];
        in.to_a = m->to[a];
        in.from_a = 1;
    } else if (stretch) {
        in.kind = STRETCH;
    }
    remove_dim(m, last);
    if (in.kind == TILES) remove_dim(m, a);
    if (in.kind == TILES && in.across % ACROSS == 0 && m->rank < BRIM_MAX_RANK) {
        add_dim(m, in.across / ACROSS, in.to_a * ACROSS, ACROSS);
        in.across = ACROSS;
    } else if (in.kind == STRETCH && in.n % PIECE == 0) {
        add_dim(m, in.n / PIECE, PIECE, PIECE);
        in.n = PIECE;
    }
    return in;
}

static void run_move(move m)
{
    int64_t items = 1;
    for (int d = 0; d < m.rank; d++) items *= m.dim[d];
    if (!items || m.dst == m.src) return;
    merge(&m);
    if (!m.rank) {
        memcpy(m.dst, m.src, (size_t)m.bytes);
        return;
    }
    inner in = take_inner(&m);
    items /= in.n * in.across;
    int parts = brim_thread_parts(items, in.n * in.across * m.bytes / 4);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++)
        for (int64_t i = brim_part_begin(items, p, parts); i < brim_part_begin(items, p + 1, parts);
             i++) {
            int64_t to = 0, from = 0, rest = i;
            for (int d = m.rank - 1; d >= 0; d--) {
                to += rest % m.dim[d] * m.to[d];
                from += rest % m.dim[d] * m.from[d];
                rest /= m.dim[d];
            }
            copy_inner(&m, &in, m.dst + to * m.bytes, m.src + from * m.bytes);
        }
}

static void zero(const brim_tensor *t)
{
    memset(t->data, 0, (size_t)brim_tensor_count(t) * brim_dtype_bytes(t->dtype));
}

/* Elements of `shape` from src to dst, starting `to` and `from` elements into them. */
static void copy(const brim_shape *shape, const brim_tensor *dst, int64_t to,
                 const brim_tensor *src, int64_t from)
{
    move m = {.bytes = (int)brim_dtype_bytes(dst->dtype)};
    m.dst = (char *)dst->data + to * m.bytes;
    m.src = (const char *)src->data + from * m.bytes;
    for (int k = 0; k < shape->rank; k++)
        add_dim(&m, shape->dim[k], dst->stride[k], src->stride[k]);
    run_move(m);
}

static bool same_type(const brim_node *n, const char **why)
{
    bool same = n->in[0]->dtype == n->out[0]->dtype;
    if (!same) *why = "changes the type";
    return same;
}

static void relayout_run(const brim_step *s)
{
    copy(&s->in[0].shape, &s->out[0], 0, &s->in[0], 0);
}

static bool reshape_supports(const brim_node *n, const char **why)
{
    const brim_value *v[] = {n->in[0], n->out[0]};
    for (int k = 0; k < 2; k++) {
        const int64_t *d = v[k]->shape.dim;
        if (v[k]->layout == BRIM_LAYOUT_CHANNELS_LAST && d[1] != 1 && (d[2] != 1 || d[3] != 1))
            return *why = "channels are last in memory", false;
    }
    return true;
}

static void reshape_run(const brim_step *s)
{
    move m = {.dst = s->out[0].data,
              .src = s->in[0].data,
              .bytes = (int)brim_dtype_bytes(s->in[0].dtype)};
    add_dim(&m, brim_tensor_count(&s->in[0]), 1, 1);
    run_move(m);
}

static void transpose_run(const brim_step *s)
{
    const brim_attr *perm = brim_attr_find(s->node, "perm");
    brim_tensor x = s->in[0];
    for (int k = 0; k < x.shape.rank; k++) x.stride[k] = s->in[0].stride[perm->i[k]];
    copy(&s->out[0].shape, &s->out[0], 0, &x, 0);
}

static void slice_run(const brim_step *s)
{
    int axis = (int)brim_attr_int(s->node, "axis", 0);
    brim_tensor x = s->in[0];
    int64_t begin = brim_attr_int(s->node, "begin", 0) * x.stride[axis];
    x.stride[axis] *= brim_attr_int(s->node, "step", 1);
    copy(&s->out[0].shape, &s->out[0], 0, &x, begin);
}

static void slice_bwd_run(const brim_step *s)
{
    int axis = (int)brim_attr_int(s->node, "axis", 0);
    brim_tensor y = s->out[0];
    int64_t begin = brim_attr_int(s->node, "begin", 0) * y.stride[axis];
    y.stride[axis] *= brim_attr_int(s->node, "step", 1);
    zero(&s->out[0]);
    copy(&s->in[0].shape, &y, begin, &s->in[0], 0);
}

static void pad_run(const brim_step *s)
{
    int axis = (int)brim_attr_int(s->node, "axis", 0);
    zero(&s->out[0]);
    copy(&s->in[0].shape, &s->out[0], brim_attr_int(s->node, "before", 0) * s->out[0].stride[axis],
         &s->in[0], 0);
}

static void concat_run(const brim_step *s)
{
    int axis = (int)brim_attr_int(s->node, "axis", 0);
    int64_t at = 0;
    for (int k = 0; k < s->node->n_in; k++) {
        copy(&s->in[k].shape, &s->out[0], at * s->out[0].stride[axis], &s->in[k], 0);
        at += s->in[k].shape.dim[axis];
    }
}

static void upsample_run(const brim_step *s)
{
    const brim_tensor *x = &s->in[0], *y = &s->out[0];
    move m = {.dst = y->data, .src = x->data, .bytes = (int)brim_dtype_bytes(x->dtype)};
    for (int k = 0; k < 4; k++) {
        int64_t scale = k < 2 ? 1 : brim_attr_int_at(s->node, "scale", k - 2, 1);
        add_dim(&m, x->shape.dim[k], y->stride[k] * scale, x->stride[k]);
        add_dim(&m, scale, y->stride[k], 0);
    }
    run_move(m);
}

#define MOVE(op_, run_)                                                                            \
    {                                                                                              \
        .name = "brim." #op_, .op = &brim_op_##op_, .supports = same_type, .run = run_             \
    }
const brim_impl brim_cpu_layout[] = {
    MOVE(relayout, relayout_run),
    MOVE(transpose, transpose_run),
    {.name = "brim.reshape",
     .op = &brim_op_reshape,
     .supports = reshape_supports,
     .run = reshape_run},
    MOVE(slice, slice_run),
    MOVE(slice_bwd, slice_bwd_run),
    MOVE(pad, pad_run),
    MOVE(concat, concat_run),
    MOVE(upsample_nearest, upsample_run),
};
const int brim_cpu_layout_count = sizeof brim_cpu_layout / sizeof *brim_cpu_layout;
