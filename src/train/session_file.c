/* Model and state files of a session. The model file holds parameters and running statistics under
 * their own names, so that other tools read it; the state file holds everything else that persists.
 */
#include "train/session.h"
#include "io/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool in_model_file(const brim_entry *e)
{
    return e->saved;
}

static bool in_state_file(const brim_entry *e)
{
    size_t n = strlen(e->name);
    bool half = n > 5 && !strcmp(e->name + n - 5, ".half");
    return !half && strncmp(e->name, "grad:", 5) != 0;
}

/* A tensor of the session, as the writer of files asks for it. */
typedef struct source {
    const brim_session *s;
    const brim_entry *e;
} source;

static brim_status read_entry(const void *from, void *out, brim_error *err)
{
    const source *at = from;
    return brim_store_read(&at->s->store, at->s->backend, at->e, out, err);
}

static brim_status save(const brim_session *s, const char *path, bool (*want)(const brim_entry *),
                        const char *const (*metadata)[2], int n_metadata, brim_error *err)
{
    const brim_store *st = &s->store;
    brim_st_entry *entry = brim_calloc(st->entries.n, sizeof *entry);
    source *from = brim_calloc(st->entries.n, sizeof *from);
    int64_t n = 0;
    for (size_t i = 0; entry && from && i < st->entries.n; i++) {
        const brim_entry *e = &st->entries.at[i];
        if (!want(e)) continue;
        from[n] = (source){s, e};
        entry[n] = (brim_st_entry){.name = e->name,
                                   .type = BRIM_F32,
                                   .rank = e->shape.rank,
                                   .read = read_entry,
                                   .source = &from[n]};
        for (int k = 0; k < e->shape.rank; k++) entry[n].dim[k] = e->shape.dim[k];
        n++;
    }
    brim_status status = entry && from ? brim_st_save(path, entry, n, metadata, n_metadata, err)
                                       : brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
    free(from);
    free(entry);
    return status;
}

brim_status brim_session_save(const brim_session *s, const char *path,
                              const char *const (*metadata)[2], int n_metadata, brim_error *err)
{
    return save(s, path, in_model_file, metadata, n_metadata, err);
}

brim_status brim_session_save_state(const brim_session *s, const char *path,
                                    const char *const (*metadata)[2], int n_metadata,
                                    brim_error *err)
{
    char steps[32];
    const char *all[34][2] = {{"brim.steps", steps}};
    snprintf(steps, sizeof steps, "%lld", (long long)s->steps);
    int n = 1;
    for (int i = 0; i < n_metadata && n < 34; i++, n++) {
        all[n][0] = metadata[i][0];
        all[n][1] = metadata[i][1];
    }
    return save(s, path, in_state_file, (const char *const(*)[2])all, n, err);
}

static bool same_shape(const brim_st_tensor *t, const brim_entry *e)
{
    if (t->rank != e->shape.rank) return false;
    for (int k = 0; k < t->rank; k++)
        if (t->dim[k] != e->shape.dim[k]) return false;
    return true;
}

/* Copies one tensor of any real type, which may lie unaligned in the file. */
static brim_status take(brim_session *s, const brim_entry *e, const brim_st_tensor *t,
                        brim_error *err)
{
    int64_t n = brim_shape_count(&e->shape);
    float *x = brim_malloc((size_t)n * sizeof *x);
    void *aligned = brim_malloc(t->bytes);
    brim_status st =
        x && aligned ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "%s: out of memory", e->name);
    if (st == BRIM_OK) {
        if (t->bytes) memcpy(aligned, t->data, t->bytes);
        brim_tensor from = brim_tensor_make(aligned, t->type, &e->shape, BRIM_LAYOUT_ROW);
        brim_tensor to = brim_tensor_make(x, BRIM_F32, &e->shape, BRIM_LAYOUT_ROW);
        brim_tensor_copy(&to, &from);
        for (int64_t i = 0; i < n && st == BRIM_OK; i++)
            if (!isfinite(x[i]))
                st = brim_fail(
                    err, BRIM_ENUMERIC,
                    "%s: element %lld is %g (the file comes from a run that diverged; use an "
                    "earlier checkpoint)",
                    e->name, (long long)i, (double)x[i]);
    }
    if (st == BRIM_OK) st = brim_store_write(&s->store, s->backend, e, x, err);
    free(x);
    free(aligned);
    return st;
}

