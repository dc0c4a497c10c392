#include "io/json.h"
#include "io/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void brim_json_begin(brim_json *j, brim_str *out, char bracket)
{
    j->out = out;
    j->comma = false;
    brim_str_add_n(out, &bracket, 1);
}

void brim_json_end(brim_json *j, char bracket)
{
    brim_str_add_n(j->out, &bracket, 1);
    j->comma = true;
}

/* Bytes that are no UTF-8 (file names may hold any) become U+FFFD: the line stays valid JSON. */
static void quoted(brim_str *out, const char *s)
{
    size_t n = strlen(s);
    brim_str_add(out, "\"");
    while (n) {
        size_t len = brim_utf8_length(s, n);
        unsigned char c = (unsigned char)*s;
        if (len == 0)
            brim_str_add(out, "\xef\xbf\xbd");
        else if (c == '"' || c == '\\')
            brim_str_printf(out, "\\%c", c);
        else if (c == '\n')
            brim_str_add(out, "\\n");
        else if (c == '\t')
            brim_str_add(out, "\\t");
        else if (c < 0x20 || c == 0x7f)
            brim_str_printf(out, "\\u%04x", c);
        else
            brim_str_add_n(out, s, len);
        s += len ? len : 1;
        n -= len ? len : 1;
    }
    brim_str_add(out, "\"");
}

void brim_json_key(brim_json *j, const char *key)
{
    if (j->comma) brim_str_add(j->out, ",");
    j->comma = true;
    if (!key) return;
    quoted(j->out, key);
    brim_str_add(j->out, ":");
}

void brim_json_number(brim_json *j, const char *key, double value)
{
    brim_json_key(j, key);
    if (!isfinite(value)) {
        brim_str_add(j->out, "null");
        return;
    }
    char text[64];
    for (int digits = 15; digits <= 17; digits++) { /* the shortest that reads back the same */
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    /* The host program's locale may have put a decimal comma. */
    char *comma = strpbrk(text, ",");
    if (comma) *comma = '.';
    brim_str_add(j->out, text);
}

void brim_json_int(brim_json *j, const char *key, long long value)
{
    brim_json_key(j, key);
    brim_str_printf(j->out, "%lld", value);
}

void brim_json_text(brim_json *j, const char *key, const char *value)
{
    brim_json_key(j, key);
    if (value)
        quoted(j->out, value);
    else
        brim_str_add(j->out, "null");
}

void brim_json_bool(brim_json *j, const char *key, bool value)
{
    brim_json_key(j, key);
    brim_str_add(j->out, value ? "true" : "false");
}
