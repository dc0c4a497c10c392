/* Runs the body of a fusion group chunk by chunk, so that every register is a short array in L1. */
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/vmath.h"

#include <string.h>

enum { CHUNK = BRIM_INTERP_CHUNK };

void K(widen)(float *dst, const void *src, brim_dtype t, int64_t n)
{
    if (t == BRIM_U8) {
        const uint8_t *s = src;
        for (int64_t i = 0; i < n; i++) dst[i] = s[i];
    } else if (t == BRIM_I32) {
        const int32_t *s = src;
        for (int64_t i = 0; i < n; i++) dst[i] = (float)s[i];
    } else {
        FOR_DTYPE(t, VF_EACH(i, m, n, vf_put(dst, i, m, BRIM_F32, vf_get(src, i, m, T))));
    }
}

void K(narrow)(void *dst, const float *src, brim_dtype t, int64_t n)
{
    FOR_DTYPE(t, VF_EACH(i, m, n, vf_put(dst, i, m, T, vf_get(src, i, m, BRIM_F32))));
}

/* One instruction over n elements; dst may be a, b or c. */
static void step(brim_scalar_op op, float *dst, const float *a, const float *b, const float *c,
                 int64_t count)
{
#define A vf_get(a, i, n, BRIM_F32)
#define B vf_get(b, i, n, BRIM_F32)
#define C vf_get(c, i, n, BRIM_F32)
#define EACH(op_, expr)                                                                            \
    case BRIM_S_##op_: VF_EACH(i, n, count, vf_put(dst, i, n, BRIM_F32, (expr))); break;
    switch (op) {
        EACH(ADD, A + B)
        EACH(SUB, A - B)
        EACH(MUL, A * B)
        EACH(DIV, A / B)
        EACH(FMA, vf_fma(A, B, C))
        EACH(MAX, vf_max_nan(A, B))
        EACH(MIN, vf_min_nan(A, B))
        EACH(NEG, -A)
        EACH(EXP, vf_exp(A))
        EACH(LOG, vf_log(A))
        EACH(SQRT, vf_sqrt(A))
        EACH(TANH, vf_tanh(A))
        EACH(ERF, vf_erf(A))
        EACH(SIGMOID, vf_sigmoid(A))
        EACH(GT, vf_sel(vf_gt(A, B), vf_set(1), vf_set(0)))
        EACH(SELECT, vf_sel(vf_nonzero(A), B, C))
    case BRIM_S_LOAD:
    case BRIM_S_CONST:
    case BRIM_SCALAR_OP_COUNT: break;
    }
#undef EACH
#undef A
#undef B
#undef C
}

static void *at(void *base, int64_t offset, brim_dtype t)
{
    return (char *)base + offset * (int64_t)brim_dtype_bytes(t);
}

static float element(const void *base, int64_t offset, brim_dtype t)
{
    const brim_tensor x = {.data = (void *)base, .dtype = t};
    return (float)brim_tensor_get(&x, offset);
}

static void fill(float *dst, float x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) dst[i] = x;
}

typedef struct frame {
    const brim_interp *p;
    void *base[BRIM_BODY_MAX_IN + BRIM_BODY_MAX_OUT]; /* at the start of the run */
    const float *reg[BRIM_BODY_MAX];
    float (*buf)[CHUNK];
} frame;

/* Registers that are the same for every chunk of a run: constants, scalars, periods. */
static void load_fixed(frame *f, bool constants)
{
    const brim_interp *p = f->p;
    int64_t n = p->chunk < p->run ? p->chunk : p->run;
    for (int k = 0; k < p->body.n; k++) {
        const brim_instr *in = &p->body.at[k];
        float *dst = f->buf[p->slot[k]];
        if (in->op == BRIM_S_CONST) {
            if (constants) fill(dst, (float)in->imm, n);
        } else if (in->op != BRIM_S_LOAD) {
            continue;
        } else if (p->mode[in->a] == BRIM_OPERAND_SCALAR) {
            fill(dst, element(f->base[in->a], 0, p->dtype[in->a]), n);
        } else if (p->mode[in->a] == BRIM_OPERAND_PERIOD) {
            K(widen)(dst, f->base[in->a], p->dtype[in->a], p->period);
            for (int64_t i = p->period; i < n; i++) dst[i] = dst[i - p->period];
        } else {
            continue;
        }
        f->reg[k] = dst;
    }
}

