/* brim train: the main job. */
#include "base/arena.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "cli/term.h"
#include "cli/train_options.h"
#include "io/file.h"

#include <signal.h>
#include <string.h>

/* A run that goes on does so with its own options. */
static const char *config_of_run(const brim_options *o, brim_str *path)
{
    if (!brim_options_flag(o, "resume") || !brim_options_text(o, "out")) return NULL;
    brim_str_printf(path, "%s/config.yaml", brim_options_text(o, "out"));
    return brim_file_exists(brim_str_text(path)) ? path->at : NULL;
}

static const brim_usage usage = {
    .command = "train",
    .synopsis = "--data PATH --out DIR [options]",
    .about =
        "Trains an image classifier, or fine-tunes one. All memory is planned and taken before the "
        "first step.\n"
        "Ctrl-C ends the current step, saves, and says how to go on; a second Ctrl-C ends at once.",
    .options = brim_train_option_table,
    .config = config_of_run,
    .examples = "brim train --data photos --model resnet18 --epochs 20 --batch 64 --out runs/a\n"
                "brim train --data photos --init resnet18.safetensors --lr 0.01 --out runs/b\n"
                "brim train --data photos --out runs/c --memory 2GiB --precision bf16\n"
                "brim train --out runs/a --resume",
};

static volatile sig_atomic_t stop_asked;

static void on_signal(int sig)
{
    if (stop_asked && (sig == SIGINT || sig == SIGTERM)) {
        signal(sig, SIG_DFL);
        raise(sig);
    }
    stop_asked = 1;
}

/* A terminal or pipe that went away is no reason to lose the run; under nohup it stays ignored. */
static void catch_signals(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction act = {.sa_handler = on_signal}, old;
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        bool user = ends[k] == SIGINT || ends[k] == SIGTERM;
        if (user || sigaction(ends[k], NULL, &old) || old.sa_handler != SIG_IGN)
            sigaction(ends[k], &act, NULL);
    }
}

typedef struct view {
    bool quiet, head; /* head: the table of epochs has begun */
    const brim_train_opts *o;
} view;

static bool stop(void *user)
{
    (void)user;
    return stop_asked;
}

static void note(void *user, const char *text)
{
    const view *v = user;
    if (!v->quiet) brim_term_line("  %s", text);
}

static const char *precision_name(brim_dtype t)
{
    return t == BRIM_BF16 ? "bf16" : t == BRIM_F16 ? "fp16" : "fp32";
}

static void started(void *user, const brim_plan *p, const brim_dataset *train,
                    const brim_dataset *val, const brim_train_opts *o)
{
    const view *v = user;
    char n[32], f[32], m[32];
    if (v->quiet) return;
    brim_term_line("  data      %lld images to train on, %lld to validate, %d classes (%s)",
                   (long long)brim_dataset_size(train), val ? (long long)brim_dataset_size(val) : 0,
                   brim_dataset_classes(train), brim_dataset_kind(train));
    brim_term_line("  model     %s, %s parameters, %sFLOP a training image", o->model,
                   brim_count_text(n, (double)p->parameters),
                   brim_count_text(f, p->flops_per_sample));
    if (p->accumulation > 1)
        brim_term_line("  step      batch %lld as %lld micro-batches of %lld, %s",
                       (long long)p->batch, (long long)p->accumulation, (long long)p->micro_batch,
                       precision_name(o->session.precision));
    else
        brim_term_line("  step      batch %lld, %s", (long long)p->batch,
                       precision_name(o->session.precision));
    brim_term_line("  memory    %s planned, all of it now",
                   brim_bytes_text(m, (double)p->total_bytes));
}

