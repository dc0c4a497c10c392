/* The text of --help:
 *
 *     Usage: brim train --data DIR [options]
 *
 *     Trains a network ...
 *
 *     Training:
 *       --epochs N          Passes over the training set (default 10)
 *       --a-very-long-option-name FILE
 *                           Text of an option whose name leaves no room */
#include "cli/options_internal.h"

#include <math.h>
#include <string.h>

enum { INDENT = 2, GAP = 2, MAX_COLUMN = 28 };

/* Wraps text at `width`, each line behind `indent` spaces; the first begins at column `at`. */
static void wrap(brim_str *out, const char *text, int at, int indent, int width)
{
    bool first = true;
    for (;;) {
        text += strspn(text, " ");
        if (!*text) break;
        int n = (int)strcspn(text, " ");
        if (!first && at + 1 + n > width) {
            brim_str_add(out, "\n");
            at = 0;
            first = true;
        }
        if (first && at < indent) {
            brim_str_printf(out, "%*s", indent - at, "");
            at = indent;
        }
        brim_str_printf(out, "%s%.*s", first ? "" : " ", n, text);
        at += n + !first;
        first = false;
        text += n;
    }
    brim_str_add(out, "\n");
}

/* Paragraphs end at '\n'. */
static void paragraphs(brim_str *out, const char *text, int width)
{
    while (*text) {
        int n = (int)strcspn(text, "\n");
        brim_str one = {0};
        brim_str_printf(&one, "%.*s", n, text);
        brim_str_add(out, "\n");
        wrap(out, brim_str_text(&one), 0, 0, width);
        brim_str_free(&one);
        text += n + (text[n] == '\n');
    }
}

static bool default_on(const brim_option *d)
{
    return d->type == BRIM_OPTION_FLAG && d->value && brim__option_switch(d->value) == 1;
}

/* "--epochs N", "--[no-]ema" for a flag that is on by default, "--ema" for one that is off. */
static void left_side(brim_str *out, const brim_option *d)
{
    if (d->type == BRIM_OPTION_FLAG)
        brim_str_printf(out, "--%s%s", default_on(d) ? "[no-]" : "", d->name);
    else
        brim_str_printf(out, "--%s %s", d->name, brim__option_arg(d));
}

/* The limits, "1 to 100", where a reader would not guess them. */
static void range(brim_str *out, const brim_option *d)
{
    bool number = d->type == BRIM_OPTION_INT || d->type == BRIM_OPTION_FLOAT;
    if (!number || (d->min == 0 && d->max == 0)) return;
    if (isinf(d->max) || d->max >= 1e6) {
        if (d->min > 1) brim_str_printf(out, "; at least %.15g", d->min);
    } else {
        brim_str_printf(out, "; %.15g to %.15g", d->min, d->max);
    }
}

static void words(brim_str *out, const brim_option *d)
{
    size_t n;
    const char *w;
    brim_str_add(out, d->type == BRIM_OPTION_CHOICE ? ": " : "; or ");
    for (int k = 0; (w = brim__option_word(d->words, k, &n)); k++)
        brim_str_printf(out, "%s%.*s", k ? ", " : "", (int)n, w);
}

/* The help, the choices, and in brackets what else there is to know. */
static void right_side(brim_str *out, const brim_option *d)
{
    brim_str more = {0};
    range(&more, d);
    if (d->words && d->type != BRIM_OPTION_CHOICE) words(&more, d);
    if (d->repeated)
        brim_str_add(&more, d->type == BRIM_OPTION_PATH ? "; may be repeated"
                                                        : "; may be repeated, or a,b,c");
    if (d->required) brim_str_add(&more, "; required");
    bool off = d->type == BRIM_OPTION_FLAG && !default_on(d);
    if (d->value && *d->value && !off) brim_str_printf(&more, "; default %s", d->value);
    brim_str_add(out, d->help ? d->help : "");
    if (d->words && d->type == BRIM_OPTION_CHOICE) words(out, d);
    if (more.n > 2) brim_str_printf(out, " (%s)", more.at + 2); /* without the first "; " */
    brim_str_free(&more);
}

static void row(brim_str *out, const char *left, const char *right, int column, int width)
{
    int n = INDENT + (int)strlen(left);
    brim_str_printf(out, "%*s%s", INDENT, "", left);
    if (n + GAP > column) {
        brim_str_add(out, "\n");
        n = 0;
    }
    wrap(out, right, n, column, width);
}

/* Where the right side starts: behind the widest left side that is not unusually wide. */
static int find_column(const brim_usage *u)
{
    int column = INDENT + (int)strlen("--help") + GAP;
    for (const brim_option *d = u->options; d && d->name; d++) {
        brim_str left = {0};
        left_side(&left, d);
        int n = INDENT + (int)left.n + GAP;
        if (n > column && n <= MAX_COLUMN) column = n;
        brim_str_free(&left);
    }
    return column;
}

void brim_options_help(const brim_usage *u, int width, brim_str *out)
{
    int column = find_column(u);
    const char *group = "";
    brim_str_printf(out, "Usage: brim %s %s\n", u->command, u->synopsis);
    paragraphs(out, u->about, width);
    for (const brim_option *d = u->options; d && d->name; d++) {
        const char *heading = d->group ? d->group : *group ? group : "Options";
        if (strcmp(heading, group) != 0) brim_str_printf(out, "\n%s:\n", heading);
        group = heading;
        brim_str left = {0}, right = {0};
        left_side(&left, d);
        right_side(&right, d);
        row(out, brim_str_text(&left), brim_str_text(&right), column, width);
        brim_str_free(&left);
        brim_str_free(&right);
    }
    if (strcmp(group, "General") != 0) brim_str_add(out, "\nGeneral:\n");
    row(out, "--help", "Show this text", column, width);
    if (!u->examples) return;
    brim_str_add(out, "\nExamples:\n");
    for (const char *e = u->examples; *e;) {
        int n = (int)strcspn(e, "\n");
        brim_str_printf(out, "  %.*s\n", n, e);
        e += n + (e[n] == '\n');
    }
}
