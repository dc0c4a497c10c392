#include "io/yaml.h"
#include "base/mem.h"
#include "base/vec.h"
#include "io/file.h"
#include "io/utf8.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

enum { MAX_BYTES = 1 << 20, MAX_KEYS = 1000 };

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    bool has_event;
    const char *name;
    brim_error *err;
} reader;

static int line_of(const reader *r)
{
    return (int)r->event.start_mark.line + 1;
}

/* "FILE:LINE: " and the rest, at the current event. */
#define FAIL(r, fmt, ...)                                                                          \
    brim_fail((r)->err, BRIM_EFORMAT, "%s:%d: " fmt, (r)->name, line_of(r), __VA_ARGS__)

static brim_status no_memory(const reader *r)
{
    return brim_fail(r->err, BRIM_ENOMEM, "%s: out of memory (close other programs)", r->name);
}

static brim_status next(reader *r)
{
    if (r->has_event) yaml_event_delete(&r->event);
    r->has_event = yaml_parser_parse(&r->parser, &r->event) != 0;
    if (r->has_event) return BRIM_OK;
    if (r->parser.error == YAML_MEMORY_ERROR) return no_memory(r);
    return brim_fail(r->err, BRIM_EFORMAT, "%s:%d: not YAML: %s (write one \"key: value\" a line)",
                     r->name, (int)r->parser.problem_mark.line + 1,
                     r->parser.problem ? r->parser.problem : "unreadable");
}

static const char *scalar(const reader *r)
{
    return (const char *)r->event.data.scalar.value;
}

static bool is_null(const reader *r)
{
    const char *s = scalar(r);
    return r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*s || strcmp(s, "~") == 0 || strcasecmp(s, "null") == 0);
}

/* What may stand for a key, a value or an item of a list: a scalar without anchor or tag. */
static brim_status check_scalar(const reader *r, const char *key)
{
    switch (r->event.type) {
    case YAML_SCALAR_EVENT: break;
    case YAML_ALIAS_EVENT: return FAIL(r, "%.60s: aliases (*) are not read (write it out)", key);
    default: return FAIL(r, "%.60s: wants one value or a flat list (do not nest)", key);
    }
    if (r->event.data.scalar.anchor)
        return FAIL(r, "%.60s: anchors (&) are not read (write the value out)", key);
    if (r->event.data.scalar.tag && strcmp((char *)r->event.data.scalar.tag, "!") != 0)
        return FAIL(r, "%.60s: tags (!) are not read (remove it)", key);
    if (strlen(scalar(r)) != r->event.data.scalar.length)
        return FAIL(r, "%.60s: holds a zero byte (remove it)", key);
    if (is_null(r)) return FAIL(r, "%.60s: has no value (give one or delete the line)", key);
    return BRIM_OK;
}

/* The items of a list, joined with line feeds. The event that opened the list is current. */
static brim_status read_list(reader *r, const char *key, brim_str *value)
{
    const yaml_char_t *tag = r->event.data.sequence_start.tag;
    if (r->event.data.sequence_start.anchor || tag)
        return FAIL(r, "%.60s: anchors and tags are not read (remove it)", key);
    for (bool first = true;; first = false) {
        BRIM_TRY(next(r));
        if (r->event.type == YAML_SEQUENCE_END_EVENT) return BRIM_OK;
        BRIM_TRY(check_scalar(r, key));
        if (strchr(scalar(r), '\n'))
            return FAIL(r, "%.60s: an item of a list has several lines (write it in one)", key);
        if (!first) brim_str_add(value, "\n");
        brim_str_add(value, scalar(r));
    }
}

static brim_status add_pair(reader *r, brim_yaml *out, const char *key, int line)
{
    brim_str value = {0};
    brim_status s = BRIM_OK;
    bool list = r->event.type == YAML_SEQUENCE_START_EVENT;
    if (list) {
        s = read_list(r, key, &value);
    } else {
        s = check_scalar(r, key);
        if (s == BRIM_OK) brim_str_add(&value, scalar(r));
    }
    if (s == BRIM_OK && !value.failed && !value.at) brim_str_add(&value, "");
    brim_yaml_pair pair = {.key = brim_strdup(key), .value = value.at, .list = list, .line = line};
    if (s == BRIM_OK && (value.failed || !pair.key || !brim_vec_push(out, pair))) s = no_memory(r);
    if (s != BRIM_OK) {
        free(pair.key);
        brim_str_free(&value);
    }
    return s;
}

static brim_status read_pair(reader *r, brim_yaml *out)
{
    int line = line_of(r);
    BRIM_TRY(check_scalar(r, "key"));
    for (size_t i = 0; i < out->n; i++)
        if (strcmp(out->at[i].key, scalar(r)) == 0)
            return FAIL(r, "%.60s: given twice, first in line %d (delete one)", scalar(r),
                        out->at[i].line);
    if (out->n == MAX_KEYS)
        return FAIL(r, "more than %d keys (is it the right file?)", (int)MAX_KEYS);
    char *key = brim_strdup(scalar(r));
    if (!key) return no_memory(r);
    brim_status s = next(r);
    if (s == BRIM_OK) s = add_pair(r, out, key, line);
    free(key);
    return s;
}

