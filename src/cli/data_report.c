#include "cli/data_report.h"
#include "cli/table.h"
#include "cli/term.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAME_COLUMNS = 28, BAR_COLUMNS = 24 };

/* "  key         text" */
static void row(brim_str *out, const char *key, const char *fmt, ...) BRIM_PRINTF(3, 4);
static void row(brim_str *out, const char *key, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    brim_one_line(text);
    brim_str_printf(out, "  %-10s%s\n", key, text);
}

/* "3 grey, 1 CMYK" of those that are not zero; false when all are. */
static bool join(char *buf, size_t n, const char *const *name, const int64_t *count, int kinds)
{
    size_t at = 0;
    buf[0] = 0;
    for (int k = 0; k < kinds && at < n; k++)
        if (count[k])
            at += (size_t)snprintf(buf + at, n - at, "%s%lld %s", at ? ", " : "",
                                   (long long)count[k], name[k]);
    return at > 0;
}

static void put_size(brim_str *out, const char *key, const int x[3])
{
    if (x[0] == x[2])
        row(out, key, "%d pixels", x[0]);
    else
        row(out, key, "%d / %d / %d pixels (least / median / most)", x[0], x[1], x[2]);
}

static void put_numbers(const brim_data_report *r, brim_str *out, const char *key, const double *x)
{
    const char *of = r->parts ? ", of the training images" : "";
    if (isnan(x[0])) return;
    if (r->check->channels == 1)
        row(out, key, "%.4f (grey in 0..1%s)", x[0], of);
    else
        row(out, key, "%.4f,%.4f,%.4f (R,G,B in 0..1%s)", x[0], x[1], x[2], of);
}

static void put_ignored(brim_str *out, const brim_check *c)
{
    char kinds[512];
    size_t at = 0;
    int64_t n, sum = 0;
    const char *end;
    for (int k = 0; k < 2 && c->set[k]; k++) {
        sum += brim_dataset_ignored(c->set[k]);
        for (int m = 0; (end = brim_dataset_ignored_kind(c->set[k], m, &n)); m++)
            if (at < sizeof kinds)
                at += (size_t)snprintf(kinds + at, sizeof kinds - at, "%s%lld %s", at ? ", " : "",
                                       (long long)n, end);
    }
    if (sum)
        row(out, "ignored", "%lld file%s that %s no JPEG, PNG or WebP (%s)", (long long)sum,
            sum == 1 ? "" : "s", sum == 1 ? "is" : "are", kinds);
}

static void put_head(const brim_data_report *r, brim_str *out)
{
    static const char *const format[] = {"raw", "JPEG", "PNG", "WebP"};
    static const char *const odd[] = {"grey", "with alpha", "CMYK", "of more than 8 bits",
                                      "turned by EXIF"};
    const brim_check *c = r->check;
    char text[512], bytes[32];
    row(out, "data", "%s (%s)", r->path, brim_dataset_kind(c->set[0]));
    if (r->val_path) row(out, "val data", "%s (%s)", r->val_path, brim_dataset_kind(c->set[1]));
    row(out, "images", "%lld in %d class%s, %s", (long long)c->samples, c->classes,
        c->classes == 1 ? "" : "es", brim_bytes_text(bytes, (double)c->bytes));
    if (join(text, sizeof text, format, c->format, BRIM_CHECK_FORMATS))
        row(out, "format", "%s", text);
    if (c->width[0]) {
        put_size(out, "width", c->width);
        put_size(out, "height", c->height);
    }
    if (join(text, sizeof text, odd, c->odd, BRIM_CHECK_ODDS)) row(out, "of these", "%s", text);
    put_numbers(r, out, "mean", c->mean);
    put_numbers(r, out, "std", c->std);
    put_ignored(out, c);
}

/* "... and 7 more (--all lists them)" when a list of n was cut at r->lines. */
static void put_rest(const brim_data_report *r, brim_str *out, size_t n)
{
    if (r->lines && n > (size_t)r->lines)
        brim_str_printf(out, "    ... and %zu more (--all lists them)\n", n - (size_t)r->lines);
}

static size_t shown(const brim_data_report *r, size_t n)
{
    return r->lines && n > (size_t)r->lines ? (size_t)r->lines : n;
}

static void put_classes(const brim_data_report *r, brim_str *out)
{
    static const brim_column one[] = {
        {"class", NULL, false}, {"images", NULL, true}, {"", NULL, false}};
    static const brim_column two[] = {
        {"class", NULL, false}, {"train", NULL, true}, {"val", NULL, true}, {"", NULL, false}};
    const brim_check *c = r->check;
    int64_t most = 1;
    brim_table t;
    brim_table_init(&t, r->parts ? two : one, r->parts ? 4 : 3);
    for (int k = 0; k < c->classes; k++)
        if (c->count[k][0] > most) most = c->count[k][0];
    size_t n = shown(r, (size_t)c->classes);
    for (size_t k = 0; k < n; k++) {
        brim_str name = {0}, bar = {0};
        char text[512];
        snprintf(text, sizeof text, "%s", brim_dataset_class_name(c->set[0], (int)k));
        brim_one_line(text);
        brim_text_clip(&name, text, NAME_COLUMNS);
        brim_bar(&bar, (double)c->count[k][0] / (double)most, BAR_COLUMNS);
        brim_table_cell(&t, "%s", brim_str_text(&name));
        brim_table_cell(&t, "%lld", (long long)c->count[k][0]);
        if (r->parts) brim_table_cell(&t, "%lld", (long long)c->count[k][1]);
        brim_table_cell(&t, "%s", brim_str_text(&bar));
        brim_str_free(&name);
        brim_str_free(&bar);
    }
    brim_str_add(out, "\n");
    brim_table_print(&t, 2, out);
    brim_table_free(&t);
    put_rest(r, out, (size_t)c->classes);
}

