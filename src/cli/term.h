/* The terminal: what it can do, and one status line below everything else that is printed.
 *
 * A status line is written to stderr. On a terminal it is rewritten in place, and log messages and
 * lines printed through brim_term_line appear above it. Anywhere else (a pipe, a file) it becomes
 * plain lines, one every few seconds. All functions may be called from any thread. */
#ifndef BRIM_CLI_TERM_H
#define BRIM_CLI_TERM_H

#include "base/str.h"

#include <stdbool.h>
#include <stdio.h>

bool brim_term_is_tty(FILE *f);
int brim_term_width(FILE *f);  /* columns; 80 when f is no terminal */
bool brim_term_color(FILE *f); /* a terminal, TERM is not "dumb", NO_COLOR is empty or unset */
bool brim_term_utf8(void);     /* the locale in the environment is UTF-8 */

/* Escape sequences; "" when brim_term_color(f) is false. */
typedef enum brim_style {
    BRIM_STYLE_PLAIN,
    BRIM_STYLE_BOLD,
    BRIM_STYLE_DIM,
    BRIM_STYLE_GOOD,
    BRIM_STYLE_WARN,
    BRIM_STYLE_BAD
} brim_style;
const char *brim_term_style(FILE *f, brim_style style);

/* Shows `text` (one line, no escape sequences) as the status line; the first call also takes over
 * the log messages. In a pipe it is printed at most every `every_seconds` (<= 0: always). */
void brim_term_status(const char *text, double every_seconds);
/* Prints a line that stays, on stdout, above the status line if there is one. */
void brim_term_line(const char *fmt, ...) BRIM_PRINTF(1, 2);
/* Removes the status line and gives the log back; harmless when there is none. */
void brim_term_status_end(void);

/* Columns that UTF-8 text takes, escape sequences left out. East Asian wide letters count 2. */
int brim_text_width(const char *text);
/* Appends as much of text as fits in `columns`. */
void brim_text_clip(brim_str *out, const char *text, int columns);

#endif
