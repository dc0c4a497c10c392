#include "data/mix.h"

#include <math.h>
#include <string.h>

static double gamma_variate(brim_rng *r, double a)
{
    if (a < 1) /* Gamma(a) = Gamma(a + 1) U^(1/a) */
        return gamma_variate(r, a + 1) * pow(1 - brim_rng_uniform(r, 0, 1), 1 / a);
    double d = a - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = brim_rng_normal(r), v = 1 + c * x;
        if (v <= 0) continue;
        v = v * v * v;
        if (log(1 - brim_rng_uniform(r, 0, 1)) < 0.5 * x * x + d - d * v + d * log(v)) return d * v;
    }
}

double brim_rng_beta(brim_rng *r, double a)
{
    double x = gamma_variate(r, a), y = gamma_variate(r, a);
    return x + y > 0 ? x / (x + y) : brim_rng_below(r, 2) ? 1 : 0; /* tiny a: all or nothing */
}

typedef struct mix {
    bool cut;
    float lam;          /* share of the row's own class */
    int x0, y0, x1, y1; /* cut: the part that comes from the other */
} mix;

/* A box of area 1 - lam around a random centre, cut at the border; lam becomes what is left. */
static void draw_box(mix *m, int w, int h, brim_rng *r)
{
    double side = 0.5 * sqrt(1 - (double)m->lam);
    int cx = (int)brim_rng_below(r, (uint64_t)w), cy = (int)brim_rng_below(r, (uint64_t)h);
    int dx = (int)(side * w), dy = (int)(side * h);
    m->x0 = cx > dx ? cx - dx : 0;
    m->y0 = cy > dy ? cy - dy : 0;
    m->x1 = cx + dx < w ? cx + dx : w;
    m->y1 = cy + dy < h ? cy + dy : h;
    m->lam = 1 - (float)((m->x1 - m->x0) * (m->y1 - m->y0)) / (float)(w * h);
}

static void mix_pixels(const brim_pipeline_opts *o, const mix *m, uint8_t *to, const uint8_t *other)
{
    size_t c = (size_t)o->channels, row = (size_t)o->width * c, n = row * (size_t)o->height;
    if (m->cut) {
        for (int y = m->y0; y < m->y1; y++)
            memcpy(to + (size_t)y * row + (size_t)m->x0 * c,
                   other + (size_t)y * row + (size_t)m->x0 * c, (size_t)(m->x1 - m->x0) * c);
        return;
    }
    uint32_t a = (uint32_t)lrintf(m->lam * 65536), b = 65536 - a;
    for (size_t i = 0; i < n; i++) to[i] = (uint8_t)((to[i] * a + other[i] * b + 32768) >> 16);
}

void brim_mix(const brim_pipeline_opts *o, brim_batch *b, uint8_t *tmp, brim_rng *r)
{
    const brim_augment *a = &o->augment;
    mix m = {.cut = a->cutmix > 0};
    if (a->mixup > 0 && a->cutmix > 0) m.cut = brim_rng_below(r, 2);
    m.lam = (float)brim_rng_beta(r, m.cut ? a->cutmix : a->mixup);
    if (m.cut) draw_box(&m, o->width, o->height, r);
    size_t image = (size_t)o->width * (size_t)o->height * (size_t)o->channels;
    if (b->n < 2) return;
    /* Backwards, so that row i - 1 is still itself; row 0 needs the last one as it was. */
    uint8_t *last = tmp;
    memcpy(last, b->image + (size_t)(b->n - 1) * image, image);
    for (int64_t i = b->n - 1; i >= 0; i--) {
        int64_t from = i > 0 ? i - 1 : b->n - 1;
        if (b->weight[i] == 0 || b->weight[from] == 0) continue;
        mix_pixels(o, &m, b->image + (size_t)i * image,
                   i > 0 ? b->image + (size_t)from * image : last);
        b->label2[i] = b->label[from];
        b->lam[i] = m.lam;
    }
}
