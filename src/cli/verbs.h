/* The commands as a table, from commands.def. */
#ifndef BRIM_CLI_VERBS_H
#define BRIM_CLI_VERBS_H

#include <stdio.h>

/* Runs the command argv[0]; an unknown one is an error with a suggestion. Returns an exit status.
 */
int brim_verbs_run(int argc, char **argv);
/* The text of brim --help. */
void brim_verbs_print(FILE *to);

#endif
