/* brim plan: parameters, FLOPs and exact memory of a training, without running it. */
#include "cli/cli.h"
#include "cli/report.h"
#include "cli/train_options.h"
#include "io/json.h"
#include "train/sets.h"

#include <stdio.h>

static const brim_option options[] = {{.group = "Data",
                                       .name = "data",
                                       .type = BRIM_OPTION_PATH,
                                       .arg = "PATH",
                                       .help = "Training images: their memory counts, too, and "
                                               "they tell the classes"},
                                      {.name = "val-data",
                                       .type = BRIM_OPTION_PATH,
                                       .arg = "PATH",
                                       .help = "Validation images that are not in --data"},
                                      {.name = "val-split",
                                       .type = BRIM_OPTION_FLOAT,
                                       .value = "0.1",
                                       .min = 0,
                                       .max = 0.9,
                                       .help = "As for brim train"},
                                      {.group = "Model",
                                       .name = "model",
                                       .type = BRIM_OPTION_TEXT,
                                       .value = "resnet18",
                                       .help = "Name in the zoo"},
                                      {.name = "classes",
                                       .type = BRIM_OPTION_INT,
                                       .value = "1000",
                                       .min = 1,
                                       .max = 1e6,
                                       .help = "Classes of the head"},
                                      {.name = "image-size",
                                       .type = BRIM_OPTION_INT,
                                       .arg = "N",
                                       .min = 1,
                                       .max = 4096,
                                       .help = "Height and width; default: the model's"},
                                      {.name = "freeze",
                                       .type = BRIM_OPTION_TEXT,
                                       .arg = "PATTERN",
                                       .repeated = true,
                                       .help = "Parameters not to train"},
                                      {.group = "Training",
                                       .name = "batch",
                                       .type = BRIM_OPTION_INT,
                                       .value = "128",
                                       .min = 1,
                                       .max = 1e6,
                                       .help = "Images an update"},
                                      {.name = "micro-batch",
                                       .type = BRIM_OPTION_INT,
                                       .value = "0",
                                       .min = 0,
                                       .max = 1e6,
                                       .help = "Images at once; 0: as many as --memory allows"},
                                      {.name = "optimizer",
                                       .type = BRIM_OPTION_CHOICE,
                                       .words = "sgd|adamw",
                                       .value = "sgd",
                                       .help = "Decides how much state a weight has"},
                                      {.name = "ema",
                                       .type = BRIM_OPTION_FLAG,
                                       .value = "off",
                                       .help = "Averaged weights are kept too"},
                                      {.name = "inference",
                                       .type = BRIM_OPTION_FLAG,
                                       .value = "off",
                                       .help = "Plan evaluation instead of training"},
                                      {.group = "Machine",
                                       .name = "device",
                                       .type = BRIM_OPTION_CHOICE,
                                       .words = "cpu|cuda",
                                       .value = "cpu",
                                       .help = "Where to compute"},
                                      {.name = "precision",
                                       .type = BRIM_OPTION_CHOICE,
                                       .words = BRIM_PRECISIONS,
                                       .value = "fp32",
                                       .help = "Of activations and matrix products"},
                                      {.name = "memory",
                                       .type = BRIM_OPTION_BYTES,
                                       .help = "Hard cap: the batch is split until it fits"},
                                      {.group = "Output",
                                       .name = "json",
                                       .type = BRIM_OPTION_FLAG,
                                       .value = "off",
                                       .help = "One JSON object"},
                                      {.name = "dump-passes",
                                       .type = BRIM_OPTION_PATH,
                                       .arg = "FILE",
                                       .help = "Write the graph after each compiler pass"},
                                      {0}};

static const brim_usage usage = {
    .command = "plan",
    .synopsis = "[options]",
    .about = "Says what a training needs before it is started: parameters, FLOPs, exact peak "
             "memory by kind, and the "
             "micro-batches that a memory cap leads to.",
    .options = options,
    .examples = "brim plan --model resnet50 --batch 256 --precision bf16\nbrim plan --model "
                "resnet50 --batch 256 --memory 8GiB\nbrim plan --model resnet18 --data photos",
};

/* What the images of --data add to the plan. */
static brim_status add_data(const brim_options *o, const brim_model_info *info,
                            brim_session_opts *so, brim_classifier *c, brim_error *err)
{
    brim_train_opts t;
    brim_dataset *train = NULL, *val = NULL;
    brim_train_opts_init(&t);
    t.data = brim_options_text(o, "data");
    t.val_data = brim_options_text(o, "val-data");
    t.val_fraction = brim_options_float(o, "val-split");
    t.session.memory_cap_bytes = so->memory_cap_bytes;
    brim_status st = brim_sets_open(&t, &train, &val, err);
    if (st == BRIM_OK) {
        int64_t n = brim_dataset_size(train);
        c->model.classes = brim_dataset_classes(train);
        if (so->batch > n) so->batch = n;
        so->train_samples = so->inference ? 0 : n;
        so->extra_bytes = brim_sets_memory(train, val, info->channels, so->memory_cap_bytes).bytes;
    }
    brim_dataset_free(train);
    brim_dataset_free(val);
    return st;
}

