#include "backend/cuda/strided.h"
#include "backend/cuda/cuda.h"

#include <math.h>
#include <string.h>

enum { THREADS = 256, BLOCKS_PER_SM = 16, PACK_BYTES = 16 };

static const char *const scalar_text[] = {
#define X(name, args, text) text,
    BRIM_SCALAR_OPS(X)
#undef X
};

/* The element type in a kernel; for copies the one of the same size that is not converted. */
static const char *type_name(brim_dtype t, bool copy)
{
    size_t bytes = brim_dtype_bytes(t);
    if (!copy) return brim_cuda_type(t);
    return bytes == 1 ? "u8" : bytes == 2 ? "bf16" : bytes == 4 ? "unsigned" : "unsigned long long";
}

/* ---- printing ---- */

typedef struct printer {
    const brim_loops *l;
    const brim_dtype *type;
    int n_in, n_out, width;
    const brim_body *body;
    brim_str out;
} printer;

/* Along the innermost loop: 1, 0 (the same element), or another stride, which packs do not take. */
static int64_t inner(const printer *p, int t)
{
    return p->l->stride[p->l->rank - 1][t];
}

/* "{a} + {b}" with registers, "{i}" an input's number, "{imm}" a constant. */
static void print_text(brim_str *out, const char *text, const brim_instr *i)
{
    for (; *text; text++) {
        if (*text != '{') {
            brim_str_add_n(out, text, 1);
            continue;
        }
        if (!strncmp(text, "{imm}", 5)) {
            if (isfinite(i->imm))
                brim_str_printf(out, "(float)%.17g", i->imm);
            else
                brim_str_add(out, isnan(i->imm) ? "NAN" : i->imm > 0 ? "INFINITY" : "-INFINITY");
        } else if (text[1] == 'i')
            brim_str_printf(out, "%d", i->a);
        else
            brim_str_printf(out, "r%d", text[1] == 'a' ? i->a : text[1] == 'b' ? i->b : i->c);
        text = strchr(text, '}');
    }
}

static void print_offsets(printer *p)
{
    brim_str_add(&p->out, "        long long");
    for (int t = 0; t < p->l->tensors; t++) brim_str_printf(&p->out, "%s o%d = 0", t ? "," : "", t);
    brim_str_add(&p->out, ";\n        unsigned rest = (unsigned)i, k;\n");
    for (int d = p->l->rank - 1; d >= 0; d--) {
        if (d)
            brim_str_printf(&p->out, "        k = rest %% a.dim[%d];\n        rest /= a.dim[%d];\n",
                            d, d);
        else
            brim_str_add(&p->out, "        k = rest;\n");
        int width = d == p->l->rank - 1 ? p->width : 1;
        for (int t = 0; t < p->l->tensors; t++)
            if (p->l->stride[d][t])
                brim_str_printf(&p->out, "        o%d += (long long)k * %d * a.stride[%d][%d];\n",
                                t, width, d, t);
    }
}

static void print_loads(printer *p)
{
    for (int t = 0; t < p->n_in; t++) {
        const char *type = type_name(p->type[t], !p->body);
        if (inner(p, t) == 1)
            brim_str_printf(&p->out,
                            "        pack<%s, %d> p%d = load_pack<%s, %d>((const %s *)a.at[%d] + "
                            "o%d);\n",
                            type, p->width, t, type, p->width, type, t, t);
        else
            brim_str_printf(&p->out, "        %s s%d = ((const %s *)a.at[%d])[o%d];\n", type, t,
                            type, t, t);
    }
    for (int t = p->n_in; t < p->l->tensors; t++)
        brim_str_printf(&p->out, "        pack<%s, %d> p%d;\n", type_name(p->type[t], !p->body),
                        p->width, t);
}

static void print_body(printer *p)
{
    brim_str_printf(&p->out, "        UNROLL for (int v = 0; v < %d; v++) {\n", p->width);
    if (!p->body) {
        brim_str_printf(&p->out, "            p1.v[v] = %s;\n",
                        inner(p, 0) == 1 ? "p0.v[v]" : "s0");
    } else {
        for (int t = 0; t < p->n_in; t++)
            brim_str_printf(&p->out,
                            inner(p, t) == 1 ? "            float in%d = to_float(p%d.v[v]);\n"
                                             : "            float in%d = to_float(s%d);\n",
                            t, t);
        for (int k = 0; k < p->body->n; k++) {
            brim_str_printf(&p->out, "            float r%d = ", k);
            print_text(&p->out, scalar_text[p->body->at[k].op], &p->body->at[k]);
            brim_str_add(&p->out, ";\n");
        }
        for (int k = 0; k < p->n_out; k++)
            brim_str_printf(&p->out, "            p%d.v[v] = from_float<%s>::of(r%d);\n",
                            p->n_in + k, type_name(p->type[p->n_in + k], false), p->body->out[k]);
    }
    brim_str_add(&p->out, "        }\n");
}

