#include "train/run_folder.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/file.h"
#include "io/json.h"
#include "io/tensorboard.h"
#include "train/signature.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static char *in_folder(const char *folder, const char *file)
{
    brim_str s = {0};
    brim_str_printf(&s, "%s/%s", folder, file);
    return s.at;
}

/* What the saved configuration lacks of the one of now. A run without one has changed nothing. */
static brim_status compare_configs(brim_run_folder *r, const char *path, const brim_train_opts *o,
                                   brim_error *err)
{
    char *was;
    size_t n;
    if (!o->config_yaml || !brim_file_exists(path)) return BRIM_OK;
    BRIM_TRY(brim_file_read(path, 1 << 20, &was, &n, err));
    brim_signature_changes(&r->changes, was, o->config_yaml);
    free(was);
    return r->changes.failed ? brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path) : BRIM_OK;
}

brim_status brim_run_open(brim_run_folder *r, const brim_train_opts *o, brim_error *err)
{
    *r = (brim_run_folder){0};
    r->path = brim_strdup(o->out);
    char *state = in_folder(o->out, "state.safetensors"),
         *config = in_folder(o->out, "config.yaml");
    brim_status st = BRIM_OK;
    if (!r->path || !state || !config)
        st = brim_fail(err, BRIM_ENOMEM, "%s: out of memory", o->out);
    else if (o->resume && !brim_file_exists(state))
        st = brim_fail(err, BRIM_ENOTFOUND,
                       "%s: there is nothing to resume (leave out --resume to start)", state);
    else if (!o->resume && brim_file_exists(state))
        st = brim_fail(
            err, BRIM_EINVAL,
            "%s: holds a run already (--resume goes on with it; or choose another --out)", o->out);
    if (st == BRIM_OK && o->resume) st = compare_configs(r, config, o, err);
    free(state);
    free(config);
    return st;
}

/* "step" of a line of metrics.jsonl; -1 when the line is cut off. */
static int64_t step_of(const char *line)
{
    const char *at = strstr(line, "\"step\":");
    return at && strchr(line, '}') ? atoll(at + 7) : -1;
}

/* Takes out lines after `step` and an unfinished last one. */
static brim_status trim_metrics(const char *path, int64_t step, brim_error *err)
{
    char *text;
    size_t n;
    if (!brim_file_exists(path)) return BRIM_OK;
    BRIM_TRY(brim_file_read(path, (size_t)1 << 30, &text, &n, err));
    brim_str kept = {0};
    for (char *line = text, *end; *line; line = end) {
        end = strchr(line, '\n');
        if (!end) break;
        *end++ = 0;
        int64_t at = step_of(line);
        if (at >= 0 && at <= step) brim_str_printf(&kept, "%s\n", line);
    }
    brim_status st = brim_file_save(path, brim_str_text(&kept), kept.n, err);
    brim_str_free(&kept);
    free(text);
    return st;
}

static brim_status open_logs(brim_run_folder *r, int64_t step, brim_error *err)
{
    char *path = in_folder(r->path, "metrics.jsonl");
    if (!path) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", r->path);
    brim_status st = trim_metrics(path, step, err);
    if (st == BRIM_OK && !(r->metrics = fopen(path, "ae")))
        st = brim_fail_errno(err, errno, "%s: cannot write the log", path);
    free(path);
    return st == BRIM_OK ? brim_tb_open(r->path, &r->tb, err) : st;
}

brim_status brim_run_start(brim_run_folder *r, const brim_train_opts *o, int64_t step,
                           brim_error *err)
{
    BRIM_TRY(brim_make_dirs(r->path, err));
    if (o->config_yaml) {
        char *config = in_folder(r->path, "config.yaml");
        if (!config) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", r->path);
        brim_status st = brim_file_save(config, o->config_yaml, strlen(o->config_yaml), err);
        free(config);
        BRIM_TRY(st);
    }
    return open_logs(r, step, err);
}

