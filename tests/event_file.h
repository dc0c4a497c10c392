/* Reads TensorBoard's event files, independently of what writes them. What is wrong fails the test.
 */
#ifndef BRIM_TESTS_EVENT_FILE_H
#define BRIM_TESTS_EVENT_FILE_H

#include <stddef.h>
#include <stdint.h>

/* The next record between *p and end, its length to *n, and *p moved behind it; both sums are
 * checked. NULL at the end. */
const unsigned char *event_record(const unsigned char **p, const unsigned char *end, size_t *n);

/* A scalar of one tag at one step; n: how often it was written. */
typedef struct event_scalar {
    double value; /* the last one */
    int n;
} event_scalar;

/* Looks through all event files of a folder; tag NULL counts the scalars of every tag and step. */
event_scalar event_find(const char *folder, const char *tag, int64_t step);

#endif
