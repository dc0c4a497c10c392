/* Messages to a person, on stderr: "brim: warning: ...". Thread-safe. */
#ifndef BRIM_BASE_LOG_H
#define BRIM_BASE_LOG_H

#include "base/error.h"

typedef enum brim_log_level {
    BRIM_LOG_QUIET,
    BRIM_LOG_WARN,
    BRIM_LOG_INFO,
    BRIM_LOG_DEBUG
} brim_log_level;

void brim_log_set_level(brim_log_level level); /* default: BRIM_LOG_WARN */
/* Where messages go instead of stderr (NULL: stderr): the progress line uses it to stay intact. */
void brim_log_set_sink(void (*sink)(const char *line, void *user), void *user);
void brim_message(brim_log_level level, const char *fmt, ...) BRIM_PRINTF(2, 3);

#define brim_warn(...)  brim_message(BRIM_LOG_WARN, __VA_ARGS__)
#define brim_info(...)  brim_message(BRIM_LOG_INFO, __VA_ARGS__)
#define brim_debug(...) brim_message(BRIM_LOG_DEBUG, __VA_ARGS__)

#endif
