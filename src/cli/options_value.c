/* Reading the values; the texts were checked when they were taken. */
#include "cli/options_internal.h"

#include <math.h>
#include <string.h>

static const brim__value *find(const brim_options *o, const char *name, const brim_option **d)
{
    int i = brim__option_find(o->usage, name, strlen(name));
    BRIM_CHECK(i >= 0 && "the option is in the table");
    *d = &o->usage->options[i];
    return &o->value[i];
}

static const char *text_of(const brim_options *o, const char *name, brim_option_type type)
{
    const brim_option *d;
    const brim__value *v = find(o, name, &d);
    BRIM_CHECK(d->type == type && !d->repeated);
    return v->text.n ? v->text.at[0] : NULL;
}

const char *brim_options_text(const brim_options *o, const char *name)
{
    const brim_option *d;
    const brim__value *v = find(o, name, &d);
    BRIM_CHECK(!d->repeated);
    return v->text.n ? v->text.at[0] : NULL;
}

bool brim_options_flag(const brim_options *o, const char *name)
{
    const char *text = text_of(o, name, BRIM_OPTION_FLAG);
    return text && brim__option_switch(text) == 1;
}

int64_t brim_options_int(const brim_options *o, const char *name)
{
    const char *text = text_of(o, name, BRIM_OPTION_INT);
    return text ? strtoll(text, NULL, 10) : 0;
}

double brim_options_float(const brim_options *o, const char *name)
{
    const char *text = text_of(o, name, BRIM_OPTION_FLOAT);
    double x = text ? strtod(text, NULL) : 0;
    return isfinite(x) ? x : 0; /* "inf" may be one of the words */
}

size_t brim_options_bytes(const brim_options *o, const char *name)
{
    const char *text = text_of(o, name, BRIM_OPTION_BYTES);
    size_t bytes = 0;
    return text && brim_bytes_parse(text, &bytes) ? bytes : 0;
}

int brim_options_choice(const brim_options *o, const char *name)
{
    const char *text = text_of(o, name, BRIM_OPTION_CHOICE), *w;
    const brim_option *d;
    size_t n;
    find(o, name, &d);
    for (int k = 0; text && (w = brim__option_word(d->words, k, &n)); k++)
        if (strlen(text) == n && strncmp(w, text, n) == 0) return k;
    return -1;
}

bool brim_options_is(const brim_options *o, const char *name, const char *word)
{
    const char *text = brim_options_text(o, name);
    return text && strcmp(text, word) == 0;
}

int brim_options_count(const brim_options *o, const char *name)
{
    const brim_option *d;
    return (int)find(o, name, &d)->text.n;
}

const char *brim_options_item(const brim_options *o, const char *name, int i)
{
    const brim_option *d;
    const brim__value *v = find(o, name, &d);
    BRIM_CHECK(i >= 0 && (size_t)i < v->text.n);
    return v->text.at[i];
}

bool brim_options_given(const brim_options *o, const char *name)
{
    const brim_option *d;
    return find(o, name, &d)->source != BRIM__DEFAULT;
}

int brim_options_args(const brim_options *o)
{
    return (int)o->args.n;
}

const char *brim_options_arg(const brim_options *o, int i)
{
    BRIM_CHECK(i >= 0 && (size_t)i < o->args.n);
    return o->args.at[i];
}

brim_status brim_options_set(brim_options *o, const char *name, const char *text, brim_error *err)
{
    const brim_option *d;
    find(o, name, &d);
    brim_status s =
        brim__option_take(o, (int)(d - o->usage->options), text, BRIM__LINE, false, err);
    if (s != BRIM_OK) brim_error_context(err, "--%s", d->name);
    return s;
}