void brim_run_close(brim_run_folder *r)
{
    if (r->metrics) fclose(r->metrics);
    brim_tb_close(r->tb);
    brim_str_free(&r->changes);
    free(r->path);
    *r = (brim_run_folder){0};
}

static brim_status append(brim_run_folder *r, brim_str *line, brim_error *err)
{
    brim_str_add(line, "\n");
    bool ok = !line->failed && fwrite(line->at, 1, line->n, r->metrics) == line->n &&
              fflush(r->metrics) == 0;
    brim_status st =
        ok ? BRIM_OK
           : brim_fail_errno(err, errno, "%s/metrics.jsonl: cannot write (is the disk full?)",
                             r->path);
    brim_str_free(line);
    return st;
}

brim_status brim_run_log_step(brim_run_folder *r, const brim_progress *p, size_t mem_bytes,
                              brim_error *err)
{
    brim_str line = {0};
    brim_json j;
    brim_json_begin(&j, &line, '{');
    brim_json_int(&j, "step", p->step);
    brim_json_int(&j, "epoch", p->epoch);
    brim_json_number(&j, "loss", p->loss);
    brim_json_number(&j, "top1", p->top1);
    brim_json_number(&j, "lr", p->lr);
    brim_json_number(&j, "loss_scale", p->loss_scale);
    brim_json_number(&j, "grad_norm", p->grad_norm);
    brim_json_int(&j, "skipped_steps", p->skipped);
    brim_json_number(&j, "samples_per_s", p->samples_per_s);
    brim_json_number(&j, "step_ms", p->step_ms);
    brim_json_number(&j, "data_wait_ms", p->data_wait_ms);
    brim_json_int(&j, "mem_bytes", (long long)mem_bytes);
    brim_json_end(&j, '}');
    BRIM_TRY(append(r, &line, err));
    BRIM_TRY(brim_tb_scalar(r->tb, "train/loss", p->step, p->loss, err));
    BRIM_TRY(brim_tb_scalar(r->tb, "train/top1", p->step, p->top1, err));
    BRIM_TRY(brim_tb_scalar(r->tb, "train/lr", p->step, p->lr, err));
    BRIM_TRY(brim_tb_scalar(r->tb, "speed/samples_per_s", p->step, p->samples_per_s, err));
    return brim_tb_flush(r->tb, err);
}

brim_status brim_run_log_epoch(brim_run_folder *r, const brim_epoch_report *e, int64_t step,
                               brim_error *err)
{
    brim_str line = {0};
    brim_json j;
    brim_json_begin(&j, &line, '{');
    brim_json_int(&j, "step", step);
    brim_json_int(&j, "epoch", e->epoch);
    brim_json_number(&j, "train_loss", e->train_loss);
    brim_json_number(&j, "train_top1", e->train_top1);
    if (e->eval) {
        brim_json_number(&j, "val_loss", e->eval->loss);
        brim_json_number(&j, "val_top1", e->eval->top1);
        brim_json_number(&j, "val_top5", e->eval->top5);
        brim_json_int(&j, "val_samples", e->eval->samples);
    }
    brim_json_number(&j, "samples_per_s", e->samples_per_s);
    brim_json_number(&j, "data_wait_share", e->data_wait_share);
    brim_json_int(&j, "damaged_images", e->damaged);
    brim_json_end(&j, '}');
    BRIM_TRY(append(r, &line, err));
    BRIM_TRY(brim_tb_scalar(r->tb, "epoch/train_loss", step, e->train_loss, err));
    if (e->eval) {
        BRIM_TRY(brim_tb_scalar(r->tb, "epoch/val_loss", step, e->eval->loss, err));
        BRIM_TRY(brim_tb_scalar(r->tb, "epoch/val_top1", step, e->eval->top1, err));
        BRIM_TRY(brim_tb_scalar(r->tb, "epoch/val_top5", step, e->eval->top5, err));
    }
    return brim_tb_flush(r->tb, err);
}

