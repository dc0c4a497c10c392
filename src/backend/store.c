#include "backend/store.h"
#include "backend/memplan.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

void brim_store_init(brim_store *s)
{
    *s = (brim_store){0};
    brim_arena_init(&s->arena);
}

void brim_store_release(brim_store *s)
{
    free(s->entries.at);
    brim_arena_release(&s->arena);
    *s = (brim_store){0};
}

brim_entry *brim_store_find(const brim_store *s, const char *name)
{
    for (size_t i = 0; i < s->entries.n; i++)
        if (!strcmp(s->entries.at[i].name, name)) return &s->entries.at[i];
    return NULL;
}

static brim_status add(brim_store *s, const brim_value *v, brim_error *err)
{
    brim_entry e = {.name = brim_arena_strdup(&s->arena, v->name),
                    .kind = v->kind,
                    .dtype = v->dtype,
                    .layout = v->layout,
                    .shape = v->shape,
                    .init = v->init,
                    .trainable = v->trainable,
                    .saved = v->saved || v->kind == BRIM_VALUE_PARAM,
                    .bytes = brim_value_bytes(v),
                    .offset = s->bytes};
    if (!e.name || !brim_vec_push(&s->entries, e))
        return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", v->name);
    s->bytes += (e.bytes + BRIM_PLAN_ALIGN - 1) & ~(size_t)(BRIM_PLAN_ALIGN - 1);
    return BRIM_OK;
}

brim_status brim_store_declare(brim_store *s, const brim_graph *g, brim_error *err)
{
    for (size_t i = 0; i < g->values.n; i++) {
        const brim_value *v = g->values.at[i];
        if (v->kind != BRIM_VALUE_PARAM && v->kind != BRIM_VALUE_STATE) continue;
        const brim_entry *e = brim_store_find(s, v->name);
        if (!e) {
            BRIM_TRY(add(s, v, err));
            continue;
        }
        char a[128], b[128];
        if (!brim_shape_equal(&e->shape, &v->shape) || e->dtype != v->dtype)
            return brim_fail(err, BRIM_ESHAPE, "%s: is %s %s in one graph and %s %s in another",
                             v->name, brim_dtype_name(e->dtype), brim_shape_text(a, &e->shape),
                             brim_dtype_name(v->dtype), brim_shape_text(b, &v->shape));
        if (e->layout != v->layout)
            return brim_fail(err, BRIM_EINVAL, "%s: graphs disagree about its memory layout",
                             v->name);
    }
    return BRIM_OK;
}

void brim_store_bind(brim_store *s, void *base)
{
    for (size_t i = 0; i < s->entries.n; i++)
        s->entries.at[i].data = (char *)base + s->entries.at[i].offset;
}

/* Four numbers a counter, so that the result does not depend on how the work is split. */
static void fill_four(float *x, const brim_init *init, uint64_t key, uint64_t stream, int64_t block)
{
    brim_philox p = brim_philox4x32(key, stream, (uint64_t)block);
    float a = (float)init->a;
    for (int k = 0; k < 4; k += 2) {
        float u = brim_u32_to_unit(p.v[k]), v = brim_u32_to_unit(p.v[k + 1]);
        if (init->kind == BRIM_INIT_NORMAL) { /* Box-Muller */
            float r = a * sqrtf(-2 * logf(1 - u)), angle = 6.2831853f * v;
            x[k] = r * cosf(angle);
            x[k + 1] = r * sinf(angle);
        } else {
            x[k] = a * (2 * u - 1);
            x[k + 1] = a * (2 * v - 1);
        }
    }
}

static void fill_random(float *x, int64_t n, const brim_init *init, uint64_t seed, const char *name)
{
    uint64_t stream = brim_hash_text(name);
#pragma omp parallel for schedule(static) if (n > 100000)
    for (int64_t block = 0; block < n / 4; block++)
        fill_four(x + 4 * block, init, seed, stream, block);
    if (n % 4) {
        float last[4];
        fill_four(last, init, seed, stream, n / 4);
        memcpy(x + n / 4 * 4, last, sizeof(float) * (size_t)(n % 4));
    }
}

/* What a state starts from is its init, except averaged weights, which start as the weights. */
static const brim_init *init_of(const brim_store *s, const brim_entry *e, const char **seed_name)
{
    *seed_name = e->name;
    if (strncmp(e->name, "ema:", 4)) return &e->init;
    const brim_entry *w = brim_store_find(s, e->name + 4);
    if (!w) return &e->init;
    *seed_name = w->name;
    return &w->init;
}

brim_status brim_store_fill(brim_store *s, const brim_backend *b, uint64_t seed, brim_error *err)
{
    for (size_t i = 0; i < s->entries.n; i++) {
        brim_entry *e = &s->entries.at[i];
        int64_t n = brim_shape_count(&e->shape);
        const char *name;
        const brim_init *init = init_of(s, e, &name);
        if (init->kind == BRIM_INIT_CONST && init->a == 0)
            continue; /* device memory comes zeroed */
        float *x = brim_calloc((size_t)n, sizeof *x);
        if (!x) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", e->name);
        if (init->kind == BRIM_INIT_CONST)
            for (int64_t k = 0; k < n; k++) x[k] = (float)init->a;
        else
            fill_random(x, n, init, seed, name);
        brim_status st = brim_store_write(s, b, e, x, err);
        free(x);
        BRIM_TRY(st);
    }
    return brim_store_refresh_halves(s, b, err);
}

brim_status brim_store_refresh_halves(brim_store *s, const brim_backend *b, brim_error *err)
{
    for (size_t i = 0; i < s->entries.n; i++) {
        const brim_entry *e = &s->entries.at[i];
        size_t len = strlen(e->name);
        if (len < 6 || strcmp(e->name + len - 5, ".half")) continue;
        char *name = brim_strdup(e->name);
        if (!name) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", e->name);
        name[len - 5] = 0;
        const brim_entry *w = brim_store_find(s, name);
        free(name);
        if (!w) continue;
        float *x = brim_malloc((size_t)brim_shape_count(&w->shape) * sizeof *x);
        if (!x) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", e->name);
        brim_status st = brim_store_read(s, b, w, x, err);
        if (st == BRIM_OK) st = brim_store_write(s, b, e, x, err);
        free(x);
        BRIM_TRY(st);
    }
    return BRIM_OK;
}

brim_status brim_store_read(const brim_store *s, const brim_backend *b, const brim_entry *e,
                            float *out, brim_error *err)
{
    (void)s;
    void *raw = brim_malloc(e->bytes);
    if (!raw) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", e->name);
    b->download(raw, e->data, e->bytes);
    brim_tensor from = brim_tensor_make(raw, e->dtype, &e->shape, e->layout);
    brim_tensor to = brim_tensor_make(out, BRIM_F32, &e->shape, BRIM_LAYOUT_ROW);
    brim_tensor_copy(&to, &from);
    free(raw);
    return BRIM_OK;
}

brim_status brim_store_write(const brim_store *s, const brim_backend *b, const brim_entry *e,
                             const float *in, brim_error *err)
{
    (void)s;
    void *raw = brim_malloc(e->bytes);
    if (!raw) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", e->name);
    brim_tensor from = brim_tensor_make((void *)in, BRIM_F32, &e->shape, BRIM_LAYOUT_ROW);
    brim_tensor to = brim_tensor_make(raw, e->dtype, &e->shape, e->layout);
    brim_tensor_copy(&to, &from);
    b->upload(e->data, raw, e->bytes);
    free(raw);
    return BRIM_OK;
}
