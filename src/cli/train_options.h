/* The options of `brim train`, and what they mean to the loop. */
#ifndef BRIM_CLI_TRAIN_OPTIONS_H
#define BRIM_CLI_TRAIN_OPTIONS_H

#include "base/arena.h"
#include "cli/options.h"
#include "train/train.h"

extern const brim_option brim_train_option_table[];

/* Fills t from the options. Texts are borrowed from o. Arrays (freeze patterns) go to the arena. */
brim_status brim_train_options_apply(const brim_options *o, brim_arena *arena, brim_train_opts *t,
                                     brim_error *err);

/* "fp32" -> BRIM_F32 and so on, by index in BRIM_PRECISIONS; auto: bf16 where the processor
 * multiplies it, else fp32. */
brim_dtype brim_precision_at(int choice);
#define BRIM_PRECISIONS "fp32|bf16|fp16|auto"

#endif
