/* Finding samples with the same bytes: candidates by hash, in an order that is always the same. */
#ifndef BRIM_DATA_TWINS_H
#define BRIM_DATA_TWINS_H

#include "data/check.h"

typedef struct brim_twin_key {
    uint64_t hash, bytes; /* of no bytes: the sample cannot be read */
    brim_check_id id;
} brim_twin_key;

/* By set, then by sample, as qsort wants it. */
int brim_check_id_order(brim_check_id a, brim_check_id b);

/* Not cryptographic: equal hashes are candidates, which brim_twins_find compares. */
uint64_t brim_twin_hash(const uint8_t *at, size_t n);

/* Fills c->twins, conflicts and leaks from the keys of all samples, which it sorts. Errors:
 * BRIM_ENOMEM. */
brim_status brim_twins_find(brim_check *c, brim_twin_key *key, brim_error *err);

#endif
