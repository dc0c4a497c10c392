/* brim: finds the command and runs it. Exit status: 0 done, 1 failed, 2 wrong usage. */
#include "cli/cli.h"
#include "cli/term.h"
#include "cli/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* GNU's OpenMP spins for milliseconds at the end of each parallel loop. Where decoding threads or
 * other programs want the cores, that time is lost to them, so it is kept short unless the user
 * decided. The runtime reads the variable when it is loaded, before main: hence the second start.
 */
static void limit_spinning(char **argv)
{
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
    if (setenv("GOMP_SPINCOUNT", "20000", 0) == 0) execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    limit_spinning(argv);
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