static void print_stores(printer *p)
{
    for (int t = p->n_in; t < p->l->tensors; t++) {
        const char *type = type_name(p->type[t], !p->body);
        brim_str_printf(&p->out,
                        "        if (a.at[%d]) store_pack<%s, %d>((%s *)a.at[%d] + o%d, p%d);\n", t,
                        type, p->width, type, t, t, t);
    }
}

static void print(printer *p)
{
    brim_str_add(&p->out,
                 "BRIM_KERNEL(256, strided, pointwise_args)\n{\n"
                 "    for (long long i = thread_index(); i < a.n; i += thread_count()) {\n");
    print_offsets(p);
    print_loads(p);
    print_body(p);
    print_stores(p);
    brim_str_add(&p->out, "    }\n}\n");
}

/* ---- making and running ---- */

/* The widest pack that every contiguous tensor can be read in. */
static int choose_width(const printer *p, const int64_t *offset)
{
    const brim_loops *l = p->l;
    int last = l->rank - 1, width = PACK_BYTES;
    for (int t = 0; t < l->tensors; t++) {
        if (inner(p, t) > 1 || (t >= p->n_in && inner(p, t) != 1)) return 1;
        if (inner(p, t) == 1) {
            int most = PACK_BYTES / (int)brim_dtype_bytes(p->type[t]);
            if (most < width) width = most;
        }
    }
    for (; width > 1; width /= 2) {
        bool fits = l->dim[last] % width == 0;
        for (int t = 0; t < l->tensors && fits; t++) {
            if (inner(p, t) != 1) continue;
            fits = !offset || offset[t] % width == 0;
            for (int d = 0; d < last; d++) fits &= l->stride[d][t] % width == 0;
        }
        if (fits) break;
    }
    return width;
}

static void fill_args(brim_cuda_strided *k, const printer *p, const int64_t *offset)
{
    const brim_loops *l = p->l;
    k->tensors = l->tensors;
    k->args.n = 1;
    for (int d = 0; d < l->rank; d++) {
        int64_t dim = l->dim[d] / (d == l->rank - 1 ? p->width : 1);
        k->args.dim[d] = (unsigned)dim;
        k->args.n *= dim;
        for (int t = 0; t < l->tensors; t++) k->args.stride[d][t] = l->stride[d][t];
    }
    for (int t = 0; t < l->tensors; t++)
        k->offset_bytes[t] = offset ? offset[t] * (int64_t)brim_dtype_bytes(p->type[t]) : 0;
    int64_t blocks = (k->args.n + THREADS - 1) / THREADS,
            most = (int64_t)BLOCKS_PER_SM * brim_cuda_get()->sms;
    k->blocks = (unsigned)(blocks < most ? blocks : most);
}

brim_status brim_cuda_strided_make(brim_cuda_strided *out, const brim_loops *l,
                                   const brim_dtype *type, int n_out, const brim_body *body,
                                   const int64_t *offset, brim_error *err)
{
    printer p = {.l = l, .type = type, .n_in = l->tensors - n_out, .n_out = n_out, .body = body};
    *out = (brim_cuda_strided){0};
    p.width = choose_width(&p, offset);
    fill_args(out, &p, offset);
    if (out->args.n > UINT32_MAX)
        return brim_fail(err, BRIM_EUNSUPPORTED, "more than 2^32 elements in one operator");
    if (!out->args.n) return BRIM_OK;
    print(&p);
    brim_status s = p.out.failed ? brim_fail(err, BRIM_ENOMEM, "kernels: out of memory")
                                 : brim_cuda_kernel_from(body ? "pointwise" : "copy", p.out.at,
                                                         "strided", &out->f, err);
    brim_str_free(&p.out);
    return s;
}

void brim_cuda_strided_run(const brim_cuda_strided *k, void *const *data)
{
    pointwise_args a = k->args;
    if (!a.n) return;
    for (int t = 0; t < k->tensors; t++)
        a.at[t] = data[t] ? (char *)data[t] + k->offset_bytes[t] : NULL;
    brim_cuda_launch(k->f, k->blocks, 1, 1, THREADS, 0, &a);
}
