/* Verifies labelled sets: reads and decodes every image, finds those that are there twice, and sums
 * up what the sets hold. The result is the same for any number of threads. Holds 40 bytes a sample,
 * and one image a thread; what it finds comes on top. */
#ifndef BRIM_DATA_CHECK_H
#define BRIM_DATA_CHECK_H

#include "base/vec.h"
#include "data/image.h"

/* A sample of the sets that are checked together. */
typedef struct brim_check_id {
    int set;
    int64_t sample;
} brim_check_id;

typedef struct brim_check_damage {
    brim_check_id id;
    char why[200];
} brim_check_damage;

/* Two samples with the same bytes. Of all that are the same, `first` is the first one for training,
 * or the first one when all are for validation. */
typedef struct brim_check_twin {
    brim_check_id first, second;
    bool conflict; /* their classes differ */
    bool leak;     /* first is for training, second for validation */
} brim_check_twin;

/* What a header may say that a model or another program may not expect. */
typedef enum brim_check_odd {
    BRIM_CHECK_GREY,
    BRIM_CHECK_ALPHA,
    BRIM_CHECK_CMYK,
    BRIM_CHECK_DEEP,   /* more than 8 bits a channel */
    BRIM_CHECK_TURNED, /* upright only after EXIF's rotation */
    BRIM_CHECK_ODDS
} brim_check_odd;

enum { BRIM_CHECK_FORMATS = BRIM_IMAGE_WEBP + 1 };

typedef struct brim_check {
    const brim_dataset *set[2]; /* borrowed; the second one, for validation, may be NULL */
    int64_t samples, bytes;     /* stored bytes */
    int classes;
    int64_t (*count)[2]; /* [classes]: for training (or no part), for validation */
    int64_t format[BRIM_CHECK_FORMATS], odd[BRIM_CHECK_ODDS]; /* images whose header can be read */
    int width[3], height[3]; /* their least, median and largest; 0 when there is none */
    int channels;
    double mean[3], std[3]; /* over all decoded pixels that are not for validation, 0 .. 1; NaN when
                               there is none */
    BRIM_VEC(brim_check_damage) damage;
    BRIM_VEC(brim_check_twin) twins;
    int64_t conflicts, leaks; /* of the twins */
} brim_check;

typedef struct brim_check_opts {
    const brim_dataset *set, *val; /* val: NULL, or one for validation with the same classes */
    int channels;                  /* of mean and std: 1 or 3 */
    int threads;
    void (*progress)(void *user, int64_t done, int64_t all); /* on this thread; or NULL */
    void *user;
} brim_check_opts;

/* Errors: BRIM_ENOMEM. Damaged images are no error. *out is released by the caller after BRIM_OK
 * only. */
brim_status brim_check_run(const brim_check_opts *o, brim_check *out, brim_error *err);
void brim_check_release(brim_check *c);

/* Is this sample for validation? */
bool brim_check_is_val(const brim_check *c, brim_check_id id);

#endif
