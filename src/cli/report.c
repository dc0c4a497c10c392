#include "cli/report.h"
#include "base/mem.h"
#include "cli/table.h"

#include <stdio.h>
#include <string.h>

void brim_report_memory(brim_str *out, const brim_plan *p)
{
    static const brim_column column[] = {
        {"memory", NULL, false}, {"bytes", NULL, true}, {"share", "%", true}, {"", NULL, false}};
    size_t slack = p->step_bytes > p->activation_bytes + p->workspace_bytes
                       ? p->step_bytes - p->activation_bytes - p->workspace_bytes
                       : 0;
    const struct {
        const char *name;
        size_t bytes;
    } row[] = {
        {"weights", p->weights_bytes},
        {"half copies", p->half_bytes},
        {"optimizer state", p->state_bytes},
        {"activations", p->activation_bytes},
        {"workspace", p->workspace_bytes},
        {"gradients and rest of the step", slack},
        {p->accumulation > 1 ? "accumulated gradients" : "scalars",
         p->arena_bytes - p->step_bytes > p->weights_bytes + p->half_bytes + p->state_bytes
             ? p->arena_bytes - p->step_bytes - p->weights_bytes - p->half_bytes - p->state_bytes
             : 0},
        {"input ring", p->input_bytes},
        {"data set, decoded images", p->extra_bytes},
        {"libraries", p->library_bytes}};
    brim_table t;
    char text[32];
    brim_table_init(&t, column, 4);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (!row[i].bytes) continue;
        brim_str bar = {0};
        double share = (double)row[i].bytes / (double)p->total_bytes;
        brim_bar(&bar, share, 24);
        brim_table_cell(&t, "%s", row[i].name);
        brim_table_cell(&t, "%s", brim_bytes_text(text, (double)row[i].bytes));
        brim_table_cell(&t, "%.1f", 100 * share);
        brim_table_cell(&t, "%s", brim_str_text(&bar));
        brim_str_free(&bar);
    }
    brim_table_rule(&t);
    brim_table_cell(&t, "in all");
    brim_table_cell(&t, "%s", brim_bytes_text(text, (double)p->total_bytes));
    brim_table_cell(&t, "100.0");
    brim_table_cell(&t, "%s", "");
    brim_table_print(&t, 2, out);
    brim_table_free(&t);
}

/* Rows of one operator and implementation, added up. */
typedef struct line {
    const char *op, *impl;
    int n;
    double ms, flops, bytes;
} line;

static int slower_first(const void *a, const void *b)
{
    double x = ((const line *)a)->ms, y = ((const line *)b)->ms;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int group(const brim_node_time *t, int n, line *lines)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < count && (strcmp(lines[k].op, t[i].op) || strcmp(lines[k].impl, t[i].impl))) k++;
        if (k == count) lines[count++] = (line){.op = t[i].op, .impl = t[i].impl};
        lines[k].n++;
        lines[k].ms += t[i].ms;
        lines[k].flops += t[i].flops;
        lines[k].bytes += t[i].bytes;
    }
    qsort(lines, (size_t)count, sizeof *lines, slower_first);
    return count;
}

void brim_report_time(brim_str *out, const brim_session *s)
{
    static const brim_column column[] = {{"time of a step", NULL, false},
                                         {"nodes", NULL, true},
                                         {"ms", NULL, true},
                                         {"share", "%", true},
                                         {"GFLOP/s", NULL, true},
                                         {"GB/s", NULL, true}};
    int n = brim_session_times(s, NULL, 0);
    brim_node_time *t = brim_malloc((size_t)n * sizeof *t);
    line *lines = brim_calloc((size_t)n, sizeof *lines);
    if (n && t && lines) {
        brim_session_times(s, t, n);
        int count = group(t, n, lines);
        double sum = 0;
        for (int k = 0; k < count; k++) sum += lines[k].ms;
        brim_table table;
        brim_table_init(&table, column, 6);
        for (int k = 0; k < count && k < 14; k++) {
            brim_table_cell(&table, "%s (%s)", lines[k].op, lines[k].impl);
            brim_table_cell(&table, "%d", lines[k].n);
            brim_table_cell(&table, "%.2f", lines[k].ms);
            brim_table_cell(&table, "%.1f", sum > 0 ? 100 * lines[k].ms / sum : 0);
            brim_table_cell(&table, "%.1f",
                            lines[k].ms > 0 ? lines[k].flops / lines[k].ms / 1e6 : 0);
            brim_table_cell(&table, "%.1f",
                            lines[k].ms > 0 ? lines[k].bytes / lines[k].ms / 1e6 : 0);
        }
        brim_table_rule(&table);
        brim_table_cell(&table, "in all");
        brim_table_cell(&table, "%d", n);
        brim_table_cell(&table, "%.2f", sum);
        brim_table_cell(&table, "100.0");
        brim_table_cell(&table, "%s", "");
        brim_table_cell(&table, "%s", "");
        brim_table_print(&table, 2, out);
        brim_table_free(&table);
    }
    free(t);
    free(lines);
}

void brim_report_confusion(brim_str *out, const brim_eval_result *r, const char *const *names)
{
    enum { MOST = 20 };
    brim_column column[MOST + 2] = {{"true \\ predicted", NULL, false}};
    char number[MOST][32];
    brim_table t;
    if (r->classes > MOST) return;
    for (int k = 0; k < r->classes; k++) {
        snprintf(number[k], sizeof number[k], "class %d", k);
        column[k + 1] = (brim_column){names ? names[k] : number[k], NULL, true};
    }
    column[r->classes + 1] = (brim_column){"recall", "%", true};
    brim_table_init(&t, column, r->classes + 2);
    for (int y = 0; y < r->classes; y++) {
        int64_t sum = 0, *row = r->confusion + (int64_t)y * r->classes;
        brim_table_cell(&t, "%s", column[y + 1].title);
        for (int k = 0; k < r->classes; k++) {
            brim_table_cell(&t, "%lld", (long long)row[k]);
            sum += row[k];
        }
        if (sum)
            brim_table_cell(&t, "%.1f", 100 * (double)row[y] / (double)sum);
        else
            brim_table_cell(&t, "n/a");
    }
    brim_str_add(out, "\n");
    brim_table_print(&t, 2, out);
    brim_table_free(&t);
}
