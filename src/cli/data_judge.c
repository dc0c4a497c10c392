/* What is wrong with a checked set, or may be. */
#include "cli/data_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { IMBALANCE = 10 }; /* beyond, a model may pass over small classes without losing much */

static void note(brim_data_report *r, brim_data_lines *to, const char *fmt, ...) BRIM_PRINTF(3, 4);
static void note(brim_data_report *r, brim_data_lines *to, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    brim_one_line(text);
    char *copy = brim_strdup(text);
    if (copy && brim_vec_push(to, copy)) return;
    r->failed = true;
    free(copy);
}

static const char *s(int64_t n)
{
    return n == 1 ? "" : "s";
}

static const char *are(int64_t n)
{
    return n == 1 ? "is" : "are";
}

/* Classes come from names of folders, not from numbers that storage has. */
static bool has_class_folders(const brim_dataset *d)
{
    const char *kind = brim_dataset_kind(d);
    return !strcmp(kind, "folder") || !strcmp(kind, "tar");
}

static void judge_classes(brim_data_report *r)
{
    const brim_check *c = r->check;
    int64_t least = INT64_MAX, most = 0, no_val = 0, no_train = 0;
    const char *untrained = NULL;
    for (int k = 0; k < c->classes; k++) {
        int64_t n = c->count[k][0];
        no_val += r->parts && n && !c->count[k][1];
        no_train += n == 0;
        if (!n && !untrained) untrained = brim_dataset_class_name(c->set[0], k);
        if (n && n < least) least = n;
        if (n > most) most = n;
    }
    if (most) r->imbalance = (double)most / (double)least;
    if (no_train && r->parts && has_class_folders(c->set[0]))
        note(r, &r->problems,
             "%lld class%s no training images, \"%s\" first: brim train refuses that",
             (long long)no_train, no_train == 1 ? " has" : "es have", untrained);
    else if (no_train)
        note(r, &r->warnings, "%lld class%s no %simages, \"%s\" first", (long long)no_train,
             no_train == 1 ? " has" : "es have", r->parts ? "training " : "", untrained);
    if (no_val)
        note(r, &r->warnings, "%lld class%s no validation images", (long long)no_val,
             no_val == 1 ? " has" : "es have");
    if (r->imbalance >= IMBALANCE)
        note(r, &r->warnings, "the largest class has %.0f times the images of the smallest",
             r->imbalance);
    if (c->classes < 2) note(r, &r->warnings, "there is one class only: nothing to tell apart");
}

/* Without parts of its own a set is split class by class: of one image nothing can be held out. */
static void judge_split(brim_data_report *r)
{
    const brim_check *c = r->check;
    if (r->parts) return;
    for (int k = 0; k < c->classes; k++)
        if (c->count[k][0] > 1) return;
    note(r, &r->problems,
         "no class has two images, so none can be held out for validation: brim train refuses "
         "that without --val-data or --val-split 0");
}

static void judge_twins(brim_data_report *r)
{
    const brim_check *c = r->check;
    int64_t n = (int64_t)c->twins.n;
    if (n)
        note(r, &r->warnings, "%lld image%s %s there again, byte by byte", (long long)n, s(n),
             are(n));
    if (c->conflicts)
        note(r, &r->warnings, "%lld of these %s another class than the first copy",
             (long long)c->conflicts, c->conflicts == 1 ? "has" : "have");
    if (c->leaks)
        note(r, &r->warnings,
             "%lld validation image%s %s a training image, too: results look better",
             (long long)c->leaks, s(c->leaks), are(c->leaks));
}

/* Pictures that other programs read. */
static bool foreign(const char *end)
{
    static const char *const ends[] = {".gif",  ".bmp", ".tif", ".tiff", ".avif", ".heic",
                                       ".heif", ".jxl", ".jp2", ".ppm",  ".pgm",  ".tga"};
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
        if (!strcmp(ends[k], end)) return true;
    return false;
}

static void judge_ignored(brim_data_report *r, const brim_dataset *d)
{
    int64_t n = 0;
    const char *end;
    for (int k = 0; d && (end = brim_dataset_ignored_kind(d, k, &n)); k++)
        if (foreign(end))
            note(r, &r->warnings, "%lld %s file%s %s not read: make JPEG, PNG or WebP of %s",
                 (long long)n, end, s(n), are(n), n == 1 ? "it" : "them");
}

void brim_data_judge(brim_data_report *r, const brim_check *c, const char *path,
                     const char *val_path)
{
    *r = (brim_data_report){.check = c, .path = path, .val_path = val_path};
    for (int k = 0; k < c->classes; k++) r->parts |= c->count[k][1] > 0;
    int64_t n = (int64_t)c->damage.n, empty = 0;
    if (n)
        note(r, &r->problems, "%lld of %lld images %s damaged: brim train leaves %s out",
             (long long)n, (long long)c->samples, are(n), n == 1 ? "it" : "them");
    for (int k = 0; k < 2; k++)
        for (int m = 0; c->set[k] && brim_dataset_empty_folder(c->set[k], m); m++) empty++;
    if (empty)
        note(r, &r->problems, "%lld class folder%s no images: brim train refuses that",
             (long long)empty, empty == 1 ? " has" : "s have");
    judge_classes(r);
    judge_split(r);
    judge_twins(r);
    for (int k = 0; k < 2; k++) judge_ignored(r, c->set[k]);
}

void brim_data_report_release(brim_data_report *r)
{
    for (size_t k = 0; k < r->problems.n; k++) free(r->problems.at[k]);
    for (size_t k = 0; k < r->warnings.n; k++) free(r->warnings.at[k]);
    free(r->problems.at);
    free(r->warnings.at);
    *r = (brim_data_report){0};
}
