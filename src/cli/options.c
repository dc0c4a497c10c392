#include "cli/options_internal.h"
#include "cli/cli.h"
#include "cli/suggest.h"
#include "cli/term.h"

#include <ctype.h>
#include <string.h>

static bool same_name(const char *known, const char *given, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (known[i] != (given[i] == '_' ? '-' : given[i])) return false; /* also at the NUL */
    return known[n] == 0;
}

int brim__option_find(const brim_usage *u, const char *name, size_t n)
{
    for (int i = 0; u->options && u->options[i].name; i++)
        if (same_name(u->options[i].name, name, n)) return i;
    return -1;
}

static brim_status no_memory(brim_error *err)
{
    return brim_fail(err, BRIM_ENOMEM, "out of memory (close other programs)");
}

static void clear(brim__value *v)
{
    for (size_t i = 0; i < v->text.n; i++) free(v->text.at[i]);
    v->text.n = 0;
}

/* Takes n bytes of text as one value; only checks them when the option keeps what it has. */
static brim_status take_one(brim_options *o, int i, const char *text, size_t n, bool keep,
                            brim_error *err)
{
    char *copy = brim_malloc(n + 1);
    if (!copy) return no_memory(err);
    memcpy(copy, text, n);
    copy[n] = 0;
    brim_status s = brim__option_check(&o->usage->options[i], copy, err);
    if (s == BRIM_OK && !keep) {
        if (brim_vec_push(&o->value[i].text, copy)) return BRIM_OK;
        s = no_memory(err);
    }
    free(copy);
    return s;
}

brim_status brim__option_take(brim_options *o, int i, const char *text, brim__source source,
                              bool list, brim_error *err)
{
    const brim_option *d = &o->usage->options[i];
    brim__value *v = &o->value[i];
    bool keep = v->source > source;
    if (!keep) {
        if (v->source != source || !d->repeated || source == BRIM__FILE) clear(v);
        v->source = source;
    }
    if (list && !d->repeated)
        return brim_fail(err, BRIM_EINVAL, "takes one value, not a list (remove the brackets)");
    if (!d->repeated) return take_one(o, i, text, strlen(text), keep, err);
    const char *separators = list ? "\n" : d->type == BRIM_OPTION_PATH ? "" : ",";
    while (*text) {
        size_t n = strcspn(text, separators);
        BRIM_TRY(take_one(o, i, text, n, keep, err));
        if (!text[n]) break;
        text += n + 1;
    }
    return BRIM_OK;
}

/* ---- the command line ---- */

typedef struct line {
    brim_options *o;
    int argc, at;
    char **argv;
    brim_error *err;
} line;

static brim_status unknown(line *l, const char *name, size_t n)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(n < 63 ? n : 63), name);
    brim_suggestion s = {.word = word};
    const brim_option *d = l->o->usage->options;
    for (; d && d->name; d++) brim_suggest(&s, d->name);
    brim_suggest(&s, "help");
    if (s.best)
        return brim_fail(l->err, BRIM_EINVAL, "--%s: there is no such option (did you mean --%s?)",
                         word, s.best);
    return brim_fail(l->err, BRIM_EINVAL,
                     "--%s: there is no such option (brim %s --help lists them)", word,
                     l->o->usage->command);
}

/* What may follow a number's name although it starts with a dash: -1, -.5, -1e-3. */
static bool negative_number(const char *s)
{
    return s[0] == '-' && (isdigit((unsigned char)s[1]) || s[1] == '.');
}

/* The value of the option at argv[at]: behind '=' or the next argument. NULL: a mistake. */
static const char *value_of(line *l, const brim_option *d, const char *equals)
{
    if (equals) return equals + 1;
    const char *next = l->at + 1 < l->argc ? l->argv[l->at + 1] : NULL;
    if (d->type == BRIM_OPTION_FLAG) {
        if (!next || brim__option_switch(next) < 0) return "on";
    } else if (!next || (next[0] == '-' && next[1] && !negative_number(next))) {
        brim_fail(l->err, BRIM_EINVAL, "--%s: its value is missing (give --%s %s)", d->name,
                  d->name, brim__option_arg(d));
        return NULL;
    }
    l->at++;
    return next;
}

static brim_status take_option(line *l)
{
    const char *arg = l->argv[l->at], *name = arg + 2, *equals = strchr(name, '=');
    size_t n = equals ? (size_t)(equals - name) : strlen(name);
    int i = brim__option_find(l->o->usage, name, n);
    if (i < 0 && n == 4 && memcmp(name, "help", 4) == 0) {
        l->o->help = true;
        return BRIM_OK;
    }
    bool no = i < 0 && n > 3 && memcmp(name, "no-", 3) == 0;
    if (no) i = brim__option_find(l->o->usage, name + 3, n - 3);
    if (i < 0) return unknown(l, name, n);
    const brim_option *d = &l->o->usage->options[i];
    if (no && d->type != BRIM_OPTION_FLAG)
        return brim_fail(l->err, BRIM_EINVAL, "--no-%s: it is not a switch (give --%s %s)", d->name,
                         d->name, brim__option_arg(d));
    if (no && equals)
        return brim_fail(l->err, BRIM_EINVAL, "--no-%s: takes no value (give --%s=on or =off)",
                         d->name, d->name);
    const char *value = no ? "off" : value_of(l, d, equals);
    if (!value) return BRIM_EINVAL;
    brim_status s = brim__option_take(l->o, i, value, BRIM__LINE, false, l->err);
    if (s != BRIM_OK) brim_error_context(l->err, "--%s", d->name);
    return s;
}