static brim_status read_document(reader *r, brim_yaml *out)
{
    BRIM_TRY(next(r)); /* stream start */
    BRIM_TRY(next(r));
    if (r->event.type == YAML_STREAM_END_EVENT) return BRIM_OK; /* nothing but comments */
    BRIM_TRY(next(r));
    if (r->event.type == YAML_SCALAR_EVENT && is_null(r)) return BRIM_OK; /* "---" alone */
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return FAIL(r, "%s", "not a list of options (write one \"key: value\" a line)");
    if (r->event.data.mapping_start.anchor || r->event.data.mapping_start.tag)
        return FAIL(r, "%s", "anchors and tags are not read (remove it)");
    for (;;) {
        BRIM_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) break;
        BRIM_TRY(read_pair(r, out));
    }
    BRIM_TRY(next(r)); /* document end */
    BRIM_TRY(next(r));
    if (r->event.type != YAML_STREAM_END_EVENT)
        return FAIL(r, "%s", "a second document starts (keep one)");
    return BRIM_OK;
}

brim_status brim_yaml_parse(const char *name, const char *text, size_t n, brim_yaml *out,
                            brim_error *err)
{
    *out = (brim_yaml){0};
    reader r = {.name = name, .err = err};
    if (n > MAX_BYTES)
        return brim_fail(err, BRIM_EFORMAT, "%s: longer than %d bytes (is it the right file?)",
                         name, (int)MAX_BYTES);
    if (!yaml_parser_initialize(&r.parser)) return no_memory(&r);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    brim_status s = read_document(&r, out);
    if (r.has_event) yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    if (s != BRIM_OK) brim_yaml_free(out);
    return s;
}

brim_status brim_yaml_read(const char *path, brim_yaml *out, brim_error *err)
{
    char *text;
    size_t n;
    *out = (brim_yaml){0};
    BRIM_TRY(brim_file_read(path, MAX_BYTES, &text, &n, err));
    brim_status s = brim_yaml_parse(path, text, n, out, err);
    free(text);
    return s;
}

void brim_yaml_free(brim_yaml *y)
{
    for (size_t i = 0; i < y->n; i++) {
        free(y->at[i].key);
        free(y->at[i].value);
    }
    free(y->at);
    *y = (brim_yaml){0};
}

/* True when every YAML reader takes the text as it stands for a plain, one-line scalar. */
static bool plain(const char *s)
{
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-,=@^()";
    if (!*s || strchr("-,=@^()", *s) || strcasecmp(s, "null") == 0) {
        bool negative_number = s[0] == '-' && s[1] >= '0' && s[1] <= '9';
        if (!negative_number) return false;
    }
    return s[strspn(s, safe)] == 0;
}

/* Of a sequence of two or three bytes. */
static unsigned code_point(const char *s, size_t len)
{
    const unsigned char *u = (const unsigned char *)s;
    return len == 2 ? (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu)
                    : (u[0] & 0x0fu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
}

/* C1 controls, line and paragraph separators, byte order mark, noncharacters: YAML folds them or
 * refuses them. */
static bool is_special(const char *s, size_t len)
{
    if (len != 2 && len != 3) return false;
    unsigned c = code_point(s, len);
    return c < 0xa0 || c == 0x2028 || c == 0x2029 || c == 0xfeff || c >= 0xfffe;
}

static void quoted(brim_str *out, const char *s)
{
    size_t n = strlen(s);
    brim_str_add(out, "\"");
    while (n) {
        size_t len = brim_utf8_length(s, n);
        unsigned char c = (unsigned char)*s;
        if (len == 0)
            brim_str_add(out, "\\uFFFD"); /* YAML has no way to hold other bytes */
        else if (c == '"' || c == '\\')
            brim_str_printf(out, "\\%c", c);
        else if (c == '\n')
            brim_str_add(out, "\\n");
        else if (c == '\t')
            brim_str_add(out, "\\t");
        else if (c < 0x20 || c == 0x7f)
            brim_str_printf(out, "\\x%02X", c);
        else if (is_special(s, len))
            brim_str_printf(out, "\\u%04X", code_point(s, len));
        else
            brim_str_add_n(out, s, len);
        s += len ? len : 1;
        n -= len ? len : 1;
    }
    brim_str_add(out, "\"");
}

static void emit_scalar(brim_str *out, const char *s, bool in_list)
{
    if (plain(s) && !(in_list && strchr(s, ',')))
        brim_str_add(out, s);
    else
        quoted(out, s);
}

void brim_yaml_emit(brim_str *out, const char *key, const char *value)
{
    emit_scalar(out, key, false);
    brim_str_add(out, ": ");
    emit_scalar(out, value, false);
    brim_str_add(out, "\n");
}

void brim_yaml_emit_list(brim_str *out, const char *key, const char *const *item, size_t n)
{
    emit_scalar(out, key, false);
    brim_str_add(out, ": [");
    for (size_t i = 0; i < n; i++) {
        if (i) brim_str_add(out, ", ");
        emit_scalar(out, item[i], true);
    }
    brim_str_add(out, "]\n");
}
