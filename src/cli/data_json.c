#include "cli/data_report.h"
#include "io/json.h"

#include <stdio.h>

static void put_path(brim_json *j, const char *key, const brim_check *c, brim_check_id id)
{
    char path[4096];
    brim_json_text(j, key, brim_dataset_path(c->set[id.set], id.sample, path, sizeof path));
}

static void put_classes(brim_json *j, const brim_data_report *r, brim_str *out)
{
    const brim_check *c = r->check;
    brim_json_key(j, "classes");
    brim_json_begin(j, out, '[');
    for (int k = 0; k < c->classes; k++) {
        brim_json_key(j, NULL);
        brim_json_begin(j, out, '{');
        brim_json_text(j, "name", brim_dataset_class_name(c->set[0], k));
        brim_json_int(j, "images", c->count[k][0] + c->count[k][1]);
        if (r->parts) {
            brim_json_int(j, "train", c->count[k][0]);
            brim_json_int(j, "val", c->count[k][1]);
        }
        brim_json_end(j, '}');
    }
    brim_json_end(j, ']');
}

static void put_counts(brim_json *j, const char *key, const char *const *name, const int64_t *count,
                       int n, brim_str *out)
{
    brim_json_key(j, key);
    brim_json_begin(j, out, '{');
    for (int k = 0; k < n; k++) brim_json_int(j, name[k], count[k]);
    brim_json_end(j, '}');
}

static void put_spread(brim_json *j, const char *key, const int x[3], brim_str *out)
{
    static const char *const name[] = {"least", "median", "most"};
    int64_t wide[3] = {x[0], x[1], x[2]};
    put_counts(j, key, name, wide, 3, out);
}

static void put_numbers(brim_json *j, const char *key, const double *x, int n, brim_str *out)
{
    brim_json_key(j, key);
    brim_json_begin(j, out, '[');
    for (int k = 0; k < n; k++) brim_json_number(j, NULL, x[k]);
    brim_json_end(j, ']');
}

static void put_pixels(brim_json *j, const brim_check *c, brim_str *out)
{
    static const char *const format[] = {"raw", "jpeg", "png", "webp"};
    static const char *const odd[] = {"grey", "alpha", "cmyk", "deep", "rotated"};
    put_counts(j, "formats", format, c->format, BRIM_CHECK_FORMATS, out);
    put_spread(j, "width", c->width, out);
    put_spread(j, "height", c->height, out);
    put_counts(j, "oddities", odd, c->odd, BRIM_CHECK_ODDS, out);
    put_numbers(j, "mean", c->mean, c->channels, out);
    put_numbers(j, "std", c->std, c->channels, out);
}

static void put_folders(brim_json *j, const brim_check *c, brim_str *out)
{
    int64_t ignored = 0;
    brim_json_key(j, "empty_folders");
    brim_json_begin(j, out, '[');
    for (int k = 0; k < 2 && c->set[k]; k++) {
        const char *folder;
        for (int m = 0; (folder = brim_dataset_empty_folder(c->set[k], m)); m++)
            brim_json_text(j, NULL, folder);
        ignored += brim_dataset_ignored(c->set[k]);
    }
    brim_json_end(j, ']');
    brim_json_int(j, "ignored", ignored);
}

static void put_damage(brim_json *j, const brim_check *c, brim_str *out)
{
    brim_json_key(j, "damaged");
    brim_json_begin(j, out, '[');
    for (size_t k = 0; k < c->damage.n; k++) {
        brim_json_key(j, NULL);
        brim_json_begin(j, out, '{');
        put_path(j, "file", c, c->damage.at[k].id);
        brim_json_text(j, "why", c->damage.at[k].why);
        brim_json_end(j, '}');
    }
    brim_json_end(j, ']');
}

static void put_twins(brim_json *j, const brim_check *c, brim_str *out)
{
    brim_json_key(j, "duplicates");
    brim_json_begin(j, out, '[');
    for (size_t k = 0; k < c->twins.n; k++) {
        brim_json_key(j, NULL);
        brim_json_begin(j, out, '{');
        put_path(j, "file", c, c->twins.at[k].second);
        put_path(j, "same_as", c, c->twins.at[k].first);
        brim_json_bool(j, "other_class", c->twins.at[k].conflict);
        brim_json_bool(j, "leak", c->twins.at[k].leak);
        brim_json_end(j, '}');
    }
    brim_json_end(j, ']');
}

static void put_lines(brim_json *j, const char *key, const brim_data_lines *l, brim_str *out)
{
    brim_json_key(j, key);
    brim_json_begin(j, out, '[');
    for (size_t k = 0; k < l->n; k++) brim_json_text(j, NULL, l->at[k]);
    brim_json_end(j, ']');
}

void brim_data_json(const brim_data_report *r, brim_str *out)
{
    const brim_check *c = r->check;
    brim_json j;
    brim_json_begin(&j, out, '{');
    brim_json_text(&j, "data", r->path);
    if (r->val_path) brim_json_text(&j, "val_data", r->val_path);
    brim_json_text(&j, "kind", brim_dataset_kind(c->set[0]));
    brim_json_int(&j, "images", c->samples);
    brim_json_int(&j, "bytes", c->bytes);
    put_classes(&j, r, out);
    if (r->imbalance > 0) brim_json_number(&j, "imbalance", r->imbalance);
    put_pixels(&j, c, out);
    put_folders(&j, c, out);
    put_damage(&j, c, out);
    put_twins(&j, c, out);
    put_lines(&j, "problems", &r->problems, out);
    put_lines(&j, "warnings", &r->warnings, out);
    brim_json_bool(&j, "ok", r->problems.n == 0);
    brim_json_end(&j, '}');
    brim_str_add(out, "\n");
}
