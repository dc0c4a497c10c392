/* A flat YAML mapping of option names to scalars or lists of scalars (what --config holds). */
#ifndef BRIM_IO_YAML_H
#define BRIM_IO_YAML_H

#include "base/error.h"
#include "base/str.h"

typedef struct brim_yaml_pair {
    char *key;
    char *value; /* the items of a list are joined with '\n' */
    bool list;   /* written as a list, also one of no or one item */
    int line;    /* for messages */
} brim_yaml_pair;

typedef struct brim_yaml {
    brim_yaml_pair *at;
    size_t n, cap;
} brim_yaml;

/* Errors name file and line: nested mappings, anchors, duplicate keys and binary junk are refused.
 */
brim_status brim_yaml_read(const char *path, brim_yaml *out, brim_error *err);
brim_status brim_yaml_parse(const char *name, const char *text, size_t n, brim_yaml *out,
                            brim_error *err);
void brim_yaml_free(brim_yaml *y);
/* Appends "key: value\n", quoting as YAML needs. */
void brim_yaml_emit(brim_str *out, const char *key, const char *value);
/* Appends "key: [item, ...]\n". */
void brim_yaml_emit_list(brim_str *out, const char *key, const char *const *item, size_t n);

#endif