static void load(frame *f, int k, int64_t from, int64_t n)
{
    const brim_interp *p = f->p;
    int t = p->body.at[k].a;
    float *dst = f->buf[p->slot[k]];
    if (p->mode[t] == BRIM_OPERAND_STRIDED) {
        for (int64_t i = 0; i < n; i++)
            dst[i] = element(f->base[t], (from + i) * p->stride[t], p->dtype[t]);
    } else if (p->mode[t] != BRIM_OPERAND_FLAT) {
        return;
    } else if (p->dtype[t] == BRIM_F32 && !p->is_out[k]) {
        f->reg[k] = (const float *)f->base[t] + from;
        return;
    } else {
        K(widen)(dst, at(f->base[t], from, p->dtype[t]), p->dtype[t], n);
    }
    f->reg[k] = dst;
}

static void store(frame *f, int k, int64_t from, int64_t n)
{
    const brim_interp *p = f->p;
    int t = p->body.n_in + k;
    const float *src = f->reg[p->body.out[k]];
    if (!f->base[t]) return;
    void *dst = at(f->base[t], from * p->stride[t], p->dtype[t]);
    bool real = p->dtype[t] == BRIM_F32 || p->dtype[t] == BRIM_BF16 || p->dtype[t] == BRIM_F16;
    if (src == dst) return;
    if (real && p->mode[t] == BRIM_OPERAND_FLAT) {
        K(narrow)(dst, src, p->dtype[t], n);
        return;
    }
    const brim_tensor y = {.data = dst, .dtype = p->dtype[t]};
    for (int64_t i = 0; i < n; i++) brim_tensor_set(&y, i * p->stride[t], src[i]);
}

/* The last instruction may write where the result belongs: nothing reads an input after it, so an
 * output that shares storage with an input is safe. */
static float *last_target(const frame *f, int64_t from)
{
    const brim_interp *p = f->p;
    int t = p->body.n_in;
    bool direct = p->body.n_out == 1 && p->body.out[0] == p->body.n - 1 && f->base[t] &&
                  p->dtype[t] == BRIM_F32 && p->mode[t] == BRIM_OPERAND_FLAT;
    return direct ? (float *)f->base[t] + from : f->buf[p->slot[p->body.n - 1]];
}

static void chunk(frame *f, int64_t from, int64_t n)
{
    const brim_body *b = &f->p->body;
    for (int k = 0; k < b->n; k++) {
        const brim_instr *i = &b->at[k];
        if (i->op == BRIM_S_LOAD) {
            load(f, k, from, n);
        } else if (i->op != BRIM_S_CONST) {
            float *dst = k == b->n - 1 ? last_target(f, from) : f->buf[f->p->slot[k]];
            step((brim_scalar_op)i->op, dst, f->reg[i->a], f->reg[i->b], f->reg[i->c], n);
            f->reg[k] = dst;
        }
    }
    for (int k = 0; k < b->n_out; k++) store(f, k, from, n);
}

void K(interp)(const brim_interp *p, void *const *data, int64_t begin, int64_t end)
{
    float buf[BRIM_BODY_MAX][CHUNK] __attribute__((aligned(64)));
    frame f = {.p = p, .buf = buf};
    int64_t item = begin;
    while (item < end) {
        int64_t outer = item / p->chunks, c = item % p->chunks, rest = outer;
        memcpy(f.base, data, sizeof *data * (size_t)p->tensors);
        for (int d = p->outer_rank - 1; d >= 0; d--) {
            int64_t i = rest % p->outer_dim[d];
            rest /= p->outer_dim[d];
            for (int t = 0; t < p->tensors; t++)
                if (f.base[t]) f.base[t] = at(f.base[t], i * p->outer_stride[d][t], p->dtype[t]);
        }
        load_fixed(&f, item == begin);
        for (; c < p->chunks && item < end; c++, item++) {
            int64_t from = c * p->chunk, n = p->run - from;
            chunk(&f, from, n < p->chunk ? n : p->chunk);
        }
    }
}