static brim_status check_tensor(const brim_entry *e, const brim_st_tensor *t, brim_error *err)
{
    if (!t)
        return brim_fail(err, BRIM_ENOTFOUND, "tensor %s is missing (is it a file of this model?)",
                         e->name);
    if (t->type == BRIM_DTYPE_COUNT)
        return brim_fail(err, BRIM_EDTYPE, "%s: type %s is not read (convert it to F32)", e->name,
                         t->dtype);
    if (!same_shape(t, e)) {
        char want[128], got[128];
        brim_shape g = brim_shape_make(t->rank < BRIM_MAX_RANK ? t->rank : BRIM_MAX_RANK, t->dim);
        return brim_fail(err, BRIM_ESHAPE, "%s: the model wants %s, the file has %s", e->name,
                         brim_shape_text(want, &e->shape), brim_shape_text(got, &g));
    }
    return BRIM_OK;
}

static void note_kept(brim_load_report *r, const char *name)
{
    size_t used = strlen(r->kept_names);
    if (r->kept++ < 4)
        snprintf(r->kept_names + used, sizeof r->kept_names - used, "%s%s", used ? ", " : "", name);
}

/* First checks everything, then takes it: a refused file leaves the session as it was, except for
 * values that are not finite, which are found while copying. */
static brim_status load(brim_session *s, const char *path, bool (*want)(const brim_entry *),
                        const char *const *skip, int n_skip, const brim_st_file *f,
                        brim_load_report *report, brim_error *err)
{
    brim_load_report r = {0};
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < s->store.entries.n; i++) {
            const brim_entry *e = &s->store.entries.at[i];
            if (!want(e)) continue;
            const brim_st_tensor *t = brim_st_find(f, e->name);
            brim_error why = {0};
            brim_status st = check_tensor(e, t, &why);
            if (st != BRIM_OK && brim_name_match_any(skip, n_skip, e->name)) {
                if (pass) note_kept(&r, e->name);
                continue;
            }
            if (st == BRIM_OK && pass) st = take(s, e, t, &why);
            if (st != BRIM_OK) return brim_fail(err, st, "%s: %s", path, why.text);
            r.loaded += pass;
        }
    r.unused = (int)brim_st_count(f) - r.loaded - r.kept;
    if (report) *report = r;
    return brim_store_refresh_halves(&s->store, s->backend, err);
}

brim_status brim_session_load(brim_session *s, const char *path, const char *const *skip,
                              int n_skip, brim_load_report *report, brim_error *err)
{
    brim_st_file *f;
    BRIM_TRY(brim_st_open(path, &f, err));
    brim_status st = load(s, path, in_model_file, skip, n_skip, f, report, err);
    brim_st_close(f);
    /* Averages start from the weights. */
    for (size_t i = 0; i < s->store.entries.n && st == BRIM_OK; i++) {
        const brim_entry *e = &s->store.entries.at[i];
        if (strncmp(e->name, "ema:", 4)) continue;
        const brim_entry *w = brim_store_find(&s->store, e->name + 4);
        float *x = brim_malloc((size_t)brim_shape_count(&e->shape) * sizeof *x);
        if (!x) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", e->name);
        st = brim_store_read(&s->store, s->backend, w, x, err);
        if (st == BRIM_OK) st = brim_store_write(&s->store, s->backend, e, x, err);
        free(x);
    }
    return st;
}

brim_status brim_session_take_state(brim_session *s, const char *name, const brim_st_file *f,
                                    brim_error *err)
{
    const char *text = brim_st_metadata(f, "brim.steps");
    int used = 0;
    long long steps;
    if (!text || sscanf(text, "%18lld%n", &steps, &used) != 1 || text[used] || steps < 0)
        return brim_fail(err, BRIM_EFORMAT, "%s: not a state file of Brim (give one that it wrote)",
                         name);
    BRIM_TRY(load(s, name, in_state_file, NULL, 0, f, NULL, err));
    s->scaler_known = false;
    s->steps = steps;
    return BRIM_OK;
}

brim_status brim_session_load_state(brim_session *s, const char *path, brim_error *err)
{
    brim_st_file *f;
    BRIM_TRY(brim_st_open(path, &f, err));
    brim_status st = brim_session_take_state(s, path, f, err);
    brim_st_close(f);
    return st;
}
