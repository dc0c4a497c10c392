/* What a run is made of and cannot change on the way: lines of "key: value". Learning rate, epochs,
 * augmentation and the like are not among them; threads and places of files neither. */
#ifndef BRIM_TRAIN_SIGNATURE_H
#define BRIM_TRAIN_SIGNATURE_H

#include "base/str.h"
#include "train/train.h"

/* Appends the lines for a training of `c` on `set` with the session options `so`, which begins with
 * the weights of the file `init` unless that is NULL. */
void brim_signature_write(brim_str *out, const brim_classifier *c, const char *init,
                          const brim_dataset *set, const brim_session_opts *so,
                          const brim_plan *plan);

/* BRIM_EINVAL when a line of `now` is not in `was`: names it, its old value and its new one. */
brim_status brim_signature_match(const char *was, const char *now, brim_error *err);

/* Appends the lines of `now` that are not in `was`, separated by ", "; of keys that are gone,
 * "KEY: not given". Serves any text of such lines, config.yaml too. */
void brim_signature_changes(brim_str *out, const char *was, const char *now);

#endif
