/* A string that grows. After an allocation failed, `failed` is set and further appends do nothing,
 * so that a caller checks once at the end. */
#ifndef BRIM_BASE_STR_H
#define BRIM_BASE_STR_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct brim_str {
    char *at; /* NUL-terminated once anything was appended; NULL before */
    size_t n, cap;
    bool failed;
} brim_str;

void brim_str_add(brim_str *s, const char *text);
void brim_str_add_n(brim_str *s, const char *bytes, size_t n);
void brim_str_printf(brim_str *s, const char *fmt, ...) BRIM_PRINTF(2, 3);
void brim_str_free(brim_str *s);              /* leaves an empty, usable string */
const char *brim_str_text(const brim_str *s); /* "" when empty */

/* "17.3 MiB", "512 B": binary units, three significant digits; into buf, which is returned. */
const char *brim_bytes_text(char buf[32], double bytes);
/* "1.2 k", "34.5 M", "1.81 G": decimal units. */
const char *brim_count_text(char buf[32], double count);
/* "12 s", "3 m 04 s", "2 h 10 m". */
const char *brim_time_text(char buf[32], double seconds);

/* Reads "8GiB", "512MiB", "4G", "1000000", "1.5g" (binary multiples). False when malformed. */
bool brim_bytes_parse(const char *text, size_t *bytes);

#endif
