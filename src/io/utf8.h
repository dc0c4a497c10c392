/* UTF-8, as strict as RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef BRIM_IO_UTF8_H
#define BRIM_IO_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the well-formed sequence at the start of s[0..n); 0 when there is none. */
static inline size_t brim_utf8_length(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    if (n == 0) return 0;
    if (u[0] < 0x80) return 1;
    size_t len = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
    if (u[0] < 0xc2 || u[0] > 0xf4 || n < len) return 0;
    unsigned char lo = u[0] == 0xe0 ? 0xa0 : u[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char hi = u[0] == 0xed ? 0x9f : u[0] == 0xf4 ? 0x8f : 0xbf;
    if (u[1] < lo || u[1] > hi) return 0;
    for (size_t i = 2; i < len; i++)
        if (u[i] < 0x80 || u[i] > 0xbf) return 0;
    return len;
}

static inline bool brim_utf8_valid(const char *s, size_t n)
{
    for (size_t i = 0, len; i < n; i += len)
        if ((len = brim_utf8_length(s + i, n - i)) == 0) return false;
    return true;
}

#endif
