#include "cli/cli.h"
#include "base/log.h"
#include "cli/term.h"
#include "io/utf8.h"

#include <stdio.h>
#include <string.h>

void brim_cli_printable(char *text)
{
    for (size_t i = 0, n = strlen(text); i < n;) {
        size_t len = brim_utf8_length(text + i, n - i);
        unsigned char c = (unsigned char)text[i];
        bool c1 = len == 2 && c == 0xc2 && (unsigned char)text[i + 1] < 0xa0;
        if (len == 0 || c < 0x20 || c == 0x7f || c1) memset(text + i, '?', len ? len : 1);
        i += len ? len : 1;
    }
}

void brim_cli_error(const char *command, const brim_error *err)
{
    char text[sizeof err->text];
    memcpy(text, err->text, sizeof text);
    text[sizeof text - 1] = 0;
    brim_cli_printable(text);
    fflush(stdout);
    brim_term_status_end();
    fprintf(stderr, "brim: %s%s%s\n", command ? command : "", command ? ": " : "", text);
}

int brim_cli_failed(const char *command, const brim_error *err)
{
    brim_cli_error(command, err);
    return BRIM_EXIT_FAILED;
}

int brim_cli_misused(const char *command, const brim_error *err)
{
    brim_cli_error(command, err);
    return BRIM_EXIT_USAGE;
}
