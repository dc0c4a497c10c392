/* Long options of one command, from one table: parsing, checking, a configuration file beneath the
 * command line, and the text of --help.
 *
 *     static const brim_option options[] = {
 *         {.group = "Data", .name = "data", .type = BRIM_OPTION_PATH, .arg = "DIR",
 *          .required = true, .help = "Folder of class folders, or a .tar of the same"},
 *         {.group = "Training", .name = "epochs", .type = BRIM_OPTION_INT, .arg = "N",
 *          .value = "10", .min = 1, .max = 1e6, .help = "Passes over the training set"},
 *         {0}};
 *     static const brim_usage usage = {.command = "train", ..., .options = options};
 *
 *     brim_options *o;
 *     int status;
 *     if (!brim_options_begin(&usage, argc, argv, &o, &status)) return status;
 *     long long epochs = brim_options_int(o, "epochs");
 *
 * On the command line an option is --name VALUE or --name=VALUE; a flag is --name, --no-name,
 * --name=on|off or --name on|off. "--" ends the options. In a file, names may have underscores. */
#ifndef BRIM_CLI_OPTIONS_H
#define BRIM_CLI_OPTIONS_H

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum brim_option_type {
    BRIM_OPTION_FLAG,   /* on, off (also true, false, yes, no) */
    BRIM_OPTION_INT,    /* a whole number */
    BRIM_OPTION_FLOAT,  /* a finite number */
    BRIM_OPTION_BYTES,  /* "8GiB", as brim_bytes_parse reads it */
    BRIM_OPTION_CHOICE, /* one of `words` */
    BRIM_OPTION_TEXT,
    BRIM_OPTION_PATH
} brim_option_type;

typedef struct brim_option {
    const char *group; /* heading in --help; NULL: as the option before */
    const char *name;  /* "batch-size"; NULL ends the table */
    brim_option_type type;
    const char *arg;   /* placeholder in --help, "N"; NULL: by type */
    const char *value; /* the default as one would write it; NULL: none */
    const char *help;  /* one or more sentences without a full stop at the end */
    const char *words; /* "a|b|c": the choices; for numbers, words that are also accepted */
    double min, max;   /* of numbers, inclusive; both 0: any. Use INFINITY for no upper end */
    bool repeated;     /* given several times, all count; but for paths also "a,b,c" */
    bool required;     /* the command line or the file must give it */
    bool transient;    /* about this call, not the run: not saved with the configuration */
} brim_option;

/* The values. Owns its texts; borrows the usage, which must outlive it. */
typedef struct brim_options brim_options;

typedef struct brim_usage {
    const char *command;        /* "train" */
    const char *synopsis;       /* behind the command: "--data DIR [options]" */
    const char *about;          /* what it does, one or more paragraphs separated by '\n' */
    const brim_option *options; /* may be NULL. An option "config" of type path is read as a file */
    const char *examples;       /* lines, "brim train --data photos\n..."; may be NULL */
    /* The configuration file to read when --config is not given, built in `path`; NULL: none. */
    const char *(*config)(const brim_options *o, brim_str *path);
    int min_args, max_args; /* how many arguments that are no options; max -1: any number */
} brim_usage;

/* For a command's first lines. True: go on with *out. False: return *status, since --help was
 * printed (0) or the mistake was (2). argv[0] is the command. */
bool brim_options_begin(const brim_usage *u, int argc, char **argv, brim_options **out,
                        int *status);

/* The same without printing: BRIM_EINVAL is wrong usage; after --help, brim_options_help_asked. */
brim_status brim_options_parse(const brim_usage *u, int argc, char **argv, brim_options **out,
                               brim_error *err);
void brim_options_free(brim_options *o); /* accepts NULL */
bool brim_options_help_asked(const brim_options *o);

/* Values by name. A name or type that is not in the table is our own mistake and aborts. Results
 * live until free or until the option is set again. */
const char *brim_options_text(const brim_options *o, const char *name); /* NULL: none, no default */
bool brim_options_flag(const brim_options *o, const char *name);
int64_t brim_options_int(const brim_options *o, const char *name); /* 0 when none or a word */
double brim_options_float(const brim_options *o, const char *name);
size_t brim_options_bytes(const brim_options *o, const char *name);
int brim_options_choice(const brim_options *o, const char *name); /* index in words; -1: none */
bool brim_options_is(const brim_options *o, const char *name, const char *word);
int brim_options_count(const brim_options *o, const char *name); /* values of a repeated option */
const char *brim_options_item(const brim_options *o, const char *name, int i);
/* Given on the command line or in the file, rather than the default. */
bool brim_options_given(const brim_options *o, const char *name);
int brim_options_args(const brim_options *o);
const char *brim_options_arg(const brim_options *o, int i);

/* Sets a value as the command line would, for a command that derives one option from another. */
brim_status brim_options_set(brim_options *o, const char *name, const char *text, brim_error *err);
/* Reads a YAML file; keys that the command line gave are checked but not taken. */
brim_status brim_options_read(brim_options *o, const char *path, brim_error *err);
/* Appends every value, defaults too, as YAML that brim_options_read takes; transient ones and
 * "config" are left out. */
void brim_options_save(const brim_options *o, brim_str *out);

/* Appends the text of --help, at most `width` columns wide. */
void brim_options_help(const brim_usage *u, int width, brim_str *out);

#endif
