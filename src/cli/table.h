/* Aligned columns and bars, as text. */
#ifndef BRIM_CLI_TABLE_H
#define BRIM_CLI_TABLE_H

#include "base/str.h"
#include "base/vec.h"

typedef struct brim_column {
    const char *title;
    const char *unit; /* shown behind the title, "time ms"; NULL: none */
    bool right;       /* numbers */
} brim_column;

/* Cells row by row. After an allocation failed, the rest is dropped and print gives nothing. */
typedef struct brim_table {
    const brim_column *column; /* borrowed */
    int columns;
    BRIM_VEC(char *) cell; /* NULL at the start of a row: a rule */
    bool failed;
} brim_table;

void brim_table_init(brim_table *t, const brim_column *column, int columns);
void brim_table_cell(brim_table *t, const char *fmt, ...) BRIM_PRINTF(2, 3);
/* A line of dashes between rows, before a sum. Only at the start of a row. */
void brim_table_rule(brim_table *t);
/* Appends the table: titles, a rule, rows; each line behind `indent` spaces, none at its end. */
void brim_table_print(const brim_table *t, int indent, brim_str *out);
void brim_table_free(brim_table *t);

/* Appends a bar of `width` columns filled to `share` (0 to 1; beyond is cut): eighths of blocks
 * where the locale has UTF-8, else '#'; the rest is spaces. */
void brim_bar(brim_str *out, double share, int width);

#endif
