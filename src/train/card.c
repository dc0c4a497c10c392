/* What a model file says about itself: the metadata that training writes. */
#include "base/mem.h"
#include "io/safetensors.h"
#include "train/train.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* n numbers of lowest .. highest, separated by commas; false when that is not all there is. */
static bool numbers(const char *text, int n, double lowest, double highest, double *x)
{
    for (int k = 0; k < n; k++) {
        char *end;
        x[k] = strtod(text, &end);
        if (end == text || *end != (k + 1 < n ? ',' : 0) || !(x[k] >= lowest && x[k] <= highest))
            return false;
        text = end + 1;
    }
    return true;
}

static brim_status damaged(const char *path, const char *key, const char *text, brim_error *err)
{
    return brim_fail(err, BRIM_EFORMAT,
                     "%s: %s is \"%.60s\", not what training writes there (the file is damaged: "
                     "use another checkpoint)",
                     path, key, text);
}

/* Mean and standard deviation of pixels in 0 .. 1, and the centre crop. */
static brim_status fill_input(const char *path, const brim_st_file *f, brim_model_card *c,
                              brim_error *err)
{
    c->crop_ratio = 0.875;
    const struct {
        const char *key;
        int n;
        double lowest, highest, *to;
    } list[] = {{"brim.mean", 3, 0, 1, c->mean},
                {"brim.std", 3, DBL_MIN, 1, c->std},
                {"brim.crop_ratio", 1, 0.05, 1, &c->crop_ratio}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const char *text = brim_st_metadata(f, list[i].key);
        if (text && !numbers(text, list[i].n, list[i].lowest, list[i].highest, list[i].to))
            return damaged(path, list[i].key, text, err);
    }
    c->normalised = brim_st_metadata(f, "brim.mean") && brim_st_metadata(f, "brim.std");
    return BRIM_OK;
}

static brim_status split_names(const char *text, brim_model_card *c, brim_error *err)
{
    c->class_names = brim_calloc((size_t)c->classes, sizeof(char *));
    if (!c->class_names) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    for (int k = 0; k < c->classes; k++) {
        size_t n = strcspn(text, "\n");
        c->class_names[k] = brim_malloc(n + 1);
        if (!c->class_names[k]) return brim_fail(err, BRIM_ENOMEM, "out of memory");
        memcpy(c->class_names[k], text, n);
        c->class_names[k][n] = 0;
        text += n + (text[n] == '\n');
    }
    return BRIM_OK;
}

/* Classes of a file without a card: rows of the last matrix of the head. */
static int classes_of(const brim_st_file *f)
{
    static const char *const head[] = {"fc.weight", "linear.weight", "4.weight"};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) {
        const brim_st_tensor *t = brim_st_find(f, head[i]);
        if (t && t->rank == 2 && t->dim[0] > 0 && t->dim[0] < 1 << 20) return (int)t->dim[0];
    }
    return 0;
}

static brim_status fill(const char *path, const brim_st_file *f, brim_model_card *c,
                        brim_error *err)
{
    const char *model = brim_st_metadata(f, "brim.model"),
               *classes = brim_st_metadata(f, "brim.classes");
    const char *image = brim_st_metadata(f, "brim.image"),
               *names = brim_st_metadata(f, "brim.class_names");
    if (model && !(c->model = brim_strdup(model)))
        return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
    double n = 0, size[3] = {0};
    if (classes && !numbers(classes, 1, 1, 1 << 20, &n))
        return damaged(path, "brim.classes", classes, err);
    if (image && (!numbers(image, 3, 1, 4096, size) || (size[2] != 1 && size[2] != 3)))
        return damaged(path, "brim.image", image, err);
    c->classes = classes ? (int)n : classes_of(f);
    c->height = (int)size[0];
    c->width = (int)size[1];
    c->channels = (int)size[2];
    BRIM_TRY(fill_input(path, f, c, err));
    return names && c->classes ? split_names(names, c, err) : BRIM_OK;
}

brim_status brim_model_card_take(const char *name, const brim_st_file *f, brim_model_card *out,
                                 brim_error *err)
{
    *out = (brim_model_card){0};
    brim_status st = fill(name, f, out, err);
    if (st != BRIM_OK) brim_model_card_release(out);
    return st;
}

brim_status brim_model_card_read(const char *path, brim_model_card *out, brim_error *err)
{
    *out = (brim_model_card){0};
    brim_st_file *f;
    BRIM_TRY(brim_st_open(path, &f, err));
    brim_status st = brim_model_card_take(path, f, out, err);
    brim_st_close(f);
    return st;
}

void brim_model_card_release(brim_model_card *c)
{
    for (int k = 0; c->class_names && k < c->classes; k++) free(c->class_names[k]);
    free(c->class_names);
    free(c->model);
    *c = (brim_model_card){0};
}
