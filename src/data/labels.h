/* The inside of a data set, and how its samples get their classes and splits. */
#ifndef BRIM_DATA_LABELS_H
#define BRIM_DATA_LABELS_H

#include "data/source.h"

struct brim_dataset {
    brim_source src;
    brim_item *item; /* of this split; into src.items' memory */
    int64_t n;
    const char **name; /* of classes; arena */
    int classes;
    bool own_split; /* storage itself tells training from validation */
};

/* Which split a folder's or a file's name speaks of; BRIM_SPLIT_ALL: none. */
brim_split brim_split_of_word(const char *at, size_t n);

/* Gives every item of d->src its label and split, names the classes, and keeps the items that
 * o->split asks for. `path` is what the user gave. */
brim_status brim_labels_assign(brim_dataset *d, const char *path, const brim_dataset_opts *o,
                               brim_error *err);

#endif
