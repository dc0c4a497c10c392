#include "cli/train_options.h"
#include "backend/cpu/cpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FLAG   .type = BRIM_OPTION_FLAG
#define INT    .type = BRIM_OPTION_INT
#define FLOAT  .type = BRIM_OPTION_FLOAT
#define BYTES  .type = BRIM_OPTION_BYTES
#define CHOICE .type = BRIM_OPTION_CHOICE
#define TEXT   .type = BRIM_OPTION_TEXT
#define PATH   .type = BRIM_OPTION_PATH

const brim_option brim_train_option_table[] = {
    {.group = "Data",
     .name = "data",
     PATH,
     .arg = "PATH",
     .required = true,
     .help = "Training images: a folder of class folders, a .tar or .tar.gz of the same or of "
             "WebDataset pairs (several "
             "shards as 'train-{0..4}.tar.gz', in quotes), IDX or CIFAR-10 "
             "binary files"},
    {.name = "val-data",
     PATH,
     .arg = "PATH",
     .help = "Validation images; without it the set's own val folder, or a share of the training "
             "images"},
    {.name = "val-split",
     FLOAT,
     .value = "0.1",
     .min = 0,
     .max = 0.9,
     .help =
         "Share held out for validation when the set has no split of its own; 0: no validation"},
    {.name = "image-size",
     INT,
     .arg = "N",
     .min = 1,
     .max = 4096,
     .help = "Height and width that images are brought to; default: the model's"},
    {.name = "channels", CHOICE, .words = "1|3", .help = "1: grey, 3: RGB; default: the model's"},
    {.name = "mean",
     TEXT,
     .arg = "R,G,B",
     .help =
         "Mean of pixels in 0..1, or \"imagenet\"; default: the set's own, or with --init that of "
         "the weights"},
    {.name = "std", TEXT, .arg = "R,G,B", .help = "Standard deviation; goes with --mean"},
    {.name = "workers",
     INT,
     .value = "2",
     .min = 0,
     .max = 256,
     .help = "Threads that decode and augment; 0: none ahead of the step"},

    {.group = "Augmentation",
     .name = "augment",
     CHOICE,
     .words = "auto|none|pad-crop|resized-crop",
     .value = "auto",
     .help = "pad-crop: 1/8 zero padding, random crop, flip; resized-crop: random resized crop, "
             "flip; auto: pad-crop up to "
             "64 pixels, else resized-crop"},
    {.name = "flip",
     FLOAT,
     .value = "0.5",
     .min = 0,
     .max = 1,
     .help = "Probability of a horizontal flip; --augment none flips only when this is given"},
    {.name = "crop-scale",
     FLOAT,
     .value = "0.08",
     .min = 0.001,
     .max = 1,
     .help = "Smallest share of the area that a resized crop takes"},
    {.name = "jitter",
     TEXT,
     .arg = "B,C,S,H",
     .help = "Colour jitter: brightness, contrast, saturation, hue"},
    {.name = "randaugment",
     TEXT,
     .arg = "N,M",
     .help = "RandAugment: operations an image, magnitude 0 to 30"},
    {.name = "mixup", FLOAT, .value = "0", .min = 0, .max = 100, .help = "Alpha of mixup; 0: off"},
    {.name = "cutmix",
     FLOAT,
     .value = "0",
     .min = 0,
     .max = 100,
     .help = "Alpha of cutmix; 0: off"},

    {.group = "Model",
     .name = "model",
     TEXT,
     .value = "resnet18",
     .help = "Name in the zoo (`brim models`)"},
    {.name = "init",
     PATH,
     .arg = "FILE",
     .help = "Weights to start from (.safetensors); a head for other classes is replaced"},
    {.name = "freeze",
     TEXT,
     .arg = "PATTERN",
     .repeated = true,
     .help = "Parameters not to train, such as \"layer1.*\""},
    {.name = "dropout",
     FLOAT,
     .value = "0",
     .min = 0,
     .max = 0.99,
     .help = "Dropout before the head"},

    {.group = "Training",
     .name = "epochs",
     INT,
     .value = "10",
     .min = 1,
     .max = 1e6,
     .help = "Passes over the training set"},
    {.name = "steps",
     INT,
     .arg = "N",
     .value = "0",
     .min = 0,
     .max = 1e12,
     .help = "Stop after this many updates; 0: epochs decide"},
    {.name = "batch", INT, .value = "128", .min = 1, .max = 1e6, .help = "Images an update"},
    {.name = "micro-batch",
     INT,
     .value = "0",
     .min = 0,
     .max = 1e6,
     .help = "Images computed at once; gradients accumulate; 0: as many as --memory allows"},
    {.name = "optimizer",
     CHOICE,
     .words = "sgd|adamw",
     .value = "sgd",
     .help = "How weights are updated"},
    {.name = "lr", FLOAT, .value = "0.1", .min = 0, .max = 1e6, .help = "Peak learning rate"},
    {.name = "schedule",
     CHOICE,
     .words = "constant|cosine|step|onecycle",
     .value = "cosine",
     .help = "Learning rate over time"},
    {.name = "warmup",
     FLOAT,
     .arg = "EPOCHS",
     .value = "0",
     .min = 0,
     .max = 1e6,
     .help = "Epochs of linear warm-up; onecycle has its own"},
    {.name = "min-lr",
     FLOAT,
     .arg = "SHARE",
     .value = "0",
     .min = 0,
     .max = 1,
     .help = "Where cosine ends, as a share of --lr"},
    {.name = "step-epochs",
     FLOAT,
     .value = "30",
     .min = 0.001,
     .max = 1e6,
     .help = "Epochs between drops of the step schedule"},
    {.name = "gamma", FLOAT, .value = "0.1", .min = 0, .max = 1, .help = "Factor of each drop"},
    {.name = "momentum", FLOAT, .value = "0.9", .min = 0, .max = 0.9999, .help = "Of SGD"},
    {.name = "nesterov", FLAG, .value = "off", .help = "Nesterov momentum"},
    {.name = "beta1", FLOAT, .value = "0.9", .min = 0, .max = 0.99999, .help = "Of AdamW"},
    {.name = "beta2", FLOAT, .value = "0.999", .min = 0, .max = 0.999999, .help = "Of AdamW"},
    {.name = "weight-decay",
     FLOAT,
     .value = "1e-4",
     .min = 0,
     .max = 10,
     .help = "Of SGD (L2) or AdamW (decoupled); not for norms and biases"},
    {.name = "decay-all", FLAG, .value = "off", .help = "Weight decay for norms and biases too"},
    {.name = "clip",
     FLOAT,
     .value = "0",
     .min = 0,
     .max = 1e9,
     .help = "Largest global norm of the gradient; 0: off"},
    {.name = "label-smoothing",
     FLOAT,
     .value = "0",
     .min = 0,
     .max = 0.99,
     .help = "Share of the target spread over all classes"},
    {.name = "ema",
     FLOAT,
     .arg = "DECAY",
     .value = "0",
     .min = 0,
     .max = 0.99999,
     .help = "Average the weights with this decay and evaluate the average; 0: off"},
    {.name = "early-stop",
     INT,
     .arg = "EPOCHS",
     .value = "0",
     .min = 0,
     .max = 1e6,
     .help = "Stop when top-1 has not improved for this long; 0: off"},
    {.name = "seed",
     INT,
     .value = "0",
     .min = 0,
     .max = 9e15,
     .help = "Of weights, order, augmentation, dropout"},

    {.group = "Machine",
     .name = "device",
     CHOICE,
     .words = "cpu|cuda",
     .value = "cpu",
     .help = "Where to compute"},
    {.name = "precision",
     CHOICE,
     .words = BRIM_PRECISIONS,
     .value = "fp32",
     .help = "Of activations and matrix products; weights stay in fp32; auto: bf16 where the "
             "processor has it, else fp32"},
    {.name = "memory", BYTES, .help = "Hard cap on all memory that training takes, such as 8GiB"},
    {.name = "threads",
     INT,
     .value = "0",
     .min = 0,
     .max = 4096,
     .help = "Threads that compute; 0: all cores"},

    {.group = "Run",
     .name = "out",
     PATH,
     .arg = "DIR",
     .required = true,
     .help = "Folder for checkpoints and logs; made when missing"},
    {.name = "resume",
     FLAG,
     .value = "off",
     .transient = true,
     .help = "Go on with the run in --out, with its options unless they are given anew"},
    {.name = "config",
     PATH,
     .arg = "FILE",
     .transient = true,
     .help = "YAML file of these options; the command line wins"},
    {.name = "save-every",
     INT,
     .arg = "STEPS",
     .value = "0",
     .min = 0,
     .max = 1e12,
     .help = "Updates between checkpoints inside an epoch; 0: at its end"},
    {.name = "log-every",
     INT,
     .arg = "STEPS",
     .value = "10",
     .min = 1,
     .max = 1e12,
     .help = "Updates between lines of metrics.jsonl"},
    {.name = "dump-passes",
     PATH,
     .arg = "FILE",
     .transient = true,
     .help = "Write the graph after each compiler pass"},
    {.name = "quiet", FLAG, .value = "off", .transient = true, .help = "Only errors"},
    {0}};

