/* What `brim data check` says of a checked set, as text and as JSON. */
#ifndef BRIM_CLI_DATA_REPORT_H
#define BRIM_CLI_DATA_REPORT_H

#include "base/str.h"
#include "data/check.h"

typedef BRIM_VEC(char *) brim_data_lines;

typedef struct brim_data_report {
    const brim_check *check;     /* borrowed, as the paths */
    const char *path, *val_path; /* val_path: NULL without a set of its own for validation */
    int lines;                   /* of each list that the text gives; 0: all */
    bool color;                  /* for a terminal */
    bool parts;                  /* there are training and validation images */
    double
        imbalance; /* images for training of the largest class by those of the smallest; 0: n/a */
    brim_data_lines problems; /* why training leaves out images, or refuses the set */
    brim_data_lines warnings;
    bool failed; /* out of memory */
} brim_data_report;

/* Finds problems and warnings. */
void brim_data_judge(brim_data_report *r, const brim_check *c, const char *path,
                     const char *val_path);
void brim_data_report_release(brim_data_report *r);

void brim_data_text(const brim_data_report *r, brim_str *out);
void brim_data_json(const brim_data_report *r, brim_str *out);

#endif
