#include "cli/cli.h"
#include "cli/options.h"
#include "cli/verbs.h"

static const brim_usage usage = {
    .command = "help",
    .synopsis = "[COMMAND]",
    .about = "Lists the commands, or explains one, as brim COMMAND --help does.",
    .max_args = 1,
};

int brim_cmd_help(int argc, char **argv)
{
    brim_options *o;
    int status;
    if (!brim_options_begin(&usage, argc, argv, &o, &status)) return status;
    if (brim_options_args(o) == 0) {
        brim_verbs_print(stdout);
        status = BRIM_EXIT_DONE;
    } else {
        char help[] = "--help", *verb = argv[argc - 1], *args[] = {verb, help, NULL};
        status = brim_verbs_run(2, args);
    }
    brim_options_free(o);
    return status;
}
