/* mixup (Zhang et al., 2017) and CutMix (Yun et al., 2019) of a whole batch: row i is mixed with
 * row i - 1 (row 0 with the last), at one ratio for the batch, as torchvision's v2 transforms do.
 */
#ifndef BRIM_DATA_MIX_H
#define BRIM_DATA_MIX_H

#include "base/rng.h"
#include "data/pipeline.h"

/* Changes image, label2 and lam of b's first n rows. A row of which either half is damaged stays as
 * it is. tmp: one image. */
void brim_mix(const brim_pipeline_opts *o, brim_batch *b, uint8_t *tmp, brim_rng *r);

/* Beta(a, a) by two gamma variates (Marsaglia and Tsang, 2000). a > 0. */
double brim_rng_beta(brim_rng *r, double a);

#endif
