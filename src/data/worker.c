#include "data/worker.h"
#include "base/mem.h"
#include "data/color.h"
#include "data/decoder.h"
#include "data/randaugment.h"

#include <string.h>

brim_status brim_worker_init(brim_worker *w, const brim_dataset *set, const brim_pipeline_opts *o,
                             brim_cache *cache, brim_error *err)
{
    *w = (brim_worker){.set = set, .o = o, .cache = cache};
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

static brim_crop draw_crop(const brim_pipeline_opts *o, int w, int h, brim_rng *r)
{
    return o->augment.random_resized_crop
               ? brim_crop_random(&o->augment, w, h, r)
               : brim_crop_centre(&o->augment, w, h, o->width, o->height);
}

/* The image, or what the crop needs of it; *crop is drawn once the size is known. */
static brim_status fetch(brim_worker *w, int64_t i, brim_rng *r, brim_image *im, brim_crop *crop,
                         brim_error *err)
{
    const brim_pipeline_opts *o = w->o;
    if (brim_cache_get(w->cache, i, o->channels, im)) {
        *crop = draw_crop(o, im->w, im->h, r);
        return BRIM_OK;
    }
    brim_sample s = {0};
    brim_image_info info;
    BRIM_TRY(brim_dataset_read(w->set, i, &w->scratch, &s, err));
    BRIM_TRY(brim_image_probe(&s, &info, err));
    *crop = draw_crop(o, info.w, info.h, r);
    /* Decoded whole with or without a cache, so that both give the same pixels: a view may come at
     * a reduced size. */
    bool small = brim_cache_wants(&info);
    brim_view view = brim_crop_view(crop, o->width, o->height);
    BRIM_TRY(brim_image_decode(w->decoder, &s, &info, o->channels, small ? NULL : &view, im, err));
    if (small && w->cache) brim_cache_keep(w->cache, i, im);
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
    bool flip = a->flip > 0 && brim_rng_uniform(&r, 0, 1) < a->flip;
    BRIM_TRY(brim_crop_draw(&w->resizer, &im, &c, flip, out, o->width, o->height, err));
    if (a->pad_crop > 0) {
        int span = 2 * a->pad_crop + 1;
        int dx = (int)brim_rng_below(&r, (uint64_t)span) - a->pad_crop;
        int dy = (int)brim_rng_below(&r, (uint64_t)span) - a->pad_crop;
        brim_shift(out, w->tmp.at, o->width, o->height, o->channels, dx, dy);
    }
    brim_pixels pixels = {out, o->width, o->height, o->channels};
    brim_color_jitter(a, pixels, &r);
    brim_randaugment(a, pixels, w->tmp.at, &r);
    return BRIM_OK;
}
