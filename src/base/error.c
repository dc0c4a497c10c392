#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *brim_status_text(brim_status status)
{
    static const char *const text[] = {
        [BRIM_OK] = "ok",
        [BRIM_EINVAL] = "invalid argument",
        [BRIM_ESHAPE] = "shapes do not fit",
        [BRIM_EDTYPE] = "element type not accepted",
        [BRIM_ENOMEM] = "out of memory",
        [BRIM_EMEMCAP] = "does not fit under the memory cap",
        [BRIM_EIO] = "input or output failed",
        [BRIM_EFORMAT] = "bad file format",
        [BRIM_ENOTFOUND] = "not found",
        [BRIM_EUNSUPPORTED] = "not supported here",
        [BRIM_EDEVICE] = "device failed",
        [BRIM_ENUMERIC] = "not a finite number",
        [BRIM_EINTERRUPTED] = "interrupted",
    };
    if ((unsigned)status >= sizeof text / sizeof *text) return "unknown status";
    return text[status];
}

void brim_one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127) *text = '?';
}

brim_status brim_fail(brim_error *err, brim_status status, const char *fmt, ...)
{
    if (!err) return status;
    /* An argument may point into err->text, so format beside it first. */
    char text[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    brim_one_line(text);
    err->status = status;
    memcpy(err->text, text, sizeof text);
    return status;
}

brim_status brim_fail_errno(brim_error *err, int errnum, const char *fmt, ...)
{
    brim_status status = errnum == ENOMEM   ? BRIM_ENOMEM
                         : errnum == ENOENT ? BRIM_ENOTFOUND
                                            : BRIM_EIO;
    char text[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return brim_fail(err, status, "%.900s: %s", text, strerror(errnum));
}

void brim_error_context(brim_error *err, const char *fmt, ...)
{
    if (!err || err->status == BRIM_OK) return;
    char head[256], text[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    brim_one_line(head);
    memcpy(text, err->text, sizeof text);
    text[sizeof text - 1] = 0;
    snprintf(err->text, sizeof err->text, "%s: %.*s", head, (int)(sizeof text - strlen(head) - 3),
             text);
}

void brim_check_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "brim: internal error: %s does not hold (%s:%d); please report it\n", cond,
            file, line);
    abort();
}
