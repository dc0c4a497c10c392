#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int current = BRIM_LOG_WARN;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*sink_fn)(const char *, void *);
static void *sink_user;

void brim_log_set_level(brim_log_level level)
{
    atomic_store(&current, (int)level);
}

void brim_log_set_sink(void (*sink)(const char *line, void *user), void *user)
{
    pthread_mutex_lock(&lock);
    sink_fn = sink;
    sink_user = user;
    pthread_mutex_unlock(&lock);
}

void brim_message(brim_log_level level, const char *fmt, ...)
{
    if ((int)level > atomic_load(&current)) return;
    char line[2048];
    int n = snprintf(line, sizeof line, "brim: %s", level == BRIM_LOG_WARN ? "warning: " : "");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    va_end(ap);
    brim_one_line(line);
    pthread_mutex_lock(&lock);
    if (sink_fn)
        sink_fn(line, sink_user);
    else
        fprintf(stderr, "%s\n", line);
    pthread_mutex_unlock(&lock);
}