static brim_status take_arg(line *l, const char *arg)
{
    char *copy = brim_strdup(arg);
    if (copy && brim_vec_push(&l->o->args, copy)) return BRIM_OK;
    free(copy);
    return no_memory(l->err);
}

static brim_status read_line(line *l)
{
    bool only_args = false;
    for (l->at = 1; l->at < l->argc && !l->o->help; l->at++) {
        const char *arg = l->argv[l->at];
        if (only_args || arg[0] != '-' || !arg[1]) {
            BRIM_TRY(take_arg(l, arg));
        } else if (strcmp(arg, "--") == 0) {
            only_args = true;
        } else if (strcmp(arg, "-h") == 0) {
            l->o->help = true;
        } else if (arg[1] == '-') {
            BRIM_TRY(take_option(l));
        } else {
            return brim_fail(l->err, BRIM_EINVAL,
                             "%.60s: options have two dashes (brim %s --help lists them; a file: "
                             "./%.60s)",
                             arg, l->o->usage->command, arg);
        }
    }
    return BRIM_OK;
}

/* ---- the whole ---- */

static brim_status check_args(const brim_options *o, brim_error *err)
{
    const brim_usage *u = o->usage;
    int n = (int)o->args.n;
    if (u->max_args >= 0 && n > u->max_args)
        return brim_fail(err, BRIM_EINVAL,
                         "%.200s: one argument too many (usage: brim %s %s; values of options go "
                         "behind their --name, patterns in quotes)",
                         o->args.at[u->max_args], u->command, u->synopsis);
    if (n < u->min_args)
        return brim_fail(err, BRIM_EINVAL, "an argument is missing (usage: brim %s %s)", u->command,
                         u->synopsis);
    return BRIM_OK;
}

static brim_status check_required(const brim_options *o, brim_error *err)
{
    for (int i = 0; i < o->n; i++) {
        const brim_option *d = &o->usage->options[i];
        if (d->required && o->value[i].text.n == 0)
            return brim_fail(err, BRIM_EINVAL, "--%s: it must be given (--%s %s: %s)", d->name,
                             d->name, brim__option_arg(d), d->help);
    }
    return BRIM_OK;
}

static brim_status read_config(brim_options *o, brim_error *err)
{
    brim_str path = {0};
    int given = brim__option_find(o->usage, "config", 6);
    const char *file = NULL;
    if (given >= 0 && o->value[given].text.n)
        file = o->value[given].text.at[0];
    else if (o->usage->config)
        file = o->usage->config(o, &path);
    brim_status s = path.failed ? no_memory(err) : file ? brim_options_read(o, file, err) : BRIM_OK;
    brim_str_free(&path);
    return s;
}

static brim_status fill(brim_options *o, int argc, char **argv, brim_error *err)
{
    const brim_option *d = o->usage->options;
    for (int i = 0; i < o->n; i++)
        if (d[i].value) BRIM_TRY(brim__option_take(o, i, d[i].value, BRIM__DEFAULT, false, err));
    line l = {.o = o, .argc = argc, .argv = argv, .err = err};
    BRIM_TRY(read_line(&l));
    if (o->help) return BRIM_OK;
    BRIM_TRY(read_config(o, err));
    BRIM_TRY(check_args(o, err));
    return check_required(o, err);
}

brim_status brim_options_parse(const brim_usage *u, int argc, char **argv, brim_options **out,
                               brim_error *err)
{
    brim_options *o = brim_calloc(1, sizeof *o);
    if (!o) return no_memory(err);
    o->usage = u;
    while (u->options && u->options[o->n].name) o->n++;
    o->value = brim_calloc((size_t)o->n, sizeof *o->value);
    brim_status s = o->value ? fill(o, argc, argv, err) : no_memory(err);
    if (s == BRIM_OK)
        *out = o;
    else
        brim_options_free(o);
    return s;
}

void brim_options_free(brim_options *o)
{
    if (!o) return;
    for (int i = 0; o->value && i < o->n; i++) {
        clear(&o->value[i]);
        free(o->value[i].text.at);
    }
    for (size_t i = 0; i < o->args.n; i++) free(o->args.at[i]);
    free(o->args.at);
    free(o->value);
    free(o);
}

bool brim_options_help_asked(const brim_options *o)
{
    return o->help;
}

bool brim_options_begin(const brim_usage *u, int argc, char **argv, brim_options **out, int *status)
{
    brim_error err = {0};
    brim_status s = brim_options_parse(u, argc, argv, out, &err);
    if (s != BRIM_OK) {
        *status = s == BRIM_ENOMEM ? brim_cli_failed(u->command, &err)
                                   : brim_cli_misused(u->command, &err);
        return false;
    }
    if (!brim_options_help_asked(*out)) return true;
    brim_str text = {0};
    int width = brim_term_width(stdout);
    brim_options_help(u, width < 80 ? 80 : width > 100 ? 100 : width, &text);
    fputs(brim_str_text(&text), stdout);
    brim_str_free(&text);
    brim_options_free(*out);
    *status = 0;
    return false;
}
