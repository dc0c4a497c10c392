/* The optimizer's loops over one stretch of a weight. */
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/simd.h"

#define F32(p) vf_get((p), i, n, BRIM_F32)

/* Squares in float over 16 vectors, then double. g - g is 0 for finite g only. */
SIMD double squares(const void *g, brim_dtype t, int64_t count, bool *finite)
{
    double total = 0;
    vf bad = {0};
    for (int64_t at = 0; at < count; at += 16 * VF) {
        int64_t here = count - at < 16 * VF ? count - at : 16 * VF;
        const void *p = (const char *)g + at * (t == BRIM_F32 ? 4 : 2);
        vf s = {0};
        VF_EACH(i, n, here, {
            vf v = vf_get(p, i, n, t);
            s = vf_fma(v, v, s);
            bad += v - v;
        });
        double sum = vf_sum(s);
        if (sum - sum != 0 && !vm_any(vf_nonzero(bad))) { /* overflowed although finite */
            sum = 0;
            VF_EACH(i, n, here, {
                vf v = vf_get(p, i, n, t);
                for (int j = 0; j < n; j++) sum += (double)v[j] * v[j];
            });
        }
        total += sum;
    }
    if (vm_any(vf_nonzero(bad))) *finite = false;
    return total;
}

double K(square_sum)(const void *g, brim_dtype t, int64_t n, bool *finite)
{
    double r = 0;
    FOR_DTYPE(t, r = squares(g, T, n, finite));
    return r;
}

SIMD void finish(const brim_stretch *s, int64_t i, int n, vf p, const brim_update *u)
{
    vf_put(s->p, i, n, BRIM_F32, p);
    if (s->shadow) vf_put(s->shadow, i, n, s->shadow_type == BRIM_F16 ? BRIM_F16 : BRIM_BF16, p);
    if (s->ema) vf_put(s->ema, i, n, BRIM_F32, vf_fma(F32(s->ema) - p, vf_set(u->ema), p));
}

SIMD void sgd(const brim_stretch *s, brim_dtype t, int64_t count, const brim_update *u)
{
    vf momentum = vf_set(u->momentum), lr = vf_set(-u->lr), decay = vf_set(u->decay);
    VF_EACH(i, n, count, {
        vf p = F32(s->p), g = vf_fma(decay, p, vf_get(s->g, i, n, t) * u->coef);
        if (s->m) {
            vf m = vf_fma(momentum, F32(s->m), g);
            vf_put(s->m, i, n, BRIM_F32, m);
            g = u->nesterov ? vf_fma(momentum, m, g) : m;
        }
        finish(s, i, n, vf_fma(lr, g, p), u);
    });
}

void K(sgd)(const brim_stretch *s, int64_t n, const brim_update *u)
{
    const brim_stretch c = *s; /* a copy that no store can change */
    const brim_update v = *u;
    FOR_DTYPE(s->g_type, sgd(&c, T, n, &v));
}

SIMD void adamw(const brim_stretch *s, brim_dtype t, int64_t count, const brim_update *u)
{
    vf b1 = vf_set(u->beta1), b2 = vf_set(u->beta2), step = vf_set(-u->lr * u->fix1);
    vf shrink = vf_set(-u->lr * u->decay);
    VF_EACH(i, n, count, {
        vf g = vf_get(s->g, i, n, t) * u->coef;
        vf p = F32(s->p), m = vf_fma(b1, F32(s->m), g * u->one_beta1);
        vf v = vf_fma(b2, F32(s->v), g * g * u->one_beta2);
        vf_put(s->m, i, n, BRIM_F32, m);
        vf_put(s->v, i, n, BRIM_F32, v);
        vf by = vf_sqrt(v * u->fix2) + u->eps;
        finish(s, i, n, vf_fma(step, m / by, vf_fma(shrink, p, p)), u);
    });
}

void K(adamw)(const brim_stretch *s, int64_t n, const brim_update *u)
{
    const brim_stretch c = *s;
    const brim_update v = *u;
    FOR_DTYPE(s->g_type, adamw(&c, T, n, &v));
}
