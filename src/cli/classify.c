#include "cli/classify.h"
#include "cli/train_options.h"

#include <stdio.h>
#include <string.h>

static brim_status choose_model(brim_classify *c, const brim_options *o, brim_error *err)
{
    const char *path = brim_options_text(o, "weights"), *name = brim_options_text(o, "model");
    if (!name) name = c->card.model;
    if (!name)
        return brim_fail(err, BRIM_EINVAL,
                         "%s: the file does not say its model (name it with --model)", path);
    const brim_model_info *info = brim_model_find(name);
    if (!info)
        return brim_fail(err, BRIM_ENOTFOUND,
                         "model: \"%s\" is not in the zoo (`brim models` lists it)", name);
    if (c->card.classes < 1)
        return brim_fail(err, BRIM_EFORMAT,
                         "%s: no head of a %s is in it, so the number of classes is unknown", path,
                         name);
    brim_model_card *card = &c->card;
    int size = (int)brim_options_int(o, "image-size");
    c->classifier.model =
        (brim_model_opts){.name = info->name,
                          .classes = card->classes,
                          .channels = card->channels ? card->channels : info->channels,
                          .height = size           ? size
                                    : card->height ? card->height
                                                   : info->size,
                          .width = size          ? size
                                   : card->width ? card->width
                                                 : info->size};
    for (int k = 0; k < 3; k++) {
        c->classifier.mean[k] = card->normalised ? (float)card->mean[k] : info->mean[k];
        c->classifier.std[k] = card->normalised ? (float)card->std[k] : info->std[k];
    }
    if (!card->model) card->crop_ratio = c->classifier.model.height <= 64 ? 1 : 0.875;
    if (brim_options_given(o, "crop-ratio")) card->crop_ratio = brim_options_float(o, "crop-ratio");
    return BRIM_OK;
}

brim_status brim_classify_open(brim_classify *c, const brim_options *o, brim_error *err)
{
    *c = (brim_classify){0};
    const char *path = brim_options_text(o, "weights");
    BRIM_TRY(brim_model_card_read(path, &c->card, err));
    return choose_model(c, o, err);
}

brim_status brim_classify_start(brim_classify *c, const brim_options *o, int64_t images,
                                brim_error *err)
{
    brim_session_opts so;
    brim_session_opts_init(&so);
    so.inference = true;
    so.batch = brim_options_int(o, "batch");
    if (so.batch > images) so.batch = images > 0 ? images : 1;
    so.device = brim_options_text(o, "device");
    so.precision = brim_precision_at(brim_options_choice(o, "precision"));
    so.threads = (int)brim_options_int(o, "threads");
    BRIM_TRY(brim_session_new(brim_classifier_build, &c->classifier, &so, &c->session, err));
    return brim_session_load(c->session, brim_options_text(o, "weights"), NULL, 0, NULL, err);
}

void brim_classify_release(brim_classify *c)
{
    brim_session_free(c->session);
    brim_model_card_release(&c->card);
}

brim_pipeline_opts brim_classify_pipeline(const brim_classify *c, const brim_options *o)
{
    const brim_model_opts *m = &c->classifier.model;
    return (brim_pipeline_opts){.batch = brim_session_plan(c->session)->micro_batch,
                                .width = m->width,
                                .height = m->height,
                                .channels = m->channels,
                                .threads = (int)brim_options_int(o, "workers"),
                                .ring = 3,
                                .augment = {.crop_ratio = c->card.crop_ratio}};
}

const char *brim_classify_name(const brim_classify *c, int k, char buf[32])
{
    if (c->card.class_names) return c->card.class_names[k];
    snprintf(buf, 32, "class %d", k);
    return buf;
}
