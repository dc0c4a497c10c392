#include "cli/verbs.h"
#include "cli/cli.h"
#include "cli/suggest.h"

#include <string.h>

static const struct verb {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} verbs[] = {
#define COMMAND(name, summary) {#name, summary, brim_cmd_##name},
#include "cli/commands.def"
#undef COMMAND
};

enum { VERBS = sizeof verbs / sizeof *verbs };

int brim_verbs_run(int argc, char **argv)
{
    brim_suggestion s = {.word = argv[0]};
    for (int i = 0; i < VERBS; i++) {
        if (strcmp(argv[0], verbs[i].name) == 0) return verbs[i].run(argc, argv);
        brim_suggest(&s, verbs[i].name);
    }
    if (argv[0][0] == '-') {
        brim_suggest(&s, "--help");
        brim_suggest(&s, "--version");
    }
    brim_error err = {0};
    if (s.best)
        brim_fail(&err, BRIM_EINVAL, "%.60s: there is no such command (did you mean brim %s?)",
                  argv[0], s.best);
    else
        brim_fail(&err, BRIM_EINVAL, "%.60s: there is no such command (brim --help lists them)",
                  argv[0]);
    return brim_cli_misused(NULL, &err);
}

void brim_verbs_print(FILE *to)
{
    fputs("Usage: brim COMMAND [options]\n"
          "\n"
          "Trains neural networks on the hardware that you have.\n"
          "\n"
          "Commands:\n",
          to);
    int widest = 0;
    for (int i = 0; i < VERBS; i++)
        if ((int)strlen(verbs[i].name) > widest) widest = (int)strlen(verbs[i].name);
    for (int i = 0; i < VERBS; i++)
        fprintf(to, "  %-*s  %s\n", widest, verbs[i].name, verbs[i].summary);
    fputs("\n"
          "brim COMMAND --help explains a command; brim --version prints the version.\n",
          to);
}
