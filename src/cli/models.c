/* brim models: the zoo, and one model's layers. */
#include "brim/model.h"
#include "backend/store.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/table.h"
#include "train/train.h"

#include <stdio.h>

static const brim_option options[] = {{.group = "Model",
                                       .name = "classes",
                                       .type = BRIM_OPTION_INT,
                                       .value = "1000",
                                       .min = 1,
                                       .max = 1e6,
                                       .help = "Classes of the head"},
                                      {.name = "image-size",
                                       .type = BRIM_OPTION_INT,
                                       .arg = "N",
                                       .min = 1,
                                       .max = 4096,
                                       .help = "Height and width; default: the model's"},
                                      {.name = "ops",
                                       .type = BRIM_OPTION_FLAG,
                                       .value = "off",
                                       .help = "List the operators with their formulas instead"},
                                      {0}};

static const brim_usage usage = {
    .command = "models",
    .synopsis = "[NAME] [options]",
    .about = "Lists the models of the zoo; with a name, that model's layers with shapes, "
             "parameters and FLOPs.",
    .options = options,
    .examples = "brim models\nbrim models resnet50 --classes 10",
    .max_args = 1,
};

static brim_graph *build(const brim_model_info *info, int classes, int size, brim_error *err)
{
    brim_classifier c = {.model = {.name = info->name,
                                   .classes = classes,
                                   .channels = info->channels,
                                   .height = size ? size : info->size,
                                   .width = size ? size : info->size},
                         .std = {1, 1, 1}};
    brim_graph *g = brim_graph_new(false);
    if (!g)
        brim_fail(err, BRIM_ENOMEM, "models: out of memory");
    else if (brim_classifier_build(g, 1, &c, err) != BRIM_OK) {
        brim_graph_free(g);
        return NULL;
    }
    return g;
}

static int64_t parameters(const brim_graph *g)
{
    int64_t sum = 0;
    for (size_t i = 0; i < g->values.n; i++)
        if (g->values.at[i]->kind == BRIM_VALUE_PARAM)
            sum += brim_shape_count(&g->values.at[i]->shape);
    return sum;
}

static double flops(const brim_graph *g)
{
    double sum = 0;
    for (size_t i = 0; i < g->nodes.n; i++) sum += brim_node_cost(g->nodes.at[i]).flops;
    return sum;
}

static brim_status list_zoo(int classes, int size, brim_str *out, brim_error *err)
{
    static const brim_column column[] = {{"model", NULL, false},
                                         {"input", NULL, false},
                                         {"parameters", NULL, true},
                                         {"FLOPs an image", NULL, true},
                                         {"what it is", NULL, false}};
    brim_table t;
    brim_table_init(&t, column, 5);
    const brim_model_info *info;
    for (int k = 0; (info = brim_model_at(k)); k++) {
        char p[32], f[32];
        int n = size ? size : info->size;
        brim_graph *g = build(info, info->size <= 32 && classes == 1000 ? 10 : classes, size, err);
        if (!g) break;
        brim_table_cell(&t, "%s", info->name);
        brim_table_cell(&t, "%d x %d x %d", info->channels, n, n);
        brim_table_cell(&t, "%s", brim_count_text(p, (double)parameters(g)));
        brim_table_cell(&t, "%s", brim_count_text(f, flops(g)));
        brim_table_cell(&t, "%s", info->doc);
        brim_graph_free(g);
    }
    brim_table_print(&t, 2, out);
    brim_table_free(&t);
    return info ? err->status : BRIM_OK;
}

static brim_status show(const brim_model_info *info, int classes, int size, brim_str *out,
                        brim_error *err)
{
    static const brim_column column[] = {{"layer", NULL, false},
                                         {"operator", NULL, false},
                                         {"output", NULL, false},
                                         {"parameters", NULL, true},
                                         {"FLOPs", NULL, true}};
    brim_graph *g = build(info, classes, size, err);
    if (!g) return err->status;
    brim_table t;
    char text[128], p[32], f[32];
    brim_table_init(&t, column, 5);
    for (size_t i = 0; i < g->nodes.n; i++) {
        const brim_node *n = g->nodes.at[i];
        int64_t own = 0;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] && n->in[k]->kind == BRIM_VALUE_PARAM)
                own += brim_shape_count(&n->in[k]->shape);
        brim_table_cell(&t, "%s", n->name);
        brim_table_cell(&t, "%s", n->op->name);
        brim_table_cell(&t, "%s", n->n_out ? brim_shape_text(text, &n->out[0]->shape) : "");
        if (own)
            brim_table_cell(&t, "%lld", (long long)own);
        else
            brim_table_cell(&t, "%s", "");
        brim_table_cell(&t, "%s", brim_count_text(f, brim_node_cost(n).flops));
    }
    brim_table_rule(&t);
    brim_table_cell(&t, "in all");
    brim_table_cell(&t, "%s", "");
    brim_table_cell(&t, "%s", "");
    brim_table_cell(&t, "%s", brim_count_text(p, (double)parameters(g)));
    brim_table_cell(&t, "%s", brim_count_text(f, flops(g)));
    brim_table_print(&t, 2, out);
    brim_table_free(&t);
    brim_graph_free(g);
    return BRIM_OK;
}

static void list_ops(brim_str *out)
{
    static const brim_column column[] = {{"operator", NULL, false}, {"formula", NULL, false}};
    brim_table t;
    brim_table_init(&t, column, 2);
    for (int k = 0; k < brim_ops_count; k++) {
        brim_table_cell(&t, "%s", brim_ops[k]->name);
        brim_table_cell(&t, "%s", brim_ops[k]->doc);
    }
    brim_table_print(&t, 2, out);
    brim_table_free(&t);
}

int brim_cmd_models(int argc, char **argv)
{
    brim_options *o;
    int status;
    brim_error err = {0};
    brim_str out = {0};
    brim_status st = BRIM_OK;
    if (!brim_options_begin(&usage, argc, argv, &o, &status)) return status;
    int classes = (int)brim_options_int(o, "classes"),
        size = (int)brim_options_int(o, "image-size");
    if (brim_options_flag(o, "ops"))
        list_ops(&out);
    else if (brim_options_args(o) == 0)
        st = list_zoo(classes, size, &out, &err);
    else {
        const brim_model_info *info = brim_model_find(brim_options_arg(o, 0));
        st = info ? show(info, classes, size, &out, &err)
                  : brim_fail(&err, BRIM_ENOTFOUND,
                              "\"%s\" is not in the zoo (`brim models` lists it)",
                              brim_options_arg(o, 0));
    }
    if (st == BRIM_OK) fputs(brim_str_text(&out), stdout);
    brim_str_free(&out);
    brim_options_free(o);
    return st == BRIM_OK ? BRIM_EXIT_DONE : brim_cli_failed("models", &err);
}
