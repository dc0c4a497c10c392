/* Writing JSON lines without a tree (reading uses jansson directly). */
#ifndef BRIM_IO_JSON_H
#define BRIM_IO_JSON_H

#include "base/str.h"

/* {"a":1,...}: begin, fields, end. A NaN or infinity is written as null, as JSON has neither.
 * Objects and arrays nest on one brim_json: key (NULL inside an array), then begin .. end. */
typedef struct brim_json {
    brim_str *out;
    bool comma;
} brim_json;

void brim_json_begin(brim_json *j, brim_str *out, char bracket); /* '{' or '[' */
void brim_json_end(brim_json *j, char bracket);                  /* '}' or ']' */
void brim_json_key(brim_json *j, const char *key);
void brim_json_number(brim_json *j, const char *key, double value); /* key NULL inside an array */
void brim_json_int(brim_json *j, const char *key, long long value);
void brim_json_text(brim_json *j, const char *key,
                    const char *value); /* NULL: null; UTF-8 escaped */
void brim_json_bool(brim_json *j, const char *key, bool value);

#endif
