/* brim data: what can be done with data sets before a training. */
#include "backend/cpu/cpu.h"
#include "cli/cli.h"
#include "cli/data_report.h"
#include "cli/options.h"
#include "cli/suggest.h"
#include "cli/term.h"

#include <stdio.h>
#include <string.h>

static const brim_option check_options[] = {
    {.group = "Data",
     .name = "val-data",
     .type = BRIM_OPTION_PATH,
     .arg = "PATH",
     .help = "Validation images, if they are not in PATH"},
    {.name = "channels",
     .type = BRIM_OPTION_CHOICE,
     .words = "1|3",
     .value = "3",
     .help = "Of mean and standard deviation, grey or RGB"},
    {.group = "Machine",
     .name = "threads",
     .type = BRIM_OPTION_INT,
     .value = "0",
     .min = 0,
     .max = 4096,
     .help = "Threads that decode; 0: all cores"},
    {.group = "Output",
     .name = "all",
     .type = BRIM_OPTION_FLAG,
     .value = "off",
     .help = "List everything; on a terminal, lists are cut otherwise"},
    {.name = "json", .type = BRIM_OPTION_FLAG, .value = "off", .help = "One JSON object"},
    {0}};

static const brim_usage check_usage = {
    .command = "data check",
    .synopsis = "PATH [options]",
    .about = "Reads and decodes every image of a set, whatever brim train --data takes, and says "
             "what is in it and what is wrong: damaged files, class folders without images, "
             "images that are there twice (in two classes, or for training and for validation), "
             "classes of very different size.\n"
             "The exit status is 0 when brim train would use all of it, warnings or not, and 1 "
             "when images are damaged or the set would be refused.",
    .options = check_options,
    .examples = "brim data check photos\nbrim data check 'train-{0..4}.tar.gz' --val-data val.tar "
                "--json",
    .min_args = 1,
    .max_args = 1,
};

static void show_progress(void *user, int64_t done, int64_t all)
{
    (void)user;
    char line[80];
    snprintf(line, sizeof line, "checked %lld of %lld images", (long long)done, (long long)all);
    brim_term_status(line, 10);
}

/* Opens the set, and the one for validation with the classes in the same order. */
static brim_status open_sets(const brim_options *o, brim_dataset *set[2], brim_error *err)
{
    brim_dataset_opts d = {.allow_empty = true};
    BRIM_TRY(brim_dataset_open(brim_options_arg(o, 0), &d, &set[0], err));
    if (!brim_options_text(o, "val-data")) return BRIM_OK;
    d.n_class_names = brim_dataset_classes(set[0]);
    const char **names = brim_malloc((size_t)d.n_class_names * sizeof *names);
    if (!names) return brim_fail(err, BRIM_ENOMEM, "data: out of memory");
    for (int k = 0; k < d.n_class_names; k++) names[k] = brim_dataset_class_name(set[0], k);
    d.class_names = names;
    d.names_of = "the training images";
    brim_status st = brim_dataset_open(brim_options_text(o, "val-data"), &d, &set[1], err);
    free(names);
    return st;
}

/* Prints the report; *sound: there are no problems. */
static brim_status report(const brim_options *o, const brim_check *c, bool *sound, brim_error *err)
{
    enum { LINES = 10 };
    brim_data_report r;
    brim_str out = {0};
    brim_data_judge(&r, c, brim_options_arg(o, 0), brim_options_text(o, "val-data"));
    r.color = brim_term_is_tty(stdout);
    r.lines = r.color && !brim_options_flag(o, "all") ? LINES : 0;
    *sound = r.problems.n == 0;
    if (brim_options_flag(o, "json"))
        brim_data_json(&r, &out);
    else
        brim_data_text(&r, &out);
    bool ok = !r.failed && !out.failed;
    if (ok) fputs(brim_str_text(&out), stdout);
    brim_str_free(&out);
    brim_data_report_release(&r);
    return ok ? BRIM_OK : brim_fail(err, BRIM_ENOMEM, "data: out of memory");
}

static brim_status check(const brim_options *o, bool *sound, brim_error *err)
{
    brim_dataset *set[2] = {NULL, NULL};
    brim_check c;
    brim_status st = open_sets(o, set, err);
    int threads = (int)brim_options_int(o, "threads");
    brim_check_opts opts = {.set = set[0],
                            .val = set[1],
                            .channels = brim_options_is(o, "channels", "1") ? 1 : 3,
                            .threads = threads ? threads : brim_cpu_features_get()->cores,
                            .progress = show_progress};
    if (st == BRIM_OK) {
        st = brim_check_run(&opts, &c, err);
        brim_term_status_end();
        if (st == BRIM_OK) {
            st = report(o, &c, sound, err);
            brim_check_release(&c);
        }
    }
    brim_dataset_free(set[0]);
    brim_dataset_free(set[1]);
    return st;
}

static int run_check(int argc, char **argv)
{
    brim_options *o;
    int status;
    bool sound = false;
    brim_error err = {0};
    if (!brim_options_begin(&check_usage, argc, argv, &o, &status)) return status;
    brim_status st = check(o, &sound, &err);
    brim_options_free(o);
    if (st != BRIM_OK) return brim_cli_failed("data check", &err);
    return sound ? BRIM_EXIT_DONE : BRIM_EXIT_FAILED;
}

/* ---- the verbs ---- */

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} verbs[] = {
    {"check", "verifies every image of a set, and sums up what it holds", run_check},
};

enum { VERBS = sizeof verbs / sizeof *verbs };

static void print_verbs(FILE *to)
{
    fputs("Usage: brim data VERB [options]\n\nVerbs:\n", to);
    for (int k = 0; k < VERBS; k++) fprintf(to, "  %s  %s\n", verbs[k].name, verbs[k].summary);
    fputs("\nbrim data VERB --help explains a verb.\n", to);
}

int brim_cmd_data(int argc, char **argv)
{
    if (argc < 2) {
        print_verbs(stderr);
        return BRIM_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_verbs(stdout);
        return BRIM_EXIT_DONE;
    }
    brim_suggestion s = {.word = argv[1]};
    for (int k = 0; k < VERBS; k++) {
        if (!strcmp(argv[1], verbs[k].name)) return verbs[k].run(argc - 1, argv + 1);
        brim_suggest(&s, verbs[k].name);
    }
    brim_error err = {0};
    if (s.best)
        brim_fail(&err, BRIM_EINVAL, "%.60s: there is no such verb (did you mean brim data %s?)",
                  argv[1], s.best);
    else
        brim_fail(&err, BRIM_EINVAL, "%.60s: there is no such verb (brim data --help lists them)",
                  argv[1]);
    return brim_cli_misused("data", &err);
}
