#include "cli/options_internal.h"
#include "cli/suggest.h"

#include <errno.h>
#include <math.h>
#include <string.h>

const char *brim__option_word(const char *words, int k, size_t *n)
{
    while (words && k-- > 0) {
        words = strchr(words, '|');
        if (words) words++;
    }
    if (words) *n = strcspn(words, "|");
    return words;
}

int brim__option_switch(const char *text)
{
    static const char *const word[] = {"off", "on", "false", "true", "no", "yes"};
    for (int i = 0; i < 6; i++)
        if (strcmp(text, word[i]) == 0) return i % 2;
    return -1;
}

const char *brim__option_arg(const brim_option *d)
{
    static const char *const arg[] = {
        [BRIM_OPTION_FLAG] = "on|off", [BRIM_OPTION_INT] = "N",       [BRIM_OPTION_FLOAT] = "X",
        [BRIM_OPTION_BYTES] = "SIZE",  [BRIM_OPTION_CHOICE] = "WORD", [BRIM_OPTION_TEXT] = "TEXT",
        [BRIM_OPTION_PATH] = "FILE",
    };
    return d->arg ? d->arg : arg[d->type];
}

static bool is_word(const brim_option *d, const char *text)
{
    size_t n;
    const char *w;
    for (int k = 0; (w = brim__option_word(d->words, k, &n)); k++)
        if (strlen(text) == n && strncmp(w, text, n) == 0) return true;
    return false;
}

/* "fp32, tf32, bf16 or fp16" */
static void list_words(brim_str *out, const char *words)
{
    size_t n, rest;
    const char *w;
    for (int k = 0; (w = brim__option_word(words, k, &n)); k++) {
        if (k) brim_str_add(out, brim__option_word(words, k + 1, &rest) ? ", " : " or ");
        brim_str_add_n(out, w, n);
    }
}

static brim_status check_choice(const brim_option *d, const char *text, brim_error *err)
{
    if (is_word(d, text)) return BRIM_OK;
    brim_suggestion s = {.word = text};
    char word[16][64];
    size_t n;
    const char *w;
    for (int k = 0; k < 16 && (w = brim__option_word(d->words, k, &n)); k++) {
        snprintf(word[k], sizeof word[k], "%.*s", (int)n, w);
        brim_suggest(&s, word[k]);
    }
    brim_str list = {0};
    list_words(&list, d->words);
    brim_status status =
        s.best ? brim_fail(err, BRIM_EINVAL, "\"%.100s\" is not one of %s (did you mean %s?)", text,
                           brim_str_text(&list), s.best)
               : brim_fail(err, BRIM_EINVAL, "\"%.100s\" is not a choice (give %s)", text,
                           brim_str_text(&list));
    brim_str_free(&list);
    return status;
}

static const char *kind_of(const brim_option *d)
{
    switch (d->type) {
    case BRIM_OPTION_INT: return "a whole number";
    case BRIM_OPTION_BYTES: return "a size";
    default: return "a number";
    }
}

static brim_status not_a_number(const brim_option *d, const char *text, brim_error *err)
{
    const char *example = d->type == BRIM_OPTION_INT     ? "10"
                          : d->type == BRIM_OPTION_FLOAT ? "0.1"
                                                         : "8GiB";
    if (d->value && !is_word(d, d->value)) example = d->value;
    brim_str list = {0};
    if (d->words) brim_str_add(&list, ", or ");
    list_words(&list, d->words);
    brim_status s = brim_fail(err, BRIM_EINVAL, "\"%.100s\" is not %s (give %s such as %s%s)", text,
                              kind_of(d), d->type == BRIM_OPTION_BYTES ? "a size" : "a number",
                              example, brim_str_text(&list));
    brim_str_free(&list);
    return s;
}

static void bound_text(char buf[32], const brim_option *d, double x)
{
    if (d->type == BRIM_OPTION_BYTES)
        brim_bytes_text(buf, x);
    else
        snprintf(buf, 32, "%.15g", x);
}

static brim_status check_range(const brim_option *d, const char *text, double x, brim_error *err)
{
    if (d->min == 0 && d->max == 0) return BRIM_OK;
    if (x >= d->min && x <= d->max) return BRIM_OK;
    char lo[32], hi[32];
    bound_text(lo, d, d->min);
    bound_text(hi, d, d->max);
    if (isinf(d->max))
        return brim_fail(err, BRIM_EINVAL, "%.100s is too small (give at least %s)", text, lo);
    return brim_fail(err, BRIM_EINVAL, "%.100s is out of range (give %s to %s)", text, lo, hi);
}

static brim_status check_number(const brim_option *d, const char *text, brim_error *err)
{
    char *end = NULL;
    double x = 0;
    bool ok = *text && !strchr(" \t\n\r\v\f", *text); /* strto* would skip these */
    errno = 0;
    if (d->type == BRIM_OPTION_INT) {
        x = (double)strtoll(text, &end, 10);
        ok = ok && !*end && errno == 0;
    } else if (d->type == BRIM_OPTION_FLOAT) {
        x = strtod(text, &end);
        ok = ok && !*end && isfinite(x);
    } else {
        size_t bytes = 0;
        ok = ok && brim_bytes_parse(text, &bytes);
        x = (double)bytes;
    }
    if (ok) return check_range(d, text, x, err);
    return is_word(d, text) ? BRIM_OK : not_a_number(d, text, err);
}

brim_status brim__option_check(const brim_option *d, const char *text, brim_error *err)
{
    switch (d->type) {
    case BRIM_OPTION_FLAG:
        if (brim__option_switch(text) >= 0) return BRIM_OK;
        return brim_fail(err, BRIM_EINVAL, "\"%.100s\" is neither on nor off (give one of them)",
                         text);
    case BRIM_OPTION_CHOICE: return check_choice(d, text, err);
    case BRIM_OPTION_TEXT: return BRIM_OK;
    case BRIM_OPTION_PATH:
        if (*text) return BRIM_OK;
        return brim_fail(err, BRIM_EINVAL, "the name is empty (give a path)");
    default: return check_number(d, text, err);
    }
}
