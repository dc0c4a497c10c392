#include "data/twins.h"

#include <string.h>

/* Multiply and fold, eight bytes at a time; the constants are odd digits of the golden ratio and of
 * the square root of 3. */
uint64_t brim_twin_hash(const uint8_t *at, size_t n)
{
    uint64_t h = n * 0x9e3779b97f4a7c15u, word;
    for (; n >= sizeof word; at += sizeof word, n -= sizeof word) {
        memcpy(&word, at, sizeof word);
        unsigned __int128 p = (unsigned __int128)(h ^ word) * 0xbb67ae8584caa73bu;
        h = (uint64_t)p ^ (uint64_t)(p >> 64) ^ word;
    }
    word = 0;
    memcpy(&word, at, n);
    unsigned __int128 p = (unsigned __int128)(h ^ word) * 0x9e3779b97f4a7c15u;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

int brim_check_id_order(brim_check_id a, brim_check_id b)
{
    if (a.set != b.set) return a.set - b.set;
    return (a.sample > b.sample) - (a.sample < b.sample);
}

static int by_hash(const void *a, const void *b)
{
    const brim_twin_key *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return brim_check_id_order(x->id, y->id);
}

static int by_place(const void *a, const void *b)
{
    const brim_check_twin *x = a, *y = b;
    int c = brim_check_id_order(x->first, y->first);
    return c ? c : brim_check_id_order(x->second, y->second);
}

/* The bytes decide, since different ones may have the same hash. */
static bool same_bytes(const brim_check *c, brim_check_id a, brim_check_id b,
                       brim_scratch scratch[2])
{
    brim_sample x, y;
    return brim_dataset_read(c->set[a.set], a.sample, &scratch[0], &x, NULL) == BRIM_OK &&
           brim_dataset_read(c->set[b.set], b.sample, &scratch[1], &y, NULL) == BRIM_OK &&
           x.n == y.n && memcmp(x.bytes, y.bytes, x.n) == 0;
}

static bool add(brim_check *c, brim_check_id first, brim_check_id second)
{
    brim_check_twin t = {.first = first, .second = second};
    t.conflict = brim_dataset_label(c->set[first.set], first.sample) !=
                 brim_dataset_label(c->set[second.set], second.sample);
    t.leak = brim_check_is_val(c, second) && !brim_check_is_val(c, first);
    c->conflicts += t.conflict;
    c->leaks += t.leak;
    return brim_vec_push(&c->twins, t);
}

/* n keys of one hash; the first of them for training is what the others are compared with. */
static bool add_group(brim_check *c, const brim_twin_key *key, int64_t n, brim_scratch scratch[2])
{
    int64_t first = 0;
    while (first < n && brim_check_is_val(c, key[first].id)) first++;
    if (first == n) first = 0;
    bool ok = true;
    for (int64_t i = 0; i < n && ok; i++)
        if (i != first && same_bytes(c, key[first].id, key[i].id, scratch))
            ok = add(c, key[first].id, key[i].id);
    return ok;
}

brim_status brim_twins_find(brim_check *c, brim_twin_key *key, brim_error *err)
{
    brim_scratch scratch[2] = {{0}, {0}};
    bool ok = true;
    qsort(key, (size_t)c->samples, sizeof *key, by_hash);
    for (int64_t i = 0, n; i < c->samples && ok; i += n) {
        for (n = 1; i + n < c->samples; n++)
            if (key[i + n].hash != key[i].hash || key[i + n].bytes != key[i].bytes) break;
        if (n > 1 && key[i].bytes) ok = add_group(c, key + i, n, scratch);
    }
    for (int k = 0; k < 2; k++) brim_scratch_free(&scratch[k]);
    if (c->twins.n) qsort(c->twins.at, c->twins.n, sizeof *c->twins.at, by_place);
    return ok ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "data: out of memory");
}