brim_dtype brim_precision_at(int choice)
{
    static const brim_dtype t[] = {BRIM_F32, BRIM_BF16, BRIM_F16};
    if (choice == 3) {
        const brim_cpu_features *f = brim_cpu_features_get();
        return f->avx512_bf16 || f->amx_bf16 ? BRIM_BF16 : BRIM_F32;
    }
    return choice >= 0 && choice < 3 ? t[choice] : BRIM_F32;
}

/* `n` numbers separated by commas; one number stands for all of them. */
static brim_status numbers(const brim_options *o, const char *name, int n, double *x,
                           brim_error *err)
{
    const char *text = brim_options_text(o, name), *at = text;
    for (int k = 0; k < n; k++) {
        char *end;
        x[k] = strtod(at, &end);
        if (end == at || !isfinite(x[k])) break;
        if (k == 0 && !*end) {
            for (int m = 1; m < n; m++) x[m] = x[0];
            return BRIM_OK;
        }
        if (k == n - 1 && !*end) return BRIM_OK;
        if (*end != ',') break;
        at = end + 1;
    }
    return brim_fail(err, BRIM_EINVAL, "--%s: \"%s\" is not %d numbers separated by commas", name,
                     text, n);
}

static brim_status apply_augment(const brim_options *o, brim_train_opts *t, brim_error *err)
{
    brim_augment *a = &t->augment;
    const brim_model_info *info = brim_model_find(t->model);
    int size = t->width ? t->width : info ? info->size : 224;
    bool automatic = brim_options_is(o, "augment", "auto");
    bool pad = brim_options_is(o, "augment", "pad-crop") || (automatic && size <= 64);
    bool resized = brim_options_is(o, "augment", "resized-crop") || (automatic && size > 64);
    a->random_resized_crop = resized;
    a->pad_crop = pad ? (size + 7) / 8 : 0;
    a->flip = pad || resized || brim_options_given(o, "flip") ? brim_options_float(o, "flip") : 0;
    a->scale_min = brim_options_float(o, "crop-scale");
    a->crop_ratio = size <= 64 ? 1 : 0.875;
    a->mixup = brim_options_float(o, "mixup");
    a->cutmix = brim_options_float(o, "cutmix");
    if (brim_options_text(o, "jitter")) {
        double x[4] = {0};
        BRIM_TRY(numbers(o, "jitter", 4, x, err));
        a->brightness = x[0];
        a->contrast = x[1];
        a->saturation = x[2];
        a->hue = x[3];
        if (x[0] < 0 || x[1] < 0 || x[2] < 0 || x[3] < 0 || x[3] > 0.5)
            return brim_fail(err, BRIM_EINVAL,
                             "--jitter: strengths must not be negative, hue at most 0.5");
    }
    if (brim_options_text(o, "randaugment")) {
        double x[2] = {0};
        BRIM_TRY(numbers(o, "randaugment", 2, x, err));
        if (x[0] < 0 || x[0] > 16 || x[1] < 0 || x[1] > 30)
            return brim_fail(err, BRIM_EINVAL, "--randaugment: N is 0 to 16, M 0 to 30");
        a->randaugment_n = (int)x[0];
        a->randaugment_m = (int)x[1];
    }
    return BRIM_OK;
}

