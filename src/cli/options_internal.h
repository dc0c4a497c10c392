/* What the files of the option machinery share. */
#ifndef BRIM_CLI_OPTIONS_INTERNAL_H
#define BRIM_CLI_OPTIONS_INTERNAL_H

#include "base/vec.h"
#include "cli/options.h"

typedef enum brim__source { BRIM__DEFAULT, BRIM__FILE, BRIM__LINE } brim__source;

typedef struct brim__value {
    BRIM_VEC(char *) text; /* one, or any number for a repeated option */
    brim__source source;
    int line; /* in the file that is being read, 0 when not given there */
} brim__value;

struct brim_options {
    const brim_usage *usage;
    int n; /* options in the table */
    brim__value *value;
    BRIM_VEC(char *) args;
    bool help;
};

/* Index in the table, with dashes and underscores alike; -1 when there is none. */
int brim__option_find(const brim_usage *u, const char *name, size_t n);

/* Checks one text against type, range and words; the message is without the option's name. */
brim_status brim__option_check(const brim_option *d, const char *text, brim_error *err);

/* Checks text and takes it as the value, or as more values when the option is repeated. What a
 * stronger source gave before stays, what a weaker one or an earlier file gave goes. A repeated
 * option's text is split at line feeds when it is a `list` from a file, else at commas (paths: not
 * at all); an empty one has no items. The message is without the option's name. */
brim_status brim__option_take(brim_options *o, int i, const char *text, brim__source source,
                              bool list, brim_error *err);

/* The text of `words` at index k, its length in *n; NULL behind the last. */
const char *brim__option_word(const char *words, int k, size_t *n);
/* The placeholder of the value, "N". */
const char *brim__option_arg(const brim_option *d);
/* on, true, yes: 1; off, false, no: 0; else -1. */
int brim__option_switch(const char *text);

#endif
