#include "cli/term.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/utf8.h"

#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool brim_term_is_tty(FILE *f)
{
    return isatty(fileno(f)) == 1;
}

int brim_term_width(FILE *f)
{
    struct winsize w;
    bool known = brim_term_is_tty(f) && ioctl(fileno(f), TIOCGWINSZ, &w) == 0 && w.ws_col > 0;
    return known ? w.ws_col : 80;
}

bool brim_term_color(FILE *f)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return brim_term_is_tty(f) && !(no && *no) && term && *term && strcmp(term, "dumb") != 0;
}

bool brim_term_utf8(void)
{
    static const char *const name[] = {"LC_ALL", "LC_CTYPE", "LANG"}; /* the first set one counts */
    const char *v = NULL;
    for (int i = 0; i < 3 && !(v && *v); i++) v = getenv(name[i]);
    const char *set = v ? strchr(v, '.') : NULL;
    return set && (!strncasecmp(set, ".utf-8", 6) || !strncasecmp(set, ".utf8", 5));
}

const char *brim_term_style(FILE *f, brim_style style)
{
    static const char *const sequence[] = {
        [BRIM_STYLE_PLAIN] = "\033[0m", [BRIM_STYLE_BOLD] = "\033[1m",
        [BRIM_STYLE_DIM] = "\033[2m",   [BRIM_STYLE_GOOD] = "\033[32m",
        [BRIM_STYLE_WARN] = "\033[33m", [BRIM_STYLE_BAD] = "\033[31m",
    };
    return brim_term_color(f) ? sequence[style] : "";
}

/* ---- width of text ---- */

static unsigned code_point(const char *s, size_t len)
{
    const unsigned char *u = (const unsigned char *)s;
    unsigned c = len == 1 ? u[0] : u[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) c = c << 6 | (u[i] & 0x3fu);
    return c;
}

/* Wide and zero-width blocks of Unicode, roughly: enough to keep a table of file names straight. */
static int point_width(unsigned c)
{
    if (c < 0x20 || c == 0x7f) return 0;
    if ((c >= 0x300 && c < 0x370) || c == 0x200b || c == 0x200d || (c >= 0xfe00 && c < 0xfe10))
        return 0;
    bool wide = (c >= 0x1100 && c < 0x1160) || (c >= 0x2e80 && c < 0xa4d0) ||
                (c >= 0xac00 && c < 0xd7a4) || (c >= 0xf900 && c < 0xfb00) ||
                (c >= 0xfe30 && c < 0xfe70) || (c >= 0xff00 && c < 0xff61) ||
                (c >= 0x1f300 && c < 0x1f650) || (c >= 0x20000 && c < 0x40000);
    return wide ? 2 : 1;
}

/* The next unit of text: its bytes, and its columns in *columns. An escape sequence is one unit of
 * no width, a byte that is no UTF-8 one of width 1. */
static size_t next_unit(const char *s, size_t n, int *columns)
{
    if (s[0] == '\033' && n > 1 && s[1] == '[') {
        size_t i = 2;
        while (i < n && !(s[i] >= 0x40 && s[i] <= 0x7e)) i++;
        *columns = 0;
        return i < n ? i + 1 : n;
    }
    size_t len = brim_utf8_length(s, n);
    *columns = len ? point_width(code_point(s, len)) : 1;
    return len ? len : 1;
}

int brim_text_width(const char *text)
{
    int width = 0, w;
    for (size_t n = strlen(text), len; n; text += len, n -= len) {
        len = next_unit(text, n, &w);
        width += w;
    }
    return width;
}

void brim_text_clip(brim_str *out, const char *text, int columns)
{
    int w;
    for (size_t n = strlen(text), len; n; text += len, n -= len) {
        len = next_unit(text, n, &w);
        if (w > columns) return;
        columns -= w;
        brim_str_add_n(out, text, len);
    }
}

/* ---- the status line ---- */

static struct {
    pthread_mutex_t lock; /* taken inside the log's lock, never the other way round */
    brim_str text;        /* what stands there */
    bool active, shown;
    int64_t printed_ns; /* in a pipe: when last */
} status = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void erase(void)
{
    if (status.shown) fputs("\r\033[K", stderr);
    status.shown = false;
}

static void draw(void)
{
    if (!status.active || !brim_term_is_tty(stderr)) return;
    brim_str line = {0};
    brim_text_clip(&line, brim_str_text(&status.text), brim_term_width(stderr) - 1);
    fprintf(stderr, "\r%s\033[K", brim_str_text(&line));
    fflush(stderr);
    brim_str_free(&line);
    status.shown = true;
}

static void log_line(const char *line, void *user)
{
    pthread_mutex_lock(&status.lock);
    fflush(stdout);
    erase();
    fprintf(stderr, "%s\n", line);
    draw();
    pthread_mutex_unlock(&status.lock);
}

void brim_term_status(const char *text, double every_seconds)
{
    pthread_mutex_lock(&status.lock);
    bool first = !status.active;
    status.active = true;
    status.text.n = 0;
    brim_str_add(&status.text, text);
    if (brim_term_is_tty(stderr)) {
        draw();
    } else {
        int64_t now = brim_now_ns();
        if (first || (double)(now - status.printed_ns) >= every_seconds * 1e9) {
            fflush(stdout);
            fprintf(stderr, "%s\n", text);
            status.printed_ns = now;
        }
    }
    pthread_mutex_unlock(&status.lock);
    if (first) brim_log_set_sink(log_line, NULL); /* outside our lock: see its order */
}

void brim_term_line(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    pthread_mutex_lock(&status.lock);
    erase();
    fflush(stderr);
    vprintf(fmt, ap);
    putchar('\n');
    fflush(stdout);
    draw();
    pthread_mutex_unlock(&status.lock);
    va_end(ap);
}

void brim_term_status_end(void)
{
    pthread_mutex_lock(&status.lock);
    bool was = status.active;
    erase();
    fflush(stderr);
    status.active = false;
    brim_str_free(&status.text);
    pthread_mutex_unlock(&status.lock);
    if (was) brim_log_set_sink(NULL, NULL);
}
