#include "train/sets.h"
#include "base/mem.h"
#include "data/cache.h"

enum { CACHE_BYTES = 256 << 20, CACHE_SHARE = 8 }; /* at most; of a cap, one part in so many */

brim_status brim_sets_open(const brim_train_opts *o, brim_dataset **train, brim_dataset **val,
                           brim_error *err)
{
    brim_dataset_opts d = {.split = BRIM_SPLIT_TRAIN,
                           .val_fraction = o->val_data ? 0 : o->val_fraction,
                           .seed = o->session.seed,
                           .max_bytes = o->session.memory_cap_bytes};
    BRIM_TRY(brim_dataset_open(o->data, &d, train, err));
    if (!o->val_data && !(o->val_fraction > 0)) return BRIM_OK;
    d.n_class_names = brim_dataset_classes(*train);
    const char **names = brim_malloc(sizeof *names * (size_t)d.n_class_names);
    if (!names) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", o->data);
    for (int k = 0; k < d.n_class_names; k++) names[k] = brim_dataset_class_name(*train, k);
    d.class_names = names;
    d.names_of = "the training images";
    d.split = o->val_data ? BRIM_SPLIT_ALL : BRIM_SPLIT_VAL;
    brim_status st = brim_dataset_open(o->val_data ? o->val_data : o->data, &d, val, err);
    free(names);
    return st;
}

brim_sets_bytes brim_sets_memory(const brim_dataset *train, const brim_dataset *val, int channels,
                                 size_t cap_bytes)
{
    brim_sets_bytes m = {0};
    size_t limit = CACHE_BYTES;
    if (cap_bytes && cap_bytes / CACHE_SHARE < limit) limit = cap_bytes / CACHE_SHARE;
    m.train_cache = brim_cache_need(train, channels, limit);
    if (val) m.val_cache = brim_cache_need(val, channels, limit - m.train_cache);
    m.bytes = m.train_cache + m.val_cache + brim_dataset_memory_bytes(train) +
              (val ? brim_dataset_memory_bytes(val) : 0);
    return m;
}