static void progress(void *user, const brim_progress *p)
{
    const view *v = user;
    char left[32], line[256];
    if (v->quiet || p->samples_per_s <= 0) return;
    double wait = p->data_wait_ms / (p->data_wait_ms + p->step_ms);
    int n = snprintf(line, sizeof line,
                     "epoch %d/%d  %lld/%lld  loss %.4f  top-1 %.1f %%  lr %.2g  %.0f img/s  data "
                     "wait %.0f %%  %s left",
                     p->epoch, p->epochs, (long long)p->epoch_step, (long long)p->epoch_steps,
                     p->loss, 100 * p->top1, p->lr, p->samples_per_s, 100 * wait,
                     brim_time_text(left, p->seconds_left));
    if (p->skipped && n > 0 && (size_t)n < sizeof line)
        snprintf(line + n, sizeof line - (size_t)n, "  scale %.0f, %lld skipped", p->loss_scale,
                 (long long)p->skipped);
    brim_term_status(line, 10);
}

/* One line of a table, whose head stands above the first. */
static void epoch(void *user, const brim_epoch_report *r)
{
    view *v = user;
    if (v->quiet) return;
    brim_str s = {0};
    bool top5 = r->eval && r->eval->classes > 5;
    if (!v->head) {
        brim_str_add(&s, "\n  epoch  train loss  top-1 %");
        if (r->eval) brim_str_add(&s, "  val loss  top-1 %");
        if (top5) brim_str_add(&s, "  top-5 %");
        brim_str_add(&s, "    img/s  wait %\n");
        v->head = true;
    }
    brim_str_printf(&s, "  %5d  %10.4f  %7.2f", r->epoch, r->train_loss, 100 * r->train_top1);
    if (r->eval) brim_str_printf(&s, "  %8.4f  %7.2f", r->eval->loss, 100 * r->eval->top1);
    if (top5) brim_str_printf(&s, "  %7.2f", 100 * r->eval->top5);
    brim_str_printf(&s, "  %7.0f  %6.0f", r->samples_per_s, 100 * r->data_wait_share);
    if (r->best) brim_str_add(&s, "  best");
    if (r->damaged) brim_str_printf(&s, "  %lld damaged", (long long)r->damaged);
    brim_term_line("%s", brim_str_text(&s));
    brim_str_free(&s);
}

static void ended(void *user, const brim_session *s, int64_t steps, double seconds)
{
    const view *v = user;
    brim_str out = {0};
    char took[32];
    if (v->quiet) return;
    brim_term_status_end();
    brim_str_add(&out, "\n");
    brim_report_time(&out, s);
    brim_str_add(&out, "\n");
    brim_report_memory(&out, brim_session_plan(s));
    brim_term_line("%s", brim_str_text(&out));
    brim_term_line("  %lld updates in %s; best.safetensors, last.safetensors, metrics.jsonl and "
                   "config.yaml are in %s",
                   (long long)steps, brim_time_text(took, seconds), v->o->out);
    brim_str_free(&out);
}

static brim_status run(const brim_options *o, brim_arena *arena, brim_error *err)
{
    brim_train_opts t;
    brim_str config = {0};
    BRIM_TRY(brim_train_options_apply(o, arena, &t, err));
    brim_options_save(o, &config);
    t.config_yaml = brim_str_text(&config);
    view v = {.quiet = brim_options_flag(o, "quiet"), .o = &t};
    brim_train_events ev = {&v, started, note, progress, epoch, stop, ended};
    catch_signals();
    if (v.quiet) brim_log_set_level(BRIM_LOG_QUIET);
    brim_status st = brim_train(&t, &ev, err);
    brim_term_status_end();
    if (st == BRIM_EINTERRUPTED) brim_term_line("  to go on: brim train --out %s --resume", t.out);
    brim_str_free(&config);
    return st;
}

int brim_cmd_train(int argc, char **argv)
{
    brim_options *o;
    int status;
    brim_error err = {0};
    brim_arena arena;
    if (!brim_options_begin(&usage, argc, argv, &o, &status)) return status;
    brim_arena_init(&arena);
    brim_status st = run(o, &arena, &err);
    brim_arena_release(&arena);
    brim_options_free(o);
    if (st == BRIM_OK) return BRIM_EXIT_DONE;
    return st == BRIM_EINVAL ? brim_cli_misused("train", &err) : brim_cli_failed("train", &err);
}
