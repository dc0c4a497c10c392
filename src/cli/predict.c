/* brim predict: the most likely classes of image files. */
#include "cli/classify.h"
#include "cli/cli.h"
#include "data/augment.h"
#include "base/vec.h"
#include "data/image.h"
#include "io/file.h"
#include "io/json.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const brim_option options[] = {
    BRIM_CLASSIFY_OPTIONS,
    {.group = "Output",
     .name = "top",
     .type = BRIM_OPTION_INT,
     .arg = "K",
     .value = "3",
     .min = 1,
     .max = 1000,
     .help = "Classes an image"},
    {.name = "json", .type = BRIM_OPTION_FLAG, .value = "off", .help = "One JSON object a line"},
    {0}};

static const brim_usage usage = {
    .command = "predict",
    .synopsis = "--weights FILE IMAGE... [options]",
    .about = "Names the most likely classes of image files, or of all images in folders. A file "
             "that cannot be read is "
             "reported on stderr, the others go on, and the exit status is 1.",
    .options = options,
    .examples = "brim predict --weights runs/a/best.safetensors cat.jpg holiday/",
    .min_args = 1,
    .max_args = -1,
};

typedef struct predictor {
    brim_classify c;
    const brim_options *o;
    brim_decoder *decoder;
    brim_resizer resizer;
    BRIM_VEC(char *) file;       /* all that were asked for */
    BRIM_VEC(const char *) path; /* of those, the ones in the batch so far */
    uint8_t *pixels;
    int32_t *label;
    float *weight, *logits;
    int64_t rows;
    int failed;
} predictor;

static void report_failure(predictor *p, const char *path, const brim_error *why)
{
    brim_error err = {0};
    brim_fail(&err, why->status, "%s: %s", path, why->text);
    brim_cli_error("predict", &err);
    p->failed++;
}

/* Index of the k-th largest of x by repeated search; `used` marks those taken. */
static int next_best(const float *x, int n, bool *used)
{
    int best = -1;
    for (int k = 0; k < n; k++)
        if (!used[k] && (best < 0 || x[k] > x[best])) best = k;
    if (best >= 0) used[best] = true;
    return best;
}

static void print_row(predictor *p, const char *path, const float *x)
{
    int n = p->c.card.classes, top = (int)brim_options_int(p->o, "top");
    double sum = 0, max = -INFINITY;
    bool *used = brim_calloc((size_t)n, sizeof *used);
    if (!used) return;
    for (int k = 0; k < n; k++) max = fmax(max, (double)x[k]);
    for (int k = 0; k < n; k++) sum += exp((double)x[k] - max);
    brim_str out = {0};
    brim_json j;
    bool json = brim_options_flag(p->o, "json");
    if (json) {
        brim_json_begin(&j, &out, '{');
        brim_json_text(&j, "file", path);
        brim_json_key(&j, "classes");
        brim_json_begin(&j, &out, '[');
    } else {
        brim_str_add(&out, path);
        if (out.at) brim_cli_printable(out.at);
    }
    for (int k = 0; k < top && k < n; k++) {
        char buf[32];
        int best = next_best(x, n, used);
        double share = exp((double)x[best] - max) / sum;
        const char *name = brim_classify_name(&p->c, best, buf);
        if (!json) {
            brim_str_printf(&out, "  %s %.1f %%", name, 100 * share);
            continue;
        }
        brim_json inner;
        if (k) brim_str_add(&out, ",");
        brim_json_begin(&inner, &out, '{');
        brim_json_text(&inner, "class", name);
        brim_json_int(&inner, "index", best);
        brim_json_number(&inner, "probability", share);
        brim_json_end(&inner, '}');
    }
    if (json) brim_str_add(&out, "]}");
    printf("%s\n", brim_str_text(&out));
    brim_str_free(&out);
    free(used);
}

static brim_status flush_batch(predictor *p, brim_error *err)
{
    if (!p->path.n) return BRIM_OK;
    int classes = p->c.card.classes;
    brim_feed feed[] = {{"image", p->pixels}, {"label", p->label}, {"weight", p->weight}};
    brim_micro m = {feed, 3, p->rows};
    BRIM_TRY(brim_session_eval(p->c.session, &m, err));
    brim_session_read(p->c.session, "logits", p->logits, p->rows * classes);
    for (size_t i = 0; i < p->path.n; i++)
        print_row(p, p->path.at[i], p->logits + i * (size_t)classes);
    p->path.n = 0;
    return BRIM_OK;
}