/* The card: what is needed to use the weights again. */
brim_status brim_run_save_model(const brim_run_folder *r, brim_session *s, const brim_train_opts *o,
                                const brim_classifier *c, const brim_dataset *d, bool best,
                                brim_error *err)
{
    char classes[16], size[64], mean[96], std[96], crop[32];
    brim_str names = {0};
    for (int k = 0; k < c->model.classes; k++)
        brim_str_printf(&names, "%s%s", k ? "\n" : "", brim_dataset_class_name(d, k));
    snprintf(classes, sizeof classes, "%d", c->model.classes);
    snprintf(size, sizeof size, "%d,%d,%d", c->model.height, c->model.width, c->model.channels);
    snprintf(mean, sizeof mean, "%.9g,%.9g,%.9g", (double)c->mean[0], (double)c->mean[1],
             (double)c->mean[2]);
    snprintf(std, sizeof std, "%.9g,%.9g,%.9g", (double)c->std[0], (double)c->std[1],
             (double)c->std[2]);
    snprintf(crop, sizeof crop, "%.9g", o->augment.crop_ratio);
    const char *const card[][2] = {
        {"format", "pt"},          {"brim.model", c->model.name},
        {"brim.classes", classes}, {"brim.image", size},
        {"brim.mean", mean},       {"brim.std", std},
        {"brim.crop_ratio", crop}, {"brim.class_names", brim_str_text(&names)}};
    int n = sizeof card / sizeof *card;
    char *last = in_folder(r->path, "last.safetensors"),
         *top = in_folder(r->path, "best.safetensors");
    brim_status st = last && top && !names.failed
                         ? BRIM_OK
                         : brim_fail(err, BRIM_ENOMEM, "%s: out of memory", r->path);
    if (st == BRIM_OK) st = brim_session_save(s, last, card, n, err);
    if (st == BRIM_OK && best) st = brim_session_save(s, top, card, n, err);
    free(last);
    free(top);
    brim_str_free(&names);
    return st;
}

/* A field of CSV: in quotes, which are doubled inside (RFC 4180). */
static void add_field(brim_str *out, const char *text)
{
    brim_str_add(out, "\"");
    for (; *text; text++) brim_str_add_n(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    brim_str_add(out, "\"");
}

brim_status brim_run_save_confusion(const brim_run_folder *r, const brim_dataset *d,
                                    const brim_eval_result *e, brim_error *err)
{
    brim_str out = {0};
    add_field(&out, "true \\ predicted");
    for (int k = 0; k < e->classes; k++) {
        brim_str_add(&out, ",");
        add_field(&out, brim_dataset_class_name(d, k));
    }
    brim_str_add(&out, "\n");
    for (int y = 0; y < e->classes; y++) {
        add_field(&out, brim_dataset_class_name(d, y));
        for (int k = 0; k < e->classes; k++)
            brim_str_printf(&out, ",%lld", (long long)e->confusion[(int64_t)y * e->classes + k]);
        brim_str_add(&out, "\n");
    }
    char *path = in_folder(r->path, "confusion.csv");
    brim_status st = path && !out.failed
                         ? brim_file_save(path, out.at, out.n, err)
                         : brim_fail(err, BRIM_ENOMEM, "%s: out of memory", r->path);
    free(path);
    brim_str_free(&out);
    return st;
}

brim_status brim_run_save_state(const brim_run_folder *r, const brim_session *s,
                                const brim_position *p, const char *signature, brim_error *err)
{
    char text[512];
    snprintf(text, sizeof text, "%lld %lld %lld %.17g %lld %.17g %.17g %lld %lld %.17g %.17g %.17g",
             (long long)p->step, (long long)p->epoch, (long long)p->micro_done, p->best_top1,
             (long long)p->best_epoch, p->loss_sum, p->top1_sum, (long long)p->samples,
             (long long)p->damaged, p->window_loss, p->window_top1, p->window_weight);
    const char *const meta[][2] = {{"brim.position", text}, {"brim.signature", signature}};
    char *path = in_folder(r->path, "state.safetensors");
    if (!path) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", r->path);
    brim_status st = brim_session_save_state(s, path, meta, 2, err);
    free(path);
    return st;
}