static brim_status apply_normalisation(const brim_options *o, brim_train_opts *t, brim_error *err)
{
    static const double imagenet[2][3] = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
    const char *mean = brim_options_text(o, "mean"), *std = brim_options_text(o, "std");
    bool named = mean && !strcmp(mean, "imagenet");
    if (named ? std != NULL : !mean != !std)
        return brim_fail(err, BRIM_EINVAL, "--mean and --std go together (\"imagenet\" is both)");
    t->mean_given = mean != NULL;
    if (!mean) return BRIM_OK;
    if (named) {
        memcpy(t->mean, imagenet[0], sizeof t->mean);
        memcpy(t->std, imagenet[1], sizeof t->std);
        return BRIM_OK;
    }
    BRIM_TRY(numbers(o, "mean", 3, t->mean, err));
    BRIM_TRY(numbers(o, "std", 3, t->std, err));
    for (int k = 0; k < 3; k++)
        if (!(t->mean[k] >= 0 && t->mean[k] <= 1 && t->std[k] > 0 && t->std[k] <= 1))
            return brim_fail(err, BRIM_EINVAL,
                             "--mean and --std: are of pixels from 0 to 1 (divide by 255)");
    return BRIM_OK;
}

static void apply_optimizer(const brim_options *o, brim_optimizer_opts *p)
{
    p->algo = brim_options_is(o, "optimizer", "adamw") ? BRIM_ADAMW : BRIM_SGD;
    p->momentum = brim_options_float(o, "momentum");
    p->nesterov = brim_options_flag(o, "nesterov");
    p->beta1 = brim_options_float(o, "beta1");
    p->beta2 = brim_options_float(o, "beta2");
    p->weight_decay = brim_options_float(o, "weight-decay");
    p->decay_all = brim_options_flag(o, "decay-all");
    p->clip = brim_options_float(o, "clip");
    p->ema = brim_options_float(o, "ema") > 0;
}

