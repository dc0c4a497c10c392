/* brim eval: loss, top-1, top-5 and the confusion matrix of a model on a set. */
#include "base/mem.h"
#include "cli/classify.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "cli/term.h"
#include "io/file.h"
#include "io/json.h"

#include <errno.h>
#include <stdio.h>

static const brim_option options[] = {{.group = "Data",
                                       .name = "data",
                                       .type = BRIM_OPTION_PATH,
                                       .arg = "PATH",
                                       .required = true,
                                       .help = "Labelled images, as for brim train"},
                                      {.name = "split",
                                       .type = BRIM_OPTION_CHOICE,
                                       .words = "all|train|val",
                                       .value = "all",
                                       .help = "Part of a set that has train and val folders"},
                                      BRIM_CLASSIFY_OPTIONS,
                                      {.group = "Output",
                                       .name = "json",
                                       .type = BRIM_OPTION_FLAG,
                                       .value = "off",
                                       .help = "One JSON object"},
                                      {.name = "logits",
                                       .type = BRIM_OPTION_PATH,
                                       .arg = "FILE",
                                       .help = "Also write each image's logits, tab-separated"},
                                      {0}};

static const brim_usage usage = {
    .command = "eval",
    .synopsis = "--data PATH --weights FILE [options]",
    .about = "Measures a model on labelled images.",
    .options = options,
    .examples = "brim eval --data photos/val --weights runs/a/best.safetensors",
};

static void print_text(const brim_eval_result *r, const brim_classify *c)
{
    printf("  images   %lld in %.1f s (%.0f img/s)", (long long)r->samples, r->seconds,
           (double)r->samples / r->seconds);
    if (r->damaged) printf(", %lld damaged left out", (long long)r->damaged);
    printf("\n  loss     %.6f\n  top-1    %.2f %%\n", r->loss, 100 * r->top1);
    if (r->classes > 5) printf("  top-5    %.2f %%\n", 100 * r->top5);
    brim_str out = {0};
    brim_report_confusion(&out, r, (const char *const *)c->card.class_names);
    printf("%s", brim_str_text(&out));
    brim_str_free(&out);
}

static void add_confusion(brim_str *out, const brim_eval_result *r)
{
    brim_json rows;
    brim_json_begin(&rows, out, '[');
    for (int y = 0; y < r->classes; y++) {
        brim_str_add(out, y ? ",[" : "[");
        for (int k = 0; k < r->classes; k++)
            brim_str_printf(out, "%s%lld", k ? "," : "",
                            (long long)r->confusion[(int64_t)y * r->classes + k]);
        brim_str_add(out, "]");
    }
    brim_json_end(&rows, ']');
}

static void print_json(const brim_eval_result *r)
{
    brim_str out = {0};
    brim_json j;
    brim_json_begin(&j, &out, '{');
    brim_json_int(&j, "images", r->samples);
    brim_json_int(&j, "damaged", r->damaged);
    brim_json_number(&j, "loss", r->loss);
    brim_json_number(&j, "top1", r->top1);
    if (r->classes > 5) brim_json_number(&j, "top5", r->top5);
    brim_json_number(&j, "seconds", r->seconds);
    brim_json_key(&j, "confusion"); /* rows true, columns predicted */
    add_confusion(&out, r);
    brim_json_end(&j, '}');
    printf("%s\n", brim_str_text(&out));
    brim_str_free(&out);
}

/* Logits in the order of the set, by a pass of its own. */
static brim_status write_logits(const brim_classify *c, const brim_dataset *d, brim_pipeline *p,
                                const char *path, brim_error *err)
{
    int classes = c->classifier.model.classes;
    int64_t rows = brim_session_plan(c->session)->micro_batch;
    FILE *f = fopen(path, "we");
    if (!f) return brim_fail_write(err, errno, path);
    float *x = brim_malloc((size_t)(rows * classes) * sizeof *x);
    brim_status st = x ? brim_pipeline_seek(p, 0, 0, err)
                       : brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
    while (st == BRIM_OK) {
        const brim_batch *b;
        st = brim_pipeline_next(p, &b, NULL, err);
        if (st != BRIM_OK || !b) break;
        brim_feed feed[5];
        brim_micro m = {feed, brim_classifier_feeds(b, feed), rows};
        st = brim_session_eval(c->session, &m, err);
        brim_session_read(c->session, "logits", x, rows * classes);
        for (int64_t i = 0; i < b->n && st == BRIM_OK; i++) {
            char name[512];
            fprintf(f, "%s\t%d", brim_dataset_path(d, b->sample[i], name, sizeof name),
                    b->label[i]);
            for (int k = 0; k < classes; k++) fprintf(f, "\t%.9g", (double)x[i * classes + k]);
            fputc('\n', f);
        }
        brim_pipeline_release(p, b);
    }
    free(x);
    bool failed = ferror(f);
    if ((fclose(f) || failed) && st == BRIM_OK) st = brim_fail_write(err, errno, path);
    return st;
}

static brim_status run(const brim_options *o, brim_error *err)
{
    brim_classify c;
    brim_dataset *d = NULL;
    brim_pipeline *p = NULL;
    brim_eval_result r = {0};
    brim_dataset_opts opts = {.split = (brim_split)brim_options_choice(o, "split")};
    brim_status st = brim_classify_open(&c, o, err);
    if (st == BRIM_OK && c.card.class_names) {
        opts.class_names = (const char *const *)c.card.class_names;
        opts.n_class_names = c.card.classes;
    }
    if (st == BRIM_OK) st = brim_dataset_open(brim_options_text(o, "data"), &opts, &d, err);
    if (st == BRIM_OK && brim_dataset_classes(d) > c.card.classes)
        st = brim_fail(err, BRIM_EINVAL, "%s: has %d classes, the model knows %d",
                       brim_options_text(o, "data"), brim_dataset_classes(d), c.card.classes);
    if (st == BRIM_OK) st = brim_classify_start(&c, o, brim_dataset_size(d), err);
    if (st == BRIM_OK) {
        brim_pipeline_opts po = brim_classify_pipeline(&c, o);
        st = brim_pipeline_new(d, &po, &p, err);
    }
    if (st == BRIM_OK) st = brim_evaluate(c.session, p, c.card.classes, &r, err);
    if (st == BRIM_OK && r.samples == 0)
        st = brim_fail(err, BRIM_EFORMAT,
                       "%s: none of its %lld images can be read (`brim data check` says why)",
                       brim_options_text(o, "data"), (long long)r.damaged);
    if (st == BRIM_OK && brim_options_text(o, "logits"))
        st = write_logits(&c, d, p, brim_options_text(o, "logits"), err);
    if (st == BRIM_OK && brim_options_flag(o, "json"))
        print_json(&r);
    else if (st == BRIM_OK)
        print_text(&r, &c);
    brim_eval_result_release(&r);
    brim_pipeline_free(p);
    brim_dataset_free(d);
    brim_classify_release(&c);
    return st;
}

int brim_cmd_eval(int argc, char **argv)
{
    brim_options *o;
    int status;
    brim_error err = {0};
    if (!brim_options_begin(&usage, argc, argv, &o, &status)) return status;
    brim_status st = run(o, &err);
    brim_options_free(o);
    return st == BRIM_OK ? BRIM_EXIT_DONE : brim_cli_failed("eval", &err);
}
