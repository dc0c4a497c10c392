/* What eval and predict share: a model file, a session for it, and the pipeline's options. */
#ifndef BRIM_CLI_CLASSIFY_H
#define BRIM_CLI_CLASSIFY_H

#include "cli/options.h"
#include "train/train.h"

typedef struct brim_classify {
    brim_model_card card;
    brim_classifier classifier;
    brim_session *session;
} brim_classify;

/* Options that both take. */
#define BRIM_CLASSIFY_OPTIONS                                                                      \
    {.group = "Model",                                                                             \
     .name = "weights",                                                                            \
     .type = BRIM_OPTION_PATH,                                                                     \
     .arg = "FILE",                                                                                \
     .required = true,                                                                             \
     .help = "Model file (.safetensors) of a run, or of another tool together with --model"},      \
        {.name = "model",                                                                          \
         .type = BRIM_OPTION_TEXT,                                                                 \
         .help = "Name in the zoo, when the file does not say it"},                                \
        {.name = "image-size",                                                                     \
         .type = BRIM_OPTION_INT,                                                                  \
         .arg = "N",                                                                               \
         .min = 1,                                                                                 \
         .max = 4096,                                                                              \
         .help = "Height and width; default: as trained"},                                         \
        {.name = "crop-ratio",                                                                     \
         .type = BRIM_OPTION_FLOAT,                                                                \
         .min = 0.05,                                                                              \
         .max = 1,                                                                                 \
         .help = "Share of the shorter side that the centre crop keeps; default: as trained"},     \
        {.group = "Machine",                                                                       \
         .name = "batch",                                                                          \
         .type = BRIM_OPTION_INT,                                                                  \
         .value = "64",                                                                            \
         .min = 1,                                                                                 \
         .max = 1e5,                                                                               \
         .help = "Images at once; fewer when the set is smaller"},                                 \
        {.name = "device",                                                                         \
         .type = BRIM_OPTION_CHOICE,                                                               \
         .words = "cpu|cuda",                                                                      \
         .value = "cpu",                                                                           \
         .help = "Where to compute"},                                                              \
        {.name = "precision",                                                                      \
         .type = BRIM_OPTION_CHOICE,                                                               \
         .words = "fp32|bf16|fp16|auto",                                                           \
         .value = "fp32",                                                                          \
         .help = "Of activations and matrix products"},                                            \
        {.name = "threads",                                                                        \
         .type = BRIM_OPTION_INT,                                                                  \
         .value = "0",                                                                             \
         .min = 0,                                                                                 \
         .max = 4096,                                                                              \
         .help = "Threads that compute; 0: all cores"},                                            \
    {                                                                                              \
        .name = "workers", .type = BRIM_OPTION_INT, .value = "2", .min = 0, .max = 256,            \
        .help = "Threads that decode"                                                              \
    }

/* Reads what the model file says about its model; *c is released by brim_classify_release also
 * after a failure. */
brim_status brim_classify_open(brim_classify *c, const brim_options *o, brim_error *err);
/* Makes the session, for batches of --batch or of as many images as there are, and loads the
 * weights. */
brim_status brim_classify_start(brim_classify *c, const brim_options *o, int64_t images,
                                brim_error *err);
void brim_classify_release(brim_classify *c);
/* Pipeline options without augmentation for the session's input. */
brim_pipeline_opts brim_classify_pipeline(const brim_classify *c, const brim_options *o);
/* Name of class k: of the model file, or "class K" in buf. */
const char *brim_classify_name(const brim_classify *c, int k, char buf[32]);

#endif
