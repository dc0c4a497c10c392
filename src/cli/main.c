/* brim: finds the command and runs it. Exit status: 0 done, 1 failed, 2 wrong usage. */
#include "cli/cli.h"
#include "cli/term.h"
#include "cli/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What a command printed may have gone to a full disk: that is a failure, too. */
static int finish(int status)
{
    brim_term_status_end();
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    if (errno == EPIPE || status != BRIM_EXIT_DONE) return status;
    brim_error err = {0};
    brim_fail_errno(&err, errno, "standard output: cannot be written");
    return brim_cli_failed(NULL, &err);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        brim_verbs_print(stderr);
        return BRIM_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        brim_verbs_print(stdout);
        return finish(BRIM_EXIT_DONE);
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("brim " BRIM_VERSION);
        return finish(BRIM_EXIT_DONE);
    }
    return finish(brim_verbs_run(argc - 1, argv + 1));
}
