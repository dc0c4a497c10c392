#include "base/str.h"
#include "base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool reserve(brim_str *s, size_t extra)
{
    if (s->failed || extra > SIZE_MAX / 4) {
        s->failed = true;
        return false;
    }
    size_t want = s->n + extra + 1;
    if (want <= s->cap) return true;
    size_t cap = s->cap ? s->cap * 2 : 64;
    if (cap < want) cap = want;
    char *p = brim_realloc(s->at, cap);
    if (!p) {
        s->failed = true;
        return false;
    }
    s->at = p;
    s->cap = cap;
    return true;
}

void brim_str_add_n(brim_str *s, const char *bytes, size_t n)
{
    if (!reserve(s, n)) return;
    memcpy(s->at + s->n, bytes, n);
    s->n += n;
    s->at[s->n] = 0;
}

void brim_str_add(brim_str *s, const char *text)
{
    brim_str_add_n(s, text, strlen(text));
}

void brim_str_printf(brim_str *s, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && reserve(s, (size_t)n)) {
        vsnprintf(s->at + s->n, (size_t)n + 1, fmt, again);
        s->n += (size_t)n;
    }
    va_end(again);
}

void brim_str_free(brim_str *s)
{
    free(s->at);
    *s = (brim_str){0};
}

const char *brim_str_text(const brim_str *s)
{
    return s->at ? s->at : "";
}

/* Three significant digits and the unit. */
static const char *scaled(char buf[32], double x, double base, const char *const *unit, int units)
{
    int u = 0;
    while (u + 1 < units && fabs(x) >= base * 0.9995) {
        x /= base;
        u++;
    }
    int digits = u == 0 ? 0 : fabs(x) >= 99.95 ? 0 : fabs(x) >= 9.995 ? 1 : 2;
    snprintf(buf, 32, "%.*f %s", digits, x, unit[u]);
    return buf;
}

const char *brim_bytes_text(char buf[32], double bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    return scaled(buf, bytes, 1024, unit, 5);
}

const char *brim_count_text(char buf[32], double count)
{
    static const char *const unit[] = {"", "k", "M", "G", "T", "P"};
    scaled(buf, count, 1000, unit, 6);
    size_t n = strlen(buf);
    if (n && buf[n - 1] == ' ') buf[n - 1] = 0;
    return buf;
}

const char *brim_time_text(char buf[32], double seconds)
{
    long s = seconds > 0 ? (long)(seconds + 0.5) : 0;
    if (s < 60)
        snprintf(buf, 32, "%ld s", s);
    else if (s < 3600)
        snprintf(buf, 32, "%ld m %02ld s", s / 60, s % 60);
    else
        snprintf(buf, 32, "%ld h %02ld m", s / 3600, s % 3600 / 60);
    return buf;
}

bool brim_bytes_parse(const char *text, size_t *bytes)
{
    static const struct {
        const char *suffix;
        int shift;
    } unit[] = {{"", 0},     {"b", 0},   {"k", 10},   {"kb", 10}, {"kib", 10},
                {"m", 20},   {"mb", 20}, {"mib", 20}, {"g", 30},  {"gb", 30},
                {"gib", 30}, {"t", 40},  {"tb", 40},  {"tib", 40}};
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)*text) && *text != '.') return false;
    double x = strtod(text, &end);
    while (*end == ' ') end++;
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
        if (!strcasecmp(end, unit[i].suffix)) {
            x = ldexp(x, unit[i].shift);
            if (errno || !(x >= 0 && x < 9e15)) return false;
            *bytes = (size_t)x;
            return true;
        }
    return false;
}
