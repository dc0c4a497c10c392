#include "cli/options_internal.h"
#include "cli/suggest.h"
#include "io/yaml.h"

#include <string.h>

static brim_status unknown_key(const brim_options *o, const char *path, const brim_yaml_pair *p,
                               brim_error *err)
{
    brim_suggestion s = {.word = p->key};
    for (int i = 0; i < o->n; i++) brim_suggest(&s, o->usage->options[i].name);
    if (s.best)
        return brim_fail(err, BRIM_EINVAL,
                         "%s:%d: %.60s: there is no such option (did you mean %s?)", path, p->line,
                         p->key, s.best);
    return brim_fail(err, BRIM_EINVAL,
                     "%s:%d: %.60s: there is no such option (brim %s --help lists them)", path,
                     p->line, p->key, o->usage->command);
}

/* What the command line gave wins, yet a mistake in the file is still reported. */
static brim_status take_pair(brim_options *o, const char *path, const brim_yaml_pair *p,
                             brim_error *err)
{
    int i = brim__option_find(o->usage, p->key, strlen(p->key));
    if (i < 0) return unknown_key(o, path, p, err);
    const brim_option *d = &o->usage->options[i];
    brim__value *v = &o->value[i];
    if (v->line)
        return brim_fail(err, BRIM_EINVAL, "%s:%d: %s: given twice, first in line %d (delete one)",
                         path, p->line, d->name, v->line);
    v->line = p->line;
    if (strcmp(d->name, "config") == 0)
        return brim_fail(err, BRIM_EINVAL,
                         "%s:%d: config: a file cannot read another (put its lines here)", path,
                         p->line);
    brim_status s = brim__option_take(o, i, p->value, BRIM__FILE, p->list, err);
    if (s != BRIM_OK) brim_error_context(err, "%.200s:%d: %s", path, p->line, d->name);
    return s;
}

brim_status brim_options_read(brim_options *o, const char *path, brim_error *err)
{
    brim_yaml y;
    BRIM_TRY(brim_yaml_read(path, &y, err));
    for (int i = 0; i < o->n; i++) o->value[i].line = 0;
    brim_status s = BRIM_OK;
    for (size_t i = 0; s == BRIM_OK && i < y.n; i++) s = take_pair(o, path, &y.at[i], err);
    brim_yaml_free(&y);
    return s;
}

void brim_options_save(const brim_options *o, brim_str *out)
{
    for (int i = 0; i < o->n; i++) {
        const brim_option *d = &o->usage->options[i];
        const brim__value *v = &o->value[i];
        if (d->transient || strcmp(d->name, "config") == 0) continue;
        if (d->repeated)
            brim_yaml_emit_list(out, d->name, (const char *const *)v->text.at, v->text.n);
        else if (v->text.n)
            brim_yaml_emit(out, d->name, v->text.at[0]);
    }
}