static void put_path(brim_str *out, const char *indent, const brim_check *c, brim_check_id id)
{
    char path[4096];
    brim_dataset_path(c->set[id.set], id.sample, path, sizeof path);
    brim_one_line(path);
    brim_str_printf(out, "%s%s", indent, path);
}

static void put_damage(const brim_data_report *r, brim_str *out)
{
    const brim_check *c = r->check;
    if (!c->damage.n) return;
    brim_str_add(out, "\n  damaged\n");
    for (size_t k = 0; k < shown(r, c->damage.n); k++) {
        put_path(out, "    ", c, c->damage.at[k].id);
        brim_str_printf(out, ": %s\n", c->damage.at[k].why);
    }
    put_rest(r, out, c->damage.n);
}

static const char *class_of(const brim_check *c, brim_check_id id)
{
    return brim_dataset_class_name(c->set[id.set], brim_dataset_label(c->set[id.set], id.sample));
}

/* The copies under the image that they are copies of. */
static void put_twins(const brim_data_report *r, brim_str *out)
{
    const brim_check *c = r->check;
    if (!c->twins.n) return;
    brim_str_add(out, "\n  same bytes\n");
    for (size_t k = 0; k < shown(r, c->twins.n); k++) {
        const brim_check_twin *t = &c->twins.at[k];
        const brim_check_id *last = k ? &t[-1].first : NULL;
        if (!last || last->set != t->first.set || last->sample != t->first.sample) {
            put_path(out, "    ", c, t->first);
            brim_str_add(out, "\n");
        }
        put_path(out, "      = ", c, t->second);
        if (t->conflict) {
            char names[512];
            snprintf(names, sizeof names, "%.200s, not %.200s", class_of(c, t->second),
                     class_of(c, t->first));
            brim_one_line(names);
            brim_str_printf(out, " (class %s)", names);
        }
        if (t->leak) brim_str_add(out, " (for validation)");
        brim_str_add(out, "\n");
    }
    put_rest(r, out, c->twins.n);
}

static void put_empty(const brim_data_report *r, brim_str *out)
{
    const brim_check *c = r->check;
    size_t n = 0;
    for (int k = 0; k < 2 && c->set[k]; k++) {
        const char *folder;
        for (int m = 0; (folder = brim_dataset_empty_folder(c->set[k], m)); m++) {
            if (n == 0) brim_str_add(out, "\n  no images\n");
            n++;
            if (n > shown(r, n)) continue;
            char text[1024];
            snprintf(text, sizeof text, "%s/%s", k ? r->val_path : r->path, folder);
            brim_one_line(text);
            brim_str_printf(out, "    %s\n", text);
        }
    }
    put_rest(r, out, n);
}

static void put_lines(const brim_data_report *r, brim_str *out, const char *key,
                      const brim_data_lines *l, brim_style style)
{
    const char *on = r->color ? brim_term_style(stdout, style) : "",
               *off = r->color ? brim_term_style(stdout, BRIM_STYLE_PLAIN) : "";
    for (size_t k = 0; k < l->n; k++)
        brim_str_printf(out, "  %s%-10s%s%s\n", on, key, off, l->at[k]);
}

static void put_verdict(const brim_data_report *r, brim_str *out)
{
    brim_style style = r->problems.n   ? BRIM_STYLE_BAD
                       : r->warnings.n ? BRIM_STYLE_WARN
                                       : BRIM_STYLE_GOOD;
    const char *on = r->color ? brim_term_style(stdout, style) : "",
               *off = r->color ? brim_term_style(stdout, BRIM_STYLE_PLAIN) : "";
    brim_str_printf(out, "  %s%-10s%s", on, "verdict", off);
    if (r->problems.n)
        brim_str_printf(out, "%zu problem%s", r->problems.n, r->problems.n == 1 ? "" : "s");
    else
        brim_str_printf(out, "all %lld images are sound", (long long)r->check->samples);
    if (r->warnings.n)
        brim_str_printf(out, ", %zu warning%s", r->warnings.n, r->warnings.n == 1 ? "" : "s");
    brim_str_add(out, "\n");
}

void brim_data_text(const brim_data_report *r, brim_str *out)
{
    put_head(r, out);
    put_classes(r, out);
    put_damage(r, out);
    put_empty(r, out);
    put_twins(r, out);
    brim_str_add(out, "\n");
    put_lines(r, out, "problem", &r->problems, BRIM_STYLE_BAD);
    put_lines(r, out, "warning", &r->warnings, BRIM_STYLE_WARN);
    put_verdict(r, out);
}
