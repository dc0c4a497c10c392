/* How the inside of the library reports a failure: fill the caller's brim_error, return the status.
 */
#ifndef BRIM_BASE_ERROR_H
#define BRIM_BASE_ERROR_H

#include "brim/status.h"

#include <stdlib.h>

#define BRIM_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Sets err (may be NULL) to status and the formatted text "what: why (what to do)"; returns status.
 */
brim_status brim_fail(brim_error *err, brim_status status, const char *fmt, ...) BRIM_PRINTF(3, 4);

/* As brim_fail, with ": " and strerror(errnum) appended. */
brim_status brim_fail_errno(brim_error *err, int errnum, const char *fmt, ...) BRIM_PRINTF(3, 4);

/* Puts "context: " in front of the text already in err, if err is not NULL and holds a failure. */
void brim_error_context(brim_error *err, const char *fmt, ...) BRIM_PRINTF(2, 3);

/* Names and texts of files come into messages as they are: each control character becomes a '?', so
 * that a message stays one line and moves no cursor. The functions above do it themselves. */
void brim_one_line(char *text);

/* Returns from the calling function when expr is not BRIM_OK. */
#define BRIM_TRY(expr)                                                                             \
    do {                                                                                           \
        brim_status try_status_ = (expr);                                                          \
        if (try_status_ != BRIM_OK) return try_status_;                                            \
    } while (0)

/* A broken invariant of our own: prints and aborts. Never for user input. */
#define BRIM_CHECK(cond)                                                                           \
    do {                                                                                           \
        if (!(cond)) brim_check_failed(#cond, __FILE__, __LINE__);                                 \
    } while (0)
_Noreturn void brim_check_failed(const char *cond, const char *file, int line);

#endif
