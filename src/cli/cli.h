/* What all commands share: their list, and how they end when something is wrong. */
#ifndef BRIM_CLI_CLI_H
#define BRIM_CLI_CLI_H

#include "base/error.h"

/* Exit statuses of the program. */
enum { BRIM_EXIT_DONE = 0, BRIM_EXIT_FAILED = 1, BRIM_EXIT_USAGE = 2 };

/* One function a command, in commands.def: argv[0] is the command's name. Returns an exit status.
 */
#define COMMAND(name, summary) int brim_cmd_##name(int argc, char **argv);
#include "cli/commands.def"
#undef COMMAND

/* Puts '?' for bytes that would steer the terminal; a file's name may hold any. */
void brim_cli_printable(char *text);
/* Prints "brim: COMMAND: what: why (what to do)" on stderr; `command` may be NULL. */
void brim_cli_error(const char *command, const brim_error *err);
/* The same, and what the command should then return. */
int brim_cli_failed(const char *command, const brim_error *err);  /* BRIM_EXIT_FAILED */
int brim_cli_misused(const char *command, const brim_error *err); /* BRIM_EXIT_USAGE */

#endif
