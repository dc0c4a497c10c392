#include "cli/table.h"
#include "cli/term.h"

#include <stdarg.h>
#include <string.h>

enum { GAP = 2 };

void brim_table_init(brim_table *t, const brim_column *column, int columns)
{
    *t = (brim_table){.column = column, .columns = columns};
}

static void push(brim_table *t, char *text)
{
    if (t->failed || !brim_vec_push(&t->cell, text)) {
        t->failed = true;
        free(text);
    }
}

void brim_table_cell(brim_table *t, const char *fmt, ...)
{
    va_list ap;
    char text[512];
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    char *copy = brim_malloc(strlen(text) + 1);
    if (copy) strcpy(copy, text);
    t->failed = t->failed || !copy;
    push(t, copy);
}

void brim_table_rule(brim_table *t)
{
    BRIM_CHECK(t->failed || t->cell.n % (size_t)t->columns == 0);
    for (int i = 0; i < t->columns; i++) push(t, NULL);
}

static void title(brim_str *out, const brim_column *c)
{
    brim_str_add(out, c->title);
    if (c->unit) brim_str_printf(out, "%s%s", *c->title ? " " : "", c->unit);
}

static int column_width(const brim_table *t, int k)
{
    brim_str head = {0};
    title(&head, &t->column[k]);
    int widest = brim_text_width(brim_str_text(&head));
    brim_str_free(&head);
    for (size_t i = (size_t)k; i < t->cell.n; i += (size_t)t->columns) {
        int w = t->cell.at[i] ? brim_text_width(t->cell.at[i]) : 0;
        if (w > widest) widest = w;
    }
    return widest;
}

/* One cell, padded on the side that its alignment says; the gap comes first. */
static void put(brim_str *out, const brim_table *t, int k, const char *text, int width, int indent)
{
    int pad = width - brim_text_width(text);
    int before = (k ? GAP : indent) + (t->column[k].right ? pad : 0);
    brim_str_printf(out, "%*s%s", before, "", text);
    if (!t->column[k].right) brim_str_printf(out, "%*s", pad, "");
}

static void end_line(brim_str *out)
{
    while (out->n && out->at[out->n - 1] == ' ') out->at[--out->n] = 0;
    brim_str_add(out, "\n");
}

static void rule(brim_str *out, const brim_table *t, const int *width, int indent)
{
    for (int k = 0; k < t->columns; k++) {
        brim_str_printf(out, "%*s", k ? GAP : indent, "");
        for (int i = 0; i < width[k]; i++) brim_str_add(out, "-");
    }
    end_line(out);
}

void brim_table_print(const brim_table *t, int indent, brim_str *out)
{
    int *width = brim_calloc((size_t)t->columns, sizeof *width);
    if (!width || t->failed) {
        out->failed = true;
        free(width);
        return;
    }
    for (int k = 0; k < t->columns; k++) {
        width[k] = column_width(t, k);
        brim_str head = {0};
        title(&head, &t->column[k]);
        put(out, t, k, brim_str_text(&head), width[k], indent);
        brim_str_free(&head);
    }
    end_line(out);
    rule(out, t, width, indent);
    size_t columns = (size_t)t->columns;
    for (size_t i = 0; i + columns <= t->cell.n; i += columns) {
        if (!t->cell.at[i]) {
            rule(out, t, width, indent);
            continue;
        }
        for (int k = 0; k < t->columns; k++)
            put(out, t, k, t->cell.at[i + (size_t)k], width[k], indent);
        end_line(out);
    }
    free(width);
}

void brim_table_free(brim_table *t)
{
    for (size_t i = 0; i < t->cell.n; i++) free(t->cell.at[i]);
    free(t->cell.at);
    *t = (brim_table){0};
}

void brim_bar(brim_str *out, double share, int width)
{
    /* U+2588 is a full block, U+2589 seven eighths, ... U+258F one. */
    if (!(share > 0)) share = 0;
    if (share > 1) share = 1;
    bool blocks = brim_term_utf8();
    int eighths = (int)(share * width * 8 + 0.5), full = blocks ? eighths / 8 : (eighths + 4) / 8;
    for (int i = 0; i < full; i++) brim_str_add(out, blocks ? "\xe2\x96\x88" : "#");
    int part = blocks ? eighths % 8 : 0;
    if (part) brim_str_printf(out, "\xe2\x96%c", (char)(0x90 - part));
    brim_str_printf(out, "%*s", width - full - (part != 0), "");
}
