#include "data/worker.h"
#include "base/mem.h"
#include "data/decoder.h"

#include <math.h>
#include <string.h>

enum { CACHE_MAX_PIXELS = 128 * 128 };

brim_status brim_worker_init(brim_worker *w, const brim_dataset *set, const brim_pipeline_opts *o,
                             brim_cached *cache, atomic_size_t *cache_used, brim_error *err)
{
    *w = (brim_worker){.set = set, .o = o, .cache = cache, .cache_used = cache_used};
    w->decoder = brim_decoder_new();
    bool ok =
        w->decoder && brim_scratch_reserve(&w->tmp, (size_t)(o->width * o->height * o->channels));
    return ok ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "pipeline: out of memory");
}

void brim_worker_release(brim_worker *w)
{
    free(w->scratch.at);
    free(w->tmp.at);
    brim_decoder_free(w->decoder);
    brim_resizer_release(&w->resizer);
}

static void keep(brim_worker *w, int64_t i, const brim_image *im)
{
    size_t bytes = (size_t)im->w * (size_t)im->h * (size_t)im->channels;
    if (im->w * im->h > CACHE_MAX_PIXELS) return;
    if (atomic_fetch_add(w->cache_used, bytes) + bytes > w->o->cache_bytes) {
        atomic_fetch_sub(w->cache_used, bytes);
        return;
    }
    uint8_t *copy = brim_malloc(bytes);
    if (!copy) return;
    memcpy(copy, im->pixels, bytes);
    w->cache[i].w = im->w;
    w->cache[i].h = im->h;
    atomic_store_explicit(&w->cache[i].pixels, copy, memory_order_release);
}

/* Decodes no more than the crop needs; *crop is drawn once the size is known. */
static brim_status fetch(brim_worker *w, int64_t i, brim_rng *r, brim_image *im, brim_crop *crop,
                         brim_error *err)
{
    const brim_pipeline_opts *o = w->o;
    const brim_augment *a = &o->augment;
    uint8_t *kept =
        w->cache ? atomic_load_explicit(&w->cache[i].pixels, memory_order_acquire) : NULL;
    brim_sample s = {0};
    if (kept)
        *im = (brim_image){w->cache[i].w, w->cache[i].h, o->channels, kept};
    else {
        BRIM_TRY(brim_dataset_read(w->set, i, &w->scratch, &s, err));
        BRIM_TRY(brim_image_probe(&s, &im->w, &im->h, err));
        BRIM_TRY(brim_image_check_size(im->w, im->h, o->channels, err));
    }
    *crop = a->random_resized_crop ? brim_crop_random(a, im->w, im->h, r)
                                   : brim_crop_centre(a, im->w, im->h, o->width, o->height);
    if (kept) return BRIM_OK;
    bool small = w->cache && im->w * im->h <= CACHE_MAX_PIXELS;
    int min_w = small ? 0 : (int)ceil(o->width / (crop->x1 - crop->x0));
    int min_h = small ? 0 : (int)ceil(o->height / (crop->y1 - crop->y0));
    BRIM_TRY(brim_image_decode(w->decoder, &s, o->channels, min_w, min_h, im, err));
    if (small) keep(w, i, im);
    return BRIM_OK;
}

brim_status brim_worker_sample(brim_worker *w, int64_t i, int64_t epoch, uint8_t *out,
                               brim_error *err)
{
    const brim_pipeline_opts *o = w->o;
    const brim_augment *a = &o->augment;
    brim_rng r;
    brim_image im;
    brim_crop c;
    brim_rng_init(&r, o->seed ^ 0x6272696d61756720u, (uint64_t)epoch << 40 ^ (uint64_t)i);
    BRIM_TRY(fetch(w, i, &r, &im, &c, err));
    /* Snap what is a whole pixel, so that a plain copy is seen as one. */
    double x0 = c.x0 * im.w, y0 = c.y0 * im.h, x1 = c.x1 * im.w, y1 = c.y1 * im.h;
    double *edge[] = {&x0, &y0, &x1, &y1};
    for (int k = 0; k < 4; k++)
        if (fabs(*edge[k] - round(*edge[k])) < 1e-6) *edge[k] = round(*edge[k]);
    BRIM_TRY(brim_resize(&w->resizer, &im, x0, y0, x1, y1, out, o->width, o->height, err));
    if (a->pad_crop > 0) {
        int span = 2 * a->pad_crop + 1;
        int dx = (int)brim_rng_below(&r, (uint64_t)span) - a->pad_crop;
        int dy = (int)brim_rng_below(&r, (uint64_t)span) - a->pad_crop;
        brim_shift(out, w->tmp.at, o->width, o->height, o->channels, dx, dy);
    }
    if (a->flip > 0 && brim_rng_uniform(&r, 0, 1) < a->flip)
        brim_flip(out, o->width, o->height, o->channels);
    return BRIM_OK;
}
