/* RandAugment (Cubuk et al., 2019), with the operations and ranges of torchvision's. */
#ifndef BRIM_DATA_RANDAUGMENT_H
#define BRIM_DATA_RANDAUGMENT_H

#include "data/color.h"

/* a->randaugment_n operations drawn at random, at magnitude a->randaugment_m of 30, in place.
 * tmp: as many bytes as p. */
void brim_randaugment(const brim_augment *a, brim_pixels p, uint8_t *tmp, brim_rng *r);

/* One operation by its place in the list, for tests: the sign is -1 or 1. */
enum { BRIM_RANDAUGMENT_OPS = 14 };
const char *brim_randaugment_op(int op, brim_pixels p, int magnitude, int sign, uint8_t *tmp);

#endif