static brim_status apply_session(const brim_options *o, brim_arena *arena, brim_session_opts *s,
                                 brim_error *err)
{
    s->device = brim_options_text(o, "device");
    s->precision = brim_precision_at(brim_options_choice(o, "precision"));
    s->batch = brim_options_int(o, "batch");
    s->micro_batch = brim_options_int(o, "micro-batch");
    s->memory_cap_bytes = brim_options_text(o, "memory") ? brim_options_bytes(o, "memory") : 0;
    s->threads = (int)brim_options_int(o, "threads");
    s->seed = (uint64_t)brim_options_int(o, "seed");
    s->dump_passes = brim_options_text(o, "dump-passes");
    s->n_freeze = brim_options_count(o, "freeze");
    const char **freeze = BRIM_ARENA_ARRAY(arena, const char *, s->n_freeze + 1);
    if (!freeze) return brim_fail(err, BRIM_ENOMEM, "options: out of memory");
    for (int k = 0; k < s->n_freeze; k++) freeze[k] = brim_options_item(o, "freeze", k);
    s->freeze = freeze;
    apply_optimizer(o, &s->optimizer);
    return BRIM_OK;
}

brim_status brim_train_options_apply(const brim_options *o, brim_arena *arena, brim_train_opts *t,
                                     brim_error *err)
{
    brim_train_opts_init(t);
    t->model = brim_options_text(o, "model");
    t->data = brim_options_text(o, "data");
    t->val_data = brim_options_text(o, "val-data");
    t->val_fraction = brim_options_float(o, "val-split");
    t->out = brim_options_text(o, "out");
    t->init = brim_options_text(o, "init");
    t->resume = brim_options_flag(o, "resume");
    t->epochs = (int)brim_options_int(o, "epochs");
    t->max_steps = brim_options_int(o, "steps");
    t->width = t->height = (int)brim_options_int(o, "image-size");
    t->channels = brim_options_text(o, "channels") ? atoi(brim_options_text(o, "channels")) : 0;
    t->dropout = brim_options_float(o, "dropout");
    t->label_smoothing = brim_options_float(o, "label-smoothing");
    t->ema_decay = brim_options_float(o, "ema");
    t->early_stop = (int)brim_options_int(o, "early-stop");
    t->save_every = brim_options_int(o, "save-every");
    t->log_every = brim_options_int(o, "log-every");
    t->workers = (int)brim_options_int(o, "workers");
    BRIM_TRY(apply_normalisation(o, t, err));
    t->schedule = (brim_schedule){.kind = (brim_schedule_kind)brim_options_choice(o, "schedule"),
                                  .lr = brim_options_float(o, "lr"),
                                  .warmup_epochs = brim_options_float(o, "warmup"),
                                  .min_factor = brim_options_float(o, "min-lr"),
                                  .step_epochs = brim_options_float(o, "step-epochs"),
                                  .gamma = brim_options_float(o, "gamma")};
    if (t->schedule.kind == BRIM_LR_ONECYCLE && t->schedule.warmup_epochs > 0)
        return brim_fail(err, BRIM_EINVAL,
                         "--warmup: one-cycle warms up by itself, over 0.3 of the run (leave "
                         "--warmup out)");
    BRIM_TRY(apply_session(o, arena, &t->session, err));
    return apply_augment(o, t, err);
}
