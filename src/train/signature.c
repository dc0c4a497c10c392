#include "train/signature.h"

#include <string.h>

void brim_signature_write(brim_str *out, const brim_classifier *c, const char *init,
                          const brim_dataset *set, const brim_session_opts *so,
                          const brim_plan *plan)
{
    const brim_model_opts *m = &c->model;
    brim_str_printf(out, "model: %s\n", m->name);
    brim_str_printf(out, "first weights: %s\n", init ? init : "random");
    brim_str_printf(out, "image: %dx%dx%d\n", m->height, m->width, m->channels);
    brim_str_printf(out, "classes: %d\n", m->classes);
    brim_str_printf(out, "images: %lld (checksum %016llx)\n", (long long)brim_dataset_size(set),
                    (unsigned long long)brim_dataset_fingerprint(set));
    brim_str_printf(out, "mean: %.6g,%.6g,%.6g\n", (double)c->mean[0], (double)c->mean[1],
                    (double)c->mean[2]);
    brim_str_printf(out, "std: %.6g,%.6g,%.6g\n", (double)c->std[0], (double)c->std[1],
                    (double)c->std[2]);
    brim_str_printf(out, "batch: %lld = %lld x %lld\n", (long long)plan->batch,
                    (long long)plan->accumulation, (long long)plan->micro_batch);
    brim_str_printf(out, "seed: %llu\n", (unsigned long long)so->seed);
    brim_str_printf(out, "precision: %s\n", brim_dtype_name(so->precision));
    brim_str_printf(out, "optimizer: %s\n", so->optimizer.algo == BRIM_ADAMW ? "adamw" : "sgd");
    brim_str_printf(out, "ema: %s\n", so->optimizer.ema ? "on" : "off");
    brim_str_printf(out, "dropout: %.9g\n", m->dropout);
    brim_str_printf(out, "mixup or cutmix: %s\n", c->mixed ? "on" : "off");
    brim_str_add(out, "freeze:");
    for (int k = 0; k < so->n_freeze; k++) brim_str_printf(out, " \"%s\"", so->freeze[k]);
    brim_str_add(out, so->n_freeze ? "\n" : " nothing\n");
}

typedef struct line {
    const char *at;
    size_t n, key; /* of the line; of its key with the ": " */
} line;

static bool next_line(const char **text, line *l)
{
    if (!**text) return false;
    l->at = *text;
    l->n = strcspn(l->at, "\n");
    const char *colon = memchr(l->at, ':', l->n);
    l->key = colon ? (size_t)(colon - l->at) + 1 : l->n;
    *text += l->n + (l->at[l->n] == '\n');
    return true;
}

/* The line of `text` with the key of `want`; false when there is none. */
static bool find_line(const char *text, const line *want, line *found)
{
    while (next_line(&text, found))
        if (found->key == want->key && !memcmp(found->at, want->at, want->key)) return true;
    return false;
}

static bool same_line(const line *a, const line *b)
{
    return a->n == b->n && !memcmp(a->at, b->at, a->n);
}

brim_status brim_signature_match(const char *was, const char *now, brim_error *err)
{
    line n, w;
    while (next_line(&now, &n)) {
        if (!find_line(was, &n, &w)) w = (line){"", 0, 0};
        if (same_line(&n, &w)) continue;
        return brim_fail(err, BRIM_EINVAL,
                         "the run was started with %.*s and cannot go on with%.*s (give the same "
                         "options, or start a new run with --init)",
                         w.n ? (int)w.n : 18, w.n ? w.at : "an unknown version", (int)(n.n - n.key),
                         n.at + n.key);
    }
    return BRIM_OK;
}

void brim_signature_changes(brim_str *out, const char *was, const char *now)
{
    line a, b;
    for (const char *text = now; next_line(&text, &a);)
        if (!find_line(was, &a, &b) || !same_line(&a, &b))
            brim_str_printf(out, "%s%.*s", out->n ? ", " : "", (int)a.n, a.at);
    for (const char *text = was; next_line(&text, &a);)
        if (!find_line(now, &a, &b))
            brim_str_printf(out, "%s%.*s not given", out->n ? ", " : "", (int)a.key, a.at);
}