static brim_status decode(predictor *p, const char *path, uint8_t *out, brim_error *err)
{
    const brim_model_opts *m = &p->c.classifier.model;
    char *bytes;
    brim_sample s = {0};
    brim_image im;
    brim_image_info info;
    BRIM_TRY(brim_file_read(path, (size_t)1 << 30, &bytes, &s.n, err));
    s.bytes = (const uint8_t *)bytes;
    brim_status st = brim_image_probe(&s, &info, err);
    if (st == BRIM_OK) {
        brim_augment a = {.crop_ratio = p->c.card.crop_ratio};
        brim_crop c = brim_crop_centre(&a, info.w, info.h, m->width, m->height);
        brim_view view = brim_crop_view(&c, m->width, m->height);
        st = brim_image_decode(p->decoder, &s, &info, m->channels, &view, &im, err);
        if (st == BRIM_OK)
            st = brim_crop_draw(&p->resizer, &im, &c, false, out, m->width, m->height, err);
    }
    free(bytes);
    return st;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* A folder reached through a link inside one that is walked: it may lead back up. */
static bool linked_folder(const char *path)
{
    struct stat link, to;
    return !lstat(path, &link) && S_ISLNK(link.st_mode) && !stat(path, &to) && S_ISDIR(to.st_mode);
}

static brim_status find_file(predictor *p, const char *path, brim_error *err)
{
    char *copy = brim_strdup(path);
    if (copy && brim_vec_push(&p->file, copy)) return BRIM_OK;
    free(copy);
    return brim_fail(err, BRIM_ENOMEM, "predict: out of memory");
}

/* A file, or every file of a folder and of the folders in it. */
static brim_status find_files(predictor *p, const char *path, int depth, brim_error *err)
{
    struct stat st;
    brim_error why = {0};
    if (stat(path, &st)) {
        brim_fail(&why, BRIM_ENOTFOUND, "no such file or folder");
        report_failure(p, path, &why);
        return BRIM_OK;
    }
    if (!S_ISDIR(st.st_mode)) return find_file(p, path, err);
    struct dirent **entry;
    int n = depth < 16 ? scandir(path, &entry, visible, by_name) : 0;
    brim_status status = BRIM_OK;
    for (int i = 0; i < n; i++) {
        brim_str inner = {0};
        brim_str_printf(&inner, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/",
                        entry[i]->d_name);
        if (status == BRIM_OK && !inner.failed && !linked_folder(inner.at))
            status = find_files(p, inner.at, depth + 1, err);
        brim_str_free(&inner);
        free(entry[i]);
    }
    if (n >= 0 && depth < 16) free(entry);
    if (n < 0 || (n == 0 && depth == 0)) {
        brim_fail(&why, BRIM_ENOTFOUND, "%s", n ? strerror(errno) : "an empty folder");
        report_failure(p, path, &why);
    }
    return status;
}

static brim_status prepare(predictor *p, brim_error *err)
{
    BRIM_TRY(brim_classify_start(&p->c, p->o, (int64_t)p->file.n, err));
    const brim_model_opts *m = &p->c.classifier.model;
    p->rows = brim_session_plan(p->c.session)->micro_batch;
    p->decoder = brim_decoder_new();
    p->pixels = brim_calloc((size_t)p->rows, (size_t)(m->width * m->height * m->channels));
    p->label = brim_calloc((size_t)p->rows, sizeof *p->label);
    p->weight = brim_calloc((size_t)p->rows, sizeof *p->weight);
    p->logits = brim_calloc((size_t)p->rows * (size_t)m->classes, sizeof *p->logits);
    bool ok = p->decoder && p->pixels && p->label && p->weight && p->logits;
    return ok ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "predict: out of memory");
}

static brim_status predict_file(predictor *p, const char *path, brim_error *err)
{
    const brim_model_opts *m = &p->c.classifier.model;
    brim_error why = {0};
    uint8_t *out = p->pixels + p->path.n * (size_t)(m->width * m->height * m->channels);
    if (decode(p, path, out, &why) != BRIM_OK) {
        report_failure(p, path, &why);
        return BRIM_OK;
    }
    if (!brim_vec_push(&p->path, path))
        return brim_fail(err, BRIM_ENOMEM, "predict: out of memory");
    return (int64_t)p->path.n == p->rows ? flush_batch(p, err) : BRIM_OK;
}

static brim_status run(predictor *p, brim_error *err)
{
    BRIM_TRY(brim_classify_open(&p->c, p->o, err));
    for (int i = 0; i < brim_options_args(p->o); i++)
        BRIM_TRY(find_files(p, brim_options_arg(p->o, i), 0, err));
    BRIM_TRY(prepare(p, err));
    for (size_t i = 0; i < p->file.n; i++) BRIM_TRY(predict_file(p, p->file.at[i], err));
    return flush_batch(p, err);
}

int brim_cmd_predict(int argc, char **argv)
{
    brim_options *o;
    int status;
    brim_error err = {0};
    if (!brim_options_begin(&usage, argc, argv, &o, &status)) return status;
    predictor p = {.o = o};
    brim_status st = run(&p, &err);
    for (size_t i = 0; i < p.file.n; i++) free(p.file.at[i]);
    free(p.file.at);
    free(p.path.at);
    free(p.pixels);
    free(p.label);
    free(p.weight);
    free(p.logits);
    brim_decoder_free(p.decoder);
    brim_resizer_release(&p.resizer);
    brim_classify_release(&p.c);
    brim_options_free(o);
    if (st != BRIM_OK) return brim_cli_failed("predict", &err);
    return p.failed ? BRIM_EXIT_FAILED : BRIM_EXIT_DONE;
}