static brim_status make(const brim_options *o, brim_arena *arena, brim_plan *plan, brim_error *err)
{
    const brim_model_info *info = brim_model_find(brim_options_text(o, "model"));
    if (!info)
        return brim_fail(err, BRIM_ENOTFOUND,
                         "model: \"%s\" is not in the zoo (`brim models` lists it)",
                         brim_options_text(o, "model"));
    int size =
        brim_options_int(o, "image-size") ? (int)brim_options_int(o, "image-size") : info->size;
    brim_classifier c = {.model = {.name = info->name,
                                   .classes = (int)brim_options_int(o, "classes"),
                                   .channels = info->channels,
                                   .height = size,
                                   .width = size},
                         .std = {1, 1, 1}};
    brim_session_opts so;
    brim_session_opts_init(&so);
    so.device = brim_options_text(o, "device");
    so.precision = brim_precision_at(brim_options_choice(o, "precision"));
    so.batch = brim_options_int(o, "batch");
    so.micro_batch = brim_options_int(o, "micro-batch");
    so.memory_cap_bytes = brim_options_text(o, "memory") ? brim_options_bytes(o, "memory") : 0;
    so.input_bytes = (size_t)(size * size * info->channels) + 24;
    so.input_ring = 4;
    so.inference = brim_options_flag(o, "inference");
    so.optimizer.algo = brim_options_is(o, "optimizer", "adamw") ? BRIM_ADAMW : BRIM_SGD;
    so.optimizer.ema = brim_options_flag(o, "ema");
    so.dump_passes = brim_options_text(o, "dump-passes");
    so.n_freeze = brim_options_count(o, "freeze");
    const char **freeze = BRIM_ARENA_ARRAY(arena, const char *, so.n_freeze + 1);
    if (!freeze) return brim_fail(err, BRIM_ENOMEM, "plan: out of memory");
    for (int k = 0; k < so.n_freeze; k++) freeze[k] = brim_options_item(o, "freeze", k);
    so.freeze = freeze;
    if (brim_options_text(o, "data")) BRIM_TRY(add_data(o, info, &so, &c, err));
    return brim_session_plan_only(brim_classifier_build, &c, &so, plan, err);
}

static void print_json(const brim_plan *p)
{
    brim_str out = {0};
    brim_json j;
    brim_json_begin(&j, &out, '{');
    brim_json_int(&j, "batch", p->batch);
    brim_json_int(&j, "micro_batch", p->micro_batch);
    brim_json_int(&j, "accumulation", p->accumulation);
    brim_json_int(&j, "parameters", p->parameters);
    brim_json_number(&j, "flops_per_sample", p->flops_per_sample);
    brim_json_int(&j, "weights_bytes", (long long)p->weights_bytes);
    brim_json_int(&j, "half_bytes", (long long)p->half_bytes);
    brim_json_int(&j, "state_bytes", (long long)p->state_bytes);
    brim_json_int(&j, "gradient_bytes", (long long)p->gradient_bytes);
    brim_json_int(&j, "activation_bytes", (long long)p->activation_bytes);
    brim_json_int(&j, "workspace_bytes", (long long)p->workspace_bytes);
    brim_json_int(&j, "step_bytes", (long long)p->step_bytes);
    brim_json_int(&j, "arena_bytes", (long long)p->arena_bytes);
    brim_json_int(&j, "input_bytes", (long long)p->input_bytes);
    brim_json_int(&j, "library_bytes", (long long)p->library_bytes);
    brim_json_int(&j, "total_bytes", (long long)p->total_bytes);
    brim_json_end(&j, '}');
    printf("%s\n", brim_str_text(&out));
    brim_str_free(&out);
}

static void print_text(const brim_plan *p, const brim_options *o)
{
    char n[32], f[32];
    brim_str out = {0};
    printf("  model    %s, %s parameters, %sFLOP %s\n", brim_options_text(o, "model"),
           brim_count_text(n, (double)p->parameters), brim_count_text(f, p->flops_per_sample),
           brim_options_flag(o, "inference") ? "an image" : "a training image");
    printf("  batch    %lld", (long long)p->batch);
    if (p->accumulation > 1)
        printf(" as %lld micro-batches of %lld", (long long)p->accumulation,
               (long long)p->micro_batch);
    printf(", %s\n\n", brim_options_text(o, "precision"));
    brim_report_memory(&out, p);
    fputs(brim_str_text(&out), stdout);
    brim_str_free(&out);
}

int brim_cmd_plan(int argc, char **argv)
{
    brim_options *o;
    int status;
    brim_error err = {0};
    brim_plan p;
    brim_arena arena;
    if (!brim_options_begin(&usage, argc, argv, &o, &status)) return status;
    brim_arena_init(&arena);
    brim_status st = make(o, &arena, &p, &err);
    if (st == BRIM_OK && brim_options_flag(o, "json"))
        print_json(&p);
    else if (st == BRIM_OK)
        print_text(&p, o);
    brim_arena_release(&arena);
    brim_options_free(o);
    return st == BRIM_OK ? BRIM_EXIT_DONE : brim_cli_failed("plan", &err);
}
